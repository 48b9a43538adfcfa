"""What the scheduler may do in `schedule()` and with the output of a step: strict about ownership, free in everything else.

An engine event is a sequence of these: a ``schedule`` preempts, takes blocks, starts loads, builds a step and dispatches it; an
``update`` processes a step, ends requests and takes reports. Whom to serve, and in which order, is the scheduler's own affair.
"""

from __future__ import annotations

from kvmodel.contract import Contract
from kvmodel.relation.ownership import fence, gives_up, moves_to, once, told
from kvmodel.relation.terms import Action, Change, Choice, Named, Term, conjunction, exists, forall
from kvmodel.relation.vocabulary import (
    BUILT,
    IDLE,
    IN_FLIGHT,
    LOAD,
    LOADING,
    RUNNING,
    WAITING,
    any_block,
    any_direction,
    any_request,
    any_step,
    arrived,
    b,
    c,
    cached,
    computed,
    e,
    filled,
    free,
    giving_back,
    held_back,
    overlapping,
    owns,
    phase,
    r,
    reported,
    s,
    spoiled,
    stage,
    t,
    touches,
    transfer,
    uses,
    x,
)


def take() -> Action:
    here = x.is_(r) & c.is_(b)
    return Action(
        "take",
        "scheduler",
        (r, b),
        (
            Named(
                "it waits or runs",
                phase.of(r).among(WAITING, RUNNING),
                "Scheduler.schedule gives blocks to nobody else",
            ),
            Named("the block is free", free(b), "BlockPool.get_new_blocks takes from the free list"),
        ),
        (
            Change(owns, (x, c), owns(x, c) | here),
            Change(free, (c,), free(c) & ~c.is_(b)),
            Change(cached, (c,), cached(c) & ~c.is_(b)),
            Change(filled, (c,), filled(c) & ~c.is_(b)),
        ),
        "a request gets a block from the pool, and the prefix cache stops offering it",
        "KVCacheManager.allocate_slots, BlockPool.get_new_blocks",
    )


def share() -> Action:
    here = x.is_(r) & c.is_(b)
    return Action(
        "share",
        "scheduler",
        (r, b),
        (
            Named("it waits", phase.of(r).is_(WAITING), "Scheduler.waiting"),
            Named("the prefix cache offers the block", cached(b), "BlockPool.get_cached_block"),
        ),
        (
            Change(owns, (x, c), owns(x, c) | here),
            Change(computed, (x, c), computed(x, c) | here),
            Change(free, (c,), free(c) & ~c.is_(b)),
        ),
        "a request gets a block that holds a prefix of its prompt",
        "KVCacheManager.get_computed_blocks, BlockPool.touch",
    )


def offer() -> Action:
    return Action(
        "offer",
        "scheduler",
        (r, b),
        (
            Named(
                "it waits or runs",
                phase.of(r).among(WAITING, RUNNING),
                "Scheduler.schedule gives blocks to nobody else",
            ),
            Named("the block holds its KV", computed(r, b), "KVCacheManager.cache_blocks: computed tokens only"),
        ),
        (Change(cached, (c,), cached(c) | c.is_(b)),),
        "the prefix cache offers a block from now on",
        "BlockPool.cache_full_blocks",
    )


def start_load(once_only: bool) -> Action:
    here = x.is_(r)
    target = owns(r, c) & ~computed(r, c)
    quiet = forall(any_step, ~stage.of(any_step).is_(IN_FLIGHT))
    return Action(
        "start_load",
        "scheduler",
        (r,),
        (
            Named("it waits", phase.of(r).is_(WAITING), "Scheduler.waiting"),
            Named(
                "without overlap, no step is in flight",
                overlapping() | quiet,
                "Scheduler.schedule comes after the update",
            ),
            *(
                (Named("its load was not reported before", ~reported(LOAD, r), "assumption `loads-once`"),)
                if once_only
                else ()
            ),
        ),
        (
            moves_to(r, LOADING),
            Change(transfer, (e, x), transfer(e, x) | (here & e.is_(LOAD))),
            Change(touches, (e, x, c), touches(e, x, c) | (here & e.is_(LOAD) & target)),
            Change(computed, (x, c), computed(x, c) | (here & owns(r, c))),
            Change(spoiled, (x, c), spoiled(x, c) & ~here),
        ),
        "a load begins into the blocks of the request that hold no KV yet; the scheduler counts them as computed",
        "KVConnectorBase_V1.update_state_after_alloc",
    )


def wake() -> Action:
    return Action(
        "wake",
        "scheduler",
        (r,),
        (Named("its load was reported", arrived(r), "Scheduler.finished_recving_kv_req_ids"),),
        (moves_to(r, WAITING), Change(arrived, (x,), arrived(x) & ~x.is_(r))),
        "the scheduler takes note that the load is over",
        "Scheduler._update_waiting_for_remote_kv",
    )


