"""What must hold in every state, and the inductive invariant that shows it for any number of requests, blocks and steps.

Properties speak of the truth (what transfers and steps touch); guards of the scheduler only of what a scheduler can see. The
invariant is what ties the two together. The checks of single actions stand with the actions.
"""

from __future__ import annotations

from kvmodel.contract import Contract
from kvmodel.relation.ownership import known, told
from kvmodel.relation.policies import Policy
from kvmodel.relation.terms import Named, exists, forall
from kvmodel.relation.vocabulary import (
    ABSENT,
    BUILT,
    GONE,
    HELD,
    IDLE,
    IN_FLIGHT,
    LOAD,
    LOADING,
    RUNNING,
    SAVE,
    WAITING,
    arrived,
    awaited,
    c,
    cached,
    claimed,
    computed,
    e,
    filled,
    free,
    held_back,
    name_of,
    overlapping,
    owns,
    phase,
    reported,
    some_direction,
    some_request,
    some_step,
    spoiled,
    stage,
    t,
    touches,
    transfer,
    uses,
    x,
    y,
)

UNIQUE_IDS, LOADS_ONCE, UNASKED_IN_TIME = "unique-ids", "loads-once", "unasked-in-time"
ASSUMPTIONS = {
    UNIQUE_IDS: "no request id is ever used again",
    UNASKED_IN_TIME: "no report of a save that nobody asked for is on its way when its request ends",
    LOADS_ONCE: "a load that was reported is not started again for the same request, not even after a preemption",
}
"""What a result may assume beyond the contract. A result without any is the strongest."""


def properties(contract: Contract) -> tuple[Named, ...]:
    """The safety properties of a state, by the names they have everywhere in kvrace.

    Under `unclaimed` they speak of the transfers that the scheduler was told of: of others no scheduler can know.
    """
    given_away = owns(y, c) & ~y.is_(x) & (e.is_(LOAD) | ~(owns(x, c) | held_back(c)))
    touched = touches(e, x, c) & told(e, x, contract)
    kept_safe = forall(e, x, c, touched >> ~free(c)) & forall(e, x, y, c, touched >> ~given_away)
    at_work = forall(x, y, t, c, (touches(LOAD, x, c) & stage.of(t).is_(IN_FLIGHT)) >> ~uses(t, y, c))
    over = forall(some_request, phase.of(some_request).among(ABSENT, HELD, GONE))
    quiet = over & forall(some_direction, some_request, ~transfer(some_direction, some_request))
    idle = forall(some_step, stage.of(some_step).is_(IDLE))
    back = forall(c, free(c) | held_back(c))
    offered = forall(c, cached(c) >> filled(c)) & forall(x, c, touches(LOAD, x, c) >> ~cached(c))
    apart = forall(x, c, owns(x, c) >> ~free(c)) & forall(c, held_back(c) >> ~free(c))
    nowhere = forall(c, free(c) | held_back(c) | exists(some_request, owns(some_request, c)))
    found = [
        Named(
            "no-use-after-free", kept_safe, "no block is in the pool or given to another while a transfer touches it"
        ),
        Named("no-use-after-free", at_work, "no load writes where a step in flight works"),
        Named("no-premature-use", offered, "the prefix cache offers no block whose load is not over or has failed"),
        Named(
            "conservation",
            apart & nowhere,
            "every block is in the pool, held back or owned, and none in the pool is anything else",
        ),
    ]
    if not contract.lossy:
        reported_to = forall(x, (phase.of(x).is_(LOADING) & ~arrived(x)) >> transfer(LOAD, x))
        held_for = forall(x, phase.of(x).is_(HELD) >> exists(some_direction, transfer(some_direction, x)))
        found += [
            Named(
                "no-leak", (quiet & idle) >> back, "when all is over and reported, every block is free or about to be"
            ),
            Named("no-stuck", reported_to & held_for, "whoever waits for a report will get one"),
        ]
    return tuple(found)


def invariant(policy: Policy, contract: Contract, assumed: frozenset[str]) -> tuple[Named, ...]:
    """The conjuncts. Together they imply the properties, hold at the start, and are kept by every action."""
    parts = [*_blocks(), *_contents(), *_transfers(contract), *_steps()]
    if (contract.single or not policy.asks_while_loading) and not policy.counts:
        alone = forall(x, transfer(LOAD, x) >> ~transfer(SAVE, x))
        parts.append(Named("load and save never run together", alone))
    if UNIQUE_IDS not in assumed:
        same = known(x) & known(y) & name_of.of(x).is_(name_of.of(y))
        parts.append(Named("no two known requests have one id", forall(x, y, same >> x.is_(y))))
    return tuple(parts)


