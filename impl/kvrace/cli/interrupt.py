"""Ctrl-C while exploring: the first one ends the exploration between two scheduler calls, the second one at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from kvrace.result import Progress


@contextmanager
def interruptible(listen: Callable[[Progress], None]) -> Iterator[Callable[[Progress], None]]:
    """Give a listener for :func:`kvrace.check.check` that raises KeyboardInterrupt at the next report of progress.

    There the exploration is between two calls and keeps what it has found. The second Ctrl-C is Python's own: it ends a call that
    hangs, and if it comes after the exploration, while orders are confirmed, there is no verdict.
    """
    if threading.current_thread() is not threading.main_thread():
        yield listen
        return
    wanted = False

    def remember(_number: int, _frame: FrameType | None) -> None:
        nonlocal wanted
        wanted = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def listen_or_stop(progress: Progress) -> None:
        if wanted:
            raise KeyboardInterrupt
        listen(progress)

    previous = signal.signal(signal.SIGINT, remember)
    try:
        yield listen_or_stop
    finally:
        signal.signal(signal.SIGINT, previous)
