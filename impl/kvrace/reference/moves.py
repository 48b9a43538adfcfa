"""What moves blocks in the reference scheduler, and which lines of its code decide it."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from kvmodel.port import BlockMove
from kvrace.places import Places, Role, codes, recorded_moves
from kvrace.reference.policies import AssertPolicy
from kvrace.reference.scheduler import ReferenceScheduler

_ROLES: dict[str, Role] = {
    "finish": "carries out",
    "release": "carries out",
    "free_blocks": "carries out",
    "drain_deferred_frees": "comes later",
}


def places_of(scheduler_class: type[ReferenceScheduler], policy: type[AssertPolicy]) -> Places:
    """The policy is code that decides, as much as the scheduler."""
    return Places(scheduler_class, shown, _role, others=policy.__mro__)


def shown(filename: str) -> str:
    return f"kvrace/reference/{Path(filename).name}"


def _role(module: str, function: str) -> Role:
    return _ROLES.get(function, "decides") if module == ReferenceScheduler.__module__ else "decides"


def moves_of(scheduler: ReferenceScheduler, places: Places) -> AbstractContextManager[list[BlockMove]]:
    """Collect the moves of blocks while a call into the scheduler runs."""
    watched = codes(type(scheduler.pool), ("take", "share", "give_back")) | codes(type(scheduler.tables), ("end",))
    return recorded_moves(watched, partial(_owners, scheduler), places.deciding)


def _owners(scheduler: ReferenceScheduler) -> list[int | None]:
    """References and table entries of each block: one of the two changes whenever a block moves."""
    entries = Counter(block.block_id for table in scheduler.tables.blocks_of.values() for block in table)
    return [block.references + entries[block.block_id] if block.block_id else None for block in scheduler.pool.blocks]
