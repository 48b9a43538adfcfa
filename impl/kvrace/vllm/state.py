"""What kvrace knows about the state of a vLLM scheduler: what is configuration, and what cannot influence the future.

Every exception from "all state counts" is here with its reason; spec/exploration.md has them as a table.
"""

from __future__ import annotations

import abc
import sys
import types
import typing
from collections.abc import Callable, Hashable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from kvrace.capture import StateWalk
from kvrace.capture_rules import LIKE_STOCK, CaptureRules, Rule, leave_out
from kvrace.vllm.differences import block_contents, cached_blocks

if TYPE_CHECKING:
    from kvrace.vllm.api import Api


def _since_processed(walk: StateWalk, value: Any, _owner: dict[str, Any]) -> Hashable:
    return max(0, int(value) - int(walk.context["processed"]))


def _steps_ahead(walk: StateWalk, value: Any, _owner: dict[str, Any]) -> Hashable:
    return max(0, int(value) - int(walk.context["step"]) - 1)


def _fences(walk: StateWalk, value: Any, _owner: dict[str, Any]) -> Hashable:
    encoded = walk.encode(value)
    if any(len(entry) != 2 for entry in value):  # a subclass keeps something else there
        return encoded
    processed = int(walk.context["processed"])
    return tuple((fence - processed, tuple(walk.names[block.block_id] for block in blocks)) for fence, blocks in value)


def _since_prefill(walk: StateWalk, _value: Any, owner: dict[str, Any]) -> Hashable:
    return min(int(owner["local_prefill_interval"]), int(owner["num_executed_steps"]) - int(owner["last_prefill_step"]))


def _while_prefills_are_held(walk: StateWalk, value: Any, owner: dict[str, Any]) -> Hashable:
    return bool(value) if owner.get("local_prefill_interval", 1) > 1 else None


def _whether(walk: StateWalk, value: Any, _owner: dict[str, Any]) -> Hashable:
    return bool(value)


def _pool_blocks(walk: StateWalk, value: list[Any], _owner: dict[str, Any]) -> Hashable:
    """All blocks in the order of their new names; the links of the free list are part of each block."""
    return tuple([_block(walk, value[block]) for block in walk.names])


def _list_end(walk: StateWalk, value: Any, _owner: dict[str, Any]) -> Hashable:
    return _block(walk, value)


def _block(walk: StateWalk, block: Any) -> Hashable:
    """Contents of one block. The links of the free list become names, so that the order of the list is part of the key."""
    get, _, compared = _block_getter(type(block))
    walk.save(_put_block, block, get(block))
    before, after = block.prev_free_block, block.next_free_block
    names = walk.names
    return (
        compared(block),
        None if before is None else names.get(before.block_id, -1),
        None if after is None else names.get(after.block_id, -1),
    )


_Getter = Callable[[Any], tuple[Any, ...]]
_BLOCK_GETTERS: dict[type, tuple[_Getter, tuple[str, ...], _Getter]] = {}


def _block_getter(kind: type) -> tuple[_Getter, tuple[str, ...], _Getter]:
    """How to read what can change in a block at once, the names of that, and how to read what is compared as it is."""
    if kind not in _BLOCK_GETTERS:
        # Slots, or a dataclass in older releases.
        names = tuple(getattr(kind, "__slots__", ())) or tuple(kind.__dataclass_fields__)  # type: ignore[attr-defined]
        slots = tuple(name for name in names if name not in ("block_id", "pool"))
        compared = tuple(name for name in slots if name not in ("prev_free_block", "next_free_block"))
        _BLOCK_GETTERS[kind] = (attrgetter(*slots), slots, block_contents(kind, compared))
    return _BLOCK_GETTERS[kind]


def _put_block(block: Any, contents: tuple[Any, ...]) -> None:
    for slot, item in zip(_block_getter(type(block))[1], contents, strict=True):
        setattr(block, slot, item)


def is_stock(kind: type) -> bool:
    """Whether a class is vLLM's own, or one of the bare helpers that its classes are built on."""
    return kind.__module__.startswith("vllm.") or kind in (object, abc.ABC, typing.Generic)


def foreign_classes(scheduler_class: type) -> list[type]:
    """The classes of a scheduler's ancestry that are not vLLM's own."""
    return [base for base in scheduler_class.__mro__ if not is_stock(base)]


def compared_like_stock(scheduler_class: type) -> bool:
    """Whether each class that is not vLLM's says so itself: the word of a base is not that of its subclass."""
    return all(vars(kind).get(LIKE_STOCK) is True for kind in foreign_classes(scheduler_class))


