"""What the actions have in common: who is known, and how a request gives its blocks up."""

from __future__ import annotations

from kvmodel.contract import Contract
from kvmodel.relation.terms import TRUE, Change, Choice, Formula, Named, Term, exists, forall
from kvmodel.relation.vocabulary import (
    AT_ONCE,
    BEHIND_STEPS,
    BUILT,
    HELD,
    IN_FLIGHT,
    LOAD,
    LOADING,
    RUNNING,
    WAITING,
    any_block,
    any_request,
    any_step,
    c,
    claimed,
    computed,
    free,
    giving_back,
    held_back,
    name_of,
    overlapping,
    owns,
    phase,
    stage,
    t,
    uses,
    x,
)


def known(request: Term) -> Formula:
    """The scheduler has it in ``Scheduler.requests``."""
    return phase.of(request).among(WAITING, LOADING, RUNNING, HELD)


def live(request: Term) -> Formula:
    """Known and not over."""
    return phase.of(request).among(WAITING, LOADING, RUNNING)


def told(direction: Term, request: Term, contract: Contract) -> Formula:
    """The scheduler was told of this transfer of the request. Only contract `unclaimed` has others."""
    return direction.is_(LOAD) | claimed(request) if contract.unclaimed else TRUE


def same_id_known(request: Term) -> Formula:
    """Some known request has the id of this one now, whether it is this one or another."""
    return exists(any_request, known(any_request) & name_of.of(any_request).is_(name_of.of(request)))


def moves_to(request: Term, new: Term) -> Change:
    return Change(phase, (x,), Choice(x.is_(request), new, phase.of(x)))


def fence(request: Term, when: Formula) -> Named:
    """Blocks go back at once only if no step in flight works on them for the request, or if no load can start meanwhile."""
    at_work = exists(any_step, any_block, stage.of(any_step).is_(IN_FLIGHT) & uses(any_step, request, any_block))
    return Named(
        "the fence",
        (when & giving_back.is_(AT_ONCE)) >> (~overlapping() | ~at_work),
        "loads are not ordered against steps, so a block that a step still uses must not become the target of one",
    )


def once(request: Term, when: Formula) -> Named:
    """The check that no block goes back that is in the pool already."""
    given_back = forall(any_block, owns(request, any_block) >> ~free(any_block))
    return Named("no-double-free", when >> given_back, "BlockPool.free_blocks")


def gives_up(request: Term, when: Formula) -> tuple[Change, ...]:
    """The request's blocks leave it: to the pool if nobody else has them, or behind the steps in flight."""
    sole = forall(any_request, owns(any_request, c) >> any_request.is_(request))
    to_pool = giving_back.is_(AT_ONCE) & owns(request, c) & sole & ~held_back(c)
    return (
        Change(owns, (x, c), owns(x, c) & ~(when & x.is_(request))),
        Change(computed, (x, c), computed(x, c) & ~(when & x.is_(request))),
        Change(free, (c,), free(c) | (when & to_pool)),
        Change(held_back, (c,), held_back(c) | (when & giving_back.is_(BEHIND_STEPS) & owns(request, c))),
        Change(uses, (t, x, c), uses(t, x, c) & ~(when & x.is_(request) & stage.of(t).is_(BUILT))),
    )
