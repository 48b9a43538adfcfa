"""Read what a vLLM scheduler shows. Only reads; never judges."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from kvmodel.port import Observation
from kvrace.vllm.connector import ScriptedConnector
from kvrace.vllm.differences import free_list

_COUNTERS = ("num_computed_tokens", "num_in_flight_tokens", "num_output_placeholders", "num_stale_output_tokens")
_QUEUES = ("running", "waiting", "kv_holding_waiting", "skipped_waiting")
_DEPTH = 4
"""How deep a subclass's containers are looked into for blocks and requests."""
_CONTAINERS = (dict, set, list, deque)
_NOT_A_TABLE = {"prev_step_scheduled_req_ids": "the ids of the newest step, overwritten by the next one"}


def observe(
    scheduler: Any, names: tuple[str, ...], steps_in_flight: int, pending: bool, stock: frozenset[str] | None
) -> Observation:
    """Everything the properties look at. ``names`` are the request ids of the scope; ``pending`` is what ``has_requests()``
    said (asked by the caller, since the scheduler may raise there); ``stock`` are the attributes of vLLM's own scheduler when
    this one is a subclass: what it keeps beside them may hold blocks and requests as well.

    ``tables`` is only filled when no step is in flight: before that, entries are no leak.
    """
    requests = scheduler.requests
    managers = scheduler.kv_cache_manager.coordinator.single_type_managers
    pool = scheduler.kv_cache_manager.block_pool
    known = [(name, requests[name]) for name in names if name in requests]
    blocks = pool.blocks
    added = [] if stock is None else [value for name, value in scheduler.__dict__.items() if name not in stock]
    held_back = list(_blocks_in(getattr(scheduler, "deferred_frees", ()), type(blocks[0])))
    held_back += _blocks_in(added, type(blocks[0]))
    return Observation(
        phases=tuple((name, "HELD" if request.is_finished() else request.status.name) for name, request in known),
        queues=tuple(
            (queue, tuple([request.request_id for request in getattr(scheduler, queue)]))
            for queue in _QUEUES
            if getattr(scheduler, queue, None)
        ),
        owned=_owned(managers, names),
        held_back=tuple(held_back),
        references=tuple([None if block.is_null else block.ref_cnt for block in blocks]),
        free=_free_queue(pool.free_block_queue, len(blocks)),
        free_count=pool.free_block_queue.num_free_blocks,
        cached=frozenset([block.block_id for block in blocks if block.block_hash is not None])
        if pool.enable_caching
        else frozenset(),
        tables=() if steps_in_flight else _tables(scheduler, names, _DEPTH if stock is not None else 1),
        negative=tuple(
            f"{counter} of {name}"
            for name, request in known
            for counter in _COUNTERS
            if getattr(request, counter, 0) < 0
        ),
        pending=pending,
    )


def _owned(managers: Sequence[Any], names: tuple[str, ...]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The block tables, one after the other. A second one, that of a sliding window, owns no block where it has the null block."""
    manager, *others = managers
    tables = [
        (
            name,
            tuple(
                [block.block_id for block in manager.req_to_blocks.get(name, ())]
                + [b.block_id for other in others for b in other.req_to_blocks.get(name, ()) if not b.is_null]
            ),
        )
        for name in names
    ]
    return tuple([(name, blocks) for name, blocks in tables if blocks])


def _free_queue(queue: Any, limit: int) -> tuple[int, ...]:
    """The ids in the free list, in order. Stops after ``limit`` + 1 blocks, so that a broken list shows as a double free."""
    ids: list[int] = []
    block, tail = free_list(queue)
    while block is not None and block is not tail and len(ids) <= limit:
        ids.append(block.block_id)
        block = block.next_free_block
    return tuple(ids)


def _blocks_in(value: Any, kind: type, depth: int = 0) -> Iterator[int]:
    """The ids of blocks in plain containers, however nested: a place where a scheduler holds blocks that go back later."""
    if isinstance(value, kind):
        yield value.block_id  # type: ignore[attr-defined]
    elif depth <= _DEPTH and isinstance(value, dict):
        for item in value.values():
            yield from _blocks_in(item, kind, depth + 1)
    elif depth <= _DEPTH and isinstance(value, (list, tuple, set, deque)):
        for item in value:
            yield from _blocks_in(item, kind, depth + 1)
    elif depth <= _DEPTH and _is_foreign(value):
        yield from _blocks_in(list(_contents(value)), kind, depth + 1)


def _is_foreign(value: Any) -> bool:
    """Whether an object is of somebody's own class: not a built-in, none of vLLM's or of what it stands on, nor the connector."""
    module = type(value).__module__
    return (
        module.partition(".")[0] not in ("builtins", "vllm", "torch", "enum") and module != ScriptedConnector.__module__
    )


def _contents(value: Any) -> Iterator[Any]:
    yield from getattr(value, "__dict__", {}).values()
    for slot in getattr(type(value), "__slots__", ()):
        yield getattr(value, slot, None)


def _tables(scheduler: Any, names: tuple[str, ...], depth: int) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Every container, of the scheduler or its managers, that still names a request of the scope.

    Found by looking, not from a list, so that a table which a subclass or a newer release adds is seen as well.
    """
    manager = scheduler.kv_cache_manager
    managers = (manager, *manager.coordinator.single_type_managers, manager.block_pool, scheduler.encoder_cache_manager)
    found = []
    for owner in (scheduler, *managers):
        for attribute, value in owner.__dict__.items():
            if value and attribute not in _NOT_A_TABLE and (isinstance(value, _CONTAINERS) or depth > 1):
                left = sorted(set(_named(value, names, depth)))
                if left:
                    found.append((f"{type(owner).__name__}.{attribute}", tuple(left)))
    return tuple(found)


def _named(value: Any, names: tuple[str, ...], depth: int) -> Iterator[str]:
    """The request ids of the scope in a container: its keys and items, and with ``depth`` what is further inside."""
    if isinstance(value, str):
        if value in names:
            yield value
    elif getattr(value, "request_id", None) in names:
        yield value.request_id
    elif depth and isinstance(value, (list, tuple, set, frozenset, deque)):
        for item in value:
            yield from _named(item, names, depth - 1)
    elif depth and isinstance(value, dict):
        for key, item in value.items():
            yield from _named(key, names, depth - 1)
            yield from _named(item, names, depth - 1)
    elif depth and _is_foreign(value):
        yield from _named(list(_contents(value)), names, depth)
