"""The live runs show what they have to, and nothing of them is left, however they end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from .places import PACKAGES, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.vllm]
LIMIT = 1200
"""Seconds; a run takes a tenth of that for itself, and tests beside it take their share of the machine."""
_MARK = "KVRACE_LIVE_TEST"


@pytest.fixture(autouse=True)
def _installed() -> None:
    if not PACKAGES.is_dir():
        missing = f"{PACKAGES} is missing; make live makes it"
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)


class Program:
    """``python -m tests.live``, with a mark that all its processes inherit."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._mark = str(uuid.uuid4())
        self.result = folder / "live.json"
        command = [sys.executable, "-m", "tests.live", "--folder", str(folder), "--json", str(self.result), *arguments]
        path = os.pathsep.join([str(ROOT / "model"), str(ROOT / "impl"), os.environ.get("PYTHONPATH", "")])
        self._log = open(folder / "screen", "w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path, _MARK: self._mark},
            stdout=self._log,
            stderr=self._log,
        )

    def processes(self) -> list[int]:
        """All that carry the mark, the program itself among them."""
        wanted, found = f"{_MARK}={self._mark}".encode(), []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
        return found

    def tell(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def ended(self, limit: float = LIMIT) -> int:
        return self._process.wait(limit)

    @property
    def screen(self) -> str:
        self._log.flush()
        return Path(self._log.name).read_text()

    def close(self) -> None:
        for process in self.processes():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.wait()
        self._log.close()


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    started = []

    def start(*arguments: str) -> Program:
        started.append(Program(tmp_path, *arguments))
        return started[-1]

    yield start
    for each in started:
        each.close()


@pytest.mark.slow(300)
def test_every_run_shows_what_it_has_to(program: Callable[..., Program]) -> None:
    live = program()
    status = live.ended()
    runs = json.loads(live.result.read_text())["runs"] if live.result.exists() else []
    verdicts = {run["name"]: run["verdict"] for run in runs}
    nixl = verdicts.pop("nixl-pair", None)
    assert verdicts == dict.fromkeys(["stock", "drop-in", "skip-watched", "drop-in-watched"], "shown"), live.screen
    assert nixl in ("shown", "skipped"), live.screen
    assert status == 0, live.screen
    assert len({tuple(run["answers"]) for run in runs if run["answers"]}) == 1, "every server gives the same answers"
    assert live.processes() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_nothing_is_left_after_an_interruption(number: signal.Signals, program: Callable[..., Program]) -> None:
    live = program("drop-in")
    end = time.monotonic() + LIMIT
    while len(live.processes()) < 4 and time.monotonic() < end:  # the program, the server, its engine, its worker
        time.sleep(0.5)
    assert len(live.processes()) >= 4, live.screen
    live.tell(number)
    assert live.ended() == 130, live.screen
    assert live.processes() == []
