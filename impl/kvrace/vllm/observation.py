"""Read what a vLLM scheduler shows. Only reads; never judges."""

from __future__ import annotations

from collections import deque
from typing import Any

from kvmodel.port import Observation

_COUNTERS = ("num_computed_tokens", "num_in_flight_tokens", "num_output_placeholders", "num_stale_output_tokens")
_QUEUES = ("running", "waiting", "kv_holding_waiting", "skipped_waiting")
_CONTAINERS = (dict, set, list, deque)
_NOT_A_TABLE = {"prev_step_scheduled_req_ids": "the ids of the newest step, overwritten by the next one"}


def observe(scheduler: Any, names: tuple[str, ...], steps_in_flight: int, pending: bool) -> Observation:
    """Everything the properties look at. ``names`` are the request ids of the scope; ``pending`` is what ``has_requests()``
    said (asked by the caller, since the scheduler may raise there).

    ``tables`` is only filled when no request is live and no step is in flight: before that, entries are no leak.
    """
    requests = scheduler.requests
    manager = scheduler.kv_cache_manager.coordinator.single_type_managers[0]
    pool = scheduler.kv_cache_manager.block_pool
    known = [(name, requests[name]) for name in names if name in requests]
    busy = steps_in_flight > 0 or any(not request.is_finished() for _, request in known)
    held_back = tuple(block.block_id for entry in getattr(scheduler, "deferred_frees", ()) for block in entry[1])
    blocks = pool.blocks
    return Observation(
        phases=tuple((name, "HELD" if request.is_finished() else request.status.name) for name, request in known),
        queues=tuple(
            (queue, tuple([request.request_id for request in getattr(scheduler, queue)]))
            for queue in _QUEUES
            if getattr(scheduler, queue, None)
        ),
        owned=tuple(
            (name, tuple([block.block_id for block in manager.req_to_blocks[name]]))
            for name in names
            if manager.req_to_blocks.get(name)
        ),
        held_back=held_back,
        references=tuple([None if block.is_null else block.ref_cnt for block in blocks]),
        free=_free_queue(pool.free_block_queue, len(blocks)),
        free_count=pool.free_block_queue.num_free_blocks,
        cached=frozenset([block.block_id for block in blocks if block.block_hash is not None])
        if pool.enable_caching
        else frozenset(),
        tables=() if busy else _tables(scheduler, names),
        negative=tuple(
            f"{counter} of {name}"
            for name, request in known
            for counter in _COUNTERS
            if getattr(request, counter, 0) < 0
        ),
        pending=pending,
    )


def _free_queue(queue: Any, limit: int) -> tuple[int, ...]:
    """The ids in the free list, in order. Stops after ``limit`` + 1 blocks, so that a broken list shows as a double free."""
    ids: list[int] = []
    block = queue.fake_free_list_head.next_free_block
    tail = queue.fake_free_list_tail
    while block is not None and block is not tail and len(ids) <= limit:
        ids.append(block.block_id)
        block = block.next_free_block
    return tuple(ids)


def _tables(scheduler: Any, names: tuple[str, ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Every container, of the scheduler or its managers, that still names a request of the scope.

    Found by looking, not from a list, so that a table which a subclass or a newer release adds is seen as well.
    """
    managers = (scheduler.kv_cache_manager, *scheduler.kv_cache_manager.coordinator.single_type_managers)
    found = []
    for owner in (scheduler, *managers, scheduler.encoder_cache_manager):
        for attribute, value in owner.__dict__.items():
            if value and isinstance(value, _CONTAINERS) and attribute not in _NOT_A_TABLE:
                left = sorted({name for item in value if (name := _request_id(item)) in names})
                if left:
                    found.append((f"{type(owner).__name__}.{attribute}", tuple(left)))
    return tuple(found)


def _request_id(item: Any) -> str | None:
    if isinstance(item, str):
        return item
    return getattr(item, "request_id", None)
