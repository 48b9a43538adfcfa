"""Read what a reference scheduler shows. Only reads; never judges."""

from __future__ import annotations

from collections import deque

from kvmodel.port import Observation
from kvrace.reference.request import Request
from kvrace.reference.scheduler import ReferenceScheduler

_COUNTERS = ("num_computed_tokens", "num_output_placeholders", "num_cached_blocks")


def observe(scheduler: ReferenceScheduler, names: tuple[str, ...], steps_in_flight: int) -> Observation:
    """Everything the properties look at. ``names`` are the request ids of the scope.

    ``tables`` is only filled when no step is in flight: before that, entries are no leak.
    """
    requests, pool, blocks_of = scheduler.requests, scheduler.pool, scheduler.tables.blocks_of
    known = [(name, requests[name]) for name in names if name in requests]
    return Observation(
        phases=tuple((name, "HELD" if request.status.finished else request.status.name) for name, request in known),
        queues=tuple(
            (name, tuple(request.request_id for request in queue))
            for name, queue in _queues(scheduler).items()
            if queue
        ),
        owned=tuple(
            (name, tuple(block.block_id for block in blocks_of[name])) for name in names if blocks_of.get(name)
        ),
        held_back=tuple(block.block_id for _, blocks in scheduler.deferred_frees for block in blocks),
        references=(None, *(block.references for block in pool.blocks[1:])),
        free=tuple(block.block_id for block in pool.free),
        free_count=pool.free_count,
        cached=frozenset(block.block_id for block in pool.blocks if block.content is not None),
        tables=() if steps_in_flight else _tables(scheduler, names),
        negative=tuple(
            f"{counter} of {name}" for name, request in known for counter in _COUNTERS if getattr(request, counter) < 0
        ),
        pending=scheduler.has_requests(),
    )


def _queues(scheduler: ReferenceScheduler) -> dict[str, list[Request]]:
    """The queues by the names they have in vLLM."""
    return {"running": scheduler.running, "waiting": scheduler.waiting, "kv_holding_waiting": scheduler.holding}


def _tables(scheduler: ReferenceScheduler, names: tuple[str, ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Every container that still names a request of the scope, found by looking: a table that a subclass adds is seen too."""
    found = []
    for owner in (scheduler, scheduler.tables):
        for attribute, value in owner.__dict__.items():
            if isinstance(value, dict | set | list | deque):
                ids = {
                    item.request_id if isinstance(item, Request) else item
                    for item in value
                    if isinstance(item, Request | str)
                }
                left = tuple(name for name in names if name in ids)
                if left:
                    found.append((f"{type(owner).__name__}.{attribute}", left))
    return tuple(found)
