"""Whether a remedy changes a normal transfer: both schedulers on every order in which nobody aborts, and the first difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kvmodel.contract import Contract
from kvmodel.events import Abort, Event
from kvmodel.lockstep import Lockstep
from kvmodel.pairs import Pair, PairKey, Pairs
from kvmodel.scope import Scope
from kvrace.check import Limits, MakeSubject, rare_garbage_collection
from kvrace.exploration import Bounded, Orders
from kvrace.result import Progress
from kvrace.watchdog import WatchedSubject, watched


@dataclass(frozen=True, slots=True)
class Comparison:
    """``events``: a shortest order after which the two do not look alike, or after which a property is broken; none if there is no
    such order. ``stopped`` says why not every order was tried; ``notes`` are what both schedulers have to say beside it."""

    states: int
    events: tuple[str, ...]
    stopped: str | None
    notes: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        return self.stopped is None


class _WithoutAborts(Pairs):
    """Strict: a broken property excuses nothing here, since none may be broken."""

    def labels(self, pair: Pair) -> Sequence[Event]:
        return [event for event in super().labels(pair) if not isinstance(event, Abort)]


def compare(
    make_first: MakeSubject,
    make_second: MakeSubject,
    scope: Scope,
    limits: Limits,
    listen: Callable[[Progress], None] = lambda _: None,
) -> Comparison:
    """Play every order without an abort, under the connector's strict contract, on both until they differ."""

    def report(states: int, transitions: int, frontier: int) -> None:
        listen(Progress(0, 1, scope, states, transitions, frontier, 0.0))

    with (
        watched(make_first(scope), limits.call_seconds) as first,
        watched(make_second(scope), limits.call_seconds) as second,
        rare_garbage_collection(),
    ):
        found = _until_they_differ(first, second, limits, report)
        notes = [note for subject in (first, second) for note in subject.notes(found.complete and not found.events)]
    return replace(found, notes=tuple(dict.fromkeys(notes)))


def _until_they_differ(
    first: WatchedSubject, second: WatchedSubject, limits: Limits, report: Callable[[int, int, int], None]
) -> Comparison:
    bounded = Bounded(limits.deadline, limits.max_states)
    orders: Orders[PairKey] = Orders()
    pairs = _WithoutAborts(Lockstep(first, Contract()), Lockstep(second, Contract()), strict=True)
    start = pairs.initial()
    orders.add(0, None, start.key, sample=False)
    try:
        for edge in bounded.edges(pairs, start, report):
            if edge.new:
                orders.add(edge.source, edge.label, edge.state.key, sample=False)
            if edge.state.differences or edge.state.first.findings:
                order = [*orders.to(edge.source), edge.label]
                return Comparison(bounded.states, tuple(map(str, order)), None)
    except KeyboardInterrupt:
        return Comparison(bounded.states, (), "interrupted")
    return Comparison(bounded.states, (), bounded.stopped)
