"""Ctrl-C during code of others, which may swallow a KeyboardInterrupt, or break by it and raise something else."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def ctrl_c_wins() -> Iterator[None]:
    """When SIGINT or SIGTERM came inside and is handled in this process, KeyboardInterrupt is what comes out, whatever else was
    raised, or nothing. The handlers that were there are called as ever."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    came = False

    def remember(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        handler = handlers[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)

    handled = {number: handler for number, handler in handlers.items() if callable(handler)}
    for number in handled:
        signal.signal(number, remember)
    try:
        yield
    except BaseException:
        if came:
            raise KeyboardInterrupt from None
        raise
    finally:
        for number, handler in handled.items():
            signal.signal(number, handler)
    if came:
        raise KeyboardInterrupt
