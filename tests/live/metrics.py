"""What a server says of itself on /metrics."""

from __future__ import annotations

from dataclasses import dataclass

import httpx
from prometheus_client.parser import text_string_to_metric_families

from .server import Server

_NAMES = {
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
    "vllm:kv_cache_usage_perc": "usage",
    "vllm:num_preemptions_total": "preemptions",
}


@dataclass(frozen=True)
class Metrics:
    """Requests that run and wait, the share of the KV cache that is in use (0 to 1), preemptions since the start."""

    running: float
    waiting: float
    usage: float
    preemptions: float

    @property
    def idle(self) -> bool:
        return self.running == self.waiting == self.usage == 0


async def metrics(server: Server, client: httpx.AsyncClient) -> Metrics:
    """Raises httpx.HTTPError, and KeyError where a metric is missing."""
    text = (await client.get(f"{server.url}/metrics", timeout=10)).raise_for_status().text
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return Metrics(**{_NAMES[sample.name]: sample.value for sample in samples if sample.name in _NAMES})
