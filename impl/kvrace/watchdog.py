"""Stop a scheduler call that does not come back, and report it instead of waiting for it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from kvmodel.events import Event
from kvmodel.port import Capture, ConnectorScript, Identity, Observation, Response, Subject, SubjectHang
from kvmodel.scope import Scope

_TICK_SECONDS = 0.5


class WatchedSubject:
    """A subject that says which of its calls is running, for the watchdog."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self.scope: Scope = subject.scope
        self.calls = 0
        self.running_call: int | None = None

    @property
    def identity(self) -> Identity:
        return self._subject.identity

    def start(self) -> None:
        self._subject.start()

    def apply(self, event: Event, script: dict[str, ConnectorScript]) -> Response:
        self.calls += 1
        self.running_call = self.calls
        try:
            return self._subject.apply(event, script)
        finally:
            self.running_call = None

    def observe(self) -> Observation:
        return self._subject.observe()

    def capture(self, names: dict[int, int]) -> Capture:
        return self._subject.capture(names)

    def notes(self, exhausted: bool) -> tuple[str, ...]:
        return self._subject.notes(exhausted)

    def restore(self, snapshot: Any) -> None:
        self._subject.restore(snapshot)


@contextmanager
def watched(subject: Subject, limit_seconds: float) -> Iterator[WatchedSubject]:
    """The same subject, under a watchdog: SubjectHang is raised inside a call that runs for ``limit_seconds``.

    A timer looks every half second whether the same call is still running, so that a call costs nothing. Outside the main
    thread, where Python has no timer signal, nothing is watched.
    """
    watching = WatchedSubject(subject)
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield watching
        return
    same_call, waited = None, 0.0

    def look(_number: int, _frame: FrameType | None) -> None:
        nonlocal same_call, waited
        running = watching.running_call
        waited = waited + _TICK_SECONDS if running is not None and running == same_call else 0.0
        same_call = running
        if waited >= limit_seconds:
            same_call, waited = None, 0.0
            raise SubjectHang(f"the call did not come back within {limit_seconds:g} s")

    previous = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, _TICK_SECONDS, _TICK_SECONDS)
    try:
        yield watching
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
