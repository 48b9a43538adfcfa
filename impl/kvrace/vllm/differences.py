"""What releases of vLLM do differently, 0.9.2 to 0.33.0. All of it is here; the rest of the adapter knows one vLLM.

Each difference is found by looking at the code that was imported, never by its number, so a release between two of those that were
read, or a patched one, is taken for what it is. The numbers in the comments are the releases in which a difference was seen.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Hashable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from kvmodel.port import UnknownSubject

if TYPE_CHECKING:
    from kvrace.capture import StateWalk


def takes(function: Any, name: str) -> bool:
    """Whether a function, or the constructor of a class, has a parameter of this name."""
    return name in inspect.signature(function).parameters


def _those_taken(function: Any, **arguments: Any) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if takes(function, name)}


# Importing it.


def allow_known_names() -> None:
    """0.9.2 adds a configuration ``aimv2`` to those of transformers, which has had one of that name for long. Let it."""
    from transformers import AutoConfig

    register = AutoConfig.register

    def again(model_type: str, config: Any, exist_ok: bool = False) -> None:
        register(model_type, config, exist_ok=exist_ok or model_type == "aimv2")

    AutoConfig.register = staticmethod(again)


def async_scheduler() -> type | None:
    """0.9.2 has none."""
    try:
        from vllm.v1.core.sched.async_scheduler import AsyncScheduler
    except ModuleNotFoundError:
        return None
    found: type = AsyncScheduler
    return found


def may_ask_later(connector: type) -> bool:
    """Whether a connector may answer None to a lookup: 0.9.2 knows no such answer."""
    returned = inspect.signature(connector.get_num_new_matched_tokens).return_annotation  # type: ignore[attr-defined]
    return any(word in str(returned) for word in ("None", "Optional"))


def _sha256() -> Any:
    try:
        from vllm.utils.hashing import sha256
    except ModuleNotFoundError:  # up to 0.11.0
        from vllm.utils import sha256
    return sha256


# Making a scheduler.


def scheduler_config(kind: Any, async_scheduling: bool, **settings: Any) -> Any:
    """A ``SchedulerConfig``. Raises UnknownSubject for asynchronous scheduling where there is none (0.9.2)."""
    if async_scheduling and not takes(kind, "async_scheduling"):
        raise UnknownSubject("this vLLM has no asynchronous scheduling; use --scheduler sync")
    known = _those_taken(kind, async_scheduling=async_scheduling, is_encoder_decoder=False)  # the second from 0.11.2 on
    return kind(**settings, **known)


def set_token_budget(config: Any, tokens: int) -> None:
    """The most tokens of a step; up to 0.16.0 those of a batch are that. Set in a finished configuration: vLLM refuses one with
    fewer tokens than requests."""
    name = "max_num_scheduled_tokens"
    name = name if hasattr(config.scheduler_config, name) else "max_num_batched_tokens"
    setattr(config.scheduler_config, name, tokens)


def scheduler_arguments(scheduler: Any, block_size: int) -> dict[str, Any]:
    """Up to 0.11.0 the block size is read from the configuration alone."""
    return _those_taken(scheduler, block_size=block_size)


def cache_spec(kind: Any, **settings: Any) -> Any:
    """What a group of blocks holds. Up to 0.10.2 the specification has to say that it is not one of latent attention."""
    return kind(**settings, **_those_taken(kind, use_mla=False))


def connector_arguments(base: Any, kv_cache_config: Any) -> dict[str, Any]:
    """Connectors hear of the KV cache's configuration from 0.11.2 on."""
    return _those_taken(base.__init__, kv_cache_config=kv_cache_config)


def holds_for_loads(scheduler: Any) -> bool:
    """Whether the scheduler itself holds blocks until a load is reported, from 0.16.0 on."""
    return takes(scheduler._free_request, "delay_free_blocks")


# Making requests.


def block_hasher(kv_cache_utils: Any) -> Callable[[int], Any]:
    """What hashes the blocks of a request, by the size of a block. In 0.9.2 the manager does it by itself."""
    if not hasattr(kv_cache_utils, "get_request_block_hasher"):
        return lambda size: None
    sha256 = _sha256()
    kv_cache_utils.init_none_hash(sha256)
    return lambda size: kv_cache_utils.get_request_block_hasher(size, sha256)


