"""Situations that have to be reachable for a proof to mean something: a relation that does nothing keeps any invariant."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kvmodel.proof.bounded import Goal, Order, shortest
from kvmodel.proof.theorems import SEED, Search
from kvmodel.relation.model import Model
from kvmodel.relation.ownership import known
from kvmodel.relation.safety import UNIQUE_IDS
from kvmodel.relation.terms import Formula, exists
from kvmodel.relation.vocabulary import (
    GONE,
    HELD,
    LOAD,
    SAVE,
    awaited,
    c,
    held_back,
    name_of,
    owns,
    phase,
    reported,
    spoiled,
    transfer,
    x,
    y,
)
from kvmodel.scope import Scope


class Situation(NamedTuple):
    """``formula`` holds in some state that is reached in the instance of ``where``."""

    name: str
    formula: Formula
    where: Search


_over = phase.of(x).is_(GONE)
SITUATIONS: tuple[Situation, ...] = (
    Situation("a load runs", exists(x, transfer(LOAD, x)), SEED),
    Situation("a request is over and its load runs", exists(x, phase.of(x).is_(HELD) & transfer(LOAD, x)), SEED),
    Situation("a save runs", exists(x, transfer(SAVE, x)), SEED),
    Situation("a request is held for its load and its save", exists(x, awaited(LOAD, x) & awaited(SAVE, x)), SEED),
    Situation("both were reported, and it is gone", exists(x, _over & reported(LOAD, x) & reported(SAVE, x)), SEED),
    Situation("a load failed", exists(x, c, spoiled(x, c)), Search(Scope(("load",)), failures=True)),
    Situation(
        "two requests own one block",
        exists(x, y, c, owns(x, c) & owns(y, c) & ~x.is_(y)),
        Search(Scope(("local", "local"), prefix_sharing=True)),
    ),
    Situation("a block is held back behind a step", exists(c, held_back(c)), Search(Scope(("local",), "async"))),
    Situation(
        "an id lives again, A and B have one",
        exists(x, y, _over & known(y) & name_of.of(x).is_(name_of.of(y))),
        Search(Scope(("local", "local")), ids=("A", "A")),
    ),
)


def reached(model: Model, alive: Callable[[], None] = lambda: None) -> dict[str, Order | None]:
    """For each situation that the assumptions leave a shortest order to it; None where there is none within the bound."""
    situations = [s for s in SITUATIONS if not (s.where.ids and UNIQUE_IDS in model.assumed)]
    found: dict[str, Order | None] = dict.fromkeys(situation.name for situation in situations)
    for where in dict.fromkeys(situation.where for situation in situations):
        instance = where.instance(model)
        ground = instance.layout.universe.ground
        goals = {s.name: Goal(ground(s.formula, {})) for s in situations if s.where == where}
        found |= shortest(instance, goals, where.most, alive)
    return found