def _blocks() -> list[Named]:
    owner = exists(some_request, owns(some_request, c))
    return [
        Named("an owned block is not free", forall(x, c, owns(x, c) >> ~free(c))),
        Named("a held-back block is not free", forall(c, held_back(c) >> ~free(c))),
        Named("only known requests own", forall(x, c, owns(x, c) >> known(x))),
        Named(
            "only offered blocks have two owners", forall(x, y, c, (owns(x, c) & owns(y, c) & ~cached(c)) >> x.is_(y))
        ),
        Named("an owned block that is held back is offered", forall(x, c, (owns(x, c) & held_back(c)) >> cached(c))),
        Named("a block is free, owned or held back", forall(c, free(c) | held_back(c) | owner)),
    ]


def _contents() -> list[Named]:
    counted = computed(x, c) & ~filled(c)
    brings = (touches(LOAD, x, c) & ~spoiled(x, c)) | ~(arrived(x) | transfer(LOAD, x))
    return [
        Named("what is computed is owned", forall(x, c, computed(x, c) >> owns(x, c))),
        Named("an offered block holds its owners' KV", forall(x, c, (owns(x, c) & cached(c)) >> computed(x, c))),
        Named("an offered block is filled", forall(c, cached(c) >> filled(c))),
        Named("KV that is counted is there", forall(x, c, counted >> ~phase.of(x).among(WAITING, RUNNING))),
        Named("a load brings what is counted", forall(x, c, (counted & phase.of(x).is_(LOADING)) >> brings)),
    ]


def _transfers(contract: Contract) -> list[Named]:
    waits = phase.of(x).is_(LOADING) & ~arrived(x)
    held, over = phase.of(x).is_(HELD), phase.of(x).among(HELD, GONE)
    touched = touches(e, x, c) & told(e, x, contract)
    hears = exists(some_direction, awaited(some_direction, x))
    parts = [
        Named(
            "a load belongs to a request that waits for it", forall(x, transfer(LOAD, x) >> (waits | awaited(LOAD, x)))
        ),
        Named(
            "a save belongs to a request that is held for it",
            forall(x, (transfer(SAVE, x) & told(SAVE, x, contract)) >> awaited(SAVE, x)),
        ),
        Named("who is awaited for is held", forall(e, x, awaited(e, x) >> held)),
        Named("a transfer touches while it runs", forall(e, x, c, touches(e, x, c) >> transfer(e, x))),
        Named("a transfer touches what its request owns", forall(e, x, c, touched >> owns(x, c))),
        Named("a load has its blocks alone", forall(x, c, touches(LOAD, x, c) >> ~cached(c))),
        Named("only loads that are waited for have arrived", forall(x, arrived(x) >> phase.of(x).is_(LOADING))),
    ]
    if not contract.lossy:
        parts += [
            Named("who waits for a load has one", forall(x, waits >> transfer(LOAD, x))),
            Named("who is held is awaited for", forall(x, held >> hears)),
            Named("what is awaited runs", forall(e, x, awaited(e, x) >> transfer(e, x))),
        ]
    if contract.duplicate:
        parts += [
            Named("what was reported is not awaited", forall(e, x, reported(e, x) >> ~awaited(e, x))),
            Named("a load that was reported is not waited for", forall(x, reported(LOAD, x) >> ~waits)),
        ]
    if contract.duplicate or contract.unclaimed:
        saved = transfer(SAVE, x) | reported(SAVE, x)
        parts.append(Named("only requests that are over have a save", forall(x, saved >> over)))
    if contract.unclaimed:
        parts.append(Named("only requests that are over were claimed", forall(x, claimed(x) >> over)))
    if contract.unsolicited:
        parts.append(Named("only claimed saves are awaited", forall(x, awaited(SAVE, x) >> claimed(x))))
    return parts


def _steps() -> list[Named]:
    used = uses(t, x, c)
    kept = (used & stage.of(t).is_(IN_FLIGHT) & overlapping()) >> (computed(x, c) | held_back(c))
    return [
        Named(
            "a step that is being built uses what is computed",
            forall(t, x, c, (used & stage.of(t).is_(BUILT)) >> computed(x, c)),
        ),
        Named("an idle step uses nothing", forall(t, x, c, used >> ~stage.of(t).is_(IDLE))),
        Named("what a step in flight uses is kept", forall(t, x, c, kept)),
        Named("loads and steps are apart", forall(t, x, y, c, used >> ~touches(LOAD, y, c))),
    ]
