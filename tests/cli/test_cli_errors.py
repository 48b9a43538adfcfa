"""Everything that is wrong with a command: one clear line, exit status 2, nothing left behind."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

BAD_COMMANDS = {
    "unknown command": ["chek"],
    "unknown option": ["check", "--bogus"],
    "not a number": ["check", "--blocks", "many"],
    "no file": ["replay"],
    "unknown scope": ["check", "--scope", "tiny"],
    "unknown kind": ["check", "--requests", "load,prefill"],
    "too many requests": ["check", "--requests", ",".join(["local"] * 27)],
    "scope and requests": ["check", "--scope", "seed", "--requests", "load"],
    "blocks without requests": ["check", "--blocks", "3"],
    "a scope that cannot fit": ["check", "--requests", "load", "--blocks", "1"],
    "blocks of no size": ["check", "--requests", "load", "--block-size", "0"],
    "more blocks than a pool has": [
        "check",
        "--requests",
        "local,local,local",
        "--block-size",
        "1",
        "--prompt-blocks",
        "16",
        "--output-tokens",
        "64",
    ],
    "no blocks": ["check", "--requests", "load", "--blocks", "0"],
    "unknown contract": ["check", "--contract", "polite"],
    "empty contract name": ["check", "--contract", "lossy,"],
    "two contracts": ["check", "--contract", "lossy", "--contract", "single"],
    "unknown property": ["check", "--property", "no-bugs"],
    "unknown scheduler": ["check", "--scheduler", "threaded"],
    "no time": ["check", "--time-limit", "0"],
    "endless time": ["check", "--time-limit", "nan"],
    "no states": ["check", "--max-states", "0"],
    "no call time": ["check", "--call-timeout", "-1"],
    "policy without reference": ["check", "--subject", "vllm", "--policy", "skip"],
    "unknown policy": ["check", "--subject", "reference", "--policy", "hope"],
    "unknown subject": ["check", "--subject", "sglang"],
    "unknown module": ["check", "--subject", "no_such_module_here:Scheduler"],
    "json folder missing": ["check", "--json", "missing/result.json"],
    "json is a folder": ["check", "--json", "."],
    "trace folder is a file": ["check", "--subject", "reference", "--trace-dir", "a-file"],
    "trace folder in a file": ["check", "--subject", "reference", "--trace-dir", "a-file/traces"],
}


@pytest.mark.parametrize("arguments", BAD_COMMANDS.values(), ids=BAD_COMMANDS.keys())
def test_a_bad_command_is_one_line(
    kvrace: Any, snapshot: SnapshotAssertion, tmp_path: Path, arguments: list[str]
) -> None:
    Path("a-file").write_text("")
    shown = kvrace(*arguments)
    assert shown.status == 2
    assert shown.error_line.replace(str(tmp_path), "FOLDER") == snapshot
    assert os.listdir() == ["a-file"]


OPTIONS = ["--subject", "--scheduler", "--policy", "--contract", "--property", "--scope", "--requests", "--json", "--junit",
           "--sarif", "--trace-dir", "--blocks"]  # fmt: skip


@pytest.mark.parametrize("option", OPTIONS)
def test_an_empty_value_is_refused(kvrace: Any, option: str) -> None:
    shown = kvrace("check", option, "")
    assert shown.status == 2
    assert option in shown.error_line
    assert os.listdir() == []


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("word", ["x" * 50_000, "it's " * 10_000, "9" * 5_000], ids=["x", "spaces", "digits"])
def test_a_long_word_does_not_hide_what_is_wrong(kvrace: Any, option: str, word: str) -> None:
    shown = kvrace("check", option, word)
    assert shown.status == 2
    assert len(shown.error_line) < 620


@pytest.mark.parametrize("command", ["replay", "chek", "--bogus"])
def test_nor_does_one_that_is_no_option(kvrace: Any, command: str) -> None:
    for arguments in ([command, "x" * 5_000], [command + "x" * 5_000]):
        shown = kvrace(*arguments)
        assert shown.status == 2
        assert len(shown.error_line) < 620


BAD_MODULES = {
    "leaves": ("raise GeneratorExit", "importing bad_leaves failed: GeneratorExit ("),
    "unheard": ("class Odd(BaseException): pass\nraise Odd('so')", "importing bad_unheard failed: Odd: so ("),
    "unprintable": (
        "class Odd(Exception):\n    def __str__(self): raise SystemExit\nraise Odd",
        "importing bad_unprintable failed: Odd: (it cannot be printed) (",
    ),
    "raises": ("1 / 0", "importing bad_raises failed: ZeroDivisionError: division by zero ("),
    "exits": ("raise SystemExit(0)", "importing bad_exits failed: SystemExit: 0 ("),
    "imports": ("import nothing_like_this", "importing bad_imports failed: ModuleNotFoundError: No module named"),
    "without": ("class Other: pass", "module 'bad_without' has no class 'Scheduler'"),
    "stranger": ("class Scheduler: pass", "bad_stranger:Scheduler is not a subclass of vllm.v1.core.sched.scheduler:"),
    "function": ("def Scheduler(): pass", "bad_function:Scheduler is not a subclass of vllm.v1.core.sched.scheduler:"),
    "syntax": ("class Scheduler(:", "importing bad_syntax failed: SyntaxError: invalid syntax"),
}


@pytest.mark.vllm
@pytest.mark.parametrize("name", BAD_MODULES)
def test_a_bad_class_is_one_line(kvrace: Any, name: str) -> None:
    code, expected = BAD_MODULES[name]
    Path(f"bad_{name}.py").write_text(code)
    shown = kvrace("check", "--subject", f"bad_{name}:Scheduler")
    assert shown.status == 2
    assert expected in shown.error_line


@pytest.mark.vllm
@pytest.mark.parametrize(
    "error", ["SystemExit(0)", "GeneratorExit", "type('Odd', (BaseException,), {})", "ValueError('no')"]
)
def test_a_scheduler_that_cannot_be_constructed_is_one_line(kvrace: Any, tmp_path: Path, error: str) -> None:
    module = f"bad_start_{abs(hash(error))}"
    Path(f"{module}.py").write_text(
        "from vllm.v1.core.sched.scheduler import Scheduler as Stock\n"
        "class Scheduler(Stock):\n"
        "    def __init__(self, *args, **kwargs):\n"
        f"        raise {error}\n"
    )
    shown = kvrace("check", "--subject", f"{module}:Scheduler", "--requests", "local")
    assert shown.status == 2
    assert shown.err.count("\n") == 1
    assert "fault of kvrace" not in shown.err
    assert "construct" in shown.err


@pytest.mark.vllm
def test_a_class_plays_the_scheduling_it_is_made_for(kvrace: Any) -> None:
    shown = kvrace("check", "--subject", "vllm.v1.core.sched.scheduler:Scheduler", "--scheduler", "async")
    assert shown.status == 2
    assert "plays sync scheduling only; leave out --scheduler async" in shown.error_line


@pytest.mark.parametrize(
    "error", [SystemExit(0), GeneratorExit(), BaseException("odd")], ids=lambda e: type(e).__name__
)
def test_nothing_that_is_raised_ends_kvrace_in_its_place(
    kvrace: Any, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def leave(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("kvrace.cli.check.check", leave)
    shown = kvrace("check", "--subject", "reference", "--scope", "seed")
    assert shown.status == 2
    assert shown.err.startswith(f"kvrace: unexpected {type(error).__name__}")
    assert shown.err.count("\n") == 1


def test_a_fault_of_kvrace_is_one_line_as_well(kvrace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvrace.cli.check.check", lambda *_, **__: 1 / 0)
    shown = kvrace("check", "--subject", "reference", "--scope", "seed")
    assert shown.status == 2
    assert shown.err.startswith(
        "kvrace: unexpected ZeroDivisionError: division by zero. This is a fault of kvrace; please report"
    )
    assert shown.err.count("\n") == 1
    assert os.listdir() == []
