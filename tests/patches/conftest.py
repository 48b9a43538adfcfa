"""A small package that is called vllm, so that no real one is needed to see whether a diff applies."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Refuse = Callable[[str], str]
SCHEDULER = "".join(f"line_{number} = {number}\n" for number in range(1, 61))


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the package, first on the Python path."""
    folder = tmp_path / "release"
    (folder / "vllm/v1").mkdir(parents=True)
    (folder / "vllm/__init__.py").write_text("")
    (folder / "vllm/v1/__init__.py").write_text("")
    (folder / "vllm/v1/scheduler.py").write_text(SCHEDULER)
    (folder / "vllm/v1/windows.py").write_bytes(b"one = 1\r\ntwo = 2\r\nthree = 3\r\n")
    (folder / "vllm-9.9.9.dist-info").mkdir()
    (folder / "vllm-9.9.9.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 9.9.9\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("KVRACE_CACHE", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def refuse(release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Refuse:
    """Give a diff to ``kvrace check``, and get the one line of its error. Nothing may be left behind by it."""
    from kvrace.cli import run

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["pytest"])

    def refused(diff: str | bytes) -> str:
        Path("it.diff").write_bytes(diff if isinstance(diff, bytes) else diff.encode())
        before = _files(tmp_path)
        status = run(["check", "--patch", "it.diff", "--scope", "seed"])
        out, err = capfd.readouterr()
        assert (status, out, err.count("\n")) == (2, "", 1), (status, out, err)
        assert _files(tmp_path) == before
        return err.rstrip("\n")

    return refused


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in sorted(folder.rglob("*"))}
