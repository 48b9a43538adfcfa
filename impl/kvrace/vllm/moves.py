"""What moves blocks in vLLM, and which lines of a scheduler's code decide it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from kvmodel.port import BlockMove
from kvrace.places import Places, Role, codes, recorded_moves

MOVING = ("free_blocks", "get_new_blocks", "touch")
"""The methods of ``BlockPool`` by which blocks lose and get owners."""
_TAKING = ("pop_blocks_for_free",)
"""The method of the manager that takes a request's blocks away, to be given back now or after a dispatched step."""


def places_of(scheduler_class: type, shown: Callable[[str], str]) -> Places:
    return Places(scheduler_class, shown, _role)


def _role(module: str, function: str) -> Role:
    """vLLM's ``_free_blocks`` and its like do what ``finish_requests`` or a report have decided. What a subclass calls so may be
    where its fault is."""
    if module.startswith("vllm.") and function.startswith("_free"):
        return "carries out"
    return "comes later" if module.startswith("vllm.") and function == "_drain_deferred_frees" else "decides"


def moves_of(scheduler: Any, places: Places) -> AbstractContextManager[list[BlockMove]]:
    """Collect the moves of blocks while a call into the scheduler runs."""
    pool = scheduler.kv_cache_manager.block_pool
    managers = scheduler.kv_cache_manager.coordinator.single_type_managers
    watched = codes(type(pool), MOVING).union(*(codes(type(manager), _TAKING) for manager in managers))
    return recorded_moves(watched, partial(_owners, pool, managers), places.deciding)


def _owners(pool: Any, managers: Any) -> list[int | None]:
    """References and table entries of each block: one of the two changes whenever a block moves."""
    tables = [blocks for manager in managers for blocks in manager.req_to_blocks.values()]
    entries = Counter(block.block_id for blocks in tables for block in blocks)
    return [None if block.is_null else block.ref_cnt + entries[block.block_id] for block in pool.blocks]
