"""The relation as z3 reads it and as the explorer reads it, compared.

Two readings of one relation: :mod:`kvmodel.relation.symbolic` makes z3 expressions with quantifiers, as the proofs use them;
:mod:`kvmodel.relation.ground` and :mod:`~kvmodel.relation.finite` write the quantifiers out and compile the rest to Python. What
they have in common here is the list of elements alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import z3

from kvmodel.relation.finite import FiniteInstance, Holds, Move
from kvmodel.relation.ground import All, Any_, Bit, Cell, Ground, Is, Layout, Negation, Universe, cells_in
from kvmodel.relation.symbolic import Translation
from kvmodel.relation.terms import (
    Action,
    Change,
    Element,
    Expression,
    Formula,
    Named,
    Symbol,
    Variable,
    conjunction,
    symbols_in,
)
from kvmodel.relation.vocabulary import STATE

BEFORE, AFTER = 0, 1


class Finite(Translation):
    """The translation with the elements of a universe. Quantifiers stay quantifiers."""

    def __init__(self, universe: Universe) -> None:
        super().__init__()
        self.universe = universe
        for sort, elements in universe.elements.items():
            names = [f"{sort.name} {element.name}" for element in elements]
            self._sorts[sort], made = z3.EnumSort(sort.name, names, ctx=self.context)
            self._elements.update(zip(elements, made, strict=True))

    def cell(self, cell: Cell, stamp: int = BEFORE) -> Any:
        return self.symbol(cell[0], stamp)(*map(self.element, cell[1]))

    def never_changes(self, symbols: Iterable[Symbol]) -> Iterator[Any]:
        """What the universe says of rigid symbols."""
        for symbol in symbols:
            for cell in self.universe.cells(symbol):
                if symbol.result is None:
                    yield self.cell(cell) == (cell in self.universe.true)
                else:
                    yield self.cell(cell) == self.element(self.universe.values[cell])

    def grounded(self, ground: Ground) -> Any:
        """What the explorer compiles, given back to z3."""
        match ground:
            case bool():
                return z3.BoolVal(ground, ctx=self.context)
            case Bit(cell):
                return self.cell(cell)
            case Is(cell, value):
                return self.cell(cell) == self.element(value)
            case Negation(part):
                return z3.Not(self.grounded(part))
            case All(parts):
                return z3.And(*map(self.grounded, parts))
            case Any_(parts):
                return z3.Or(*map(self.grounded, parts))
        raise TypeError(f"{ground!r} is not grounded")

    def solver(self, expressions: Iterable[Expression]) -> Any:
        """A solver that knows what the universe says of the rigid symbols in the expressions."""
        rigid = {symbol for expression in expressions for symbol in symbols_in(expression) if symbol.rigid}
        solver = z3.Solver(ctx=self.context)
        solver.add(*self.never_changes(sorted(rigid, key=lambda symbol: symbol.name)))
        return solver


def differences(actions: tuple[Action, ...], instance: FiniteInstance) -> Iterator[str]:
    """Where z3's reading of ``actions`` and the grounded moves of ``instance`` differ in *some* state, reachable or not: in when a
    move can be made, in what it changes, in when it breaks a check."""
    universe = instance.layout.universe
    z = Finite(universe)
    solver = z.solver(expression for action in actions for expression in _expressions(action))
    for action in actions:
        for elements in product(*(universe.of(parameter.sort) for parameter in action.parameters)):
            name = " ".join((action.name, *(element.name for element in elements)))
            names = {v: z.element(element) for v, element in zip(action.parameters, elements, strict=True)}
            guard = z.formula(_all(action.guards), names)
            move = instance.move_named.get(name)
            if move is None:
                yield from _possible(solver, f"{name}: is no move", [guard])
                continue
            yield from _possible(solver, f"{name}: guard", [guard != z.grounded(move.guard)])
            yield from _possible(solver, f"{name}: change", _changes(z, action, names, move))
            yield from _possible(solver, f"{name}: check", _checks(z, action, names, move))


def property_differences(properties: tuple[Named, ...], instance: FiniteInstance) -> Iterator[str]:
    """The same for the properties of a state."""
    z = Finite(instance.layout.universe)
    solver = z.solver([rule.formula for rule in properties])
    for rule, grounded in zip(properties, instance.properties, strict=True):
        ground = z.universe.ground(grounded.formula, {})
        yield from _possible(solver, f"property {rule.name}", [z.formula(rule.formula) != z.grounded(ground)])


def _expressions(action: Action) -> list[Expression]:
    formulas: list[Expression] = [named.formula for named in (*action.guards, *action.checks)]
    return [*formulas, *(change.value for change in action.changes)]


def _all(named: tuple[Named, ...]) -> Formula:
    return conjunction(one.formula for one in named)


def _possible(solver: Any, what: str, differ: list[Any]) -> Iterator[str]:
    """``what`` if one of these expressions can be true; z3 has to say that none can."""
    solver.push()
    solver.add(z3.Or(*differ, z3.BoolVal(False, ctx=solver.ctx)))
    if (answer := solver.check()) != z3.unsat:
        yield f"{what} ({answer})"
    solver.pop()


def _changes(z: Finite, action: Action, names: dict[Variable, Any], move: Move) -> list[Any]:
    effects = {effect.cell: effect.values for effect in move.effects}
    changed = {change.symbol for change in action.changes}
    assert {cell[0] for cell in effects} <= changed, "a symbol is changed that no change names"
    found = []
    for change in action.changes:
        for cell in z.universe.cells(change.symbol):
            new = _new(z, change, cell, names)
            if cell not in effects:
                found.append(new != z.cell(cell))
            elif change.symbol.result is None:
                found.append(new != z.grounded(effects[cell][None]))
            else:
                found += [
                    (new == z.element(value)) != z.grounded(when) for value, when in effects[cell].items() if value
                ]
    return found


def _new(z: Finite, change: Change, cell: Cell, names: dict[Variable, Any]) -> Any:
    arguments = zip(change.variables, map(z.element, cell[1]), strict=True)
    if isinstance(change.value, Formula):
        return z.formula(change.value, {**names, **dict(arguments)})
    return z.term(change.value, {**names, **dict(arguments)})


def _checks(z: Finite, action: Action, names: dict[Variable, Any], move: Move) -> list[Any]:
    grounded = dict(move.grounded_checks)
    both = zip(action.checks, move.action.checks, strict=True)
    return [z.formula(check.formula, names) != z.grounded(grounded.get(compiled, True)) for check, compiled in both]


class Successors:
    """The moves that z3 finds in a state, with the states they lead to: one model after the other, until there is none left."""

    def __init__(self, actions: tuple[Action, ...], layout: Layout) -> None:
        self.layout = layout
        self.z = Finite(layout.universe)
        self.actions = {action.name: action for action in actions}
        self._solver = self.z.solver(expression for action in actions for expression in _expressions(action))
        event, made = z3.EnumSort("Event", list(self.actions), ctx=self.z.context)
        self._event = z3.Const("event", event)
        self._events = dict(zip(self.actions, made, strict=True))
        for action in actions:
            self._solver.add(z3.Implies(self._event == self._events[action.name], self._step(action)))

    def _step(self, action: Action) -> Any:
        changes = {change.symbol: change for change in action.changes}
        parts = [self.z.formula(_all(action.guards))]
        for symbol in STATE:
            for cell in self.layout.universe.cells(symbol):
                change = changes.get(symbol)
                new = self.z.cell(cell) if change is None else _new(self.z, change, cell, {})
                parts.append(self.z.cell(cell, AFTER) == new)
        return z3.And(*parts)

    def of(self, state: int) -> set[tuple[str, int]]:
        """Every move, by its name, with the state after it."""
        found = set()
        self._solver.push()
        true, values = set(self.layout.true_cells(state)), self.layout.values(state)
        for cell in self.layout.places:
            self._solver.add(self.z.cell(cell) == (self.z.element(values[cell]) if cell in values else cell in true))
        while (answer := self._solver.check()) == z3.sat:
            model = self._solver.model()
            action = self.actions[str(model.eval(self._event, model_completion=True))]
            chosen = [self._element(model, self.z.constant(v), v.sort) for v in action.parameters]
            found.add((" ".join((action.name, *(element.name for element in chosen))), self._after(model)))
            same = [self.z.constant(v) == self.z.element(e) for v, e in zip(action.parameters, chosen, strict=True)]
            self._solver.add(z3.Not(z3.And(self._event == self._events[action.name], *same)))
        assert answer == z3.unsat, answer
        self._solver.pop()
        return found

    def _element(self, model: Any, expression: Any, sort: Any) -> Element:
        value = model.eval(expression, model_completion=True)
        return next(one for one in self.layout.universe.of(sort) if self.z.element(one).eq(value))

    def _after(self, model: Any) -> int:
        true, values = set(), {}
        for cell in self.layout.places:
            if cell[0].result is not None:
                values[cell] = self._element(model, self.z.cell(cell, AFTER), cell[0].result)
            elif z3.is_true(model.eval(self.z.cell(cell, AFTER), model_completion=True)):
                true.add(cell)
        return self.layout.state(frozenset(true), values)


def reachable(instance: FiniteInstance) -> list[int]:
    """Every state, those behind a crash too."""
    found = {instance.start: None}
    for state in (queue := [instance.start]):
        for move in instance.moves:
            if move.enabled(state) and (after := move.apply(state)) not in found:
                found[after] = None
                queue.append(after)
    return list(found)


@dataclass
class Reading:
    """A compiled function and what it must return: the bits of the state in ``kept``, and ``work_out``. That is worked out once
    for each content of the ``cells`` on which it may depend."""

    what: str
    compiled: Callable[[int], int]
    cells: frozenset[Cell]
    work_out: Callable[[set[Cell], dict[Cell, Element]], int]
    kept: int = 0

    def differs(self, layout: Layout, states: list[int]) -> int | None:
        """The first state in which the compiled function returns something else."""
        mask, known = _mask(layout, self.cells), {}
        for state in states:
            content = state & mask
            if content not in known:
                known[content] = self.work_out(set(layout.true_cells(state)), layout.values(state))
            if self.compiled(state) != known[content] | state & self.kept:
                return state
        return None


def _mask(layout: Layout, cells: Iterable[Cell]) -> int:
    return sum(((1 << width) - 1) << shift for shift, width in (layout.places[cell] for cell in cells))


def _true(ground: Ground, true: set[Cell], values: dict[Cell, Element]) -> bool:
    match ground:
        case bool():
            return ground
        case Bit(cell):
            return cell in true
        case Is(cell, value):
            return values[cell] == value
        case Negation(part):
            return not _true(part, true, values)
        case All(parts):
            return all(_true(part, true, values) for part in parts)
        case Any_(parts):
            return any(_true(part, true, values) for part in parts)
    raise TypeError(f"{ground!r} is not grounded")


def _of_formula(what: str, compiled: Holds, ground: Ground) -> Reading:
    return Reading(what, compiled, cells_in(ground), partial(_true, ground))


def _of_effects(what: str, move: Move) -> Reading:
    layout = move.layout

    def after(true: set[Cell], values: dict[Cell, Element]) -> int:
        holds = [(cell, new) for cell, new_values in move.effects for new, when in new_values.items()
                 if _true(when, true, values)]  # fmt: skip
        new_true = frozenset(cell for cell, new in holds if new is None)
        new_values = {cell: new for cell, new in holds if new is not None}
        assert len(new_values) == sum(None not in effect.values for effect in move.effects), "a function has one value"
        return layout.state(new_true, new_values)

    changed = _mask(layout, (effect.cell for effect in move.effects))
    read = frozenset().union(*(cells_in(when) for effect in move.effects for when in effect.values.values()))
    return Reading(what, move.apply, read, after, ~changed)


def readings(instance: FiniteInstance) -> Iterator[Reading]:
    """Every function that the explorer calls."""
    for move in instance.moves:
        yield _of_formula(f"{move}: guard", move.enabled, move.guard)
        yield _of_effects(f"{move}: change", move)
        for (check, compiled), (_, ground) in zip(move.checks, move.grounded_checks, strict=True):
            yield _of_formula(f"{move}: check {check.name}", compiled, ground)
    for rule, compiled in instance.judges:
        ground = instance.layout.universe.ground(rule.formula, {})
        yield _of_formula(f"property {rule.name}", compiled, ground)


def miscompiled(instance: FiniteInstance, states: list[int]) -> list[str]:
    """The compiled functions that say something else, in one of the states, than the formula they were compiled from, which is
    read here cell by cell."""
    return [reading.what for reading in readings(instance) if reading.differs(instance.layout, states) is not None]