_OLD_REQUEST = {
    "eos_token_id": None,  # up to 0.16.0
    "multi_modal_inputs": None,  # these three in 0.9.2
    "multi_modal_hashes": None,
    "multi_modal_placeholders": None,
}


def request_arguments(request: Any, hasher: Any) -> dict[str, Any]:
    return _those_taken(request, block_hasher=hasher, **_OLD_REQUEST)


# Reading a dispatched step.


def resumed(cached: Any, index: int) -> bool:
    """Whether a request in ``scheduled_cached_reqs`` begins again, with a block table of its own."""
    old = getattr(cached, "resumed_from_preemption", None)  # up to 0.11.0
    if old is not None:
        return bool(old[index])
    return cached.req_ids[index] in cached.resumed_req_ids


def preempted(output: Any, running_before: list[Any]) -> Iterator[str]:
    """The requests that a call of ``schedule`` took out of the batch. Before 0.12.0 the workers are not told: seen by their
    status. Such a request cannot be running again, since nothing is taken from the queue in a call that preempts."""
    if hasattr(output, "preempted_req_ids"):
        yield from output.preempted_req_ids or ()
        return
    for request in running_before:
        if request.status.name == "PREEMPTED":
            yield request.request_id


def common_prefix(output: Any) -> int:
    """How many first blocks a step says that all requests have in common. From 0.32.0 on, without cascade attention, none."""
    counts = output.num_common_prefix_blocks
    return int(counts[0]) if counts else 0


# Making a worker's output.


def reports_kind(outputs: Any) -> Any:
    """The class of a connector's reports; None in 0.9.2, where they are fields of the output itself."""
    return getattr(outputs, "KVConnectorOutput", None)


def reports(kind: Any, sending: set[str], receiving: set[str]) -> dict[str, Any]:
    """The fields of a ``ModelRunnerOutput`` that report transfers."""
    fields = {"finished_sending": sending or None, "finished_recving": receiving or None}
    return fields if kind is None else {"kv_connector_output": kind(**fields)}


def constant_fields(runner_output: Any) -> dict[str, Any]:
    """Fields without a default, up to 0.13.0, of which no request of a scope makes use."""
    unused: dict[str, Any] = {"spec_token_ids": None, "logprobs": None, "prompt_logprobs_dict": {}, "pooler_output": []}
    parameters = inspect.signature(runner_output).parameters
    return {n: v for n, v in unused.items() if n in parameters and parameters[n].default is inspect.Parameter.empty}


def sampled_tokens(runner_output: Any) -> Callable[[list[int]], Any]:
    """Arrays in 0.11.2, lists before and after it."""
    if "ndarray" not in str(runner_output.__annotations__["sampled_token_ids"]):
        return lambda tokens: tokens
    import numpy

    return lambda tokens: numpy.array(tokens, dtype=numpy.int64)


# Looking at a pool.


def free_list(queue: Any) -> tuple[Any, Any]:
    """The first block of the pool's free list, and what comes after the last one. In 0.9.2 the list has no ends but its blocks."""
    if hasattr(queue, "fake_free_list_head"):
        return queue.fake_free_list_head.next_free_block, queue.fake_free_list_tail
    return queue.free_list_head, None


def has_free_list(queue: Any) -> bool:
    ends = ("fake_free_list_head", "fake_free_list_tail"), ("free_list_head", "free_list_tail")
    return any(all(hasattr(queue, name) for name in names) for names in ends)


def block_contents(kind: type, names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """Reads the attributes ``names`` of a block. In 0.9.2 its hash is of a class of its own, with the tokens in it."""
    get = attrgetter(*names)
    hashed = getattr(sys.modules[kind.__module__], "BlockHash", None)
    if not (isinstance(hashed, type) and issubclass(hashed, tuple)):
        return get
    return lambda block: _plain(get(block))


def _plain(value: Any) -> Any:
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value


def cached_blocks(walk: StateWalk, value: Any, _owner: dict[str, Any]) -> Hashable:
    """Up to 0.11.0 the prefix cache is a dict of dicts by block id, of which the first block is offered: the order counts, and
    the ids are renamed like all others."""
    encoded = walk.encode(value)
    if not isinstance(value, dict):
        return encoded
    return tuple((walk.encode(key), tuple(walk.names[block] for block in blocks)) for key, blocks in value.items())