def admit() -> Action:
    return Action(
        "admit",
        "scheduler",
        (r,),
        (Named("it waits", phase.of(r).is_(WAITING), "Scheduler.waiting"),),
        (moves_to(r, RUNNING),),
        "a waiting request runs from now on",
        "Scheduler.schedule",
    )


def preempt() -> Action:
    always = conjunction(())
    return Action(
        "preempt",
        "scheduler",
        (r, giving_back),
        (
            Named(
                "it waits or runs",
                phase.of(r).among(WAITING, RUNNING),
                "Scheduler.schedule gives blocks to nobody else",
            ),
            fence(r, always),
        ),
        (moves_to(r, WAITING), *gives_up(r, always)),
        "a request gives all its blocks up and is computed anew",
        "Scheduler._preempt_request",
        (once(r, always),),
    )


def give_back() -> Action:
    working = stage.of(any_step).is_(IN_FLIGHT) & uses(any_step, any_request, b)
    at_work = exists(any_step, any_request, working & ~computed(any_request, b))
    alone = forall(any_request, ~owns(any_request, c))
    return Action(
        "give_back",
        "scheduler",
        (b,),
        (
            Named("the block was held back", held_back(b), "Scheduler.deferred_frees"),
            Named(
                "no step in flight works on it for a request that gave it up",
                ~at_work,
                "Scheduler._drain_deferred_frees",
            ),
        ),
        (
            Change(held_back, (c,), held_back(c) & ~c.is_(b)),
            Change(free, (c,), free(c) | (c.is_(b) & alone)),
        ),
        "a block that was held back goes to the pool, unless it has an owner",
        "Scheduler.deferred_frees",
        (Named("no-double-free", ~free(b), "BlockPool.free_blocks"),),
    )


def _step_moves(
    name: str, may: str, before: Term, after: Term, more: tuple[Change, ...], meaning: str, source: str
) -> Action:
    """A step goes from one stage to the next, each once."""
    at_stage = stage.of(s).is_(before)
    return Action(
        name,
        "engine",
        (s,),
        (Named(may, at_stage, "EngineCore.step"),),
        (Change(stage, (t,), Choice(t.is_(s), after, stage.of(t))), *more),
        meaning,
        source,
        (Named("step-once", at_stage, "a step is built, dispatched and processed once"),),
    )


def build() -> Action:
    meaning, source = "the scheduler begins a step", "Scheduler.schedule"
    return _step_moves("build", "the step is not there", IDLE, BUILT, (), meaning, source)


def compute(contract: Contract) -> Action:
    here = t.is_(s) & x.is_(r) & (c.is_(b) | computed(r, c))
    read = forall(
        any_block,
        computed(r, any_block) >> (filled(any_block) & ~exists(any_request, touches(LOAD, any_request, any_block))),
    )
    return Action(
        "compute",
        "scheduler",
        (s, r, b),
        (
            Named("the step is being built", stage.of(s).is_(BUILT), "EngineCore.step"),
            Named("it runs", phase.of(r).is_(RUNNING), "Scheduler.running"),
            Named("it owns the block", owns(r, b), "the block table in SchedulerOutput"),
            Named("the prefix cache does not offer the block", ~cached(b), "full blocks are never written again"),
        ),
        (
            Change(uses, (t, x, c), uses(t, x, c) | here),
            Change(computed, (x, c), computed(x, c) | (x.is_(r) & c.is_(b))),
            Change(filled, (c,), filled(c) | c.is_(b)),
        ),
        "the step computes for the request: it reads the blocks that hold its KV and writes this one",
        "SchedulerOutput.num_scheduled_tokens",
        (
            Named("no-premature-use", read, "what a step reads holds valid KV"),
            Named(
                "no-use-after-free",
                ~exists(
                    any_direction,
                    any_request,
                    touches(any_direction, any_request, b) & told(any_direction, any_request, contract),
                ),
                "no step writes what a transfer touches",
            ),
        ),
    )


def dispatch() -> Action:
    meaning, source = "the workers get the step", "EngineCore.step"
    return _step_moves("dispatch", "the step is being built", BUILT, IN_FLIGHT, (), meaning, source)


def process() -> Action:
    ends = Change(uses, (t, x, c), uses(t, x, c) & ~t.is_(s))
    meaning, source = (
        "the output of the step is processed: it touches nothing any more",
        "Scheduler.update_from_output",
    )
    return _step_moves("process", "the step is in flight", IN_FLIGHT, IDLE, (ends,), meaning, source)


def scheduling_actions(contract: Contract, loads_once: bool) -> tuple[Action, ...]:
    return (
        take(), share(), offer(), start_load(loads_once), wake(), admit(), preempt(), give_back(),
        build(), compute(contract), dispatch(), process(),
    )  # fmt: skip
