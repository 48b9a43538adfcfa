"""A finite instance of the relation: every action with every choice of elements, compiled to plain Python.

What a scope adds to the relation (:mod:`kvmodel.relation.scoped`) only takes choices away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from kvmodel.relation.ground import Bit, Cell, Ground, Is, Layout, Universe, all_of
from kvmodel.relation.terms import Action, Element, Formula, Named, Variable
from kvmodel.relation.vocabulary import INITIALLY_TRUE, STATE

Holds = Callable[[int], bool]
NO_CRASH = "no-crash"
"""The one check of a move that says what a scheduler does. The other checks of moves are properties."""


class Effect(NamedTuple):
    """A changed cell: when it gets which value (``None``: when the relation holds)."""

    cell: Cell
    values: dict[Element | None, Ground]


@dataclass(frozen=True, eq=False)
class Move:
    """An action with elements for its parameters, in a finite instance."""

    action: Action
    elements: tuple[Element, ...]
    layout: Layout

    def __str__(self) -> str:
        return " ".join((self.action.name, *(element.name for element in self.elements)))

    @property
    def values(self) -> Mapping[Variable, Element]:
        return dict(zip(self.action.parameters, self.elements, strict=True))

    @cached_property
    def guard(self) -> Ground:
        return all_of([self._ground(guard.formula) for guard in self.action.guards])

    @cached_property
    def effects(self) -> tuple[Effect, ...]:
        """The cells that may change. A cell that surely keeps its value is not among them."""
        universe, found = self.layout.universe, []
        for change in self.action.changes:
            for cell in universe.cells(change.symbol):
                values = {**self.values, **dict(zip(change.variables, cell[1], strict=True))}
                new = universe.value(change.value, cell, values)
                same = new == {None: Bit(cell)} or all(when == Is(cell, value) for value, when in new.items() if value)
                if not same or (None in new and new[None] != Bit(cell)):
                    found.append(Effect(cell, new))
        return tuple(found)

    @cached_property
    def enabled(self) -> Holds:
        """Whether every guard holds."""
        return self._compiled(self.guard)

    @cached_property
    def guards(self) -> tuple[tuple[Named, Holds], ...]:
        """The guards one by one: for saying which of them is false."""
        return tuple((guard, self._compiled(self._ground(guard.formula))) for guard in self.action.guards)

    @cached_property
    def grounded_checks(self) -> tuple[tuple[Named, Ground], ...]:
        """What must hold whenever the move is made; those that always do are left out."""
        grounded = [(check, self._ground(check.formula)) for check in self.action.checks]
        return tuple((check, ground) for check, ground in grounded if ground is not True)

    @cached_property
    def checks(self) -> tuple[tuple[Named, Holds], ...]:
        """``grounded_checks`` as functions."""
        return tuple((check, self._compiled(ground)) for check, ground in self.grounded_checks)

    @cached_property
    def survives(self) -> Holds:
        """Whether the engine survives the move: a check like the others, but without it there is no state after it."""
        return self._compiled(all_of([ground for check, ground in self.grounded_checks if check.name == NO_CRASH]))

    @cached_property
    def apply(self) -> Callable[[int], int]:
        """The state after the move."""
        places, lines, kept = self.layout.places, [], 0
        for cell, values in self.effects:
            shift, width = places[cell]
            kept |= ((1 << width) - 1) << shift
            for value, when in values.items():
                bits = (1 if value is None else self.layout.number(value)) << shift
                if bits and when is not False:
                    lines.append(f"    if {self.layout.python(when)}: n |= {bits}")
        source = "\n".join(["def apply(S):", f"    n = S & ~{kept}", *lines, "    return n"])
        scope: dict[str, Callable[[int], int]] = {}
        exec(source, scope)  # the text is made from the relation alone, never from input
        return scope["apply"]

    def _ground(self, formula: Formula) -> Ground:
        return self.layout.universe.ground(formula, self.values)

    def _compiled(self, ground: Ground) -> Holds:
        return compiled(self.layout, ground)


def compiled(layout: Layout, ground: Ground) -> Holds:
    """A Python function for a grounded formula."""
    function: Holds = eval(f"lambda S: bool({layout.python(ground)})")  # made from the relation alone, never from input
    return function


class FiniteInstance:
    """The relation over a finite universe: a start, moves, and what must hold."""

    def __init__(self, universe: Universe, actions: tuple[Action, ...], properties: tuple[Named, ...]) -> None:
        self.layout = Layout(universe, STATE)
        self.actions, self.properties = actions, properties

    @cached_property
    def start(self) -> int:
        universe = self.layout.universe
        true = frozenset(cell for symbol in INITIALLY_TRUE for cell in universe.cells(symbol))
        values = {
            cell: symbol.result.element(symbol.initially)
            for symbol in STATE
            if symbol.result is not None
            for cell in universe.cells(symbol)
        }
        return self.layout.state(true, values)

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        """Every action with every choice of elements; those that no state allows are left out."""
        universe = self.layout.universe
        found = [
            Move(action, tuple(choice.values()), self.layout)
            for action in self.actions
            for choice in universe.choices(action.parameters)
        ]
        return tuple(move for move in found if move.guard is not False)

    @cached_property
    def move_named(self) -> dict[str, Move]:
        return {str(move): move for move in self.moves}

    @cached_property
    def judges(self) -> tuple[tuple[Named, Holds], ...]:
        """The properties of a state."""
        universe = self.layout.universe
        return tuple((rule, compiled(self.layout, universe.ground(rule.formula, {}))) for rule in self.properties)
