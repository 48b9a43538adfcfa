"""The scope of an exploration: how many requests of which kind, how large a pool, how many steps in flight.

A verdict holds for its scope and for nothing larger, so a scope is always printed beside a verdict.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from itertools import combinations_with_replacement
from typing import Any, Literal

from kvmodel.errors import KvraceError, quoted

Scheduling = Literal["sync", "async"]

KINDS: dict[str, str] = {
    "local": "no transfer",
    "load": "the prompt comes by an asynchronous load (status WAITING_FOR_REMOTE_KVS)",
    "save": "blocks are held after the end until the connector has reported the send",
    "load_save": "both",
}
"""The request kinds and what each means."""

REQUEST_NAMES = "ABCDEFGH"
_NAMES = tuple(tuple(REQUEST_NAMES[:size]) for size in range(len(REQUEST_NAMES) + 1))
SCHEDULINGS: tuple[Scheduling, ...] = ("sync", "async")
STEPS_IN_FLIGHT = {"sync": 1, "async": 2}
SWITCHES = ("prefix_sharing", "early_stop", "separate_ends", "engine_order")
"""The fields of a Scope that are true or false."""
_LIMITS = {"blocks": (1, 128), "block_size": (1, 64), "prompt_blocks": (1, 16), "output_tokens": (1, 64)}


@dataclass(frozen=True, slots=True)
class Scope:
    """One case to exhaust. Raises KvraceError when a value makes no sense or a request can never fit.

    ``blocks`` counts usable blocks; vLLM's null block comes on top. A prompt has ``prompt_blocks`` full blocks and one token
    more, so a load fills ``prompt_blocks`` blocks and one prompt token is always left to compute.
    """

    requests: tuple[str, ...]
    scheduling: Scheduling = "sync"
    blocks: int = 0
    block_size: int = 4
    prompt_blocks: int = 1
    output_tokens: int = 2
    prefix_sharing: bool = False
    early_stop: bool = False
    separate_ends: bool = False
    engine_order: bool = False
    """Only orders that the loop of vLLM's EngineCore can make. Sync: a request comes when no step is in flight. Async: a request
    comes when fewer steps than allowed are in flight, and a step is updated when no more may be dispatched or nothing is left to
    schedule."""

    def __post_init__(self) -> None:
        if not 1 <= len(self.requests) <= len(REQUEST_NAMES):
            raise KvraceError(f"a scope has 1 to {len(REQUEST_NAMES)} requests, not {len(self.requests)}")
        for kind in self.requests:
            if kind not in KINDS:
                raise KvraceError(f"unknown request kind {quoted(kind)}: use one of {', '.join(KINDS)}")
        if self.scheduling not in STEPS_IN_FLIGHT:
            raise KvraceError(f"unknown scheduler {quoted(self.scheduling)}: use sync or async")
        for name, (low, high) in _LIMITS.items():
            given = getattr(self, name)
            if not low <= given <= high and (name, given) != ("blocks", 0):
                raise KvraceError(f"{name.replace('_', ' ')}: {quoted(given)} is outside {low} to {high}")
        if self.blocks == 0:
            object.__setattr__(self, "blocks", self.blocks_per_request * len(self.requests))
            most = _LIMITS["blocks"][1]
            if self.blocks > most:
                raise KvraceError(
                    f"all requests together need {self.blocks} blocks and a pool has at most {most}; use --blocks to take fewer"
                )
        if self.blocks < self.blocks_per_request:
            raise KvraceError(
                f"the scope cannot fit: one request needs {self.blocks_per_request} blocks and the pool has {self.blocks}"
                f"; use --blocks {self.blocks_per_request} or more"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Request ids: A, B, C …"""
        return _NAMES[len(self.requests)]

    @property
    def steps_in_flight(self) -> int:
        """How many steps may be dispatched at a time (vLLM ``VllmConfig.max_concurrent_batches``)."""
        return STEPS_IN_FLIGHT[self.scheduling]

    @property
    def prompt_tokens(self) -> int:
        return self.prompt_blocks * self.block_size + 1

    @property
    def blocks_per_request(self) -> int:
        """Blocks of a request that runs to its end: its last sampled token never gets KV of its own."""
        tokens = self.prompt_tokens + self.output_tokens - 1
        return -(-tokens // self.block_size)

    def loads(self, index: int) -> bool:
        return self.requests[index] in ("load", "load_save")

    def saves(self, index: int) -> bool:
        return self.requests[index] in ("save", "load_save")

    def __str__(self) -> str:
        parts = [",".join(self.requests), self.scheduling, f"{self.blocks} blocks of {self.block_size}"]
        parts.append(f"prompt {self.prompt_tokens}+{self.output_tokens} tokens")
        parts += [name.replace("_", " ") for name in SWITCHES if getattr(self, name)]
        return " · ".join(parts)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "requests": list(self.requests)}

    @classmethod
    def from_dict(cls, data: Any) -> Scope:
        """Read what :meth:`as_dict` wrote. The input may be hostile: every field is checked, none is evaluated."""
        if not isinstance(data, dict):
            raise KvraceError("the scope is not a table")
        known = {field.name: field for field in fields(cls)}
        unknown = sorted(set(map(str, data)) - known.keys())
        if unknown:
            raise KvraceError(f"the scope has an unknown field {quoted(unknown[0])}")
        requests = data.get("requests")
        if not isinstance(requests, list) or not all(isinstance(kind, str) for kind in requests):
            raise KvraceError("the scope's requests are not a list of kinds")
        for name, value in data.items():
            expected = {"int": int, "bool": bool}.get(str(known[name].type))
            if expected and type(value) is not expected:
                raise KvraceError(f"the scope's {name} is not {'a number' if expected is int else 'true or false'}")
            if name == "scheduling" and not isinstance(value, str):
                raise KvraceError("the scope's scheduling is not sync or async")
        return cls(**{**data, "requests": tuple(requests)})


