"""Counterexamples to induction: the smallest state that satisfies the invariant and from which an action breaks a conjunct.

Such a state refutes the proof and not yet the scheduler: it may be one that no order reaches. That is looked for as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any, Literal

import z3

from kvmodel.proof.bounded import Goal
from kvmodel.proof.obligations import Obligation
from kvmodel.proof.propositions import Propositions
from kvmodel.relation.finite import FiniteInstance, Move, compiled
from kvmodel.relation.ground import Bit, Cell, Ground, Is, Universe, all_of, any_of, negation
from kvmodel.relation.model import Model
from kvmodel.relation.terms import And, Element, Formula, Quantified, Variable
from kvmodel.relation.vocabulary import (
    BLOCK,
    ID,
    INITIALLY_TRUE,
    REQUEST,
    STATE,
    STEP,
    claimed,
    name_of,
    overlapping,
    reported,
)

_SIZES = sorted(product((1, 2, 3), (1, 2), (1, 2)), key=sum)
"""Requests, blocks and steps of the instances in which a counterexample is looked for, the smallest first."""
_HISTORY = (reported, claimed)
"""What has been; two states that differ in nothing else are alike to whoever looks at them."""


Reached = Literal["this", "alike"]


@dataclass(frozen=True)
class Counterexample:
    """``move`` leads from ``before`` to ``after``; ``witness`` says for which elements the conjunct is then broken."""

    obligation: Obligation
    instance: FiniteInstance
    move: Move | None
    before: int
    after: int
    witness: Mapping[Variable, Element]

    def in_other(self, instance: FiniteInstance) -> dict[Reached, Goal]:
        """Goals for another instance: to reach ``this`` very state, up to names, and make the move there; or ``alike``, to reach
        any state from which the action breaks the same."""
        action = self.obligation.action
        if action is None:
            return {}
        moves = [move for move in instance.moves if move.action.name == action.name]
        universe = instance.layout.universe
        alike = [(move, negation(universe.ground(self.obligation.goal, move.values))) for move in moves]
        same = any_of(list(self._renamed(instance)))
        broken = [(move, all_of([same, when])) for move, when in alike]
        return {"this": Goal(moves=tuple(broken)), "alike": Goal(moves=tuple(alike))}

    def _renamed(self, instance: FiniteInstance) -> Iterator[Ground]:
        """The state before, once for each way to give its requests, blocks and steps names of the other instance."""
        own, other = self.instance.layout, instance.layout
        sorts = (REQUEST, BLOCK, STEP)
        if any(len(own.universe.of(sort)) > len(other.universe.of(sort)) for sort in sorts):
            return
        true, values = own.true_cells(self.before), own.values(self.before)
        named = [cell for cell in own.places if cell[0] not in _HISTORY]
        for chosen in product(*(permutations(other.universe.of(s), len(own.universe.of(s))) for s in sorts)):
            names = {
                old: new
                for sort, elements in zip(sorts, chosen, strict=True)
                for old, new in zip(own.universe.of(sort), elements, strict=True)
            }
            parts: list[Ground] = []
            for cell in named:
                there = (cell[0], tuple(names.get(element, element) for element in cell[1]))
                if cell in values:
                    parts.append(Is(there, values[cell]))
                else:
                    parts.append(Bit(there) if cell in true else negation(Bit(there)))
            yield all_of(parts)


def counterexample(model: Model, obligation: Obligation) -> Counterexample | None:
    """The smallest there is, with as little in its state as possible. None when no instance that is tried has one, and for what
    should be possible and is not: nothing happens there."""
    if obligation.kind == "possible":
        return None
    for universe in _universes():
        instance = FiniteInstance(universe, (obligation.action,) if obligation.action else (), model.properties)
        axioms = [universe.ground(axiom.formula, {}) for axiom in model.axioms]
        found = None if False in axioms else _within(instance, obligation)
        if found is not None:
            return found
    return None


def _universes() -> Iterator[Universe]:
    for requests, blocks, steps in _SIZES:
        elements = {
            REQUEST: tuple(REQUEST.element(name) for name in "ABC"[:requests]),
            BLOCK: tuple(BLOCK.element(str(number + 1)) for number in range(blocks)),
            STEP: tuple(STEP.element(str(number + 1)) for number in range(steps)),
        }
        for ids in (("A", "B", "C")[:requests], *([("A", "A", "B")[:requests]] if requests > 1 else [])):
            for overlap in (False, True):
                yield Universe(
                    {**elements, ID: tuple(map(ID.element, dict.fromkeys(ids)))},
                    frozenset([(overlapping, ())] if overlap else []),
                    {(name_of, (request,)): ID.element(name)
                     for request, name in zip(elements[REQUEST], ids, strict=True)},
                )  # fmt: skip


def _within(instance: FiniteInstance, obligation: Obligation) -> Counterexample | None:
    says = Propositions(instance)
    universe = instance.layout.universe
    for move in instance.moves or (None,):
        values = move.values if move else {}
        hypotheses = all_of([universe.ground(formula, values) for formula in obligation.hypotheses])
        wrong = all_of([hypotheses, negation(universe.ground(obligation.goal, values))])
        if wrong is False:
            continue
        solver = says.solver()
        solver.add(says.at(says.expression(wrong), 0))
        if solver.check() == z3.sat:
            before = _least(says, solver)
            after = move.apply(before) if move else before
            return Counterexample(
                obligation, instance, move, before, after, _witness(instance, obligation, before, after)
            )
    return None


def _least(says: Propositions, solver: Any) -> int:
    """A state in which as much as possible is as it was at the start: each part in turn, the requests' phases first, so that
    requests which take no part are not there. Every version of z3 finds the same."""
    kept: list[Any] = []
    for cell in sorted(says.instance.layout.places, key=lambda cell: STATE.index(cell[0])):
        kept.append(next(wanted for wanted in _choices(says, cell) if solver.check(*kept, wanted) == z3.sat))
    assert solver.check(*kept) == z3.sat, "each of them was possible with those before"
    return says.state_in(solver.model())


def _choices(says: Propositions, cell: Cell) -> list[Any]:
    """What a cell may be, beginning with what it is at the start."""
    symbol = cell[0]
    if symbol.result is not None:
        at_start = symbol.result.element(symbol.initially)
        values = says.cell(cell, 0)
        return [values[at_start], *(boolean for value, boolean in values.items() if value != at_start)]
    holds = says.cell(cell, 0)[None]
    return [holds, z3.Not(holds)] if symbol in INITIALLY_TRUE else [z3.Not(holds), holds]


def _witness(instance: FiniteInstance, obligation: Obligation, before: int, after: int) -> dict[Variable, Element]:
    if obligation.kind == "checks":
        return {}
    return _broken_for(instance, obligation.about.formula, after)


def _broken_for(instance: FiniteInstance, formula: Formula, state: int) -> dict[Variable, Element]:
    """Elements for the outermost "for all" variables of a formula that does not hold in the state, so that the rest does not."""
    universe = instance.layout.universe

    def holds(part: Formula, values: Mapping[Variable, Element]) -> bool:
        return compiled(instance.layout, universe.ground(part, values))(state)

    match formula:
        case Quantified("forall", variables, body):
            return next(choice for choice in universe.choices(variables) if not holds(body, choice))
        case And(parts):
            return _broken_for(instance, next(part for part in parts if not holds(part, {})), state)
    return {}
