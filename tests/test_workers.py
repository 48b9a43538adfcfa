"""Processes that work for another one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvrace.workers import apart, spread


def _endless(file: str, listen: Callable[[Any], None]) -> None:
    """Writes that it works, and goes on until nobody waits for it any more."""
    Path(file).write_text(str(os.getpid()))
    while True:
        listen(None)
        time.sleep(0.01)


@pytest.mark.parametrize("start", [apart, spread], ids=["apart", "spread"])
def test_work_of_a_process_that_was_killed_ends(start: Callable[..., Any], tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in "ab"]
    call = f"list({start.__name__}(_endless, {files!r}, 2, lambda _: None))"
    main = tmp_path / "main.py"
    main.write_text(f"from tests.test_workers import _endless, apart, spread\nif __name__ == '__main__':\n    {call}\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen([sys.executable, main], env=environment)
    try:
        _until(lambda: all(Path(file).exists() and Path(file).read_text() for file in files))
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    for pid in [int(Path(file).read_text()) for file in files]:
        _until(lambda pid=pid: not _runs(pid))  # type: ignore[misc]


def _until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    """A process that has ended and that nobody has asked about does not."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
