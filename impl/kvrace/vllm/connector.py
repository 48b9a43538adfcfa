"""The scripted connector: the scheduler half of a KV connector whose every answer the world decides.

It keeps no state between calls. Before a call the subject puts the :class:`~kvmodel.port.ConnectorScript` of every request in
place; after it, the subject collects what the scheduler told the connector.
"""

from __future__ import annotations

from typing import Any

from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorBase_V1, KVConnectorMetadata

from kvmodel.port import NULL_BLOCK, ConnectorScript, Handover, LoadStarted, UnknownSubject
from kvrace.vllm.differences import connector_arguments

CONNECTOR_NAME = "KvraceScriptedConnector"
GROUPS_CONNECTOR_NAME = "KvraceScriptedGroupsConnector"
"""The connector for a scheduler with a second group of blocks."""


class ScriptedMetadata(KVConnectorMetadata):
    """Nothing to tell the workers: there are none."""


class ScriptedConnector(KVConnectorBase_V1):
    """Answers from ``script``; records in ``loads`` and ``handovers``."""

    def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any = None) -> None:
        super().__init__(vllm_config, role, **connector_arguments(KVConnectorBase_V1, kv_cache_config))
        self.block_size: int = vllm_config.cache_config.block_size
        self.script: dict[str, ConnectorScript] = {}
        self.loads: list[LoadStarted] = []
        self.handovers: list[Handover] = []
        self._computed: dict[str, int] = {}
        self.finished_count: int | None = None

    def begin(self, script: dict[str, ConnectorScript]) -> None:
        """Forget the last call and take the script of the next."""
        self.script = script
        self.loads, self.handovers, self._computed = [], [], {}

    # The scheduler half of KVConnectorBase_V1.

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int | None, bool]:
        script = self.script[request.request_id]
        if script.load_tokens is None:
            return None, False
        offered = max(0, script.load_tokens - num_computed_tokens)
        self._computed[request.request_id] = num_computed_tokens
        return offered, offered > 0 and not script.in_step

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        if num_external_tokens == 0:
            return
        name = request.request_id
        if name not in self._computed:  # 0.33.0 has such loads (deferred_loads), only with the pools of HiSparse
            raise UnknownSubject(
                f"the adapter does not know loads that start in a later call than the one that asks for them, as that of {name}"
            )
        table, *other = map(tuple, blocks.get_block_ids())
        window = other[0] if other else ()
        start = self._computed[name]
        end = start + num_external_tokens
        places = slice(start // self.block_size, -(-end // self.block_size))
        target = table[places] + tuple(block for block in window[places] if block != NULL_BLOCK)
        self.loads.append(LoadStarted(name, target, table, end, window, self.script[name].in_step))

    def build_connector_meta(self, scheduler_output: Any) -> ScriptedMetadata:
        return ScriptedMetadata()

    def request_finished(self, request: Any, block_ids: Any) -> tuple[bool, None]:
        return self._finished(Handover(request.request_id, tuple(block_ids)))

    def _finished(self, handover: Handover) -> tuple[bool, None]:
        self.handovers.append(handover)
        return bool(handover.blocks) and self.script[handover.request].save == "claimed", None

    def get_finished_count(self) -> int | None:
        """How many ranks report each transfer; None for all."""
        return self.finished_count

    # The worker half is never used; the base class declares it abstract.

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        raise NotImplementedError

    def wait_for_layer_load(self, layer_name: str) -> None:
        raise NotImplementedError

    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any, **kwargs: Any) -> None:
        raise NotImplementedError

    def wait_for_save(self) -> None:
        raise NotImplementedError


def _for_groups() -> type | None:
    """The connector for more than one group of blocks; None where vLLM has none such (before 0.11.2)."""
    try:
        from vllm.distributed.kv_transfer.kv_connector.v1.base import SupportsHMA
    except ImportError:
        return None

    class GroupsConnector(ScriptedConnector, SupportsHMA):
        """Is told the blocks of all groups when a request is over."""

        def request_finished_all_groups(self, request: Any, block_ids: Any) -> tuple[bool, None]:
            blocks, window = map(tuple, block_ids or ((), ()))
            return self._finished(Handover(request.request_id, blocks, window))

    return GroupsConnector


ScriptedGroupsConnector = _for_groups()


def register() -> None:
    """Make vLLM's factory find the connectors by name. Safe to call twice."""
    for name, kind in ((CONNECTOR_NAME, "ScriptedConnector"), (GROUPS_CONNECTOR_NAME, "ScriptedGroupsConnector")):
        if name not in KVConnectorFactory._registry:
            KVConnectorFactory.register_connector(name, __name__, kind)
