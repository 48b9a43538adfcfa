"""The import rules of spec/architecture.md, held against every file."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FILES = [*sorted((ROOT / "model").rglob("*.py")), *sorted((ROOT / "impl").rglob("*.py"))]


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def _starts(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_follow_the_rules(path: Path) -> None:
    place = path.relative_to(ROOT).as_posix()
    for name in _imports(path):
        if place.startswith("model/"):
            assert not _starts(name, "kvrace"), "the model does not know kvrace"
        if not place.startswith("impl/kvrace/vllm/"):
            assert not _starts(name, "vllm"), "only kvrace/vllm imports vllm"
        if not place.startswith("impl/kvrace/cli/") and not place.endswith("__main__.py"):
            assert not _starts(name, "kvrace.cli"), "nothing imports the command line"
        if place.startswith("impl/kvrace/render/"):
            assert not _starts(name, "kvrace.check"), "renderers compute nothing"


def _printed(program: str) -> str:
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return run.stdout.splitlines()[-1]


def test_importing_the_command_line_does_not_import_what_takes_seconds() -> None:
    program = "import sys, kvrace.cli; print([m for m in ('vllm', 'torch', 'z3', 'hypothesis') if m in sys.modules])"
    assert _printed(program) == "[]"


@pytest.mark.slow
@pytest.mark.vllm
def test_the_drop_in_scheduler_brings_nothing_of_kvrace_into_vllm_but_itself() -> None:
    """vLLM has some of these packages itself; what counts is what the import adds."""
    program = (
        "import sys; import vllm.v1.core.sched.async_scheduler; before = set(sys.modules); import kvrace.vllm.fixed; "
        "print(' '.join(sorted({name.partition('.')[0] for name in set(sys.modules) - before})))"
    )
    assert _printed(program) == "kvrace"
