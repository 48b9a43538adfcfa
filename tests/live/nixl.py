"""Two servers that share the work over NIXL: one computes the prompt, the other fetches its KV and answers."""

from __future__ import annotations

import asyncio
import re
import time
from statistics import median

import httpx
from prometheus_client.parser import text_string_to_metric_families

from .clients import PROMPTS, Visit, complete, prompt_of, text_of
from .drive import Seen, Settings, Unsound, come_and_go, new_client
from .places import NIXL
from .server import Server, ServerFailed, free_port

LEASE = 60
"""Seconds for which the prefill server keeps blocks that nobody fetches. After that a fetch reads whatever is there, and the answer
is wrong; vLLM's own 30 s can be too short on two cores that others use as well.
"""
IDLE_LIMIT = 2.0 * LEASE
"""Seconds until nothing is in use: the lease of the last client who left between the two servers, and some more."""
BLOCKS = 1400
"""For all clients: those who leave between the two servers keep their blocks for the whole lease."""
_EXPIRED = re.compile(r"Releasing expired KV blocks for request (\S+)")
_UNKNOWN = re.compile(r"Potentially invalid KV blocks for unrecognized request (\S+)")
_FIRST_HOP = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}


class NotHere(Exception):
    """NIXL does not install on this machine, or does not start. The message says why."""


def nixl_pair(scheduler: str, settings: Settings) -> list[Server]:
    """The prefill and the decode server. Raises NotHere."""
    if not (NIXL / "nixl").is_dir():
        log = NIXL.with_suffix(".log")
        said = log.read_text().strip().splitlines() if log.exists() else []
        raise NotHere(f"nixl is not installed: {said[-1] if said else 'make live installs it'}")
    servers = []
    for name, role in (("prefill", "kv_producer"), ("decode", "kv_consumer")):
        transfer = {
            "kv_connector": "NixlConnector",
            "kv_role": role,
            "kv_buffer_device": "cpu",
            "kv_connector_extra_config": {"kv_lease_duration": LEASE},
        }
        environment = {
            "VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1",
            "VLLM_NIXL_SIDE_CHANNEL_PORT": str(free_port()),
        }
        server = Server(
            f"nixl-{name}",
            settings.model,
            settings.folder,
            settings.scratch,
            transfer,
            scheduler,
            BLOCKS,
            environment,
            (NIXL,),
        )
        servers.append(server)
    return servers


async def drive_pair(servers: list[Server], settings: Settings) -> Seen:
    """Raises NotHere, ServerFailed, Unsound."""
    prefill, decode = servers
    async with new_client() as client:
        try:
            await asyncio.gather(*(server.until_healthy(client) for server in servers))
        except ServerFailed as error:
            if any(not server.alive and "nixl" in server.last_words().lower() for server in servers):
                raise NotHere(str(error)) from error
            raise  # no fault of NIXL

        async def ask(visit: Visit) -> str:
            tokens = prompt_of(visit.prompt, settings.seed)
            first = await complete(client, prefill.url, tokens, _FIRST_HOP, answer=1)
            return text_of(await complete(client, decode.url, tokens, first["kv_transfer_params"]))

        try:
            answers, took = {}, []
            for number in range(PROMPTS):
                answers[number] = text_of(await complete(client, decode.url, prompt_of(number, settings.seed)))
                begun = time.monotonic()
                if await ask(Visit(number, {}, None)) != answers[number]:
                    raise Unsound(f"the KV of prompt {number} from the other server changes its answer")
                took.append(time.monotonic() - begun)
        except httpx.HTTPError as error:
            raise Unsound(f"no answer although nobody had left: {type(error).__name__}") from error
        before = await _loads(decode, client)
        seen = await come_and_go(servers, client, settings, answers, median(took), ask, IDLE_LIMIT)
        if seen.healthy:
            seen.connector["loads"] = int(await _loads(decode, client) - before)
            seen.connector["fetches after the lease"] = _late(prefill)
    return seen


async def _loads(server: Server, client: httpx.AsyncClient) -> float:
    """Transfers over NIXL that the server has made."""
    text = (await client.get(f"{server.url}/metrics", timeout=10)).raise_for_status().text
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return sum(sample.value for sample in samples if sample.name == "vllm:nixl_xfer_time_seconds_count")


def _late(prefill: Server) -> int:
    """Fetches of blocks whose lease had run out. The prefill server logs both; the second also where a client left meanwhile."""
    expired = {match[1] for match in map(_EXPIRED.search, prefill.logged("Releasing expired KV blocks")) if match}
    fetched = {match[1] for match in map(_UNKNOWN.search, prefill.logged("Potentially invalid KV blocks")) if match}
    return len(expired & fetched)
