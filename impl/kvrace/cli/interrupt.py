"""Ctrl-C or SIGTERM while exploring: the first one ends the exploration between two scheduler calls, the second one at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

News = TypeVar("News")
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def end_as_with_ctrl_c() -> None:
    """From now on SIGTERM raises KeyboardInterrupt, so that a run which is told to end says so and cleans up."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def end_undisturbed() -> None:
    """From now on no signal ends the process: the command has ended, and its exit status stands."""
    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
    # After a KeyboardInterrupt that left an exec of a text, as imports do, 'python -m' ends itself by SIGINT; this makes it forget.
    exec("")


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Within :func:`interruptible`, a call that reports no progress (an import): here Ctrl-C raises KeyboardInterrupt at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = [signal.signal(number, signal.default_int_handler) for number in _SIGNALS]
    try:
        yield
    finally:
        for number, handler in zip(_SIGNALS, previous, strict=True):
            signal.signal(number, handler)


@contextmanager
def interruptible(listen: Callable[[News], None]) -> Iterator[Callable[[News], None]]:
    """Give a listener for a long run, as :func:`kvrace.check.check` is one, that raises KeyboardInterrupt at the next report of
    progress.

    There the run is between two calls and keeps what it has found. The second Ctrl-C is Python's own: it ends a call that
    hangs, and if it comes after the exploration, while orders are confirmed, there is no verdict.
    """
    if threading.current_thread() is not threading.main_thread():
        yield listen
        return
    wanted = False

    def remember(_number: int, _frame: FrameType | None) -> None:
        nonlocal wanted
        wanted = True
        for number in _SIGNALS:
            signal.signal(number, signal.default_int_handler)

    def listen_or_stop(news: News) -> None:
        if wanted:
            raise KeyboardInterrupt
        listen(news)

    previous = [signal.signal(number, remember) for number in _SIGNALS]
    try:
        yield listen_or_stop
    finally:
        for number, handler in zip(_SIGNALS, previous, strict=True):
            signal.signal(number, handler)
