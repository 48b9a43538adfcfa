"""A KV connector with a slow, asynchronous worker side, as ``kv_connector_module_path`` wants one. It runs inside vLLM's processes.

What happens to a request says its client, in ``kv_transfer_params``: ``load`` and ``save`` are the seconds these transfers take
(left out: there is none), ``keep`` has the save keep the prompt's KV for loads to bring, and ``empty`` has a load bring nothing. It
claims every request that has blocks and a save, aborted or not, as vLLM's ``KVConnectorBase_V1`` lets it. Prefix caching has to be
off.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
    KVConnectorRole,
)
from vllm.v1.request import RequestStatus

from .transfers import Order, Record, Transfers


@dataclass
class Orders(KVConnectorMetadata):
    """The transfers that start with a step."""

    orders: list[Order] = field(default_factory=list)


class SlowConnector(KVConnectorBase_V1):
    """Both halves. ``kv_connector_extra_config``: ``record`` is the file both write to, ``watched`` has the blocks watched."""

    def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any = None) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        extra = vllm_config.kv_transfer_config.kv_connector_extra_config
        self._block_size: int = vllm_config.cache_config.block_size
        self._record = Record(extra["record"])
        self._orders: list[Order] = []
        self._offered: set[str] = set()
        """Requests whose load has started: it is offered once, also after a preemption."""
        self._loading: set[str] = set()
        if role == KVConnectorRole.WORKER:
            self._transfers = Transfers(self._record, extra["watched"])

    # The scheduler half.

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int, bool]:
        assert num_computed_tokens == 0, "prefix caching has to be off"
        if "load" not in _asked(request) or request.request_id in self._offered:
            return 0, False
        tokens = (request.num_prompt_tokens - 1) // self._block_size * self._block_size
        return tokens, tokens > 0

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        if num_external_tokens == 0:
            return
        name, asked = request.request_id, _asked(request)
        target = tuple(blocks.get_block_ids()[0][: num_external_tokens // self._block_size])
        self._offered.add(name)
        self._loading.add(name)
        self._orders.append(Order(name, "load", target, asked["load"], "" if "empty" in asked else _key(request)))

    def build_connector_meta(self, scheduler_output: Any) -> Orders:
        orders, self._orders = self._orders, []
        return Orders(orders)

    def update_connector_output(self, connector_output: Any) -> None:
        self._loading.difference_update(connector_output.finished_recving or ())

    def request_finished(self, request: Any, block_ids: Any) -> tuple[bool, None]:
        asked, name = _asked(request), request.request_id
        claimed = "save" in asked and bool(block_ids)
        self._record.write(
            "finished",
            request=name,
            aborted=request.status == RequestStatus.FINISHED_ABORTED,
            loading=name in self._loading,
            claimed=claimed,
        )
        self._offered.discard(name)
        if claimed:
            key = _key(request) if "keep" in asked else ""
            self._orders.append(Order(name, "save", tuple(block_ids), asked["save"], key))
        return claimed, None

    # The worker half.

    def register_kv_caches(self, kv_caches: dict[str, Any]) -> None:
        self._transfers.begin_with(kv_caches)

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        metadata = self._get_connector_metadata()
        assert isinstance(metadata, Orders)
        for order in metadata.orders:
            self._transfers.start(order)

    def get_finished(self, finished_req_ids: set[str]) -> tuple[set[str], set[str]]:
        return self._transfers.reported()

    def shutdown(self) -> None:
        if self.role == KVConnectorRole.WORKER:
            self._transfers.stop()

    # Nothing is done layer by layer.

    def wait_for_layer_load(self, layer_name: str) -> None: ...

    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any, **kwargs: Any) -> None: ...

    def wait_for_save(self) -> None: ...


def _asked(request: Any) -> dict[str, Any]:
    return request.kv_transfer_params or {}


def _key(request: Any) -> str:
    return hashlib.sha256(repr(request.prompt_token_ids).encode()).hexdigest()
