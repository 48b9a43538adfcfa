"""Formulas over a finite universe: no quantifier is left, only bits of the state and ``and``, ``or``, ``not``.

A state of a finite instance is one integer. :class:`Layout` says which bits of it hold which part of the relational state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple

from kvmodel.relation.terms import (
    And,
    Atom,
    Choice,
    Element,
    Equal,
    Expression,
    Formula,
    Implies,
    Not,
    Or,
    Quantified,
    Sort,
    Symbol,
    Term,
    Value,
    Variable,
)

Cell = tuple[Symbol, tuple[Element, ...]]
"""One entry of the state: a symbol and its arguments."""


class Bit(NamedTuple):
    """The relation holds for these arguments."""

    cell: Cell


class Is(NamedTuple):
    """The function has this value for these arguments."""

    cell: Cell
    value: Element


class Negation(NamedTuple):
    part: Ground


class All(NamedTuple):
    parts: tuple[Ground, ...]


class Any_(NamedTuple):
    parts: tuple[Ground, ...]


Ground = bool | Bit | Is | Negation | All | Any_


def negation(part: Ground) -> Ground:
    if isinstance(part, bool):
        return not part
    return part.part if isinstance(part, Negation) else Negation(part)


def all_of(parts: list[Ground]) -> Ground:
    """The conjunction, with what is known already left out."""
    flat = [piece for part in parts for piece in (part.parts if isinstance(part, All) else (part,))]
    left = [piece for piece in dict.fromkeys(flat) if piece is not True]
    if False in left:
        return False
    return True if not left else left[0] if len(left) == 1 else All(tuple(left))


def any_of(parts: list[Ground]) -> Ground:
    """The disjunction, with what is known already left out."""
    flat = [piece for part in parts for piece in (part.parts if isinstance(part, Any_) else (part,))]
    left = [piece for piece in dict.fromkeys(flat) if piece is not False]
    if True in left:
        return True
    return False if not left else left[0] if len(left) == 1 else Any_(tuple(left))


def cells_in(ground: Ground) -> frozenset[Cell]:
    """The cells on which its truth may depend."""
    match ground:
        case Bit(cell) | Is(cell, _):
            return frozenset((cell,))
        case Negation(part):
            return cells_in(part)
        case All(parts) | Any_(parts):
            return frozenset().union(*map(cells_in, parts))
    return frozenset()


@dataclass(frozen=True)
class Universe:
    """The elements of every sort, and the values of what never changes: true cells of relations, values of functions."""

    elements: Mapping[Sort, tuple[Element, ...]]
    true: frozenset[Cell]
    values: Mapping[Cell, Element]

    def of(self, sort: Sort) -> tuple[Element, ...]:
        return tuple(map(sort.element, sort.elements)) if sort.elements else self.elements[sort]

    def choices(self, variables: tuple[Variable, ...]) -> Iterator[dict[Variable, Element]]:
        """Every way to give the variables elements."""
        for elements in product(*(self.of(variable.sort) for variable in variables)):
            yield dict(zip(variables, elements, strict=True))

    def cells(self, symbol: Symbol) -> Iterator[Cell]:
        for arguments in product(*(self.of(sort) for sort in symbol.arguments)):
            yield symbol, arguments

    def ground(self, formula: Formula, values: Mapping[Variable, Element]) -> Ground:
        """``formula`` with ``values`` for its free variables."""
        match formula:
            case Atom(symbol, arguments):
                cell = symbol, tuple(self._element(a, values) for a in arguments)
                return cell in self.true if symbol.rigid else Bit(cell)
            case Equal(left, right):
                return self._equal(left, right, values)
            case Not(inner):
                return negation(self.ground(inner, values))
            case And(parts):
                return all_of([self.ground(part, values) for part in parts])
            case Or(parts):
                return any_of([self.ground(part, values) for part in parts])
            case Implies(premise, conclusion):
                return any_of([negation(self.ground(premise, values)), self.ground(conclusion, values)])
            case Quantified(kind, variables, body):
                cases = [self.ground(body, {**values, **choice}) for choice in self.choices(variables)]
                return all_of(cases) if kind == "forall" else any_of(cases)
        raise TypeError(f"{formula!r} is no formula")

    def _element(self, term: Term, values: Mapping[Variable, Element]) -> Element:
        """The one element a term stands for; terms whose value may change stand for none."""
        match term:
            case Variable():
                return values[term]
            case Element():
                return term
            case Value(symbol, arguments) if symbol.rigid:
                return self.values[symbol, tuple(self._element(a, values) for a in arguments)]
        raise TypeError(f"{term!r} changes, so it cannot be an argument")

    def _equal(self, left: Term, right: Term, values: Mapping[Variable, Element]) -> Ground:
        for one, other in ((left, right), (right, left)):
            if isinstance(one, Choice):
                condition = self.ground(one.condition, values)
                yes, no = self._equal(one.yes, other, values), self._equal(one.no, other, values)
                return any_of([all_of([condition, yes]), all_of([negation(condition), no])])
            if isinstance(one, Value) and not one.symbol.rigid:
                cell = one.symbol, tuple(self._element(a, values) for a in one.arguments)
                return Is(cell, self._element(other, values))
        return self._element(left, values) == self._element(right, values)

    def value(
        self, expression: Expression, cell: Cell, values: Mapping[Variable, Element]
    ) -> dict[Element | None, Ground]:
        """When a changed cell gets which value. A relation has one entry, for ``None``: when it holds."""
        if isinstance(expression, Formula):
            return {None: self.ground(expression, values)}
        assert isinstance(expression, Term) and cell[0].result is not None
        return {new: self._equal(expression, new, values) for new in self.of(cell[0].result)}


class Place(NamedTuple):
    """The bits of a cell: the first one, and how many."""

    shift: int
    width: int


@dataclass(frozen=True)
class Layout:
    """Where each cell is in the integer that is a state."""

    universe: Universe
    symbols: tuple[Symbol, ...]

    @cached_property
    def places(self) -> dict[Cell, Place]:
        places: dict[Cell, Place] = {}
        shift = 0
        for symbol in self.symbols:
            width = 1 if symbol.result is None else (len(self.universe.of(symbol.result)) - 1).bit_length()
            for cell in self.universe.cells(symbol):
                places[cell] = Place(shift, width)
                shift += width
        return places

    def number(self, element: Element) -> int:
        """An element of an enumerated sort as its bits."""
        return element.sort.elements.index(element.name)

    def state(self, true: frozenset[Cell], values: Mapping[Cell, Element]) -> int:
        """The state in which exactly these cells are true and the functions have these values."""
        bits = sum(1 << self.places[cell].shift for cell in true)
        return bits | sum(self.number(value) << self.places[cell].shift for cell, value in values.items())

    def true_cells(self, state: int) -> list[Cell]:
        """The cells of relations that hold in a state."""
        return [cell for cell, (shift, _) in self.places.items() if cell[0].result is None and state >> shift & 1]

    def values(self, state: int) -> dict[Cell, Element]:
        """The values of the functions in a state."""
        found = {}
        for cell, (shift, width) in self.places.items():
            if cell[0].result is not None:
                found[cell] = self.universe.of(cell[0].result)[state >> shift & ((1 << width) - 1)]
        return found

    def python(self, ground: Ground) -> str:
        """A Python expression for it, in which ``S`` is the state."""
        match ground:
            case bool():
                return str(ground)
            case Bit(cell):
                return f"(S >> {self.places[cell].shift} & 1)"
            case Is(cell, value):
                shift, width = self.places[cell]
                return f"(S >> {shift} & {(1 << width) - 1} == {self.number(value)})"
            case Negation(part):
                return f"(not {self.python(part)})"
            case All(parts):
                return "(" + " and ".join(map(self.python, parts)) + ")"
            case Any_(parts):
                return "(" + " or ".join(map(self.python, parts)) + ")"
        raise TypeError(f"{ground!r} is not grounded")
