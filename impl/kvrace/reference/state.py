"""What cannot influence the future of a reference scheduler, and how its blocks are compared under new names."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from kvrace.capture import StateWalk
from kvrace.capture_rules import CaptureRules, leave_out
from kvrace.reference.connector import ScriptedConnector
from kvrace.reference.policies import AssertPolicy
from kvrace.reference.pool import Block, BlockPool
from kvrace.reference.request import Request
from kvrace.reference.scheduler import ReferenceScheduler
from kvrace.reference.tables import BlockTables


def _since_processed(walk: StateWalk, value: int, _owner: dict[str, Any]) -> Hashable:
    return max(0, value - int(walk.context["processed"]))


def _fences(walk: StateWalk, value: Any, _owner: dict[str, Any]) -> Hashable:
    walk.encode(value)
    processed = int(walk.context["processed"])
    return tuple((fence - processed, tuple(walk.names[block.block_id] for block in blocks)) for fence, blocks in value)


def _pool_blocks(walk: StateWalk, value: list[Block], _owner: dict[str, Any]) -> Hashable:
    """The contents of all blocks, in the order of their new names."""
    walk.encode(value)
    out = []
    for block in sorted(value, key=lambda item: walk.names[item.block_id]):
        walk.save(_put_block, block, (block.references, block.content))
        out.append((block.references, block.content))
    return tuple(out)


def _put_block(block: Block, contents: Any) -> None:
    block.references, block.content = contents


def capture_rules() -> CaptureRules:
    """Everything counts, except what is named here with its reason."""
    scheduler = ReferenceScheduler(ScriptedConnector(1), AssertPolicy(), usable_blocks=1, block_size=1)
    request = Request("A", [], 1, 0)
    return CaptureRules(
        opaque=(ScriptedConnector, AssertPolicy),
        attributes={
            (ReferenceScheduler, "scheduled_steps"): (
                _since_processed,
                "a counter, only compared with processed_steps",
            ),
            (ReferenceScheduler, "processed_steps"): (leave_out, "a counter: the distances to it are in the key"),
            (ReferenceScheduler, "deferred_frees"): (
                _fences,
                "fences are compared with processed_steps: the distance counts",
            ),
            (Request, "last_step"): (_since_processed, "a fence, only compared with processed_steps"),
            (BlockPool, "blocks"): (_pool_blocks, "in the order of the new names instead of the ids"),
        },
        unordered={
            (ReferenceScheduler, "requests"): "looked up by id",
            (BlockTables, "blocks_of"): "looked up by id",
            (BlockPool, "cache"): "looked up by content",
        },
        block=Block,
        known={ReferenceScheduler: frozenset(scheduler.__dict__), Request: frozenset(request.__dict__)},
        trusted_modules=("kvrace.reference.",),
    )