def both_schedulers(scope: Scope) -> list[Scope]:
    return [replace(scope, scheduling="sync"), replace(scope, scheduling="async")]


def _small() -> list[Scope]:
    mixes = [mix for size in (1, 2) for mix in combinations_with_replacement(KINDS, size)]
    return [Scope(mix, scheduling) for scheduling in SCHEDULINGS for mix in mixes]


_tight = partial(Scope, block_size=2, output_tokens=3, blocks=4)
"""A pool so small that two requests which both grow cannot both stay: one is preempted."""


def _medium() -> list[Scope]:
    threes = [("load", "save", "local"), ("load_save", "local", "local"), ("load", "load", "save")]
    pairs = [("local", "save"), ("load", "save")]
    return [
        case
        for scheduling in SCHEDULINGS
        for case in (*(Scope(mix, scheduling) for mix in threes), *(_tight(mix, scheduling) for mix in pairs))
    ]


def _pressure() -> list[Scope]:
    mixes = list(combinations_with_replacement(KINDS, 2))
    return [_tight(mix, scheduling) for scheduling in SCHEDULINGS for mix in mixes]


def _prefix() -> list[Scope]:
    mixes = list(combinations_with_replacement(KINDS, 2))
    return [Scope(mix, scheduling, prefix_sharing=True) for scheduling in SCHEDULINGS for mix in mixes]


NAMED_SCOPES: dict[str, tuple[str, Any]] = {
    "seed": (
        "one load_save request: the race this project started from",
        lambda: both_schedulers(Scope(("load_save",))),
    ),
    "small": ("every combination of up to two requests of the four kinds, sync and async (default)", _small),
    "pressure": ("every pair of kinds in a pool so small that requests are preempted", _pressure),
    "prefix": ("every pair of kinds with one shared prompt and the prefix cache on", _prefix),
    "stops": (
        "every pair of kinds, and every sampled token may be a stop token",
        lambda: [replace(scope, early_stop=True) for scope in _small() if len(scope.requests) == 2],
    ),
    "medium": ("three requests, and pairs under preemption", _medium),
}
"""Scopes by name: what each is for, and how its cases are made."""


def named_scope(name: str) -> list[Scope]:
    """The cases of a named scope. Raises KvraceError for an unknown name."""
    if name not in NAMED_SCOPES:
        raise KvraceError(f"unknown scope {quoted(name)}: use one of {', '.join(NAMED_SCOPES)}")
    cases: list[Scope] = NAMED_SCOPES[name][1]()
    return cases
