"""How the scheduler takes a report: `Scheduler._update_from_kv_xfer_finished`, by the policy in force; and how it does without."""

from __future__ import annotations

from kvmodel.relation.ownership import fence, gives_up, known, moves_to, once, same_id_known
from kvmodel.relation.policies import Policy
from kvmodel.relation.terms import TRUE, Action, Change, Choice, Named
from kvmodel.relation.vocabulary import (
    GONE,
    HELD,
    LOAD,
    LOADING,
    arrived,
    awaited,
    d,
    e,
    giving_back,
    name_of,
    phase,
    q,
    r,
    x,
)


def hears(policy: Policy) -> tuple[Change, ...]:
    """What a report of transfer ``d`` does in the scheduler, which takes it for one of request ``q``."""
    frees = policy.frees(d, q)
    wakes = d.is_(LOAD) & phase.of(q).is_(LOADING)
    here = x.is_(q)
    return (
        Change(phase, (x,), Choice(here & frees, GONE, phase.of(x))),
        Change(awaited, (e, x), awaited(e, x) & ~(here & (frees | e.is_(d)))),
        Change(arrived, (x,), arrived(x) | (here & wakes)),
        *gives_up(q, frees),
    )


def hearing_checks(policy: Policy) -> tuple[Named, ...]:
    """What must hold whenever a report is taken for one of request ``q``."""
    accepted = Named("no-crash", policy.accepts(d, q), "_update_from_kv_xfer_finished, _free_blocks: is_finished")
    return (accepted, once(q, policy.frees(d, q)))


def hearing_fence(policy: Policy) -> Named:
    return fence(q, policy.frees(d, q))


_LOOKED_UP = "Scheduler.requests: a report names an id and nothing else"


def addressed() -> Named:
    """The report is taken for one of the known request that has its id now."""
    return Named("it is known by the id that is reported", known(q) & name_of.of(q).is_(name_of.of(r)), _LOOKED_UP)


def addressed_to_nobody() -> Named:
    return Named("no known request has the id that is reported", ~same_id_known(r), _LOOKED_UP)


def reclaim() -> Action:
    """Only under a policy that ``reclaims``. A relation has no clock, so this may come at any time."""
    return Action(
        "reclaim",
        "scheduler",
        (r, giving_back),
        (Named("it is held", phase.of(r).is_(HELD), "a deadline of the scheduler: policy `reclaim`"), fence(r, TRUE)),
        (moves_to(r, GONE), Change(awaited, (e, x), awaited(e, x) & ~x.is_(r)), *gives_up(r, TRUE)),
        "the scheduler has waited for long enough and frees the blocks of a request that is over",
        "no release; proposed",
        (once(r, TRUE),),
    )
