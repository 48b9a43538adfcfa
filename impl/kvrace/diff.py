"""The differential check: two schedulers over every order of the scopes, and where the second does what the first does not.

Where the first breaks a property, nothing is asked of the second (:mod:`kvmodel.pairs`). Emits progress; prints nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from kvmodel.contract import Contract
from kvmodel.differences import Difference, differences, kind_of, say
from kvmodel.errors import KvraceError
from kvmodel.events import Event
from kvmodel.explorer import Edge
from kvmodel.lockstep import Lockstep
from kvmodel.pairs import Pair, PairKey, Pairs
from kvmodel.playback import play
from kvmodel.scope import Scope
from kvrace.check import Limits, MakeSubject, rare_garbage_collection
from kvrace.determinism import not_the_same_twice
from kvrace.diffresult import DiffCase, DiffResult, FoundDifference
from kvrace.exploration import Bounded, Orders
from kvrace.result import Progress
from kvrace.watchdog import WatchedSubject, watched

Kind = tuple[str, ...]


class _Found(NamedTuple):
    """A kind of difference, and a shortest order to it."""

    differences: tuple[Difference, ...]
    order: list[Event]


class DiffRun:
    """The exploration of one scope on two schedulers, from the first pair of states to its result."""

    def __init__(
        self, both: tuple[WatchedSubject, WatchedSubject], contract: Contract, limits: Limits, strict: bool
    ) -> None:
        self.both, self.contract = both, contract
        self.pairs = Pairs(*(Lockstep(subject, contract) for subject in both), strict=strict)
        self.bounded = Bounded(limits.deadline, limits.max_states)
        self.orders: Orders[PairKey] = Orders()
        self.ended = 0
        self.excused = 0
        self.broken: Counter[str] = Counter()
        self.found: dict[Kind, _Found] = {}
        self.times: Counter[Kind] = Counter()
        self.stopped: str | None = None

    def run(self, report: Callable[[int, int, int], None]) -> DiffCase:
        """Explore until the scope is exhausted, a limit is reached, or the user interrupts."""
        started = time.monotonic()
        with rare_garbage_collection():
            try:
                self._explore(report)
                self.stopped = self.bounded.stopped
            except KeyboardInterrupt:
                self.stopped = "interrupted"
            calls = self.pairs.calls
            self._replay_samples()
            confirmed = tuple(self._confirm(kind, found) for kind, found in self.found.items())
        return DiffCase(
            self.both[0].scope,
            (self.both[0].identity, self.both[1].identity),
            self.bounded.states - self.ended,
            self.bounded.transitions - self.excused,
            self.excused,
            dict(self.broken),
            calls,
            time.monotonic() - started,
            self.stopped,
            confirmed,
        )

    def _explore(self, report: Callable[[int, int, int], None]) -> None:
        start = self.pairs.initial()
        self.orders.add(0, None, start.key, sample=not start.ended)
        self._note(start, None, [])
        for edge in self.bounded.edges(self.pairs, start, report):
            self._take(edge)

    def _take(self, edge: Edge[Pair, Event]) -> None:
        pair = edge.state
        if edge.new:
            self.orders.add(edge.source, edge.label, pair.key, sample=not pair.ended)
            self.ended += pair.ended
        if pair.excused:
            self.excused += 1
            self.broken.update({finding.property for finding in pair.first.findings})
        elif pair.differences:
            self._note(pair, edge.label, [*self.orders.to(edge.source), edge.label])

    def _note(self, pair: Pair, event: Event | None, order: list[Event]) -> None:
        if pair.differences:
            kind = kind_of(event, pair.differences)
            self.found.setdefault(kind, _Found(pair.differences, order))
            self.times[kind] += 1

    def _replay_samples(self) -> None:
        """Play the orders to some pairs on fresh schedulers, and raise KvraceError when one of the two leads elsewhere: this shows
        of what is the same that copies are exact and that no state is kept out of their sight."""
        again = self.pairs.again()
        for state, key in self.orders.samples.items():
            pair = again.initial()
            order = self.orders.to(state)
            for event in order:
                if not pair.ended:
                    pair = again.successor(pair, event)
            if pair.key != key:
                guilty = self.both[0] if pair.excused or pair.first.key != key[0] else self.both[1]
                raise not_the_same_twice(guilty, "the same order led to another state", order)

    def _confirm(self, kind: Kind, found: _Found) -> FoundDifference:
        """Play the order on two fresh schedulers, without copies. Raises KvraceError when it does not show the difference, or shows
        one before."""
        played = [play(subject, self.contract, found.order) for subject in self.both]
        first, second = (frames for frames, _ in played)
        shown = [differences(one, other) for one, other in zip(first, second, strict=False)]
        as_before = (
            not any(refused for _, refused in played)
            and not any(shown[:-1])
            and kind_of(first[-1].event, shown[-1]) == kind
        )
        if not as_before:
            as_it_was = all(say(first[-1], one.aspect) == one.first for one in found.differences)
            guilty = self.both[1] if as_it_was else self.both[0]
            raise not_the_same_twice(guilty, f"'{found.differences[0].aspect}' was not as before", found.order)
        return FoundDifference(
            kind,
            shown[-1],
            self.times[kind],
            self.both[0].scope,
            self.contract,
            (self.both[0].identity, self.both[1].identity),
            tuple(first),
            second[-1],
        )


def diff(
    make_first: MakeSubject,
    make_second: MakeSubject,
    scopes: Sequence[Scope],
    contract: Contract,
    *,
    scope_name: str = "flags",
    strict: bool = False,
    limits: Limits = Limits(),  # noqa: B008 - immutable
    listen: Callable[[Progress], None] = lambda _: None,
) -> DiffResult:
    """Compare two schedulers over every scope. With ``strict`` nothing is excused. Raises KvraceError when a subject cannot be
    made or is not deterministic."""
    if not scopes:
        raise KvraceError("there is nothing to compare: no scope was given")
    started = time.monotonic()
    cases: list[DiffCase] = []
    notes: dict[str, None] = {}
    stopped = None
    try:
        for number, scope in enumerate(scopes):
            left = limits.max_states and limits.max_states - sum(case.states for case in cases)

            def report(states: int, transitions: int, frontier: int, case: int = number, scope: Scope = scope) -> None:
                listen(Progress(case, len(scopes), scope, states, transitions, frontier, time.monotonic() - started))

            with (
                watched(make_first(scope), limits.call_seconds) as first,
                watched(make_second(scope), limits.call_seconds) as second,
            ):
                case = DiffRun((first, second), contract, replace(limits, max_states=left), strict).run(report)
                cases.append(case)
                for subject in (first, second):
                    notes.update(dict.fromkeys(subject.notes(case.complete)))
            if case.stopped:
                stopped = case.stopped
                break
    except KeyboardInterrupt:  # between two explorations
        stopped = "interrupted"
    seconds = time.monotonic() - started
    return DiffResult(scope_name, contract, strict, tuple(cases), tuple(scopes), seconds, stopped, tuple(notes))
