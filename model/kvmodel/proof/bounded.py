"""Bounded model checking: the fewest events after which something is so, in a finite instance of the relation.

The instance is unrolled in z3. An event is a short run of moves: a `schedule` builds a step, serves requests and dispatches it; an
`update` processes a step, ends requests and takes reports; all others are one move. What is deepened is the number of events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import z3

from kvmodel.errors import KvraceError
from kvmodel.proof.propositions import Propositions, is_true
from kvmodel.relation.finite import FiniteInstance, Move
from kvmodel.relation.ground import Ground, all_of, negation
from kvmodel.relation.vocabulary import ABSENT, REQUEST, d, name_of, phase, r, unasked

EventKind = Literal["add", "abort", "schedule", "update", "lose"]
REPORTS = (
    "report",
    "report_unknown",
    "report_again",
    "report_again_unknown",
    "report_unasked",
    "report_unasked_unknown",
)
_FIRST: dict[EventKind, str] = {
    "add": "add", "abort": "abort", "schedule": "build", "update": "process", "lose": "lose",
}  # fmt: skip
_LATER: dict[EventKind, tuple[str, ...]] = {
    "schedule": (
        "take", "share", "offer", "start_load", "wake", "admit", "preempt", "reclaim", "give_back", "compute", "dispatch",
    ),
    "update": ("load_fails", "invent", "stop", "fail", "give_back", *REPORTS),
}  # fmt: skip
MOVES = 6
"""The most moves of one event that are looked at."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What is looked for: a state after an event in which ``state`` holds, or one of the last event's moves that is made while its
    formula in ``moves`` holds. Either is enough."""

    state: Ground = False
    moves: tuple[tuple[Move, Ground], ...] = ()


@dataclass(frozen=True)
class Order:
    """A run of the relation: for each event its kind and its moves, and the states, the first one included, move by move."""

    kinds: tuple[EventKind, ...]
    events: tuple[tuple[Move, ...], ...]
    states: tuple[int, ...]


class Unrolled:
    """An instance over a number of events; one more with each :meth:`grow`. ``alive`` is called before each question to z3."""

    def __init__(self, instance: FiniteInstance, alive: Callable[[], None] = lambda: None) -> None:
        self.instance = instance
        self._alive = alive
        self.says = Propositions(instance)
        self.solver = self.says.solver()
        self.length = 0
        self._named = 0
        self._found: Any = None
        self._by_name: dict[str, list[Move]] = {}
        for move in instance.moves:
            self._by_name.setdefault(move.action.name, []).append(move)
        self.solver.add(self.says.state(instance.start, 0))

    def _made(self, moment: int, *names: str) -> Any:
        """A move of one of these actions is made."""
        return self.says.any(self.says.move(move, moment) for name in names for move in self._by_name.get(name, ()))

    def _kind(self, event: int, kind: EventKind) -> Any:
        return z3.Bool(f"event {event} is {kind}", ctx=self.says.context)

    def moments(self, event: int) -> range:
        return range(event * MOVES, (event + 1) * MOVES)

    def grow(self) -> None:
        """One event more."""
        moments = self.moments(self.length)
        for moment in moments:
            self.solver.add(self.says.at(self.says.one_move, moment))
        self._tidy(moments[-1] + 1)
        self._shape(self.length, moments)
        self.length += 1

    def _tidy(self, moment: int) -> None:
        """After an event no report is left that came with an output, and requests have come in the order of their names: others
        only have other names."""
        requests = self.instance.layout.universe.of(REQUEST)
        self.solver.add(*(z3.Not(self.says.cell((unasked, (request,)), moment)[None]) for request in requests))
        absent = [self.says.cell((phase, (request,)), moment)[ABSENT] for request in requests]
        self.solver.add(*(z3.Implies(earlier, later) for earlier, later in zip(absent, absent[1:], strict=False)))

    def _shape(self, event: int, moments: range) -> None:
        """Which moves an event of each kind has, in which places; those that have none left do nothing."""
        says, add = self.says, self.solver.add
        first, *later = moments
        kinds = {kind: self._kind(event, kind) for kind in _FIRST}
        add(says.one_of(kinds.values()))
        for kind, name in _FIRST.items():
            add(z3.Implies(kinds[kind], self._made(first, name)))
        for moment in later:
            for kind in _FIRST:
                others = [name for name in self._by_name if name not in _LATER.get(kind, ())]
                add(z3.Implies(kinds[kind], z3.Not(self._made(moment, *others))))
            anything = self._made(moment, *self._by_name)
            add(z3.Implies(anything, self._made(moment - 1, *self._by_name)))
            add(z3.Implies(anything, z3.Not(self._made(moment - 1, "dispatch"))))
            for before in range(first + 1, moment):
                add(z3.Not(self._same_report(before, moment)))
        add(z3.Implies(kinds["schedule"], says.any(self._made(moment, "dispatch") for moment in later)))

    def _same_report(self, one: int, other: int) -> Any:
        """Two reports of one id in the same direction: one output cannot name one id twice."""
        ids = self.instance.layout.universe.values
        reports: dict[Any, list[Move]] = {}
        for name in REPORTS:
            for move in self._by_name.get(name, ()):
                reports.setdefault((move.values[d], ids[name_of, (move.values[r],)]), []).append(move)
        both = [[[self.says.move(move, at) for move in moves] for at in (one, other)] for moves in reports.values()]
        return self.says.any(z3.And(self.says.any(first), self.says.any(second)) for first, second in both)

    def ends_in(self, goal: Goal) -> Any:
        """To be assumed: that the goal is reached, in the last event so far."""
        says = self.says
        found = [says.at(says.expression(goal.state), self.length * MOVES)]
        if self.length:
            cases = says.any(z3.And(says.move(move), says.expression(when)) for move, when in goal.moves)
            found += [says.at(cases, moment) for moment in self.moments(self.length - 1)]
        return self._literal(z3.Or(*found))

    def possible(self, *assumed: Any) -> bool:
        """Whether there is such a run. Raises KvraceError when z3 does not know: that is no answer, least of all "no"."""
        self._alive()
        answer = self.solver.check(*assumed)
        if answer == z3.unknown:
            raise KvraceError(f"z3 gave a search up: {self.solver.reason_unknown()}")
        if answer == z3.sat:
            self._found = self.solver.model()
        return bool(answer == z3.sat)

    def plainest(self, assumed: Any) -> Order:
        """Of the runs there are, one with the fewest moves, and of these the one whose moves come first in the instance: it shows
        nothing that is beside the point, and every version of z3 finds the same."""
        moments = range(self.length * MOVES)
        busy = [(self._made(moment, *self._by_name), 1) for moment in moments]
        fixed = [assumed]
        many = len(self.order().states) - 1
        while many and self.possible(*fixed, self._literal(z3.PbLe(busy, many - 1))):
            many = len(self.order().states) - 1
        fixed.append(self._literal(z3.PbLe(busy, many)))
        assert self.possible(*fixed), "it was possible just now"
        for moment in moments:
            made = [self.says.move(move, moment) for move in self.instance.moves]
            place = self._place(made)
            while place and self.possible(*fixed, self._literal(z3.Or(*made[:place]))):
                place = self._place(made)
            fixed.append(made[place] if place < len(made) else self._literal(z3.Not(z3.Or(*made))))
        assert self.possible(*fixed), "each move was possible with those before"
        return self.order()

    def _place(self, made: Sequence[Any]) -> int:
        """Which of the moves is made in the run that was found; their number if none is."""
        return next((place for place, boolean in enumerate(made) if is_true(self._found, boolean)), len(made))

    def _literal(self, expression: Any) -> Any:
        """A name for ``expression``, which can be assumed for one question."""
        self._named += 1
        literal = z3.Bool(f"assumption {self._named}", ctx=self.says.context)
        self.solver.add(z3.Implies(literal, expression))
        return literal

    def order(self) -> Order:
        """The order that was found last."""
        found = self._found
        state = self.instance.start
        kinds: list[EventKind] = []
        events: list[tuple[Move, ...]] = []
        states = [state]
        for event in range(self.length):
            made = []
            for moment in self.moments(event):
                here = [move for move in self.instance.moves if is_true(found, self.says.move(move, moment))]
                for move in here:
                    state = move.apply(state)
                    states.append(state)
                made += here
            kinds.append(next(k for k in _FIRST if is_true(found, self._kind(event, k))))
            events.append(tuple(made))
        return Order(tuple(kinds), tuple(events), tuple(states))


def shortest(
    instance: FiniteInstance, goals: Mapping[str, Goal], most: int, alive: Callable[[], None] = lambda: None
) -> dict[str, Order]:
    """For each goal that can be reached within ``most`` events an order with the fewest. ``alive`` is called now and then; what it
    raises ends the search."""
    unrolled = Unrolled(instance, alive)
    found: dict[str, Order] = {}
    for length in range(most + 1):
        if length:
            unrolled.grow()
        for name, goal in goals.items():
            if name in found:
                continue
            here = unrolled.ends_in(goal)
            if unrolled.possible(here):
                found[name] = unrolled.plainest(here)
        if len(found) == len(goals):
            break
    return found


def broken(instance: FiniteInstance, rule: str) -> Goal:
    """The goal of breaking the property or check called ``rule``."""
    universe = instance.layout.universe
    state = all_of([universe.ground(part.formula, {}) for part in instance.properties if part.name == rule])
    moves = [(move, negation(ground)) for move in instance.moves for check, ground in move.grounded_checks
             if check.name == rule]  # fmt: skip
    return Goal(negation(state), tuple(moves))


def rules(instance: FiniteInstance) -> tuple[str, ...]:
    """The names of everything that is to hold."""
    parts = [*instance.properties, *(check for action in instance.actions for check in action.checks)]
    return tuple(dict.fromkeys(part.name for part in parts))
