"""What moves blocks in vLLM, and which lines of a scheduler's code decide it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvrace.places import Places

MOVING = ("free_blocks", "get_new_blocks", "touch")
"""The methods of ``BlockPool`` by which blocks lose and get owners."""


def reference_counts(pool: Any) -> list[int | None]:
    return [None if block.is_null else block.ref_cnt for block in pool.blocks]


def places_of(scheduler_class: type, shown: Callable[[str], str]) -> Places:
    return Places(scheduler_class, shown, _only_frees)


def _only_frees(module: str, function: str) -> bool:
    """vLLM's ``_free_blocks`` and its like do what ``finish_requests`` or a report have decided. What a subclass calls so may be
    where its fault is."""
    return module.startswith("vllm.") and function.startswith("_free")