def _words(code: types.CodeType) -> Iterator[str]:
    """Every name and every string a piece of code uses, with the code inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _words(constant)
        elif isinstance(constant, str):
            yield constant


def _words_of(scheduler_class: type) -> set[str]:
    """The names used in foreign classes and in the modules they are defined in."""
    words: set[str] = set()
    for kind in foreign_classes(scheduler_class):
        places = [vars(kind), vars(sys.modules[kind.__module__]) if kind.__module__ in sys.modules else {}]
        for value in [value for place in places for value in place.values()]:
            function = getattr(value, "__func__", getattr(value, "fget", value))
            code = getattr(function, "__code__", None)
            if isinstance(code, types.CodeType):
                words.update(_words(code))
    return words


def capture_rules(api: Api, scheduler_class: type | None = None) -> CaptureRules:
    """The rules for the vLLM release behind ``api``, and for a scheduler class that may be a subclass of its own.

    Reasons that hold for vLLM's own code need not hold for a subclass: what it names in its code is compared as it is, steps in
    flight are copied and compared in full, and blocks are compared by id, since a subclass may keep ids anywhere. All of its
    classes can give their word that this is not needed (``LIKE_STOCK``).
    """
    rules = _stock_rules(api)
    if scheduler_class is None or compared_like_stock(scheduler_class):
        return rules
    words = _words_of(scheduler_class)
    rules.attributes = {
        (owner, name): rule
        for (owner, name), rule in rules.attributes.items()
        if name not in words or owner in (api.block_pool, api.free_queue)
    }
    rules.unordered = {(owner, name): reason for (owner, name), reason in rules.unordered.items() if name not in words}
    rules.opaque = tuple(kind for kind in rules.opaque if kind is not api.scheduler_output)
    rules.exact_blocks = True
    return rules


def _stock_rules(api: Api) -> CaptureRules:
    scheduler, request, pool, queue = api.scheduler, api.request, api.block_pool, api.free_queue
    attributes: dict[tuple[type, str], tuple[Rule, str]] = {
        (scheduler, "current_step"): (leave_out, "a counter, only compared with next_decode_eligible_step"),
        (request, "next_decode_eligible_step"): (_steps_ahead, "compared with current_step: the distance counts"),
        (scheduler, "sched_step_seq"): (_since_processed, "a counter, only compared with processed_step_seq"),
        (scheduler, "processed_step_seq"): (leave_out, "a counter: the distances to it are in the key"),
        (request, "last_sched_seq"): (_since_processed, "a fence, only compared with processed_step_seq"),
        (scheduler, "deferred_frees"): (_fences, "fences are compared with processed_step_seq: the distance counts"),
        (scheduler, "prev_step_scheduled_req_ids"): (
            leave_out,
            "only decides which token ids are sent to the workers again",
        ),
        (scheduler, "prefill_capacity_bound"): (
            _while_prefills_are_held,
            "only used when prefills are throttled, which kvrace never asks for",
        ),
        (request, "num_preemptions"): (_whether, "only asked whether it is zero"),
        (request, "prefill_stats"): (leave_out, "statistics for the client"),
        (request, "events"): (leave_out, "statistics for the client"),
        (pool, "blocks"): (_pool_blocks, "in the order of the new names instead of the ids"),
        (pool, "cached_block_hash_to_block"): (cached_blocks, "blocks under their new names"),
        (queue, "fake_free_list_head"): (_list_end, "an end of the free list"),
        (queue, "fake_free_list_tail"): (_list_end, "an end of the free list"),
    }
    if "last_prefill_step" in api.stock_attributes[scheduler]:  # 0.33.0
        distance = "the distance counts, up to local_prefill_interval"
        attributes[scheduler, "num_executed_steps"] = (
            _since_prefill,
            f"a counter, only compared with last_prefill_step: {distance}",
        )
        attributes[scheduler, "last_prefill_step"] = (
            _since_prefill,
            f"only compared with num_executed_steps: {distance}",
        )
    return CaptureRules(
        opaque=tuple(api.left_alone),
        opaque_modules=(
            "vllm.config",
            "torch",
            "vllm.v1.kv_cache_interface",
            "vllm.sampling_params",
            "vllm.multimodal",
        ),
        attributes=attributes,
        unordered={
            (scheduler, "requests"): "looked up by id; iterated only by finish_requests(None)",
            (api.single_type_manager, "req_to_blocks"): "looked up by id",
            (api.single_type_manager, "num_cached_block"): "looked up by id",
            (api.cache_manager, "req_to_block_hashes"): "looked up by id",
        },
        block=api.block,
        known=api.stock_attributes,
        trusted_modules=("vllm.",),
    )
