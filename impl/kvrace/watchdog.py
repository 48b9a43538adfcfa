"""Stop a scheduler call that does not come back, and report it instead of waiting for it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from kvmodel.port import SubjectHang

_TICK_SECONDS = 0.5


@contextmanager
def watchdog(progress: Callable[[], int | None], limit_seconds: float) -> Iterator[None]:
    """Raise SubjectHang inside the running call when ``progress()`` stays the same number for ``limit_seconds``.

    ``progress`` gives the number of the call that is running, or None between calls. A timer looks every half second, so that a
    call costs nothing. Outside the main thread, where Python has no timer signal, nothing is watched.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return
    last: list[Any] = [None, 0.0]

    def look(_number: int, _frame: FrameType | None) -> None:
        running = progress()
        if running is None or running != last[0]:
            last[:] = [running, 0.0]
            return
        last[1] += _TICK_SECONDS
        if last[1] >= limit_seconds:
            last[:] = [None, 0.0]
            raise SubjectHang(f"the call did not come back within {limit_seconds:g} s")

    previous = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, _TICK_SECONDS, _TICK_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
