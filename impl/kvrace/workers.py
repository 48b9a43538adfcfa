"""Many pieces of work, on several processes. Ctrl-C ends all of them, and a process that dies is an error and no silence."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from kvmodel.errors import KvraceError
from kvrace.result import Progress
from kvrace.subjects import stdout_to_stderr
from kvrace.watchdog import describe

Wanted = TypeVar("Wanted")
Made = TypeVar("Made")
Work = Callable[[Wanted, Callable[[Progress], None]], Made]
"""Does one piece of work, and reports progress meanwhile."""
_LOOK_SECONDS = 0.2
"""How often the user is heard while all processes are at work."""


def spread(
    work: Work[Wanted, Made],
    pieces: Sequence[Wanted],
    processes: int,
    tell: Callable[[str], None],
    late: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[Wanted, Made]]:
    """Every piece with what was made of it, as soon as it is. ``tell`` hears now and then what is at work, and may raise. Once it
    is ``late`` no piece is begun any more.

    With one process it is this one; else ``work``, the pieces and what is made have to be picklable. Raises KvraceError when a
    piece does, or when a process ends by itself.
    """
    if min(processes, len(pieces)) <= 1:
        for piece in pieces:
            if late():
                return
            with stdout_to_stderr():
                made = work(piece, lambda _, piece=piece: tell(str(piece)))  # type: ignore[misc]
            yield piece, made
            tell("")
        return
    left = deque(pieces)
    with _started(work, min(processes, len(pieces))) as workers:
        busy: dict[Any, tuple[Connection, Wanted]] = {}
        for worker in workers:
            worker.send(left[0])
            busy[worker] = (worker, left.popleft())
        while busy:
            tell(", ".join(str(piece) for _, piece in busy.values()))
            for ready in wait(list(busy), _LOOK_SECONDS):
                worker, piece = busy.pop(ready)
                yield piece, _received(worker, piece, tell)
                if left and not late():
                    worker.send(left[0])
                    busy[worker] = (worker, left.popleft())


def apart(
    work: Work[Wanted, Made],
    pieces: Sequence[Wanted],
    processes: int,
    tell: Callable[[str], None],
    late: Callable[[], bool] = lambda: False,
    failed: Callable[[Wanted, str], Made] | None = None,
) -> Iterator[tuple[Wanted, Made]]:
    """As :func:`spread`, but every piece has a process of its own, however few there are at a time: for what a process can do only
    once, as to import a vLLM. ``failed`` says what is made of a piece whose process raised or ended by itself."""
    left = deque(pieces)
    busy: dict[Any, tuple[BaseProcess, Wanted]] = {}
    try:
        while busy or (left and not late()):
            while left and len(busy) < max(1, processes) and not late():
                with _ctrl_c_is_ours():
                    line, process = _start(work)
                busy[line] = (process, left[0])
                line.send(left.popleft())
            tell(", ".join(str(piece) for _, piece in busy.values()))
            for ready in wait(list(busy), _LOOK_SECONDS):
                process, piece = busy[ready]
                try:
                    made = _received(ready, piece, tell)
                except KvraceError as error:
                    if failed is None:
                        raise
                    made = failed(piece, str(error))
                del busy[ready]
                _end([process])
                yield piece, made
    finally:
        _end([process for process, _ in busy.values()])


def _received(worker: Any, piece: object, tell: Callable[[str], None]) -> Any:
    try:
        made = worker.recv()
    except (EOFError, OSError) as error:
        tell(str(piece))  # what has ended all processes of a group is heard as what it is
        raise KvraceError(f"the process that checks '{piece}' ended before its work was done") from error
    if isinstance(made, _Failed):
        raise KvraceError(made.message)
    return made


class _Failed:
    """What a process sends in place of a result."""

    def __init__(self, message: str) -> None:
        self.message = message


@contextmanager
def _started(work: Work[Any, Any], processes: int) -> Iterator[list[Connection]]:
    """Processes that wait for work, by our end of the line to each."""
    started: list[tuple[Connection, BaseProcess]] = []
    try:
        with _ctrl_c_is_ours():
            for _ in range(processes):
                started.append(_start(work))
        yield [line for line, _ in started]
    finally:
        _end([process for _, process in started])


def _start(work: Work[Any, Any]) -> tuple[Connection, BaseProcess]:
    context = multiprocessing.get_context("spawn")  # a fork would copy the threads that vLLM's libraries have started
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(work, theirs), daemon=True)
    process.start()
    theirs.close()
    return ours, process


def _end(processes: Sequence[BaseProcess]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        process.join()


@contextmanager
def _ctrl_c_is_ours() -> Iterator[None]:
    """Processes that are started here never hear Ctrl-C, which a terminal sends to all: this one ends them. One that comes
    meanwhile is heard afterwards."""
    resource_tracker.ensure_running()  # else it is started with the first process, and lets all signals through from then on
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(work: Work[Any, Any], line: Connection) -> None:
    """The life of a process: take a piece, send what was made of it, until nobody is there any more."""
    with suppress(EOFError, OSError), stdout_to_stderr():
        while True:
            piece = line.recv()
            try:
                made = work(piece, _alive)
            except KvraceError as error:
                made = _Failed(str(error))
            except Exception as error:
                if os.environ.get("KVRACE_DEBUG"):
                    traceback.print_exc()
                made = _Failed(
                    f"unexpected {describe(error)} in {piece}; please report it with what KVRACE_DEBUG=1 shows"
                )
            sys.stdout.flush()
            line.send(made)


def _alive(_: Progress) -> None:
    """Progress is told piece by piece where there are several processes. But a piece that nobody waits for any more, since the
    process that wanted it was killed, is not gone on with."""
    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid != os.getppid():
        raise SystemExit
