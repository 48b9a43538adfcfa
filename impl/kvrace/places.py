"""Which line of a scheduler's code decided something, and a record of the blocks that move while one call runs.

Nothing is replaced or wrapped for it: a profile function watches the pool's own methods being called, so that a call that is
watched runs exactly as one that is not, and leaves nothing behind.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from types import CodeType, FrameType
from typing import Any, Literal

from kvmodel.contract import Contract
from kvmodel.events import Event
from kvmodel.playback import Frame, Refused, play
from kvmodel.port import BlockMove, Response, Subject
from kvmodel.properties import Finding

Role = Literal["decides", "carries out", "comes later"]
"""What a function has to do with a move it makes: it decides it, or does what its caller has decided, or does at last what was
decided, and seen, in an earlier call."""


class Places:
    """The lines of a scheduler class, each as ``file:line in function``.

    ``shown`` gives the name a file is shown by. The code that decides is in the files of the class and its bases, and in those of
    ``others``; ``role`` says which of its functions, by module and name, do more or less than decide.
    """

    def __init__(
        self,
        kind: type,
        shown: Callable[[str], str],
        role: Callable[[str, str], Role],
        others: Iterable[type] = (),
    ) -> None:
        self._kind, self._shown, self._role = kind, shown, role
        modules = {base.__module__ for base in (*kind.__mro__, *others)}
        self._files = {getattr(sys.modules.get(name), "__file__", None) for name in modules} - {None}

    def deciding(self, frame: FrameType | None) -> str | None:
        """The innermost line of the scheduler's code that decided to call ``frame``; None where nothing did now."""
        while frame is not None:
            code = frame.f_code
            if code.co_filename in self._files:
                role = self._role(frame.f_globals.get("__name__", ""), code.co_name)
                if role == "comes later":
                    return None
                if role == "decides":
                    return self._text(code.co_filename, frame.f_lineno, code.co_name)
            frame = frame.f_back
        return None

    def entry(self, method: str) -> str:
        """Where the class defines an entry point."""
        for base in self._kind.__mro__:
            code = _code(vars(base).get(method))
            if code is not None:
                return self._text(code.co_filename, code.co_firstlineno, method)
        raise AttributeError(f"{self._kind.__name__} has no method {method}")

    def definition(self, otherwise: str) -> str:
        """Where the class is defined; where there is no source to look into, its method ``otherwise``."""
        found = _defined(self._kind)
        return self._text(*found, self._kind.__name__) if found else self.entry(otherwise)

    def _text(self, file: str, line: int, function: str) -> str:
        return f"{self._shown(file)}:{line} in {function}"


@cache
def _defined(kind: type) -> tuple[str, int] | None:
    """File and line of a class, found once: Python parses the whole file for it, which takes longer than many a case."""
    try:
        _, index = inspect.findsource(kind)
        return inspect.getfile(kind), index + 1
    except (OSError, TypeError):
        return None


def _code(function: Any) -> CodeType | None:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code if isinstance(code, CodeType) else None


def codes(kind: type, methods: Iterable[str]) -> frozenset[CodeType]:
    """The code of those methods that a class has, also of those that an override calls."""
    found = {_code(vars(base).get(name)) for base in kind.__mro__ for name in methods}
    return frozenset(code for code in found if code is not None)


@contextmanager
def recorded_moves(
    watched: Collection[CodeType],
    counts: Callable[[], Sequence[int | None]],
    place: Callable[[FrameType | None], str | None],
) -> Iterator[list[BlockMove]]:
    """Collect the moves of blocks in calls of the ``watched`` code, seen by the ``counts`` of their owners before and after it.

    Under a profiler of somebody else's nothing is recorded: Python has room for one.
    """
    moves: list[BlockMove] = []
    before: list[Sequence[int | None]] = []

    def look(frame: FrameType, event: str, _: object) -> None:
        if frame.f_code not in watched:
            return
        if event == "call":
            before.append(counts())
        elif event == "return" and before:
            location = place(frame.f_back)
            for block, (then, now) in enumerate(zip(before.pop(), counts(), strict=False)):
                if location is not None and then is not None and now is not None and then != now:
                    moves.append(BlockMove(block, "freed" if now < then else "given", location))

    if sys.getprofile() is not None:
        yield moves
        return
    sys.setprofile(look)
    try:
        yield moves
    finally:
        sys.setprofile(None)


def answer_recording(
    play: Callable[[], Response], moves_of: AbstractContextManager[list[BlockMove]], places: Places, entry_point: str
) -> Response:
    """Play one event and add the record to the response: moves of blocks, and the entry points that were called."""
    with moves_of as moves:
        response = play()
    called = tuple(places.entry(name) for name in (entry_point, "has_requests"))
    return response._replace(moves=tuple(moves), called=called)


def play_recording(
    subject: Subject, contract: Contract, events: Sequence[Event]
) -> tuple[list[Frame], list[Response], Refused | None]:
    """Play an order once, with a record of which lines moved blocks. The frames are those of any other playback; the record is in
    the responses."""
    subject.records = True
    try:
        frames, refused = play(subject, contract, events)
    finally:
        subject.records = False
    bare = [frame._replace(response=frame.response._replace(moves=(), called=())) for frame in frames]
    return bare, [frame.response for frame in frames], refused


def line_behind(finding: Finding, loops: bool, responses: Sequence[Response]) -> str | None:
    """The line of the scheduler's code behind a finding, from the recorded responses to its order: where it raised, else what last
    moved one of its blocks, else the entry point that answered last; of an engine that goes idle too early the one that says so.
    Of a leaked block the last move is often the one that gave it out, which is not at fault: then it is the entry point in which a
    request was last handed over."""
    answer = responses[-1]
    refused = answer.reset.refusal if answer.reset is not None and finding.property == "no-crash" else None
    crash = answer.crash or refused
    if crash is not None:
        return crash.location
    moves = [move for response in responses for move in response.moves if move.block in finding.blocks]
    leaks = finding.property == "no-leak"
    if moves and not (leaks and moves[-1].what == "given"):
        return moves[-1].location
    answered = [response for response in responses if response.called]
    if leaks:
        answered = [response for response in answered if response.handovers] or answered
    if not answered:
        return None
    called = answered[-1].called
    return called[-1] if finding.property == "no-stuck" and not loops else called[0]
