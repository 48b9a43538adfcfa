"""The command line as its users run it: arguments in, exit status and terminal output out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Finished:
    """What a command left behind. ``screen`` is standard output without what changes from run to run."""

    status: int
    out: str
    err: str

    @property
    def screen(self) -> str:
        text = re.sub(r"in [0-9.]+ s\b", "in SECONDS s", self.out)
        text = re.sub(r"-[0-9a-f]{8}\.itf\.json", "-DIGEST.itf.json", text)
        text = re.sub(r"\.py:\d+ in", ".py:LINE in", text)
        return re.sub(r"vllm \d+\.\d+\.\d+\S*:", "vllm VERSION:", text)

    @property
    def error_line(self) -> str:
        """The one line of an error. Anything more or less fails."""
        assert self.out == ""
        assert self.err.endswith("\n")
        assert self.err.count("\n") == 1, self.err
        return self.err.rstrip("\n")


Run = Callable[..., Finished]


@pytest.fixture(autouse=True)
def a_clean_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs in an empty folder, 100 columns wide, without colour, however pytest was started."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.setattr(sys, "argv", ["pytest"])
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("NO_COLOR", "FORCE_COLOR", "KVRACE_DEBUG", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def kvrace(capfd: pytest.CaptureFixture[str]) -> Run:
    """Run one command in this process, so that vLLM is imported once for all tests."""
    from kvrace.cli import run

    def invoke(*arguments: object) -> Finished:
        capfd.readouterr()
        status = run([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return Finished(status, out, err)

    return invoke


@pytest.fixture
def start() -> Callable[..., subprocess.Popen[str]]:
    """Start ``python -m kvrace`` as a process of its own, for signals, pipes and terminals."""

    def popen(*arguments: object, prelude: str = "", **options: object) -> subprocess.Popen[str]:
        code = f"{prelude}\nfrom kvrace.cli import main; main()"
        settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "encoding": "utf-8", **options}
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "model"), str(ROOT / "impl")])}
        environment.update(settings.pop("environment", {}))  # type: ignore[call-overload]
        return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], env=environment, **settings)  # type: ignore[call-overload,no-any-return]

    return popen


@pytest.fixture
def seed_trace(kvrace: Run) -> Path:
    """The trace of the use-after-free under a load, found on the reference scheduler with policy ``skip``."""
    kvrace("check", "--subject", "reference", "--policy", "skip", "--requests", "load_save", "--scheduler", "sync",
           "--property", "no-use-after-free")  # fmt: skip
    for path in sorted(Path("kvrace-traces").iterdir()):
        if "under a load" in path.read_text():
            return path
    raise AssertionError("the seed order was not found")
