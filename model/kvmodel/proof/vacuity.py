"""That nothing is in a proof for nothing: what fails when a conjunct of the invariant or a guard of an action is left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvmodel.proof.obligations import Obligation, obligations
from kvmodel.proof.solve import Solver
from kvmodel.relation.model import Model
from kvmodel.relation.terms import Action, Named


class _Changed(Model):
    """A model with other actions and another invariant."""

    def __init__(self, model: Model, actions: tuple[Action, ...], invariant: tuple[Named, ...]) -> None:
        super().__init__(model.policy, model.contract, model.assumed)
        self.__dict__.update(actions=actions, invariant=invariant)  # where cached properties are looked up


def changed(model: Model, actions: tuple[Action, ...], invariant: tuple[Named, ...] | None = None) -> Model:
    """A model with other actions, and perhaps another invariant."""
    return _Changed(model, actions, model.invariant if invariant is None else invariant)


def fails_without_conjunct(model: Model, conjunct: Named) -> Obligation | None:
    """The first obligation that is not discharged without it; None when the proof does not need it."""
    left = tuple(part for part in model.invariant if part != conjunct)
    return _first_failure(obligations(changed(model, model.actions, left)))


def fails_without_guard(model: Model, action: Action, guard: Named) -> Obligation | None:
    """The first obligation of the action that is not discharged without its guard; None when the proof does not need it."""
    free = replace(action, guards=tuple(other for other in action.guards if other != guard))
    actions = tuple(free if other is action else other for other in model.actions)
    return _first_failure(o for o in obligations(changed(model, actions)) if o.action is free)


def _first_failure(wanted: Iterator[Obligation]) -> Obligation | None:
    solver = Solver()
    return next((obligation for obligation in wanted if solver.discharge(obligation).verdict != "proved"), None)
