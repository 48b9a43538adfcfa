"""What two schedulers are compared by, after the same event in the same situation.

Compared is what a scheduler decides, tells and frees: everything in its :class:`~kvmodel.port.Response` and in its
:class:`~kvmodel.port.Observation`. Some things there are each scheduler's own, and are compared by what they mean:

* of an exception, that there is one: its words and its place are those of the code;
* of ``tables``, which requests some table still names: names of tables are names of attributes;
* of ``negative``, whether a property is broken by it: counters are attributes, too;
* of ``held_back``, which blocks they are: their order is that of attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from kvmodel.events import Event
from kvmodel.port import Observation, Response, ScheduledRequest
from kvmodel.properties import Finding


class Shown(Protocol):
    """What one scheduler did in answer to an event and looks like now: a node of an exploration or a frame of a playback."""

    @property
    def response(self) -> Response: ...

    @property
    def observation(self) -> Observation: ...

    @property
    def findings(self) -> Sequence[Finding]: ...


class Aspect(NamedTuple):
    """One thing that is compared: ``read`` takes out what has to be equal, and ``say`` puts into words what is there.

    ``follows``: where it differs, something else has as a rule; alone it is a difference all the same.
    """

    name: str
    meaning: str
    read: Callable[[Shown], Any]
    say: Callable[[Shown], str]
    follows: bool = False


class Difference(NamedTuple):
    """One aspect that is not the same, and what each of the two shows, in words."""

    aspect: str
    first: str
    second: str


def _words(items: Iterable[object], separator: str = " ") -> str:
    return separator.join(map(str, items)) or "none"


def _named(entries: Iterable[tuple[str, Iterable[object]]]) -> str:
    return "; ".join(f"{name}: {_words(items)}" for name, items in entries) or "none"


def _entries(shown: Shown) -> tuple[ScheduledRequest, ...]:
    return shown.response.step.scheduled if shown.response.step else ()


def _say_scheduled(shown: Shown) -> str:
    words = [f"{e.request} tokens {e.start} to {e.computed}{', samples' * e.samples}" for e in _entries(shown)]
    return "; ".join(words) or "nobody"


def _say_given(shown: Shown) -> str:
    return _named(
        (f"{entry.request}{' anew' * entry.replaces}", entry.new_blocks + entry.window_blocks)
        for entry in _entries(shown)
    )


def _step_names(what: str) -> Aspect:
    def read(shown: Shown) -> Any:
        return getattr(shown.response.step, what, ())

    names = {"preempted": "preempted", "dismissed": "told as over"}
    meaning = {"preempted": "the requests that are preempted", "dismissed": "those that workers are told are over"}
    return Aspect(names[what], meaning[what], read, lambda shown: _words(read(shown)))


def _say_loads(shown: Shown) -> str:
    loads = shown.response.loads
    return "; ".join(f"{load.request} into {_words(load.blocks)} of {_words(load.table)}" for load in loads) or "none"


def _broken(shown: Shown) -> tuple[str, ...]:
    return tuple([finding.property for finding in shown.findings])


def _held_back(shown: Shown) -> list[int]:
    return sorted(shown.observation.held_back)


def _left_in_tables(shown: Shown) -> set[str]:
    return {name for _, names in shown.observation.tables for name in names}


def _say_references(shown: Shown) -> str:
    counts = enumerate(shown.observation.references)
    return _words((f"{block}×{count}" for block, count in counts if count), ", ")


def _crash(shown: Shown) -> str:
    crash = shown.response.crash
    return "returns" if crash is None else "hangs" if crash.hang else "raises"


def _say_crash(shown: Shown) -> str:
    crash = shown.response.crash
    return _crash(shown) if crash is None else f"{_crash(shown)}: {crash.error} at {crash.location}"


CRASH = Aspect("the call", "whether it returns, raises, or does not come back", _crash, _say_crash)
ASPECTS: tuple[Aspect, ...] = (
    CRASH,
    Aspect(
        "breaks",
        "the properties that are broken",
        _broken,
        lambda shown: _words((f"{finding.property}: {finding.message}" for finding in shown.findings), "; "),
        follows=True,
    ),
    Aspect(
        "in the step",
        "which requests, from which token to which, and who gets a token; in their order",
        lambda shown: [(e.request, e.start, e.computed, e.samples) for e in _entries(shown)],
        _say_scheduled,
    ),
    Aspect(
        "new blocks",
        "the blocks that workers are told of",
        lambda shown: [(e.request, e.new_blocks, e.window_blocks, e.replaces) for e in _entries(shown)],
        _say_given,
    ),
    _step_names("preempted"),
    _step_names("dismissed"),
    Aspect("loads", "the loads that begin, and where they write", lambda shown: shown.response.loads, _say_loads),
    Aspect(
        "request_finished",
        "the calls of it, with their blocks",
        lambda shown: shown.response.handovers,
        lambda shown: _named((handover.request, handover.named) for handover in shown.response.handovers),
    ),
    Aspect(
        "final outputs",
        "the clients that hear that their request is over",
        lambda shown: shown.response.notices,
        lambda shown: _words(shown.response.notices),
    ),
    Aspect(
        "phases",
        "the status of each request that is known",
        lambda shown: shown.observation.phases,
        lambda shown: _words((f"{name} {phase}" for name, phase in shown.observation.phases), ", "),
    ),
    Aspect(
        "queues",
        "who waits where, in which order",
        lambda shown: shown.observation.queues,
        lambda shown: _named(shown.observation.queues),
    ),
    Aspect(
        "block tables",
        "the blocks of each request",
        lambda shown: shown.observation.owned,
        lambda shown: _named(shown.observation.owned),
    ),
    Aspect(
        "held back",
        "the blocks that are kept for later, wherever a scheduler keeps them",
        _held_back,
        lambda shown: _words(_held_back(shown)),
    ),
    Aspect(
        "references",
        "the reference count of each block",
        lambda shown: shown.observation.references,
        _say_references,
    ),
    Aspect(
        "free blocks",
        "in the order in which they will be given out",
        lambda shown: shown.observation.free,
        lambda shown: _words(shown.observation.free),
    ),
    Aspect(
        "free count",
        "the pool's own count of them",
        lambda shown: shown.observation.free_count,
        lambda shown: str(shown.observation.free_count),
        follows=True,
    ),
    Aspect(
        "prefix cache",
        "the blocks that it offers",
        lambda shown: shown.observation.cached,
        lambda shown: _words(sorted(shown.observation.cached)),
    ),
    Aspect(
        "named in tables",
        "the requests that some table names while no step is in flight",
        _left_in_tables,
        lambda shown: _named(shown.observation.tables),
        follows=True,
    ),
    Aspect(
        "has_requests",
        "whether the engine goes on",
        lambda shown: shown.observation.pending,
        lambda shown: str(shown.observation.pending),
        follows=True,
    ),
)
"""In the order in which differences are told: what a scheduler says comes before what it looks like then."""


def differences(first: Shown, second: Shown) -> tuple[Difference, ...]:
    """What is not the same. Where one of them did not return, or neither did, nothing else means anything."""
    returned = first.response.crash is None and second.response.crash is None
    return tuple(
        Difference(aspect.name, aspect.say(first), aspect.say(second))
        for aspect in (ASPECTS if returned else (CRASH,))
        if aspect.read(first) != aspect.read(second)
    )


def say(shown: Shown, aspect: str) -> str:
    """What is there of one aspect, in words."""
    return next(one for one in ASPECTS if one.name == aspect).say(shown)


_FOLLOWING = frozenset(aspect.name for aspect in ASPECTS if aspect.follows)


def kind_of(event: Event | None, found: Sequence[Difference]) -> tuple[str, ...]:
    """What tells kinds of differences apart: the kind of event and what is not the same, without what follows from something
    else. A call that does not return is told apart by its place as well."""
    names = [difference.aspect for difference in found]
    telling = [name for name in names if name not in _FOLLOWING] or names
    crashes = [difference.second for difference in found if difference.aspect == CRASH.name]
    return ("start" if event is None else str(event).split()[0], *telling, *crashes)
