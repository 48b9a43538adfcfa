"""Runs with the slow connector: the right answers first, then the clients, then what the connector recorded."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from .clients import PROMPTS, Visit, complete, prompt_of, text_of
from .drive import Seen, Settings, Unsound, come_and_go, new_client, until_idle
from .server import Server

IDLE_LIMIT = 30.0
"""Seconds a server may take, when the last client has gone, until nothing is in use. No transfer takes longer than 0.6 s."""


def slow_server(name: str, scheduler: str, watched: bool, settings: Settings) -> Server:
    transfer = {
        "kv_connector": "SlowConnector",
        "kv_connector_module_path": "tests.live.connector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"record": str(settings.folder / f"{name}.jsonl"), "watched": watched},
    }
    return Server(name, settings.model, settings.folder, settings.scratch, transfer, scheduler)


async def drive(servers: list[Server], settings: Settings) -> Seen:
    """Raises Unsound, ServerFailed."""
    [server] = servers
    async with new_client() as client:
        await server.until_healthy(client)
        answers, pace = await _answers(server, client, settings)
        found = await until_idle(server, client, IDLE_LIMIT)
        if not found or not found.idle:
            raise Unsound(f"not idle before the first client left: {found}")
        already = len(_lines(server))

        async def ask(visit: Visit) -> str:
            tokens = prompt_of(visit.prompt, settings.seed)
            return text_of(await complete(client, server.url, tokens, dict(visit.transfers)))

        seen = await come_and_go(servers, client, settings, answers, pace, ask, IDLE_LIMIT)
    seen.connector = _counted(_lines(server)[already:])
    return seen


async def _answers(server: Server, client: httpx.AsyncClient, settings: Settings) -> tuple[dict[int, str], float]:
    """The answer to each prompt, computed locally, and the seconds for one. Its KV is saved for the loads. Raises Unsound.

    A load of that KV has to bring the same answer, and a load that brings nothing another one: else right answers prove nothing.
    """
    answers, took = {}, []
    try:
        for number in range(PROMPTS):
            tokens = prompt_of(number, settings.seed)
            begun = time.monotonic()
            answers[number] = text_of(await complete(client, server.url, tokens, {"save": 0.02, "keep": True}))
            took.append(time.monotonic() - begun)
            await until_idle(server, client, IDLE_LIMIT)
            if text_of(await complete(client, server.url, tokens, {"load": 0.02})) != answers[number]:
                raise Unsound(f"the load of prompt {number} changes its answer")
            if text_of(await complete(client, server.url, tokens, {"load": 0.02, "empty": True})) == answers[number]:
                raise Unsound(f"the answer to prompt {number} does not depend on its KV")
    except httpx.HTTPError as error:
        raise Unsound(f"no answer although nobody had left: {type(error).__name__}") from error
    return answers, median(took)


def _lines(server: Server) -> list[dict[str, Any]]:
    record = Path(server.transfer["kv_connector_extra_config"]["record"])
    return [json.loads(line) for line in record.read_text().splitlines()]


def _counted(lines: list[dict[str, Any]]) -> Counter[str]:
    count: Counter[str] = Counter()
    for line in lines:
        if line["event"] == "finished":
            count["requests aborted"] += line["aborted"]
            count["aborted during the load, and claimed"] += line["aborted"] and line["loading"] and line["claimed"]
        else:
            count[f"{line['direction']}s {line['event']}"] += 1
    return count
