"""A statement of the relation: proved for any size, or refuted, with what refutes it tried on a real scheduler.

The one result object of ``kvrace prove``; the terminal and the JSON render it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from kvmodel.events import Event, Update
from kvmodel.proof.bounded import Goal, Order, broken, rules, shortest
from kvmodel.proof.induction import Counterexample, Reached, counterexample
from kvmodel.proof.orders import events_of
from kvmodel.proof.situations import reached
from kvmodel.proof.solve import TIME_LIMIT, Discharged, Proof, prove
from kvmodel.proof.theorems import Search, Theorem, searches
from kvmodel.relation.model import Model
from kvmodel.scope import Scope
from kvrace.played import Played, play_order, shortest_explored
from kvrace.result import Violation
from kvrace.subjects import SubjectChoice, stdout_to_stderr

EXIT_CODES: dict[str, int] = {"proved": 0, "refuted": 1, "unknown": 3}
"""0 every obligation is discharged, 1 some is refuted, 3 z3 gave some up or the run was ended (2 is a usage error)."""


@dataclass(frozen=True)
class FoundOrder:
    """A shortest order of the relation to a state or action that breaks ``rule``, within ``search``.

    ``violation`` is what a scheduler broke when it was played the order; without one, ``why`` says why not. ``explorer`` is how
    many events the explorer of real schedulers needs in the same scope; None when that was not asked or it finds nothing.
    """

    rule: str
    search: Search
    events: tuple[Event, ...]
    violation: Violation | None
    explorer: int | None
    why: str = ""


@dataclass(frozen=True)
class Attempt:
    """What became of a counterexample to induction. ``reached``: the order leads to ``this`` very state up to names, or to one
    ``alike``, from which the same action breaks the same conjunct; None when no order does within ``searched``. ``breaks``: the
    properties that the scheduler breaks when it is played the order; None when it was not."""

    counterexample: Counterexample
    reached: Reached | None
    events: tuple[Event, ...]
    breaks: tuple[str, ...] | None
    searched: tuple[Search, ...]


class Needed(NamedTuple):
    """Whether an assumption is needed: an order that breaks ``rule`` without it; no events when none was found. ``violation``: what
    a scheduler broke that was played it."""

    assumption: str
    search: Search
    rule: str
    events: tuple[Event, ...]
    violation: Violation | None


@dataclass(frozen=True)
class Statement:
    """A policy under a contract, with everything that was found out.

    ``theorem`` is the listed statement for them, if there is one; it may assume more. ``reached``: the situations that have to be
    possible for a proof to mean something, each with a shortest order to it or None. ``subject`` is the scheduler that orders were
    played on.
    """

    proof: Proof
    theorem: Theorem | None
    attempts: tuple[Attempt, ...]
    orders: tuple[FoundOrder, ...]
    searched: tuple[Search, ...]
    needed: tuple[Needed, ...]
    reached: tuple[tuple[str, tuple[Event, ...] | None], ...]
    subject: SubjectChoice | None
    seconds: float
    interrupted: bool
    """The user ended the search for what stands beside the verdict; the verdict itself is that of the whole proof."""

    @property
    def model(self) -> Model:
        return self.proof.model

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.proof.verdict]


def state(
    model: Model,
    theorem: Theorem | None,
    choose: Callable[[], SubjectChoice] | None,
    *,
    time_limit: float = TIME_LIMIT,
    listen: Callable[[Discharged], None] = lambda _: None,
    doing: Callable[[str], None] = lambda _: None,
    alive: Callable[[], None] = lambda: None,
) -> Statement:
    """Prove what the model says, or look for what refutes it.

    ``theorem`` is the listed statement for policy and contract. ``choose`` gives the scheduler on which orders are played, and is
    called only when there are any. ``doing`` hears of what takes a while. ``alive`` is called often; if it raises KeyboardInterrupt
    once the proof is done, what was found so far is kept.
    """
    started = time.monotonic()
    proof = prove(model, time_limit, listen)
    evidence = _Evidence(_Players(model, choose, doing, alive), theorem)
    interrupted = False
    try:
        evidence.collect(proof)
    except KeyboardInterrupt:
        interrupted = True
    return Statement(
        proof,
        theorem,
        tuple(evidence.attempts),
        tuple(evidence.orders),
        evidence.found.searched,
        tuple(evidence.needed),
        tuple(evidence.reached),
        evidence.players.choice,
        time.monotonic() - started,
        interrupted or not proof.complete,
    )


class _Evidence:
    """What stands beside the verdict, as it is found."""

    def __init__(self, players: _Players, theorem: Theorem | None) -> None:
        self.players, self.theorem = players, theorem
        self.found = _Found((), {}, ())
        self.orders: list[FoundOrder] = []
        self.attempts: list[Attempt] = []
        self.needed: list[Needed] = []
        self.reached: list[tuple[str, tuple[Event, ...] | None]] = []

    def collect(self, proof: Proof) -> None:
        """Whatever the verdict asks for. Raises KeyboardInterrupt when the user ends it."""
        if proof.verdict == "refuted":
            self._what_refutes(proof)
        elif proof.verdict == "proved":
            self._what_it_is_about()

    def _what_refutes(self, proof: Proof) -> None:
        players = self.players
        players.doing("looking for the smallest states that refute it …")
        examples: list[Counterexample] = []
        for result in proof.having("refuted"):
            players.alive()
            example = counterexample(players.model, result.obligation)
            examples += [] if example is None else [example]
        self.found = _search(players, examples)
        for rule in self.found.rules:
            self.orders.append(_found_order(players, rule, *self.found.orders[rule]))
        for number, example in enumerate(examples):
            self.attempts.append(_attempt(players, example, number, self.found))

    def _what_it_is_about(self) -> None:
        players, theorem = self.players, self.theorem
        if theorem is not None and theorem.assumed == players.model.assumed:
            for name in theorem.needed:
                self.needed.append(_needed(players, theorem, name))
        players.doing("looking for what has to be reachable …")
        for name, order in reached(players.model, players.alive).items():
            self.reached.append((name, events_of(order) if order else None))


class _Found(NamedTuple):
    """What a search found: the rules that are broken, and an order for each of them and for each :func:`_goal_name`."""

    rules: tuple[str, ...]
    orders: dict[str, tuple[Search, Order]]
    searched: tuple[Search, ...]


def _goal_name(number: int, how: Reached) -> str:
    return f"counterexample {number}, {how}"


def _search(players: _Players, examples: Sequence[Counterexample]) -> _Found:
    """Unroll instance after instance, until something is broken and every counterexample was reached."""
    names: dict[str, None] = {}
    orders: dict[str, tuple[Search, Order]] = {}
    searched: list[Search] = []
    for where in searches(players.model):
        left = [number for number in range(len(examples)) if _goal_name(number, "alike") not in orders]
        broken_rules = [name for name in names if name in orders]
        if broken_rules and not left:
            break
        players.doing(f"looking for the shortest orders: {where} …")
        searched.append(where)
        instance = where.instance(players.model)
        names |= dict.fromkeys(rules(instance))
        goals: dict[str, Goal] = {} if broken_rules else {rule: broken(instance, rule) for rule in rules(instance)}
        for number in left:
            goals |= {_goal_name(number, how): goal for how, goal in examples[number].in_other(instance).items()}
        for name, order in shortest(instance, goals, where.most, players.alive).items():
            orders.setdefault(name, (where, order))
    found = sorted((name for name in names if name in orders), key=lambda rule: len(orders[rule][1].events))
    return _Found(tuple(found), orders, tuple(searched))


class _Players:
    """The scheduler on which orders are played, chosen when the first one is, and what the explorer finds in the same scopes."""

    def __init__(
        self,
        model: Model,
        choose: Callable[[], SubjectChoice] | None,
        doing: Callable[[str], None],
        alive: Callable[[], None],
    ) -> None:
        self.model, self._choose, self.doing, self.alive = model, choose, doing, alive
        self.choice: SubjectChoice | None = None
        self._explored: dict[Scope, dict[str, int]] = {}

    def play(self, where: Search, events: tuple[Event, ...]) -> Played:
        if not where.playable:
            return Played(
                (), "no scope has an id that is used again, or a second load: no scheduler can be played it yet"
            )
        if self._choose is None:
            return Played((), "no scheduler was asked for")
        self.alive()
        if self.choice is None:
            with stdout_to_stderr():
                self.choice = self._choose()
        self.alive()
        self.doing(f"playing {' · '.join(map(str, events))} …")
        with stdout_to_stderr():
            return play_order(self.choice, _scope(where, events), self.model.contract, events)

    def explored(self, where: Search, events: tuple[Event, ...], rule: str) -> int | None:
        """The events of the explorer's shortest order to the rule, in the same scope."""
        if self.choice is None:
            return None
        scope = _scope(where, events)
        if scope not in self._explored:
            self.doing(f"exploring {scope} …")
            with stdout_to_stderr():
                self._explored[scope] = shortest_explored(self.choice, scope, self.model.contract, self.alive)
        return self._explored[scope].get(rule)


