"""The state of the relation: which request owns which block, what touches it, what the scheduler waits for.

Sizes, prompts, queues and priorities are not here: they decide *whom* a scheduler serves, and the relation allows every choice.
"""

from __future__ import annotations

from kvmodel.relation.terms import Sort, Symbol, Variable

REQUEST = Sort("Request")
"""One life of a request: an id that is used again is another request."""
BLOCK = Sort("Block")
STEP = Sort("Step")
ID = Sort("Id")
DIRECTION = Sort("Direction", ("load", "save"))
PHASE = Sort("Phase", ("absent", "waiting", "loading", "running", "held", "gone"))
STAGE = Sort("Stage", ("idle", "built", "in_flight"))
ANSWER = Sort("Answer", ("nothing", "claimed", "hidden"))
RETURN = Sort("Return", ("at_once", "behind_steps"))

LOAD, SAVE = (DIRECTION.element(name) for name in DIRECTION.elements)
ABSENT, WAITING, LOADING, RUNNING, HELD, GONE = (PHASE.element(name) for name in PHASE.elements)
IDLE, BUILT, IN_FLIGHT = (STAGE.element(name) for name in STAGE.elements)
NOTHING, CLAIMED, HIDDEN = (ANSWER.element(name) for name in ANSWER.elements)
AT_ONCE, BEHIND_STEPS = (RETURN.element(name) for name in RETURN.elements)

PHASE_MEANINGS = {
    "absent": "the client has not sent it yet",
    "waiting": "the scheduler has it and does not run it (WAITING, PREEMPTED)",
    "loading": "its load was started, and the scheduler has not taken note of the end (WAITING_FOR_REMOTE_KVS)",
    "running": "it takes part in steps (RUNNING)",
    "held": "it is over, and its blocks stay for a transfer (finished, still in Scheduler.requests)",
    "gone": "it is over and forgotten",
}

# What belongs to the scheduler.
phase = Symbol("phase", (REQUEST,), "where a request is in its life", PHASE, initially="absent")
owns = Symbol("owns", (REQUEST, BLOCK), "the block is in the request's block table (req_to_blocks)")
computed = Symbol(
    "computed", (REQUEST, BLOCK), "the scheduler counts KV in this block of the request (num_computed_tokens)"
)
free = Symbol("free", (BLOCK,), "the block is in the pool (BlockPool.free_block_queue)")
held_back = Symbol(
    "held_back", (BLOCK,), "the block was given up and waits for steps in flight (Scheduler.deferred_frees)"
)
cached = Symbol("cached", (BLOCK,), "the prefix cache offers the block (KVCacheBlock.block_hash)")
arrived = Symbol(
    "arrived",
    (REQUEST,),
    "its load was reported, which is taken note of at the next schedule (finished_recving_kv_req_ids)",
)
awaited = Symbol(
    "awaited", (DIRECTION, REQUEST), "the request ended while this transfer ran, and the scheduler was told of it"
)
stage = Symbol(
    "stage",
    (STEP,),
    "where a step is: not there, being built, or dispatched and not processed",
    STAGE,
    initially="idle",
)
uses = Symbol("uses", (STEP, REQUEST, BLOCK), "the step reads or writes the block for the request (SchedulerOutput)")

# What belongs to the workers and the connector.
filled = Symbol("filled", (BLOCK,), "the block holds valid KV, or will when the steps dispatched so far are over")
transfer = Symbol("transfer", (DIRECTION, REQUEST), "a transfer runs that will be reported")
touches = Symbol("touches", (DIRECTION, REQUEST, BLOCK), "the transfer reads or writes the block")
spoiled = Symbol("spoiled", (REQUEST, BLOCK), "the load of this block failed (invalid_block_ids)")
reported = Symbol("reported", (DIRECTION, REQUEST), "the transfer was reported")
claimed = Symbol("claimed", (REQUEST,), "the connector answered True at request_finished")
unasked = Symbol("unasked", (REQUEST,), "a report of a save that was never claimed is on its way")

# What never changes.
name_of = Symbol("id", (REQUEST,), "the id by which reports name the request", ID, rigid=True)
overlapping = Symbol(
    "overlapping", (), "a step may be scheduled while another is in flight (AsyncScheduler)", rigid=True
)

STATE = (
    phase, owns, computed, free, held_back, cached, arrived, awaited, stage,
    uses, filled, transfer, touches, spoiled, reported, claimed, unasked,
)  # fmt: skip
RIGID = (name_of, overlapping)
INITIALLY_TRUE = (free,)
"""At the start every block is in the pool; every other relation is empty."""

# Parameters of actions.
r, q = Variable("r", REQUEST), Variable("q", REQUEST)
b = Variable("b", BLOCK)
s = Variable("s", STEP)
d = Variable("d", DIRECTION)
answer = Variable("answer", ANSWER)
giving_back = Variable("giving_back", RETURN)

# Arguments of changes, and the variables that invariants and properties speak of.
x, y = Variable("x", REQUEST), Variable("y", REQUEST)
c = Variable("c", BLOCK)
t = Variable("t", STEP)
e = Variable("e", DIRECTION)

# Bound inside of guards and changes.
any_request, any_block = Variable("any_request", REQUEST), Variable("any_block", BLOCK)
any_step, any_direction = Variable("any_step", STEP), Variable("any_direction", DIRECTION)

# Bound inside of properties and invariants.
some_request, some_direction, some_step = (
    Variable("some_request", REQUEST),
    Variable("some_direction", DIRECTION),
    Variable("some_step", STEP),
)
