"""From a scope to a finite instance: kinds of requests, size of the pool, steps in flight.

A scope only adds guards. They say what its requests do (who loads, who saves), keep to the order of an engine's calls (scheduling
happens while a step is built, everything else while none is), and leave out what only renames blocks and steps.
"""

from __future__ import annotations

from dataclasses import replace

from kvmodel.errors import KvraceError
from kvmodel.relation.finite import FiniteInstance
from kvmodel.relation.ground import Cell, Universe
from kvmodel.relation.model import Model
from kvmodel.relation.terms import Action, Element, Formula, Named, Symbol, Term, conjunction, exists, forall
from kvmodel.relation.vocabulary import (
    AT_ONCE,
    BEHIND_STEPS,
    BLOCK,
    BUILT,
    CLAIMED,
    HIDDEN,
    ID,
    IDLE,
    IN_FLIGHT,
    LOAD,
    NOTHING,
    REQUEST,
    STEP,
    answer,
    any_block,
    any_step,
    b,
    computed,
    free,
    giving_back,
    name_of,
    overlapping,
    owns,
    q,
    r,
    reported,
    s,
    stage,
    transfer,
    uses,
)
from kvmodel.scope import Scope

loads = Symbol("loads", (REQUEST,), "the scope lets the request load", rigid=True)
saves = Symbol("saves", (REQUEST,), "the scope lets the request save", rigid=True)
lower = Symbol("lower", (BLOCK, BLOCK), "the first block has the lower number", rigid=True)
earlier = Symbol("earlier", (STEP, STEP), "the first step has the lower number", rigid=True)
sharing = Symbol("sharing", (), "the prefix cache is on", rigid=True)

_SCHEDULING = {"take", "share", "start_load", "wake", "admit", "preempt", "reclaim", "compute", "dispatch"}
_ENDS = {"abort", "stop", "fail"}
FAILURES = {"load_fails", "fail"}
"""The actions by which loads fail."""


def _kinds(action: Action, model: Model, loads_again: bool) -> Formula:
    """What the kinds of the scope let a request do."""
    if action.name == "start_load":
        return loads(r) if loads_again else loads(r) & ~reported(LOAD, r)
    if action.name == "offer":
        return sharing()
    if action.name not in _ENDS:
        return conjunction(())
    with_blocks = saves(r) & exists(any_block, computed(r, any_block)) & model.policy.asks(r)
    if model.contract.single:
        with_blocks = with_blocks & ~transfer(LOAD, r)
    told = answer.among(CLAIMED, HIDDEN) if model.contract.unclaimed else answer.is_(CLAIMED)
    return (with_blocks >> told) & (answer.is_(NOTHING) | with_blocks)


def _order(action: Action) -> Formula:
    """An engine's calls: what belongs to `schedule` happens while a step is built, and nothing else does."""
    building = exists(any_step, stage.of(any_step).is_(BUILT))
    if action.name in _SCHEDULING:
        return building
    return conjunction(()) if action.name == "offer" else ~building


def _names(action: Action) -> Formula:
    """The lowest free block is taken, and the lowest idle step is built: others only have other names."""
    if action.name == "take":
        return forall(any_block, lower(any_block, b) >> ~free(any_block))
    if action.name == "build":
        return forall(any_step, earlier(any_step, s) >> ~stage.of(any_step).is_(IDLE))
    return conjunction(())


def _fences(action: Action) -> Formula:
    """Blocks are held back only where they have to be."""
    if giving_back not in action.parameters:
        return conjunction(())
    owner: Term = q if q in action.parameters else r
    at_work = exists(
        any_step,
        any_block,
        stage.of(any_step).is_(IN_FLIGHT) & uses(any_step, owner, any_block) & owns(owner, any_block),
    )
    return giving_back.is_(AT_ONCE) | (giving_back.is_(BEHIND_STEPS) & overlapping() & at_work)


def universe_of(scope: Scope, blocks: int | None = None, ids: tuple[str, ...] = ()) -> Universe:
    """The elements a scope has: its requests by their letters, its blocks and the steps in flight by number, from 1. An instance
    may have other ``blocks`` than its scope; ``ids`` names the requests (default: each by its own letter)."""
    if scope.ranks > 1:
        raise KvraceError("the relation knows one rank only; leave out ranks, or play the scope without it")
    if scope.cascade:
        raise KvraceError(
            "the relation knows nothing of what requests have in common: leave out cascade, or conformance"
        )
    if scope.load_failures or any(map(scope.loads_in_step, range(len(scope.requests)))):
        raise KvraceError(
            "the relation knows no loads that fail and none inside a step: such a scope is only checked, without conformance"
        )
    requests = tuple(REQUEST.element(name) for name in scope.names)
    size = scope.blocks if blocks is None else blocks
    pool = tuple(BLOCK.element(str(number + 1)) for number in range(size))
    steps = tuple(STEP.element(str(number + 1)) for number in range(scope.steps_in_flight))
    names = ids or scope.names
    elements = {REQUEST: requests, BLOCK: pool, STEP: steps, ID: tuple(map(ID.element, dict.fromkeys(names)))}
    true: set[Cell] = {(loads, (request,)) for index, request in enumerate(requests) if scope.loads(index)}
    true |= {(saves, (request,)) for index, request in enumerate(requests) if scope.saves(index)}
    true |= {(lower, (low, high)) for place, high in enumerate(pool) for low in pool[:place]}
    true |= {(earlier, (low, high)) for place, high in enumerate(steps) for low in steps[:place]}
    true |= {(overlapping, ())} if scope.steps_in_flight > 1 else set()
    true |= {(sharing, ())} if scope.prefix_sharing else set()
    values: dict[Cell, Element] = {
        (name_of, (request,)): ID.element(name) for request, name in zip(requests, names, strict=True)
    }
    return Universe(elements, frozenset(true), values)


def scoped(
    model: Model,
    scope: Scope,
    *,
    blocks: int | None = None,
    failures: bool = False,
    loads_again: bool = False,
    ids: tuple[str, ...] = (),
) -> FiniteInstance:
    """The finite instance of ``model`` for ``scope``; ``blocks`` and ``ids`` as in :func:`universe_of`. ``failures`` lets loads
    fail, ``loads_again`` lets a request load more than once. The relation knows no sizes: a request may take as many blocks as
    there are."""
    actions = []
    for action in model.actions:
        if action.name in FAILURES and not failures:
            continue
        added = (
            _kinds(action, model, loads_again), _order(action), _names(action), _fences(action),
        )  # fmt: skip
        guards = (*action.guards, *(Named("the scope", guard) for guard in added if guard != conjunction(())))
        actions.append(replace(action, guards=guards))
    return FiniteInstance(universe_of(scope, blocks, ids), tuple(actions), model.properties)
