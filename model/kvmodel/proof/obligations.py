"""What has to be shown for a model: together the obligations make the invariant inductive and the properties true for ever.

An action that changes nothing a conjunct speaks of keeps it, so that is no obligation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kvmodel.relation.model import Model
from kvmodel.relation.possible import POSSIBLE
from kvmodel.relation.terms import Action, Formula, Named, after, bind, conjunction, forall
from kvmodel.relation.vocabulary import INITIALLY_TRUE, STATE

Kind = Literal["starts", "implies", "possible", "keeps", "checks"]
"""``starts``: a conjunct holds at the start. ``implies``: the invariant implies a property. ``possible``: an action may happen when
it must be able to. ``keeps``: an action keeps a conjunct. ``checks``: a check of an action holds whenever it happens."""


@dataclass(frozen=True, slots=True)
class Obligation:
    """``hypotheses`` imply ``goal``. ``about`` is the conjunct, property or check it is for."""

    kind: Kind
    about: Named
    action: Action | None
    hypotheses: tuple[Formula, ...]
    goal: Formula

    @property
    def name(self) -> str:
        match self.kind:
            case "starts":
                return f"at the start: {self.about.name}"
            case "implies":
                return f"the invariant implies {self.about.name}: {self.about.why}"
            case "possible":
                return f"{self.actor} is possible: {self.about.name}"
            case "checks":
                return f"{self.actor} satisfies {self.about.name}"
        return f"{self.actor} keeps: {self.about.name}"

    @property
    def actor(self) -> str:
        """The name of its action; empty when it has none."""
        return self.action.name if self.action else ""


def start() -> tuple[Formula, ...]:
    """The state before any event."""
    formulas = []
    for symbol in STATE:
        variables = symbol.variables
        if symbol.result is not None:
            body = symbol.of(*variables).is_(symbol.result.element(symbol.initially))
        else:
            body = symbol(*variables) if symbol in INITIALLY_TRUE else ~symbol(*variables)
        formulas.append(forall(*variables, body) if variables else body)
    return tuple(formulas)


def obligations(model: Model) -> Iterator[Obligation]:
    """All of them, in the order in which they are read: the start, the properties, then action by action."""
    axioms = tuple(axiom.formula for axiom in model.axioms)
    invariant = (*axioms, *(part.formula for part in model.invariant))
    for part in model.invariant:
        yield Obligation("starts", part, None, (*axioms, *start()), part.formula)
    for rule in model.properties:
        yield Obligation("implies", rule, None, invariant, rule.formula)
    for action in model.actions:
        hypotheses = (*invariant, *(guard.formula for guard in action.guards))
        for case in POSSIBLE:
            if case.action == action.name:
                goal = conjunction(bind(guard.formula, case.choices) for guard in action.guards)
                yield Obligation("possible", Named(case.name, goal), action, (*invariant, case.premise), goal)
        for check in action.checks:
            yield Obligation("checks", check, action, hypotheses, check.formula)
        for part in model.invariant:
            goal = after(part.formula, action.changes)
            if goal != part.formula:
                yield Obligation("keeps", part, action, hypotheses, goal)
