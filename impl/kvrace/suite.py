"""Suites: edge-covering tours of a scope, made on one scheduler with what happens in them, and played on any."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kvmodel.contract import Contract
from kvmodel.errors import KvraceError
from kvmodel.events import Event, Lose, TransferEnds
from kvmodel.explorer import explore
from kvmodel.lockstep import Lockstep, Node
from kvmodel.playback import Frame, Refused, frame_of, play
from kvmodel.port import Identity, Subject
from kvmodel.scope import Scope
from kvmodel.tours import Transition, cover
from kvrace.check import Limits, MakeSubject, rare_garbage_collection
from kvrace.determinism import not_the_same_twice
from kvrace.render.observed import observations
from kvrace.result import Progress
from kvrace.watchdog import watched
from kvrace.written import diff_of

RESET_PRICE = 3
"""What a fresh scheduler costs, in scheduler calls. Measured on vLLM 0.32.0: 3.0 to 3.4, by the time that constructing it takes."""


class LimitReached(Exception):
    """A limit came before the graph of a case was finished: without all of it, no tours cover it."""


class Tour(NamedTuple):
    """An order of events from a fresh scheduler, and for each event the lines that say what happens
    (:mod:`kvrace.render.observed`)."""

    events: tuple[Event, ...]
    happens: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class CaseTours:
    """The tours of one scope on one scheduler class. ``calls`` are the scheduler calls of all tours, counted as they were played;
    ``bound`` is the least cost that any tours of the graph can have, in calls, with ``reset_price`` for each fresh scheduler."""

    scope: Scope
    contract: Contract
    identity: Identity
    states: int
    transitions: int
    tours: tuple[Tour, ...]
    calls: int
    reset_price: int
    bound: int
    seconds: float

    @property
    def resets(self) -> int:
        """Each tour begins on a fresh scheduler."""
        return len(self.tours)

    @property
    def cost(self) -> int:
        return self.calls + self.reset_price * self.resets


@dataclass(frozen=True, slots=True)
class _Explored:
    """A finished graph: the key of each state, and each transition with its event."""

    keys: list[Hashable]
    transitions: list[Transition]
    events: list[Event]


def make_tours(
    make_subject: MakeSubject,
    scopes: Sequence[Scope],
    contract: Contract,
    *,
    reset_price: int = RESET_PRICE,
    longest: int | None = None,
    limits: Limits = Limits(),  # noqa: B008 - immutable
    listen: Callable[[Progress], None] = lambda _: None,
    touring: Callable[[Scope, int, int], None] = lambda _scope, _done, _tours: None,
) -> Iterator[CaseTours]:
    """The tours of each scope, one after the other. ``listen`` hears how far the exploration is, and again now and then while the
    tours are played; ``touring`` hears how many of them are.

    Raises LimitReached, and KvraceError for a subject that hangs or does not behave the same twice, and when a tour of ``longest``
    events does not reach everything.
    """
    started = time.monotonic()
    known = 0
    for number, scope in enumerate(scopes):

        def report(states: int, transitions: int, frontier: int, case: int = number, scope: Scope = scope) -> None:
            listen(Progress(case, len(scopes), scope, states, transitions, frontier, time.monotonic() - started))

        with watched(make_subject(scope), limits.call_seconds) as subject, rare_garbage_collection():
            made = _case(subject, contract, reset_price, longest, limits, known, report, touring)
        known += made.states
        yield made


def _case(
    subject: Subject,
    contract: Contract,
    reset_price: int,
    longest: int | None,
    limits: Limits,
    known: int,
    report: Callable[[int, int, int], None],
    touring: Callable[[Scope, int, int], None],
) -> CaseTours:
    started = time.monotonic()
    graph = _explored(subject, contract, limits, known, report)
    try:
        found = cover(graph.transitions, reset_price, longest)
    except ValueError as error:
        raise KvraceError(f"{subject.scope}: {error}") from error
    tours: list[Tour] = []
    calls = 0
    same: dict[tuple[str, ...], tuple[str, ...]] = {}  # most events do what others did before
    for order in sorted(found.tours):  # tours that begin alike stand together
        if len(tours) & 63 == 0:
            report(len(graph.keys), len(graph.transitions), 0)
        touring(subject.scope, len(tours), len(found.tours))
        if limits.deadline is not None and time.monotonic() > limits.deadline:
            raise LimitReached("time limit")
        frames, made = _played(subject, contract, graph, order)
        calls += made
        happens = tuple(same.setdefault(lines, lines) for lines in observations(frames))
        tours.append(Tour(tuple(graph.events[number] for number in order), happens))
    return CaseTours(
        subject.scope,
        contract,
        subject.identity,
        len(graph.keys),
        len(graph.transitions),
        tuple(tours),
        calls,
        reset_price,
        found.bound,
        time.monotonic() - started,
    )


def _explored(
    subject: Subject, contract: Contract, limits: Limits, known: int, report: Callable[[int, int, int], None]
) -> _Explored:
    lockstep = Lockstep(subject, contract)
    start = lockstep.initial()
    graph = _Explored([start.key], [], [])
    for edge in explore(lockstep, start):
        if edge.state.hung:
            raise KvraceError(
                f"{subject.identity} hangs at '{edge.label}'; no tours are made of calls that do not come back"
            )
        if edge.new:
            graph.keys.append(edge.state.key)
        graph.transitions.append(Transition(edge.source, edge.target, _price(edge.label)))
        graph.events.append(edge.label)
        if len(graph.events) & 63 == 0:
            report(len(graph.keys), len(graph.events), edge.frontier)
            if limits.deadline is not None and time.monotonic() > limits.deadline:
                raise LimitReached("time limit")
        if limits.max_states is not None and known + len(graph.keys) > limits.max_states:
            raise LimitReached("state limit")
    return graph


def _price(event: Event) -> int:
    """In scheduler calls: that a transfer ends is nothing that the scheduler hears of."""
    return 0 if isinstance(event, TransferEnds | Lose) else 1


def _played(subject: Subject, contract: Contract, graph: _Explored, order: Sequence[int]) -> tuple[list[Frame], int]:
    """The playback of one tour on a fresh scheduler, and its calls. Raises KvraceError when it leads to other states than those
    that were merged: then what was explored says nothing of it."""
    lockstep = Lockstep(subject, contract)
    node: Node = lockstep.initial()
    frames = [frame_of(None, node)]
    for number in order:
        event = graph.events[number]
        node = lockstep.successor(node, event)
        frames.append(frame_of(event, node))
        if node.key != graph.keys[graph.transitions[number].target]:
            events = [graph.events[done] for done in order[: len(frames) - 1]]
            raise not_the_same_twice(subject, "the same order led to another state", events)
    return frames, lockstep.calls


@dataclass(frozen=True, slots=True)
class Departure:
    """The first event of a tour at which something else happens than was recorded, and the ``diff`` in lines; or which is not
    allowed any more (``refused``). ``place`` counts events from 1; ``frames`` end with the event, or before one refused."""

    tour: int
    place: int
    event: Event
    diff: tuple[str, ...]
    refused: Refused | None
    frames: tuple[Frame, ...]


def departure(subject: Subject, contract: Contract, tour: Tour, number: int) -> Departure | None:
    """Play tour ``number`` on a fresh scheduler: where it departs from what was recorded, line numbers of source files aside."""
    frames, refused = play(subject, contract, tour.events)
    together = zip(tour.events, tour.happens, observations(frames), strict=False)
    for place, (event, recorded, now) in enumerate(together, 1):
        if diff := diff_of(recorded, now):
            return Departure(number, place, event, diff, None, tuple(frames[: place + 1]))
    if refused is None:
        return None
    return Departure(number, refused.place + 1, refused.event, (), refused, tuple(frames))
