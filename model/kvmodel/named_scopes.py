"""Scopes by name: the cases that are worth exhausting, each small enough for that."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import combinations_with_replacement, product
from typing import Any

from kvmodel.errors import KvraceError, quoted
from kvmodel.scope import BASIC_KINDS, FAILURE_POLICIES, KINDS_IN_STEP, SCHEDULINGS, Scope, both_schedulers


def _small() -> list[Scope]:
    mixes = [mix for size in (1, 2) for mix in combinations_with_replacement(BASIC_KINDS, size)]
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
    mixes = list(combinations_with_replacement(BASIC_KINDS, 2))
    return [_tight(mix, scheduling) for scheduling in SCHEDULINGS for mix in mixes]


def _chunked() -> list[Scope]:
    mixes = list(combinations_with_replacement(BASIC_KINDS, 2))
    return [Scope(mix, scheduling, token_budget=3) for scheduling in SCHEDULINGS for mix in mixes]


def _priority() -> list[Scope]:
    pairs = list(product(BASIC_KINDS, repeat=2))
    return [_tight(pair, scheduling, priorities=(1, 0)) for scheduling in SCHEDULINGS for pair in pairs]


def _prefix() -> list[Scope]:
    mixes = list(combinations_with_replacement(BASIC_KINDS, 2))
    return [Scope(mix, scheduling, prefix_sharing=True) for scheduling in SCHEDULINGS for mix in mixes]


def _window() -> list[Scope]:
    windowed = partial(Scope, block_size=2, prompt_blocks=2, output_tokens=3, window=3, blocks=10)
    return [windowed(("local", kind), scheduling) for scheduling in SCHEDULINGS for kind in ("load", "save")]


def _drafts() -> list[Scope]:
    drafted = partial(Scope, block_size=2, output_tokens=4, drafts=1)
    return [
        case
        for scheduling in SCHEDULINGS
        for case in (
            drafted(("local", "load"), scheduling),
            drafted(("local", "save"), scheduling),
            Scope(("local",), scheduling, block_size=2, output_tokens=5, drafts=2, window=2),
        )
    ]


def _pipeline() -> list[Scope]:
    return [
        Scope(("local", kind), scheduling, steps=3, blocks=blocks)
        for scheduling in SCHEDULINGS
        for kind in ("load", "save")
        for blocks in (4, 2)  # in the small pool one request gets the blocks that steps of the other still write
    ]


def _ranks() -> list[Scope]:
    mixes = [("load",), ("save",), ("load_save",), ("load", "save")]
    return [
        case
        for scheduling in SCHEDULINGS
        for case in (
            *(Scope(mix, scheduling, ranks=2) for mix in mixes),
            Scope(("save",), scheduling, ranks=3, ranks_reporting=2),
        )
    ]


def _partial() -> list[Scope]:
    prompts = ("abcd", "xyz")
    return [
        Scope(("load", "load"), scheduling, block_size=2, prompts=prompts, load_blocks=1, blocks=5)
        for scheduling in SCHEDULINGS
    ]


def _alive(words: str, mixes: tuple[str, ...], **fields: Any) -> list[Scope]:
    """Cases with these events of the engine's life; each mix of kinds is written as ``load,save``."""
    lifecycle = tuple(words.split(","))
    return [
        Scope(tuple(mix.split(",")), scheduling, lifecycle=lifecycle, **fields)
        for scheduling in SCHEDULINGS
        for mix in mixes
    ]


def _failures() -> list[Scope]:
    mixes = [("load",), ("load_save",), ("load", "local")]
    return [
        Scope(mix, scheduling, prompt_blocks=2 if len(mix) == 1 else 1, load_failures=policy)
        for policy in FAILURE_POLICIES
        for scheduling in SCHEDULINGS
        for mix in mixes
    ]


def _sync_loads() -> list[Scope]:
    pairs = [
        pair for pair in combinations_with_replacement((*KINDS_IN_STEP, *BASIC_KINDS), 2) if pair[0] in KINDS_IN_STEP
    ]
    return [
        Scope(mix, scheduling) for scheduling in SCHEDULINGS for mix in (*((kind,) for kind in KINDS_IN_STEP), *pairs)
    ]


