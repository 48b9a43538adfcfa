"""Processes that work for another one: they end with it, and one that ends by itself is an error."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvmodel.errors import KvraceError
from kvrace import workers
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


def dies(piece: str, _: Callable[[Any], None]) -> str:
    os._exit(0)


@pytest.mark.parametrize("way", [apart, spread])
def test_a_process_that_ends_by_itself_is_no_result(way: Callable[..., Any]) -> None:
    with pytest.raises(KvraceError, match="the process that checks 'with .*' ended before its work was done"):
        list(way(dies, ["with it", "with that"], 2, lambda _: None))


def test_what_ends_all_processes_at_once_is_an_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = multiprocessing.Pipe()
    theirs.close()
    process = multiprocessing.Process()
    monkeypatch.setattr(workers, "_start", lambda _: (ours, process))
    monkeypatch.setattr(workers, "_end", lambda _: None)
    monkeypatch.setattr(ours.__class__, "send", lambda *_: None)
    told: list[str] = []

    def interrupted(what: str) -> None:
        told.append(what)
        if len(told) > 1:  # the first time the process is still at work
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(apart(dies, ["it"], 1, interrupted))
