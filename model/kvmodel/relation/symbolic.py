"""The relation for z3: formulas of :mod:`kvmodel.relation.terms` as z3 expressions, any sort of any size or of a given one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import z3

from kvmodel.relation.terms import (
    And,
    Atom,
    Choice,
    Element,
    Equal,
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


class Translation:
    """z3 expressions for formulas, in a context of its own.

    A sort without elements is any set of any size. ``stamp`` names a moment: symbols that change have one z3 function for each
    moment; rigid ones have one for all.
    """

    def __init__(self) -> None:
        self.context = z3.Context()
        self._sorts: dict[Sort, Any] = {}
        self._elements: dict[Element, Any] = {}

    def sort(self, sort: Sort) -> Any:
        if sort not in self._sorts:
            if sort.elements:
                made, elements = z3.EnumSort(sort.name, list(sort.elements), ctx=self.context)
                for name, element in zip(sort.elements, elements, strict=True):
                    self._elements[sort.element(name)] = element
                self._sorts[sort] = made
            else:
                self._sorts[sort] = z3.DeclareSort(sort.name, ctx=self.context)
        return self._sorts[sort]

    def element(self, element: Element) -> Any:
        self.sort(element.sort)
        return self._elements[element]

    def symbol(self, symbol: Symbol, stamp: int = 0) -> Any:
        result = self.sort(symbol.result) if symbol.result else z3.BoolSort(self.context)
        name = symbol.name if symbol.rigid else f"{symbol.name}@{stamp}"
        return z3.Function(name, *(self.sort(sort) for sort in symbol.arguments), result)

    def constant(self, variable: Variable, stamp: int = 0) -> Any:
        """The value of a parameter at a moment."""
        return z3.Const(f"{variable.name}#{stamp}", self.sort(variable.sort))

    def term(self, term: Term, names: Mapping[Variable, Any], stamp: int = 0) -> Any:
        match term:
            case Variable():
                return names[term] if term in names else self.constant(term, stamp)
            case Element():
                return self.element(term)
            case Value(symbol, arguments):
                return self.symbol(symbol, stamp)(*(self.term(a, names, stamp) for a in arguments))
            case Choice(condition, yes, no):
                chosen = self.formula(condition, names, stamp)
                return z3.If(chosen, self.term(yes, names, stamp), self.term(no, names, stamp))
        raise TypeError(f"{term!r} is no term")

    def formula(self, formula: Formula, names: Mapping[Variable, Any] | None = None, stamp: int = 0) -> Any:
        """``formula`` at a moment. Free variables are the constants of that moment, unless ``names`` has them."""
        names = names or {}
        match formula:
            case Atom(symbol, arguments):
                return self.symbol(symbol, stamp)(*(self.term(a, names, stamp) for a in arguments))
            case Equal(left, right):
                return self.term(left, names, stamp) == self.term(right, names, stamp)
            case Not(inner):
                return z3.Not(self.formula(inner, names, stamp))
            case And(parts):
                return z3.And(*(self.formula(p, names, stamp) for p in parts), self._true)
            case Or(parts):
                return z3.Or(*(self.formula(p, names, stamp) for p in parts), z3.Not(self._true))
            case Implies(premise, conclusion):
                return z3.Implies(self.formula(premise, names, stamp), self.formula(conclusion, names, stamp))
            case Quantified(kind, variables, body):
                bound = {v: z3.Const(f"{v.name}!", self.sort(v.sort)) for v in variables}
                quantifier = z3.ForAll if kind == "forall" else z3.Exists
                return quantifier(list(bound.values()), self.formula(body, {**names, **bound}, stamp))
        raise TypeError(f"{formula!r} is no formula")

    @property
    def _true(self) -> Any:
        return z3.BoolVal(True, ctx=self.context)