def _sync_failures() -> list[Scope]:
    alone = [Scope((kind,), prompt_blocks=2) for kind in KINDS_IN_STEP]
    beside = [
        Scope(("sync_load", other), prefix_sharing=shared)
        for other in ("local", "sync_load_save")
        for shared in (False, True)
    ]
    return [
        replace(scope, scheduling=scheduling, load_failures=policy)
        for policy in FAILURE_POLICIES
        for scheduling in SCHEDULINGS
        for scope in (*alone, *beside)
    ]


NAMED_SCOPES: dict[str, tuple[str, Any]] = {
    "seed": (
        "one load_save request: the race this project started from",
        lambda: both_schedulers(Scope(("load_save",))),
    ),
    "pair": (
        "the race beside a local request, which can be given the blocks",
        lambda: both_schedulers(Scope(("load_save", "local"))),
    ),
    "small": ("every combination of up to two requests of the four kinds, sync and async (default)", _small),
    "pressure": ("every pair of kinds in a pool so small that requests are preempted", _pressure),
    "prefix": ("every pair of kinds with one shared prompt and the prefix cache on", _prefix),
    "stops": (
        "every pair of kinds, and every sampled token may be a stop token",
        lambda: [replace(scope, early_stop=True) for scope in _small() if len(scope.requests) == 2],
    ),
    "chunked": ("every pair of kinds, and a step takes fewer tokens than a prompt has", _chunked),
    "priority": ("every ordered pair of kinds in a small pool, and the second request goes first", _priority),
    "lifecycle": (
        "one request of each kind: all are aborted at once, the prefix cache is reset, the engine is paused",
        lambda: _alive("abort_all,reset,reset_running,pause", BASIC_KINDS),
    ),
    "resets": (
        "the prefix cache is reset while requests run, wait for a load, or are held",
        lambda: _alive(
            "reset,reset_running", ("local", "load", "save", "local,local", "load,save"), prefix_sharing=True
        ),
    ),
    "pause": (
        "the engine is paused, reset and resumed",
        lambda: _alive("abort_all,reset_running,pause", ("local", "load", "save", "load,local"), blocks=2),
    ),
    "reuse": (
        "an id is used again once its client was told that the first request is over",
        lambda: _alive("reuse", ("local", "load", "save", "load_save", "local,save")),
    ),
    "lookup": (
        "the connector cannot say yet whether it has something to load, or first says so and then not",
        lambda: _alive("lookup", ("load", "load,local", "load,load", "load,load_save"), blocks=2),
    ),
    "failures": (
        "one load of two blocks and a request beside it; the load fails, in one block or both, early or at its end; both policies",
        _failures,
    ),
    "failed-ids": (
        "the same with failures that name the request, not its blocks (vLLM 0.30.0 and later)",
        lambda: [replace(scope, failed_ids=True) for scope in _failures()],
    ),
    "sync-loads": ("every pair with a request that loads inside its first step", _sync_loads),
    "sync-failures": (
        "a load inside a step fails, alone, beside another request and under a shared prompt; both policies",
        _sync_failures,
    ),
    "window": ("pairs with a second group of blocks, a sliding window's, in a small pool", _window),
    "drafts": ("speculative decoding: drafts are accepted and rejected, also with a sliding window", _drafts),
    "pipeline": (
        "pairs with three steps in flight, as pipeline parallel engines have them, in pools for two and for one",
        _pipeline,
    ),
    "ranks": ("two ranks that end a transfer at different times, and three of which two take part", _ranks),
    "partial": ("two requests that load a part of their prompts, and a pool for one of them at a time", _partial),
    "medium": ("three requests, and pairs under preemption", _medium),
}
"""Scopes by name: what each is for, and how its cases are made."""


def named_scope(name: str) -> list[Scope]:
    """The cases of a named scope. Raises KvraceError for an unknown name."""
    if name not in NAMED_SCOPES:
        raise KvraceError(f"unknown scope {quoted(name)}: use one of {', '.join(NAMED_SCOPES)}, or a file NAME.toml")
    cases: list[Scope] = NAMED_SCOPES[name][1]()
    return cases
