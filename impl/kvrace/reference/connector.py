"""The scripted connector of the reference scheduler: asked at the moments at which vLLM asks a ``KVConnectorBase_V1``."""

from __future__ import annotations

from kvmodel.port import ConnectorScript, Handover, LoadStarted


class ScriptedConnector:
    """Answers from ``script`` and records what it is told in ``loads`` and ``handovers``. Keeps nothing between calls."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.script: dict[str, ConnectorScript] = {}
        self.loads: list[LoadStarted] = []
        self.handovers: list[Handover] = []

    def begin(self, script: dict[str, ConnectorScript]) -> None:
        """Forget the last call and take the script of the next."""
        self.script = script
        self.loads, self.handovers = [], []

    def matched_tokens(self, request_id: str, computed: int) -> int:
        """How many tokens after the first ``computed`` it can load (vLLM ``get_num_new_matched_tokens``)."""
        return max(0, (self.script[request_id].load_tokens or 0) - computed)

    def start_load(self, request_id: str, table: tuple[int, ...], start: int, end: int) -> None:
        """A load of the tokens from ``start`` to ``end`` begins (vLLM ``update_state_after_alloc``)."""
        target = table[start // self.block_size : -(-end // self.block_size)]
        self.loads.append(LoadStarted(request_id, target, table, end))

    def request_finished(self, request_id: str, blocks: tuple[int, ...]) -> bool:
        """True when a send report will follow, until which the blocks must stay (vLLM ``request_finished``)."""
        self.handovers.append(Handover(request_id, blocks))
        return bool(blocks) and self.script[request_id].save == "claimed"
