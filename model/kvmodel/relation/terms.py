"""The language of the relation: many-sorted first-order formulas and guarded actions, as plain immutable values.

A formula is written with Python's operators: ``&``, ``|``, ``~``, ``>>`` for "implies"; ``forall`` and ``exists`` bind variables,
and a relation applied to terms is a formula: ``forall(b, owns(r, b) >> ~free(b))``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Sort:
    """A kind of thing. With ``elements`` there are exactly these; without, any number."""

    name: str
    elements: tuple[str, ...] = ()

    def element(self, name: str) -> Element:
        return Element(self, name)


class Term:
    """Something of a sort."""

    sort: Sort

    def is_(self, other: Term) -> Formula:
        return Equal(self, other)

    def among(self, *others: Term) -> Formula:
        return disjunction(Equal(self, other) for other in others)


@dataclass(frozen=True, slots=True)
class Variable(Term):
    name: str
    sort: Sort


@dataclass(frozen=True, slots=True)
class Element(Term):
    """A named element of an enumerated sort, or of a finite instance of any sort."""

    sort: Sort
    name: str


@dataclass(frozen=True, slots=True)
class Value(Term):
    """A function applied to terms."""

    symbol: Symbol
    arguments: tuple[Term, ...]

    @property
    def sort(self) -> Sort:  # type: ignore[override]
        assert self.symbol.result is not None, "a relation has no value"
        return self.symbol.result


@dataclass(frozen=True, slots=True)
class Choice(Term):
    """``yes`` where ``condition`` holds, else ``no``."""

    condition: Formula
    yes: Term
    no: Term

    @property
    def sort(self) -> Sort:  # type: ignore[override]
        return self.yes.sort


class Formula:
    """Something true or false in a state."""

    def __and__(self, other: Formula) -> Formula:
        return conjunction((self, other))

    def __or__(self, other: Formula) -> Formula:
        return disjunction((self, other))

    def __invert__(self) -> Formula:
        return self.formula if isinstance(self, Not) else Not(self)

    def __rshift__(self, other: Formula) -> Formula:
        return Implies(self, other)


@dataclass(frozen=True, slots=True)
class Atom(Formula):
    """A relation applied to terms."""

    symbol: Symbol
    arguments: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Equal(Formula):
    left: Term
    right: Term


@dataclass(frozen=True, slots=True)
class Not(Formula):
    formula: Formula


@dataclass(frozen=True, slots=True)
class And(Formula):
    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Or(Formula):
    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Implies(Formula):
    premise: Formula
    conclusion: Formula


@dataclass(frozen=True, slots=True)
class Quantified(Formula):
    kind: Literal["forall", "exists"]
    variables: tuple[Variable, ...]
    body: Formula


TRUE: Formula = And(())
FALSE: Formula = Or(())


def conjunction(parts: Iterable[Formula]) -> Formula:
    """All of ``parts``, flattened."""
    flat = [piece for part in parts for piece in (part.parts if isinstance(part, And) else (part,))]
    if FALSE in flat:
        return FALSE
    return flat[0] if len(flat) == 1 else And(tuple(flat))


def disjunction(parts: Iterable[Formula]) -> Formula:
    """At least one of ``parts``, flattened."""
    flat = [piece for part in parts for piece in (part.parts if isinstance(part, Or) else (part,))]
    if TRUE in flat:
        return TRUE
    return flat[0] if len(flat) == 1 else Or(tuple(flat))


def forall(*variables_and_body: Variable | Formula) -> Formula:
    """``forall(x, y, body)``."""
    *variables, body = variables_and_body
    assert isinstance(body, Formula) and all(isinstance(v, Variable) for v in variables)
    return Quantified("forall", tuple(variables), body)  # type: ignore[arg-type]


def exists(*variables_and_body: Variable | Formula) -> Formula:
    """``exists(x, y, body)``."""
    *variables, body = variables_and_body
    assert isinstance(body, Formula) and all(isinstance(v, Variable) for v in variables)
    return Quantified("exists", tuple(variables), body)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Symbol:
    """A part of the state: a relation, or with ``result`` a function. ``rigid`` ones never change."""

    name: str
    arguments: tuple[Sort, ...]
    meaning: str
    result: Sort | None = None
    rigid: bool = False
    initially: str = ""
    """The element a function has for every argument at the start; relations are empty at the start."""

    def __call__(self, *terms: Term) -> Formula:
        """The relation applied to terms."""
        assert self.result is None, f"{self.name} is a function"
        self._fit(terms)
        return Atom(self, terms)

    def of(self, *terms: Term) -> Value:
        """The function applied to terms."""
        assert self.result is not None, f"{self.name} is a relation"
        self._fit(terms)
        return Value(self, terms)

    def _fit(self, terms: tuple[Term, ...]) -> None:
        assert tuple(term.sort for term in terms) == self.arguments, f"{self.name} is for other sorts"

    @property
    def variables(self) -> tuple[Variable, ...]:
        """Fresh variables for its arguments."""
        return tuple(Variable(f"{sort.name[0].lower()}{place}", sort) for place, sort in enumerate(self.arguments))


@dataclass(frozen=True, slots=True)
class Change:
    """``symbol`` becomes ``value`` of its arguments, called ``variables`` in it."""

    symbol: Symbol
    variables: tuple[Variable, ...]
    value: Formula | Term


@dataclass(frozen=True, slots=True)
class Named:
    """A formula with a name and a reason: a guard, a conjunct of the invariant, a property, a check of an action."""

    name: str
    formula: Formula
    why: str = ""


@dataclass(frozen=True, slots=True)
class Action:
    """A guarded command: when every guard holds, every change happens at once. ``checks`` must hold whenever it happens."""

    name: str
    who: str
    parameters: tuple[Variable, ...]
    guards: tuple[Named, ...]
    changes: tuple[Change, ...]
    meaning: str
    source: str = ""
    checks: tuple[Named, ...] = field(default=())

    def __post_init__(self) -> None:
        changed = [change.symbol for change in self.changes]
        assert len(set(changed)) == len(changed), f"{self.name} changes a symbol twice"
        assert not any(symbol.rigid for symbol in changed), f"{self.name} changes what is rigid"


Expression = Formula | Term


def rebuild(expression: Expression, replace: Callable[[Expression], Expression | None]) -> Expression:
    """``expression`` with each part that ``replace`` has something for replaced by it, from the outside in."""
    new = replace(expression)
    if new is not None:
        return new
    match expression:
        case Atom(symbol, arguments):
            return Atom(symbol, tuple(_term(a, replace) for a in arguments))
        case Value(symbol, arguments):
            return Value(symbol, tuple(_term(a, replace) for a in arguments))
        case Equal(left, right):
            return Equal(_term(left, replace), _term(right, replace))
        case Choice(condition, yes, no):
            return Choice(_formula(condition, replace), _term(yes, replace), _term(no, replace))
        case Not(formula):
            return ~_formula(formula, replace)
        case And(parts):
            return conjunction(_formula(part, replace) for part in parts)
        case Or(parts):
            return disjunction(_formula(part, replace) for part in parts)
        case Implies(premise, conclusion):
            return Implies(_formula(premise, replace), _formula(conclusion, replace))
        case Quantified(kind, variables, body):
            return Quantified(kind, variables, _formula(body, replace))
    return expression


def _term(term: Term, replace: Callable[[Expression], Expression | None]) -> Term:
    new = rebuild(term, replace)
    assert isinstance(new, Term)
    return new


def _formula(formula: Formula, replace: Callable[[Expression], Expression | None]) -> Formula:
    new = rebuild(formula, replace)
    assert isinstance(new, Formula)
    return new


def bind(formula: Formula, values: Mapping[Variable, Term]) -> Formula:
    """``formula`` with terms in place of free variables."""
    return _formula(formula, lambda part: values.get(part) if isinstance(part, Variable) else None)


def after(formula: Formula, changes: Iterable[Change]) -> Formula:
    """What must hold before the changes so that ``formula`` holds after them (the weakest precondition)."""
    by_symbol = {change.symbol: change for change in changes}
    parameters = set()
    for change in by_symbol.values():
        parameters |= variables_in(change.value) - bound_in(change.value) - set(change.variables)
    assert not bound_in(formula) & parameters, "a parameter of an action would be captured"

    def replace(part: Expression) -> Expression | None:
        if not isinstance(part, Atom | Value) or part.symbol not in by_symbol:
            return None
        change = by_symbol[part.symbol]
        arguments = tuple(_term(a, replace) for a in part.arguments)
        assert not bound_in(change.value) & set().union(*map(variables_in, arguments)), "an argument would be captured"
        values = dict(zip(change.variables, arguments, strict=True))
        return rebuild(change.value, lambda inner: values.get(inner) if isinstance(inner, Variable) else None)

    return _formula(formula, replace)


def _parts(expression: Expression) -> list[Expression]:
    parts: list[Expression] = []

    def note(part: Expression) -> None:
        parts.append(part)

    rebuild(expression, note)
    return parts


def symbols_in(expression: Expression) -> set[Symbol]:
    """The symbols an expression names."""
    return {part.symbol for part in _parts(expression) if isinstance(part, Atom | Value)}


def variables_in(expression: Expression) -> set[Variable]:
    """The variables an expression names, bound ones too."""
    return {part for part in _parts(expression) if isinstance(part, Variable)}


def bound_in(expression: Expression) -> set[Variable]:
    """The variables its quantifiers bind."""
    return {v for part in _parts(expression) if isinstance(part, Quantified) for v in part.variables}
