"""Stop a scheduler call that does not come back, and report it instead of waiting for it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from kvmodel.errors import KvraceError
from kvmodel.events import Event
from kvmodel.port import Capture, ConnectorScript, Identity, Observation, Response, Subject, SubjectHang
from kvmodel.scope import Scope
from kvrace.ctrlc import ctrl_c_wins

_TICK_SECONDS = 0.5
_MAKING_SECONDS = 10.0
"""Making a subject is never called a hang sooner: vLLM takes a while to make its configuration."""


class WatchedSubject:
    """A subject that says which of its calls is running, for the watchdog.

    Only a call into a scheduler's entry points can be judged (:meth:`apply`). Whatever else a scheduler does not come back from,
    or leaves with something that is no error, ends the run with a KvraceError.
    """

    def __init__(self, subject: Subject, limit_seconds: float) -> None:
        self._subject = subject
        self._limit_seconds = limit_seconds
        self.scope: Scope = subject.scope
        self.calls = 0
        self.running_call: int | None = None

    @property
    def identity(self) -> Identity:
        return self._subject.identity

    @property
    def location(self) -> str:
        return self._subject.location

    @property
    def records(self) -> bool:
        return self._subject.records

    @records.setter
    def records(self, wanted: bool) -> None:
        self._subject.records = wanted

    def start(self) -> None:
        with self._ending("the scheduler's constructor"):
            self._subject.start()

    def apply(self, event: Event, script: dict[str, ConnectorScript]) -> Response:
        self.calls += 1
        self.running_call = self.calls
        try:
            return self._subject.apply(event, script)
        finally:
            self.running_call = None

    def observe(self) -> Observation:
        with self._ending("reading the scheduler's state"):
            return self._subject.observe()

    def capture(self, names: dict[int, int]) -> Capture:
        with self._ending("copying the scheduler's state"):
            return self._subject.capture(names)

    def notes(self, exhausted: bool) -> tuple[str, ...]:
        return self._subject.notes(exhausted)

    def restore(self, snapshot: Any) -> None:
        with self._ending("putting back the scheduler's state"):
            self._subject.restore(snapshot)

    def _ending(self, what: str) -> _Ending:
        return _Ending(self, what)


class _Ending:
    """A call that is no entry point. A class, not a generator, because there is one for each state that is explored."""

    __slots__ = ("_subject", "_what")

    def __init__(self, subject: WatchedSubject, what: str) -> None:
        self._subject, self._what = subject, what

    def __enter__(self) -> None:
        self._subject.calls += 1
        self._subject.running_call = self._subject.calls

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._subject.running_call = None
        if error is not None:
            _raise_clearly(self._what, error, self._subject._limit_seconds)


def _raise_clearly(what: str, error: BaseException, limit_seconds: float) -> None:
    """A KvraceError for a hang and for what is no Exception; everything else goes on as it is."""
    if isinstance(error, SubjectHang):
        raise KvraceError(f"{what} did not come back within {limit_seconds:g} s") from error
    if not isinstance(error, (Exception, KeyboardInterrupt)):
        raise KvraceError(f"{what} raised {describe(error)}") from error


def describe(error: BaseException) -> str:
    """Type and first line of an error, also of one that cannot be printed."""
    try:
        text = (str(error).strip().splitlines() or [""])[0][:200]
    except BaseException:
        text = "(it cannot be printed)"
    return f"{type(error).__name__}: {text}".removesuffix(": ")


def _can_watch() -> bool:
    """Python has a timer signal in the main thread only, and not on every system."""
    return threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer")


def ending(make: Callable[[Scope], Subject], limit_seconds: float) -> Callable[[Scope], Subject]:
    """The same function, with a KvraceError when it does not come back within ``limit_seconds``, or within ten if that is more."""
    limit_seconds = max(limit_seconds, _MAKING_SECONDS)

    def made(scope: Scope) -> Subject:
        with ctrl_c_wins(), _alarm("making the scheduler", limit_seconds):
            return make(scope)

    return made


@contextmanager
def _alarm(what: str, limit_seconds: float) -> Iterator[None]:
    def give_up(_number: int, _frame: FrameType | None) -> None:
        raise SubjectHang(f"{what} did not come back within {limit_seconds:g} s")

    if not _can_watch():
        yield
        return
    with _timer(give_up, limit_seconds):
        try:
            yield
        except BaseException as error:
            signal.setitimer(signal.ITIMER_REAL, 0)
            _raise_clearly(what, error, limit_seconds)
            raise


@contextmanager
def _timer(handler: Callable[[int, FrameType | None], None], seconds: float) -> Iterator[None]:
    """Call ``handler`` every so many seconds; afterwards the timer of whoever was before goes on."""
    previous = signal.signal(signal.SIGALRM, handler)
    running = signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *running)
        signal.signal(signal.SIGALRM, previous)


class _Watch:
    """What the timer has seen of one subject: which call ran at the last tick, and for how long it has."""

    def __init__(self, subject: WatchedSubject, limit_seconds: float) -> None:
        self.subject, self.limit_seconds = subject, limit_seconds
        self.same_call: int | None = None
        self.waited = 0.0

    def tick(self) -> None:
        running = self.subject.running_call
        self.waited = self.waited + _TICK_SECONDS if running is not None and running == self.same_call else 0.0
        self.same_call = running
        if self.waited >= self.limit_seconds:
            self.same_call, self.waited = None, 0.0
            raise SubjectHang(f"the call did not come back within {self.limit_seconds:g} s")


_WATCHES: list[_Watch] = []
"""One timer watches all subjects that are open: several may be, and any of them may be called."""


@contextmanager
def watched(subject: Subject, limit_seconds: float) -> Iterator[WatchedSubject]:
    """The same subject, under a watchdog: SubjectHang is raised inside a call that runs for ``limit_seconds``.

    A timer looks every half second whether the same call is still running, so that a call costs nothing. Outside the main
    thread, where Python has no timer signal, nothing is watched.
    """
    watching = WatchedSubject(subject, limit_seconds)
    if not _can_watch():
        yield watching
        return
    watch = _Watch(watching, limit_seconds)
    _WATCHES.append(watch)
    try:
        with _timer(_tick_all, _TICK_SECONDS):
            yield watching
    finally:
        _WATCHES.remove(watch)


def _tick_all(_number: int, _frame: FrameType | None) -> None:
    for watch in list(_WATCHES):
        watch.tick()
