"""Clients that ask for an answer and may leave before they have it. What they do is drawn from a seed; what comes of it is not."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

import httpx

from .model import prompt

PROMPTS = 12
"""Different prompts; every answer to the same one has to be the same."""
ANSWER = 48
"""Tokens of an answer."""
PATIENCE = 120.0
"""Seconds after which a client that wanted to stay gives up: that is a failure."""

_KINDS = {("load", "save"): 6, ("load",): 1, ("save",): 2, (): 1}
_AT_ONCE = 10


@dataclass(frozen=True)
class Visit:
    """One client: its prompt, the seconds of what is moved for it, and when it leaves, if it does not stay: after this share of
    the time that its load and its answer take when nobody else is there.
    """

    prompt: int
    transfers: dict[str, float]
    leaves: float | None


@dataclass(frozen=True)
class Outcome:
    """How a visit went: ``answered`` with ``text``, ``left``, or ``failed`` with the reason in ``text``."""

    visit: Visit
    kind: Literal["answered", "left", "failed"]
    text: str = ""


Ask = Callable[[Visit], Awaitable[str]]


def visits(count: int, seed: int) -> list[Visit]:
    """Half of the clients leave, at any time from before they are served to after. The same for the same seed."""
    choice, drawn = random.Random(seed), []
    for _ in range(count):
        [wanted] = choice.choices(list(_KINDS), list(_KINDS.values()))
        transfers = {direction: round(choice.uniform(0.1, 0.8), 3) for direction in wanted}
        leaves = round(choice.uniform(0.05, 1.2), 3) if choice.random() < 0.5 else None
        drawn.append(Visit(choice.randrange(PROMPTS), transfers, leaves))
    return drawn


def prompt_of(number: int, seed: int) -> list[int]:
    """From 40 to 172 tokens: one to five full blocks."""
    return prompt(number, 40 + 12 * number, seed)


async def complete(
    client: httpx.AsyncClient,
    url: str,
    tokens: list[int],
    parameters: dict[str, Any] | None = None,
    answer: int = ANSWER,
) -> dict[str, Any]:
    """The answer of ``/v1/completions``, chosen greedily. Raises httpx.HTTPError."""
    body = {"model": "tiny", "prompt": tokens, "max_tokens": answer, "temperature": 0, "ignore_eos": True}
    if parameters:
        body["kv_transfer_params"] = parameters
    response = await client.post(f"{url}/v1/completions", json=body, timeout=PATIENCE)
    found: dict[str, Any] = response.raise_for_status().json()
    return found


def text_of(completion: dict[str, Any]) -> str:
    text: str = completion["choices"][0]["text"]
    return text


async def send(planned: list[Visit], ask: Ask, pace: float) -> list[Outcome]:
    """All visits in their order, ten at a time. ``pace`` is the seconds an answer takes when nobody else is there."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def go(visit: Visit) -> Outcome:
        stays = None if visit.leaves is None else visit.leaves * (visit.transfers.get("load", 0.0) + pace)
        async with gate:
            try:
                async with asyncio.timeout(stays or PATIENCE):
                    return Outcome(visit, "answered", await ask(visit))
            except TimeoutError:
                return Outcome(visit, "left" if stays else "failed", f"no answer in {PATIENCE:.0f} s")
            except httpx.HTTPStatusError as error:
                return Outcome(visit, "failed", f"status {error.response.status_code}")
            except httpx.HTTPError as error:
                return Outcome(visit, "failed", type(error).__name__)

    return await asyncio.gather(*map(go, planned))
