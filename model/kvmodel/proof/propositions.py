"""Grounded formulas of a finite instance as propositional z3 expressions.

An expression speaks of "now", or of a moment that is given. :meth:`Propositions.at` moves one from now to a moment by renaming its
Booleans, so that a large one is built once.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import z3

from kvmodel.relation.finite import FiniteInstance, Move
from kvmodel.relation.ground import All, Any_, Bit, Cell, Ground, Is, Negation
from kvmodel.relation.terms import Element

_NEXT = "next "


class Propositions:
    """A Boolean for each relation with each choice of arguments, for each value of each function, and for each move."""

    def __init__(self, instance: FiniteInstance) -> None:
        self.instance = instance
        self.context = z3.Context()
        self._now: dict[str, Any] = {}
        self._later: dict[tuple[str, int], Any] = {}
        self._pairs: dict[int, list[tuple[Any, Any]]] = {}

    def solver(self) -> Any:
        """A solver for finite domains, in which every function has one value now."""
        solver = z3.SolverFor("QF_FD", ctx=self.context)
        solver.set("ctrl_c", False)  # which is for Python
        solver.add(*(self.one_of(self.cell(cell, 0).values()) for cell in self.functions))
        return solver

    @cached_property
    def functions(self) -> list[Cell]:
        return [cell for cell in self.instance.layout.places if cell[0].result is not None]

    def _boolean(self, name: str, moment: int | None) -> Any:
        """The unknown of this name."""
        if moment is None:
            if name not in self._now:
                self._now[name] = z3.Bool(name, ctx=self.context)
            return self._now[name]
        if (name, moment) not in self._later:
            self._later[name, moment] = z3.Bool(f"{name} @{moment}", ctx=self.context)
        return self._later[name, moment]

    def known(self, truth: bool) -> Any:
        return z3.BoolVal(truth, ctx=self.context)

    def any(self, parts: Iterable[Any]) -> Any:
        return z3.Or(*parts, self.known(False))

    def one_of(self, booleans: Iterable[Any]) -> Any:
        """Exactly one of them."""
        return z3.PbEq([(boolean, 1) for boolean in booleans], 1)

    def move(self, move: Move, moment: int | None = None) -> Any:
        """The move is made."""
        return self._boolean(f"move {move}", moment)

    def cell(self, cell: Cell, moment: int | None = None, following: bool = False) -> dict[Element | None, Any]:
        """A Boolean for each value of a function, or for ``None`` of a relation; of the next moment with ``following``."""
        name = (_NEXT if following else "") + _written(cell)
        if cell[0].result is None:
            return {None: self._boolean(name, moment)}
        values = self.instance.layout.universe.of(cell[0].result)
        return {value: self._boolean(f"{name} = {value.name}", moment) for value in values}

    def expression(self, ground: Ground) -> Any:
        match ground:
            case bool():
                return self.known(ground)
            case Bit(cell):
                return self.cell(cell)[None]
            case Is(cell, value):
                return self.cell(cell)[value]
            case Negation(part):
                return z3.Not(self.expression(part))
            case All(parts):
                return z3.And(*map(self.expression, parts))
            case Any_(parts):
                return z3.Or(*map(self.expression, parts))
        raise TypeError(f"{ground!r} is not grounded")

    def state(self, state: int, moment: int) -> Any:
        """That the state is this one."""
        layout = self.instance.layout
        true, values = set(layout.true_cells(state)), layout.values(state)
        relations = (cell for cell in layout.places if cell[0].result is None)
        parts = [
            self.cell(cell, moment)[None] if cell in true else z3.Not(self.cell(cell, moment)[None])
            for cell in relations
        ]
        return z3.And(*parts, *(self.cell(cell, moment)[value] for cell, value in values.items()))

    @cached_property
    def one_move(self) -> Any:
        """What a move does, as an expression over this moment and the next. At most one move is made."""
        moves = self.instance.moves
        parts = [z3.PbLe([(self.move(move), 1) for move in moves], 1)]
        parts += [z3.Implies(self.move(move), self.expression(move.guard)) for move in moves]
        new = {cell: self.cell(cell) for cell in self.instance.layout.places}
        for move in moves:
            made = self.move(move)
            for cell, values in move.effects:
                get = {value: self.expression(values.get(value, False)) for value in new[cell]}
                new[cell] = {value: z3.If(made, get[value], old) for value, old in new[cell].items()}
        for cell, values in new.items():
            following = self.cell(cell, following=True)
            parts += [following[value] == becomes for value, becomes in values.items()]
        return z3.And(*parts)

    def at(self, expression: Any, moment: int) -> Any:
        """``expression`` at a moment."""
        pairs = self._pairs.setdefault(moment, [])
        for name, boolean in list(self._now.items())[len(pairs) :]:
            following = name.startswith(_NEXT)
            pairs.append((boolean, self._boolean(name.removeprefix(_NEXT), moment + following)))
        return z3.substitute(expression, *pairs)

    def state_in(self, found: Any, moment: int = 0) -> int:
        """The state at a moment of what a solver has found."""
        layout = self.instance.layout
        true: set[Cell] = set()
        values: dict[Cell, Element] = {}
        for cell in layout.places:
            for value, boolean in self.cell(cell, moment).items():
                if is_true(found, boolean):
                    true |= {cell} if value is None else set()
                    values |= {cell: value} if value is not None else {}
        return layout.state(frozenset(true), values)


def is_true(found: Any, expression: Any) -> bool:
    """Whether ``expression`` is true in what a solver has found."""
    return bool(z3.is_true(found.evaluate(expression, model_completion=True)))


def _written(cell: Cell) -> str:
    return f"{cell[0].name}({', '.join(element.name for element in cell[1])})"
