"""What all runs share: their settings, clients that come and go, and what was seen of the servers meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx

from kvmodel.errors import KvraceError

from .clients import Ask, Outcome, send, visits
from .metrics import Metrics, metrics
from .server import Server

ASSERTION = "assert req_id in self.requests"


@dataclass(frozen=True)
class Settings:
    """Of all runs: where the model is, where logs and what is thrown away go, the seed, how many requests."""

    model: Path
    folder: Path
    scratch: Path
    seed: int
    requests: int


class Unsound(KvraceError):
    """Before any client left, something was not as it has to be for the run to mean anything."""


@dataclass
class Seen:
    """What was seen of the servers of a run."""

    answers: dict[int, str]
    """The right answer to each prompt, computed here before anybody left."""
    outcomes: list[Outcome]
    healthy: bool
    """At the end every /health says 200, and the processes run."""
    after: dict[str, Metrics | None]
    """Of each server when all was over, or at the time limit for that; None: it did not answer."""
    errors: dict[str, int]
    """Lines in the logs with the assertion, and with EngineDeadError."""
    last_words: str
    pace: float
    """Seconds an answer took when nobody else was there."""
    connector: Counter[str] = field(default_factory=Counter)
    """What was counted of transfers."""

    @property
    def counts(self) -> Counter[str]:
        return Counter(outcome.kind for outcome in self.outcomes)

    @property
    def wrong(self) -> list[Outcome]:
        """Clients that stayed and got another answer than the right one."""
        return [
            outcome
            for outcome in self.outcomes
            if outcome.kind == "answered" and outcome.text != self.answers[outcome.visit.prompt]
        ]

    @property
    def failures(self) -> dict[str, int]:
        return dict(Counter(outcome.text for outcome in self.outcomes if outcome.kind == "failed"))

    @property
    def corrupted(self) -> int:
        return self.connector["loads corrupted"] + self.connector["saves corrupted"]

    def logged_the(self, error: str) -> bool:
        return self.errors[error] > 0

    def facts(self) -> dict[str, Any]:
        """For the reports."""
        clients = {**self.counts, "answered wrongly": len(self.wrong)}
        after = {name: vars(found) if found else None for name, found in self.after.items()}
        return {
            "clients": clients,
            "failures": self.failures,
            "wrong answers": [
                {**asdict(outcome), "right": self.answers[outcome.visit.prompt]} for outcome in self.wrong
            ],
            "seconds of an answer": round(self.pace, 2),
            "healthy": self.healthy,
            "after": after,
            "transfers": dict(self.connector),
            "errors": self.errors,
        }


def new_client() -> httpx.AsyncClient:
    """A connection for each request: servers close those that are kept, and a request that meets that fails."""
    return httpx.AsyncClient(limits=httpx.Limits(max_connections=None, max_keepalive_connections=0))


async def come_and_go(
    servers: Sequence[Server],
    client: httpx.AsyncClient,
    settings: Settings,
    answers: dict[int, str],
    pace: float,
    ask: Ask,
    idle_limit: float,
) -> Seen:
    """Send the clients. ``pace`` is the seconds an answer takes when nobody else is there, ``idle_limit`` those it may take until
    nothing is in use.
    """
    outcomes = await send(visits(settings.requests, settings.seed), ask, pace)
    after = {server.name: await until_idle(server, client, idle_limit) for server in servers}
    healthy = [server.alive and await server.healthy(client) for server in servers]
    errors = {error: sum(len(server.logged(error)) for server in servers) for error in (ASSERTION, "EngineDeadError")}
    ended = [server.last_words() for server, well in zip(servers, healthy, strict=True) if not well]
    return Seen(answers, outcomes, all(healthy), after, errors, "; ".join(ended), pace)


async def until_idle(server: Server, client: httpx.AsyncClient, limit: float) -> Metrics | None:
    """The metrics when nothing runs, waits or is in use, else those at the limit. None: the server does not answer."""
    end = time.monotonic() + limit
    while True:
        try:
            found = await metrics(server, client)
        except httpx.HTTPError:
            return None
        if found.idle or time.monotonic() > end:
            return found
        await asyncio.sleep(0.1)
