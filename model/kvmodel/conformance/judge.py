"""One transition held against the relation. No state is carried along: each transition is judged by itself."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from kvmodel.conformance.abstraction import Abstraction
from kvmodel.conformance.divergence import Divergence, Kind, differences, nearest_move, without_names
from kvmodel.conformance.explanation import REPORTS, Item, Name, Part, explained
from kvmodel.contract import Contract
from kvmodel.errors import KvraceError
from kvmodel.events import Lose, TransferEnds, Update
from kvmodel.port import Observation
from kvmodel.relation.finite import NO_CRASH, FiniteInstance, Move
from kvmodel.relation.model import Model
from kvmodel.relation.policies import policy_named
from kvmodel.relation.reports import addressed_to_nobody
from kvmodel.relation.scoped import FAILURES, universe_of
from kvmodel.relation.terms import Named
from kvmodel.scope import Scope
from kvmodel.transition import Transition
from kvmodel.world import World

UNADDRESSED = addressed_to_nobody().name
"""The guard that tells a report for nobody from one for a known request."""

DIFFERENCES_MAX = 4
"""How many cells a divergence names."""


class Judged(NamedTuple):
    """What became of one transition. ``broken_before``: the state it starts in breaks a property of the relation already, so that
    nothing can be asked of what follows. ``followed`` is False where the relation cannot be followed."""

    divergence: Divergence | None
    broken_before: bool = False
    followed: bool = True


class _Stop(NamedTuple):
    """How far an item got: the state before the move that is not allowed, and that move with what forbids it."""

    state: int
    move: Move
    kind: Kind
    rule: Named
    done: tuple[Move, ...]


class Judge:
    """The relation with one completion policy, for one scope and contract. Raises KvraceError for an unknown policy, and for a
    scope with events that the relation does not have."""

    def __init__(self, policy: str, scope: Scope, contract: Contract) -> None:
        if scope.lifecycle:
            words = ", ".join(word.replace("_", " ") for word in scope.lifecycle)
            raise KvraceError(f"the specification has no {words}: leave out conformance, or that of the scope")
        if scope.window or scope.drafts:
            raise KvraceError(
                "the specification knows one group of blocks and no drafts: such a scope is checked without conformance"
            )
        model = Model(policy_named(policy), contract)
        self.policy, self.scope, self.contract = policy, scope, contract
        self._reclaims = model.policy.reclaims
        actions = tuple(action for action in model.actions if action.name not in FAILURES)
        self.instance = FiniteInstance(universe_of(scope), actions, model.properties)
        self._abstraction = Abstraction(scope, self.instance.layout)
        self._actions = {action.name: action for action in actions}
        self.move = cache(self._move)
        self._source: tuple[World, Observation, int] | None = None

    def judge(self, t: Transition) -> Judged:
        """Whether the relation allows what was observed."""
        if "lossy" in t.before.deviations or isinstance(t.event, Lose):
            return Judged(None, followed=False)
        if isinstance(t.event, TransferEnds):
            return Judged(None)
        before = self._state_before(t)
        divergence = self._crash(t, before) if t.response.crash else self._step(t, before)
        return Judged(divergence, divergence is not None and self._is_broken(before))

    def _state_before(self, t: Transition) -> int:
        """A search plays all events of a state one after the other, so the last one is remembered."""
        source = self._source
        if source is None or source[0] is not t.before or source[1] is not t.seen_before:
            source = t.before, t.seen_before, self._abstraction.state(t.before, t.seen_before)
            self._source = source
        return source[2]

    def _is_broken(self, state: int) -> bool:
        return any(not holds(state) for _, holds in self.instance.judges)

    def _step(self, t: Transition, before: int) -> Divergence | None:
        state = before
        done: list[Move] = []
        for part in explained(t, self._abstraction, self._reclaims):
            state, moves, stop = self._play(state, part)
            done += moves
            if stop is not None:
                return self._forbidden(t, stop, tuple(map(str, (*done, *stop.done))))
        first = 2 if isinstance(t.event, Update) else 1
        observed = self._abstraction.state(t.after, t.seen, first)
        compared = self._abstraction.compared(t.seen)
        if (state ^ observed) & compared:
            return self._other_state(t, state, observed, compared, tuple(done))
        return None

    def _play(self, state: int, part: Part) -> tuple[int, list[Move], _Stop | None]:
        """Play the items of a part, in their order if that works, else in one that does."""
        left = list(part)
        done: list[Move] = []
        while left:
            furthest: _Stop | None = None
            for item in left:
                reached, moves, stop = self._try(state, item)
                if stop is None:
                    state = reached
                    done += moves
                    left.remove(item)
                    break
                if furthest is None or len(stop.done) > len(furthest.done):
                    furthest = stop
            else:
                return state, done, furthest
        return state, done, None

    def _try(self, state: int, item: Item) -> tuple[int, list[Move], _Stop | None]:
        moves: list[Move] = []
        for name in item:
            move = self._named(name, state)
            stop = self._stop(move, state, tuple(moves))
            if stop is not None:
                return state, moves, stop
            state = move.apply(state)
            moves.append(move)
        return state, moves, None

    @staticmethod
    def _stop(move: Move, state: int, done: tuple[Move, ...]) -> _Stop | None:
        if not move.enabled(state):
            guard = next(guard for guard, holds in move.guards if not holds(state))
            return _Stop(state, move, "guard", guard, done)
        for check, holds in move.checks:
            if check.name == NO_CRASH and not holds(state):
                return _Stop(state, move, "no crash", check, done)
        return None

    def _crash(self, t: Transition, before: int) -> Divergence | None:
        """A scheduler may raise exactly where the relation says that it does."""
        crash = t.response.crash
        assert crash is not None
        state = before
        done: list[str] = []
        if isinstance(t.event, Update) and not crash.hang:
            for item in (item for part in explained(t, self._abstraction, self._reclaims) for item in part):
                for name in item:
                    move = self._named(name, state)
                    if not move.survives(state):
                        return None
                    state = move.apply(state)
                    done.append(str(move))
        word = str(t.event).split()[0]
        rule = "no hang" if crash.hang else NO_CRASH
        observed = f"{t.event}: {crash.error}"
        return Divergence("crash", rule, crash.source, crash.location, word, word, tuple(done), observed, None)

    def _forbidden(self, t: Transition, stop: _Stop, done: tuple[str, ...]) -> Divergence:
        move, rule = stop.move, stop.rule
        if stop.kind == "guard":
            other = nearest_move(self.instance, stop.state, move)
            observed, nearest = move.action.meaning, str(other) if other else None
        else:
            observed, nearest = "the scheduler goes on", f"{move}, and the scheduler raises"
        return Divergence(
            stop.kind, rule.name, rule.why, move.action.source, without_names(move), str(move), done,
            f"{t.event}: {observed}", nearest,
        )  # fmt: skip

    def _other_state(
        self, t: Transition, state: int, observed: int, compared: int, done: tuple[Move, ...]
    ) -> Divergence:
        found = differences(self.instance, state, observed, compared)
        shown = f"{t.event}: {'; '.join(map(str, found[:DIFFERENCES_MAX]))}"
        moves = tuple(map(str, done))
        last = next((move for move in reversed(done) if any(e.cell == found[0].key for e in move.effects)), None)
        return Divergence(
            "state", found[0].symbol, "", last.action.source if last else "",
            without_names(last) if last else str(t.event).split()[0], str(last or t.event), moves, shown,
            f"{' + '.join(moves) or 'nothing'}, with {found[0].cell} {found[0].wanted}",
        )  # fmt: skip

    def _named(self, name: Name, state: int) -> Move:
        """The move called ``name``; a report goes to the request that is known by its id, if there is one."""
        if name[0] in REPORTS.values():
            action, direction, request, giving_back = name
            known = self.move((action, direction, request, request, giving_back))
            unknown = self.move((f"{action}_unknown", direction, request))
            addressed = next(holds for guard, holds in unknown.guards if guard.name == UNADDRESSED)
            return unknown if addressed(state) else known
        return self.move(name)

    def _move(self, name: Name) -> Move:
        action = self._actions[name[0]]
        elements = tuple(
            parameter.sort.element(element) for parameter, element in zip(action.parameters, name[1:], strict=True)
        )
        return Move(action, elements, self.instance.layout)
