"""The part of vLLM's API that kvrace relies on, checked before anything is explored.

A release whose signatures, statuses or fields differ from what the adapter knows is refused with one line. A checker that
guesses would give false verdicts.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from kvmodel.port import UnknownSubject
from kvmodel.scope import SCHEDULINGS, Scheduling, Scope
from kvrace.patch.active import check_what_was_imported
from kvrace.vllm import differences
from kvrace.vllm.environment import import_vllm, make_config
from kvrace.vllm.moves import MOVING

_STATUSES = ("WAITING", "WAITING_FOR_REMOTE_KVS", "RUNNING", "PREEMPTED", "FINISHED_STOPPED", "FINISHED_ABORTED")
_SIGNATURES: dict[str, tuple[str, ...]] = {
    "Scheduler.__init__": ("vllm_config", "kv_cache_config", "structured_output_manager"),
    "Scheduler.add_request": ("request",),
    "Scheduler.finish_requests": ("request_ids", "finished_status"),
    "Scheduler.schedule": (),
    "Scheduler.update_from_output": ("scheduler_output", "model_runner_output"),
    "Scheduler.has_requests": (),
    "Scheduler._update_from_kv_xfer_finished": (),
    "Scheduler._free_blocks": ("request",),
    "Scheduler._connector_finished": ("request",),
    "Request.__init__": ("request_id", "prompt_token_ids", "sampling_params", "arrival_time", "priority"),
    "ModelRunnerOutput.__init__": ("req_ids", "req_id_to_index", "sampled_token_ids"),
    "KVConnectorBase_V1.get_num_new_matched_tokens": ("request", "num_computed_tokens"),
    "KVConnectorBase_V1.update_state_after_alloc": ("request", "blocks", "num_external_tokens"),
    "KVConnectorBase_V1.request_finished": ("request", "block_ids"),
}
_SCHEDULER_FIELDS = ("requests", "waiting", "running", "connector", "kv_cache_manager", "encoder_cache_manager",
                     "finished_req_ids", "finished_recving_kv_req_ids")  # fmt: skip
_REQUEST_FIELDS = ("status", "num_tokens", "num_computed_tokens", "request_id")
_OUTPUT_FIELDS = ("scheduled_new_reqs", "scheduled_cached_reqs", "num_scheduled_tokens", "finished_req_ids")
_POOL_FIELDS = ("blocks", "free_block_queue", "enable_caching", "null_block", *MOVING)
_BLOCK_FIELDS = ("block_id", "ref_cnt", "is_null", "block_hash", "prev_free_block", "next_free_block")


class Api:
    """The classes of one vLLM release, and the few objects that are made from them. ``folder`` is where it is imported from."""

    def __init__(self) -> None:
        self.version = import_vllm()
        try:
            self._import()
        except (ImportError, AttributeError, SyntaxError) as error:
            raise UnknownSubject(f"the adapter does not know this vLLM ({self.version}): {error}") from error
        self._check_signatures()
        self._check_fields()
        check_what_was_imported()

    def _import(self) -> None:
        import vllm
        from vllm import SamplingParams
        from vllm.distributed.kv_events import EventPublisher
        from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorBase_V1
        from vllm.v1 import outputs
        from vllm.v1.core import block_pool, kv_cache_utils, single_type_kv_cache_manager
        from vllm.v1.core.encoder_cache_manager import EncoderCacheManager
        from vllm.v1.core.kv_cache_manager import KVCacheBlocks, KVCacheManager
        from vllm.v1.core.sched import interface
        from vllm.v1.core.sched.output import SchedulerOutput
        from vllm.v1.core.sched.scheduler import Scheduler
        from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec, SlidingWindowSpec
        from vllm.v1.request import Request, RequestStatus
        from vllm.v1.structured_output import StructuredOutputManager
        from vllm.v1.utils import ConstantList

        from kvrace.vllm.connector import ScriptedConnector, register

        register()
        self.folder = str(Path(vllm.__file__).parents[1])
        self.scheduler, self.async_scheduler, self.request = Scheduler, differences.async_scheduler(), Request
        self.block_pool, self.block = block_pool.BlockPool, kv_cache_utils.KVCacheBlock
        self.cache_manager = KVCacheManager
        self.free_queue = kv_cache_utils.FreeKVCacheBlockQueue
        self.single_type_manager = single_type_kv_cache_manager.SingleTypeKVCacheManager
        self.left_alone: dict[type, str] = {
            StructuredOutputManager: "a service; no request of a scope has a grammar",
            EncoderCacheManager: "a service; no request of a scope has multimodal input",
            EventPublisher: "a service; nothing comes back from it",
            ScriptedConnector: "kvrace's own; it keeps nothing between calls",
            SchedulerOutput: "a message, not changed once it is dispatched",
            ConstantList: "a read-only view of a list that is compared itself",
            KVCacheBlocks: "an immutable result",
        }
        self.aborted = RequestStatus.FINISHED_ABORTED
        states = getattr(interface, "PauseState", None)
        self.may_ask_later = differences.may_ask_later(KVConnectorBase_V1)
        self.pause_states: dict[str, Any] = {} if states is None else dict(states.__members__)
        self._statuses = RequestStatus
        self._sampling_params = SamplingParams
        self._spec, self._window_spec = FullAttentionSpec, SlidingWindowSpec
        self._cache_config, self._group = KVCacheConfig, KVCacheGroupSpec
        self._structured = StructuredOutputManager
        self.scheduler_output = SchedulerOutput
        self._runner_output, self._reports = outputs.ModelRunnerOutput, differences.reports_kind(outputs)
        self._constant_fields = differences.constant_fields(self._runner_output)
        self._sampled = differences.sampled_tokens(self._runner_output)
        self._connector_base = KVConnectorBase_V1
        self._hasher = differences.block_hasher(kv_cache_utils)

    def _refuse(self, what: str) -> UnknownSubject:
        return UnknownSubject(f"the adapter does not know this vLLM ({self.version}): {what}")

    def _check_signatures(self) -> None:
        classes = {
            "Scheduler": self.scheduler,
            "Request": self.request,
            "ModelRunnerOutput": self._runner_output,
            "KVConnectorBase_V1": self._connector_base,
        }
        reports = "ModelRunnerOutput" if self._reports is None else "KVConnectorOutput"
        classes[reports] = self._reports or self._runner_output
        signatures = [*_SIGNATURES.items(), (f"{reports}.__init__", ("finished_sending", "finished_recving"))]
        for path, expected in signatures:
            owner, method = path.split(".")
            function = getattr(classes[owner], method, None)
            if function is None:
                raise self._refuse(f"there is no {path}")
            missing = [name for name in expected if name not in inspect.signature(function).parameters]
            if missing:
                raise self._refuse(f"{path} has no parameter {missing[0]!r}")
        for name in _STATUSES:
            if not hasattr(self._statuses, name):
                raise self._refuse(f"RequestStatus has no {name}")

    def _check_fields(self) -> None:
        """Build one scheduler and one request, look for the fields, and remember what a stock object has."""
        scope = Scope(("load_save",))
        config = make_config(scope)
        scheduler = self.make_scheduler(self.scheduler, config, scope)
        request = self.request_maker(scope, 0)()
        pool = scheduler.kv_cache_manager.block_pool
        output = self.scheduler_output.__dataclass_fields__
        for owner, target, fields in (
            ("Scheduler", scheduler, _SCHEDULER_FIELDS),
            ("Request", request, _REQUEST_FIELDS),
            ("BlockPool", pool, _POOL_FIELDS),
            ("KVCacheBlock", pool.blocks[0], _BLOCK_FIELDS),
        ):
            for name in fields:
                if not hasattr(target, name):
                    raise self._refuse(f"{owner} has no {name}")
        for name in _OUTPUT_FIELDS:
            if name not in output:
                raise self._refuse(f"SchedulerOutput has no {name}")
        if not differences.has_free_list(pool.free_block_queue):
            raise self._refuse("the pool keeps its free blocks elsewhere")
        managers = scheduler.kv_cache_manager.coordinator.single_type_managers
        if len(managers) != 1 or not hasattr(managers[0], "req_to_blocks"):
            raise self._refuse("the KV-cache manager keeps its block tables elsewhere")
        stock = set(scheduler.__dict__)
        if self.async_scheduler is not None:
            config = make_config(replace(scope, scheduling="async"))
            stock.update(self.make_scheduler(self.async_scheduler, config, scope).__dict__)
        self.stock_attributes = {self.scheduler: frozenset(stock), self.request: frozenset(request.__dict__)}

    def check_holds_for_loads(self, what_is: str) -> None:
        """Raises UnknownSubject, about ``what_is``, on a scheduler that holds no blocks for a load whose request is over: remedies
        and planted faults change what a scheduler does that holds them."""
        if not differences.holds_for_loads(self.scheduler):
            raise UnknownSubject(
                f"{what_is} for vLLM 0.16.0 and later, whose scheduler holds the blocks of an aborted load; this is {self.version}"
            )

    @property
    def schedulings(self) -> tuple[Scheduling, ...]:
        """The ways of scheduling that this release has."""
        return SCHEDULINGS if self.async_scheduler is not None else ("sync",)

    def scheduler_class(self, scheduling: Scheduling) -> type:
        """vLLM's own class for a way of scheduling. Raises UnknownSubject where the release has none."""
        if scheduling not in self.schedulings:
            raise UnknownSubject(f"vLLM {self.version} has no asynchronous scheduling; use --scheduler sync")
        chosen: type = self.async_scheduler if scheduling == "async" and self.async_scheduler else self.scheduler
        return chosen

    def make_scheduler(self, scheduler_class: type, config: Any, scope: Scope) -> Any:
        """A fresh scheduler with ``scope.blocks`` usable blocks and the null block."""
        import torch

        config.cache_config.num_gpu_blocks = scope.blocks + 1
        shape = {"block_size": scope.block_size, "num_kv_heads": 1, "head_size": 1, "dtype": torch.float32}
        groups = [self._group(["layer"], differences.cache_spec(self._spec, **shape))]
        if scope.window:
            window = differences.cache_spec(self._window_spec, **shape, sliding_window=scope.window)
            groups.append(self._group(["window"], window))
        cache = self._cache_config(num_blocks=scope.blocks + 1, kv_cache_tensors=[], kv_cache_groups=groups)
        return scheduler_class(
            vllm_config=config,
            kv_cache_config=cache,
            structured_output_manager=self._structured(config),
            **differences.scheduler_arguments(self.scheduler, scope.block_size),
        )

    def request_maker(self, scope: Scope, index: int) -> Callable[[], Any]:
        """A function that makes the request number ``index`` of the scope, the same every time."""
        prompt = scope.prompt(index)
        priority = scope.priorities[index] if scope.priorities else 0
        hasher = self._hasher(scope.block_size) if scope.prefix_sharing else None
        name = scope.names[index]

        def make() -> Any:
            return self.request(
                request_id=name,
                prompt_token_ids=prompt.copy(),
                sampling_params=params,
                pooling_params=None,
                arrival_time=float(index),
                priority=priority,
                **arguments,
            )

        arguments = differences.request_arguments(self.request, hasher)
        params = self._sampling_params(max_tokens=scope.output_tokens, ignore_eos=True, stop_token_ids=[99])
        return make

    def runner_output(
        self, names: list[str], tokens: dict[str, list[int]], sending: set[str], receiving: set[str]
    ) -> Any:
        """A ``ModelRunnerOutput`` for the requests of one step, with the connector's reports."""
        return self._runner_output(
            req_ids=names,
            req_id_to_index={name: index for index, name in enumerate(names)},
            sampled_token_ids=[self._sampled(tokens.get(name, [])) for name in names],
            **self._constant_fields,
            **differences.reports(self._reports, sending, receiving),
        )


@cache
def load_api() -> Api:
    """The API of the vLLM that is installed here. Raises VllmUnavailable or UnknownSubject, each with one line."""
    return Api()