def _scope(where: Search, events: tuple[Event, ...]) -> Scope:
    stops = any(isinstance(event, Update) and event.stops for event in events)
    return replace(where.scope, early_stop=where.scope.early_stop or stops)


def _found_order(players: _Players, rule: str, where: Search, order: Order) -> FoundOrder:
    events = events_of(order)
    played = players.play(where, events)
    violation = next((violation for violation in played.violations if violation.property == rule), None)
    return FoundOrder(rule, where, events, violation, players.explored(where, events, rule), played.why)


def _attempt(players: _Players, example: Counterexample, number: int, found: _Found) -> Attempt:
    ways: tuple[Reached, ...] = ("this", "alike")
    for how in ways:
        if _goal_name(number, how) in found.orders:
            where, order = found.orders[_goal_name(number, how)]
            played = players.play(where, events_of(order))
            breaks = tuple(dict.fromkeys(violation.property for violation in played.violations))
            return Attempt(example, how, events_of(order), breaks if not played.why else None, found.searched)
    return Attempt(example, None, (), None, found.searched)


def _needed(players: _Players, theorem: Theorem, assumption: str) -> Needed:
    where = theorem.needed[assumption]
    players.doing(f"looking for an order without {assumption}: {where} …")
    instance = where.instance(theorem.without(assumption))
    found = shortest(instance, {rule: broken(instance, rule) for rule in rules(instance)}, where.most, players.alive)
    rule = min(found, key=lambda name: len(found[name].events), default="")
    events = events_of(found[rule]) if rule else ()
    played = players.play(where, events) if rule else Played(())
    violation = next((violation for violation in played.violations if violation.property == rule), None)
    return Needed(assumption, where, rule, events, violation)
