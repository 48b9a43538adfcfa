"""Formulas as people write them: ``∀ x, c: owns(x, c) ⇒ ¬free(c)``."""

from __future__ import annotations

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
    Term,
    Value,
    Variable,
)

_BINDS = {"quantified": 0, "implies": 1, "or": 2, "and": 3, "atom": 4}


def text(expression: Expression) -> str:
    """One line for a formula or a term."""
    return _text(expression)[0]


def _text(expression: Expression) -> tuple[str, int]:
    """The text, and how tightly its outermost operator binds."""
    match expression:
        case Variable(name):
            return name.removeprefix("any_").removeprefix("some_"), _BINDS["atom"]
        case Element(_, name):
            return name.replace("_", " "), _BINDS["atom"]
        case Atom(symbol, arguments) | Value(symbol, arguments):
            inner = ", ".join(map(text, arguments))
            return f"{symbol.name}({inner})" if arguments else symbol.name, _BINDS["atom"]
        case Choice(condition, yes, no):
            return f"{text(yes)} if {text(condition)}, else {text(no)}", _BINDS["quantified"]
        case Equal(left, right):
            return f"{text(left)} = {text(right)}", _BINDS["atom"]
        case Not(Equal(left, right)):
            return f"{text(left)} ≠ {text(right)}", _BINDS["atom"]
        case Not(inner):
            return f"¬{_within(inner, 'atom')}", _BINDS["atom"]
        case Quantified(kind, variables, body):
            names = ", ".join(map(text, variables))
            return f"{'∀' if kind == 'forall' else '∃'} {names}: {text(body)}", _BINDS["quantified"]
        case Implies(premise, conclusion):
            return f"{_within(premise, 'implies')} ⇒ {_within(conclusion, 'implies')}", _BINDS["implies"]
        case And(()):
            return "true", _BINDS["atom"]
        case Or(()):
            return "false", _BINDS["atom"]
        case And(parts):
            return " ∧ ".join(_within(part, "and") for part in parts), _BINDS["and"]
        case Or(parts):
            choices = _choices(parts)
            return " ∨ ".join(choices), _BINDS["or" if len(choices) > 1 else "atom"]
    raise TypeError(f"{expression!r} is neither formula nor term")


def _choices(parts: tuple[Formula, ...]) -> list[str]:
    """The parts of a disjunction, those about one term's value put together: ``phase(x) ∈ {waiting, running}``."""
    values: dict[Term, list[str]] = {}
    for part in parts:
        if isinstance(part, Equal) and isinstance(part.right, Element):
            values.setdefault(part.left, []).append(text(part.right))
    many = {term: names for term, names in values.items() if len(names) > 1}
    sets = [f"{text(term)} ∈ {{{', '.join(names)}}}" for term, names in many.items()]
    rest = [part for part in parts if not (isinstance(part, Equal) and part.left in many)]
    return [*sets, *(_within(part, "or") for part in rest)]


def _within(part: Expression, operator: str) -> str:
    inner, binds = _text(part)
    return f"({inner})" if binds <= _BINDS[operator] and binds != _BINDS["atom"] else inner
