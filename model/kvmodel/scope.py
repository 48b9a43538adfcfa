"""The scope of an exploration: how many requests of which kind, how large a pool, how many steps in flight.

A verdict holds for its scope and for nothing larger, so a scope is always printed beside a verdict.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from kvmodel.errors import KvraceError, quoted

Scheduling = Literal["sync", "async"]
FailurePolicy = Literal["", "fail", "recompute"]

KINDS: dict[str, str] = {
    "local": "no transfer",
    "load": "the prompt comes by an asynchronous load (status WAITING_FOR_REMOTE_KVS)",
    "save": "blocks are held after the end until the connector has reported the send",
    "load_save": "both",
    "sync_load": "the prompt is loaded inside the step that first runs the request (a synchronous load)",
    "sync_load_save": "a synchronous load, and blocks are held after the end as with save",
}
"""The request kinds and what each means."""
BASIC_KINDS = ("local", "load", "save", "load_save")
"""The kinds that most named scopes combine."""
KINDS_IN_STEP = ("sync_load", "sync_load_save")
"""The kinds whose load is part of the step that first runs the request."""
_LOADING = ("load", "load_save", *KINDS_IN_STEP)

REQUEST_NAMES = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_NAMES = tuple(tuple(REQUEST_NAMES[:size]) for size in range(len(REQUEST_NAMES) + 1))
SCHEDULINGS: tuple[Scheduling, ...] = ("sync", "async")
STEPS_IN_FLIGHT = {"sync": 1, "async": 2}
LIFECYCLE: dict[str, str] = {
    "abort_all": "all requests may be aborted at once",
    "reset": "the prefix cache may be emptied",
    "reset_running": "the prefix cache may be emptied, and running requests are preempted for it",
    "pause": "the engine may be paused and resumed",
    "reuse": "an id may be used again, once, when its client was told that the first request is over",
    "lookup": "the connector may say of a load that it cannot tell yet, or that there is none",
}
"""Events of the engine's and the client's life that a scope may have, and what each means."""
SWITCHES = (
    "prefix_sharing", "early_stop", "separate_ends", "engine_order", "loads_again", "failed_ids", "cascade", "oversized",
)  # fmt: skip
"""The fields of a Scope that are true or false."""
FAILURE_POLICIES: tuple[FailurePolicy, ...] = ("fail", "recompute")
_LISTS: dict[str, tuple[type, str]] = {
    "requests": (str, "kinds"),
    "prompts": (str, "words"),
    "priorities": (int, "numbers"),
    "lifecycle": (str, "words"),
}
"""The fields of a Scope that are lists."""
_LIMITS = {
    "blocks": (1, 128),
    "block_size": (1, 64),
    "prompt_blocks": (1, 16),
    "output_tokens": (1, 64),
    "token_budget": (1, 2048),
    "max_requests": (1, 26),
    "ranks": (1, 9),
    "ranks_reporting": (1, 9),
    "steps": (1, 4),
    "load_blocks": (1, 16),
    "window": (1, 256),
    "drafts": (1, 4),
}
_WORDS = {"scheduling": "sync or async", "load_failures": "fail or recompute"}
_UNSET = ("blocks", "token_budget", "max_requests", "ranks_reporting", "steps", "load_blocks", "window", "drafts")
"""Here 0 means that nothing was asked for: just enough blocks, no budget, room for all requests to run, a report from every rank,
steps as the scheduling has them, whole prompts, one group of blocks, and no drafts."""
LATER_FIELDS = (
    "loads_again",
    "ranks",
    "ranks_reporting",
    "steps",
    "load_blocks",
    "window",
    "drafts",
    "max_requests",
    "lifecycle",
    "load_failures",
    "failed_ids",
    "cascade",
    "oversized",
)
"""Fields that came after traces and results were written: left out there while they have their default."""
_MISSING = object()
MOST_LOOKUPS = 4
_SAID = {
    "load_blocks": "{} blocks at most by load",
    "window": "window of {} tokens",
    "drafts": "{} drafts",
    "steps": "{} steps in flight",
    "max_requests": "{} running at a time",
}
"""How the text of a scope names fields that it leaves out while they are 0."""
_PROMPT = re.compile(r"[a-z]{1,16}")
_PRIORITIES = (0, 9)
_FIRST_TOKEN, _OTHER_TOKEN = 10, 40


@dataclass(frozen=True, slots=True)
class Scope:
    """One case to exhaust. Raises KvraceError when a value makes no sense or a request can never fit.

    ``blocks`` counts usable blocks; vLLM's null block comes on top. A prompt has ``prompt_blocks`` full blocks and one token
    more, so a load fills ``prompt_blocks`` blocks and one prompt token is always left to compute. ``prompts`` gives each request
    a prompt of its own instead: a word with one letter a full block, so ``ab`` and ``ac`` have the first block in common.
    ``prefix_sharing`` turns the prefix cache on; without ``prompts`` all requests then have one prompt, else each its own.

    ``token_budget`` is the most tokens of one step (0: no limit), so a longer prompt is computed in chunks. ``priorities`` has a
    number for each request, the smallest first, and switches to vLLM's priority scheduling; without it, first come first served.
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
    prompts: tuple[str, ...] = ()
    token_budget: int = 0
    priorities: tuple[int, ...] = ()
    load_failures: FailurePolicy = ""
    """Loads may fail, and the scheduler has this ``kv_load_failure_policy``. Empty: no load fails."""
    failed_ids: bool = False
    """Failed loads are reported by the id of their request (``failed_recving``, since vLLM 0.30.0), not by invalid blocks."""
    engine_order: bool = False
    """Only orders that the loop of vLLM's EngineCore can make. Sync: a request comes when no step is in flight. Async: a request
    comes when fewer steps than allowed are in flight, and a step is updated when no more may be dispatched or nothing is left to
    schedule."""
    lifecycle: tuple[str, ...] = ()
    """Which of :data:`LIFECYCLE` may happen, in that order."""
    max_requests: int = 0
    """How many requests may run at a time (vLLM ``max_num_seqs``); 0: all of them."""
    loads_again: bool = False
    """A request that was preempted may load again; else each loads once."""
    ranks: int = 1
    """How many workers move the blocks. With more than one, each ends and reports its part of every transfer by itself."""
    ranks_reporting: int = 0
    """How many of them take part in a transfer, the first ones; the connector says so (``get_finished_count``). 0: all."""
    steps: int = 0
    """How many steps may be in flight: with more than the scheduling has by itself, the engine is pipeline parallel."""
    load_blocks: int = 0
    """A load fills so many blocks at most, from the first one on; what is left of the prompt is computed."""
    window: int = 0
    """Tokens of a sliding window. Every other layer then attends only to these, and has a block table of its own, a second group
    of the same pool, from which blocks that have left the window are taken."""
    drafts: int = 0
    """Speculative decoding: how many draft tokens a step has for a request that decodes. The output accepts some of them."""
    cascade: bool = False
    """Each step says how many first blocks all requests have in common, and the workers read these for every request of the step
    where its first one has them (cascade attention)."""
    oversized: bool = False
    """A request may need more blocks than the pool has. vLLM has such pools where ``num_gpu_blocks_override`` is set, or where it
    counts the blocks of several groups too high."""

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
            if not low <= given <= high and not (name in _UNSET and given == 0):
                raise KvraceError(f"{name.replace('_', ' ')}: {quoted(given)} is outside {low} to {high}")
        if self.load_failures not in ("", *FAILURE_POLICIES):
            raise KvraceError(f"load failures: {quoted(self.load_failures)} is no policy; use fail or recompute")
        if self.cascade and (not self.prefix_sharing or self.window):
            raise KvraceError(
                "cascade: requests have blocks in common with prefix sharing only, and in one group; leave out window"
            )
        if self.failed_ids and not self.load_failures:
            raise KvraceError("failed ids: no load fails in this scope; set load failures to fail or recompute")
        in_step = any(map(self.loads_in_step, range(len(self.requests))))
        if (self.load_failures or in_step) and (self.ranks > 1 or self.window or self.drafts or self.lifecycle):
            raise KvraceError("loads that fail or are part of a step: leave out ranks, window, drafts and lifecycle")
        self._check_each()
        if self.ranks_reporting > self.ranks or (self.ranks == 1 and self.ranks_reporting):
            raise KvraceError(
                f"ranks reporting: {self.ranks_reporting} of {self.ranks}; leave it out for a report of each"
            )
        if 0 < self.steps < STEPS_IN_FLIGHT[self.scheduling]:
            raise KvraceError(
                f"steps: {self.scheduling} scheduling has {STEPS_IN_FLIGHT[self.scheduling]} in flight by itself"
            )
        needed = [self.blocks_needed(index) for index in range(len(self.requests))]
        if self.blocks == 0:
            object.__setattr__(self, "blocks", sum(needed))
            most = _LIMITS["blocks"][1]
            if self.blocks > most:
                raise KvraceError(
                    f"all requests together need {self.blocks} blocks and a pool has at most {most}; use --blocks to take fewer"
                )
        if self.blocks < max(needed) and not self.oversized:
            raise KvraceError(
                f"the scope cannot fit: one request needs {max(needed)} blocks and the pool has {self.blocks}"
                f"; use --blocks {max(needed)} or more"
            )

    def _check_each(self) -> None:
        """The fields that have one value for each request."""
        for name in ("prompts", "priorities"):
            given = getattr(self, name)
            if given and len(given) != len(self.requests):
                raise KvraceError(f"{name}: {len(given)} for {len(self.requests)} requests; give one for each")
        for word in self.prompts:
            if not _PROMPT.fullmatch(word):
                raise KvraceError(f"prompt {quoted(word)}: use 1 to 16 small letters, one for each full block")
        if self.prompts and self.prompt_blocks != 1:
            raise KvraceError(
                "prompt blocks and prompts exclude each other: a prompt has a block for each of its letters"
            )
        self._check_lifecycle()
        low, high = _PRIORITIES
        for number in self.priorities:
            if not low <= number <= high:
                raise KvraceError(f"priority {quoted(number)} is outside {low} to {high}")

    def _check_lifecycle(self) -> None:
        for word in self.lifecycle:
            if word not in LIFECYCLE:
                raise KvraceError(f"unknown event of the engine's life {quoted(word)}: use {', '.join(LIFECYCLE)}")
        object.__setattr__(self, "lifecycle", tuple(word for word in LIFECYCLE if word in self.lifecycle))
        if "reuse" in self.lifecycle and (self.separate_ends or self.ranks > 1):
            raise KvraceError(
                "reuse goes with one rank and without separate ends: a transfer of an earlier request ends with its report"
            )

        if "lookup" in self.lifecycle and sum(map(self.loads, range(len(self.requests)))) > MOST_LOOKUPS:
            raise KvraceError(f"lookup: at most {MOST_LOOKUPS} requests may load, since each multiplies the schedules")

    @property
    def names(self) -> tuple[str, ...]:
        """Request ids: A, B, C …"""
        return _NAMES[len(self.requests)]

    @property
    def steps_in_flight(self) -> int:
        """How many steps may be dispatched at a time (vLLM ``VllmConfig.max_concurrent_batches``)."""
        return self.steps or STEPS_IN_FLIGHT[self.scheduling]

    @property
    def rank_numbers(self) -> tuple[int, ...]:
        """The ranks that take part in a transfer, from 1 on; a rank that is alone has the number 0."""
        return (0,) if self.ranks == 1 else tuple(range(1, (self.ranks_reporting or self.ranks) + 1))

    def prompt_blocks_of(self, index: int) -> int:
        """Full blocks in the prompt of request number ``index``."""
        return len(self.prompts[index]) if self.prompts else self.prompt_blocks

    def loaded_tokens_of(self, index: int) -> int:
        """What the connector offers to load of the prompt of request number ``index``, in tokens from the first on."""
        whole = self.prompt_blocks_of(index)
        return min(whole, self.load_blocks or whole) * self.block_size

    def prompt(self, index: int) -> list[int]:
        """The token ids of request number ``index``. What they are matters only in that equal prefixes are equal."""
        first = 0 if self.prefix_sharing else index
        word = self.prompts[index] if self.prompts else chr(ord("a") + first) + "a" * (self.prompt_blocks - 1)
        filling = [_OTHER_TOKEN] * (self.block_size - 1)
        tokens = [token for letter in word for token in (_FIRST_TOKEN + ord(letter) - ord("a"), *filling)]
        return [*tokens, _OTHER_TOKEN]

    def blocks_needed(self, index: int) -> int:
        """Blocks of a request that runs to its end: its last sampled token never gets KV of its own, but drafts may have some
        after it. A table of a sliding window is never longer than the other one."""
        tokens = self.most_computed(index) + self.drafts * self.steps_in_flight
        return -(-tokens // self.block_size) * (2 if self.window else 1)

    def most_computed(self, index: int) -> int:
        """Tokens of a request that runs to its end, without the last one, which is sampled and never computed."""
        return self.prompt_blocks_of(index) * self.block_size + self.output_tokens

    def loads(self, index: int) -> bool:
        return self.requests[index] in _LOADING

    def loads_in_step(self, index: int) -> bool:
        """Whether the load is synchronous: part of the step that first runs the request."""
        return self.requests[index] in KINDS_IN_STEP

    def saves(self, index: int) -> bool:
        return self.requests[index] in ("save", "load_save", "sync_load_save")

    def __str__(self) -> str:
        parts = [",".join(self.requests), self.scheduling, f"{self.blocks} blocks of {self.block_size}"]
        if self.prompts:
            parts.append(f"prompts {','.join(self.prompts)} and 1 token + {self.output_tokens} tokens")
        else:
            parts.append(f"prompt {self.prompt_blocks * self.block_size + 1}+{self.output_tokens} tokens")
        if self.token_budget:
            parts.append(f"{self.token_budget} token{'s' if self.token_budget > 1 else ''} a step")
        if self.priorities:
            parts.append(f"priorities {','.join(map(str, self.priorities))}")
        if self.ranks > 1:
            parts.append(
                f"{self.ranks} ranks" + (f", {self.ranks_reporting} reporting" if self.ranks_reporting else "")
            )
        parts += [words.format(getattr(self, name)) for name, words in _SAID.items() if getattr(self, name)]
        if self.load_failures:
            parts.append(f"load failures {self.load_failures}")
        switches = [name for name in SWITCHES if getattr(self, name)]
        parts += [name.replace("_", " ") for name in (*switches, *self.lifecycle)]
        return " · ".join(parts)

    def as_dict(self) -> dict[str, Any]:
        defaults = {field.name: field.default for field in fields(self) if field.name in LATER_FIELDS}
        data = {name: value for name, value in asdict(self).items() if value != defaults.get(name, _MISSING)}
        return {name: list(value) if name in _LISTS else value for name, value in data.items()}

    @classmethod
    def from_dict(cls, data: Any) -> Scope:
        """Read what :meth:`as_dict` wrote. The input may be hostile: every field is checked, none is evaluated."""
        if not isinstance(data, dict):
            raise KvraceError("the scope is not a table")
        known = {field.name: field for field in fields(cls)}
        unknown = sorted(set(map(str, data)) - known.keys())
        if unknown:
            raise KvraceError(f"the scope has an unknown field {quoted(unknown[0])}")
        if "requests" not in data:
            raise KvraceError("the scope has no requests")
        for name, (kind, what) in _LISTS.items():
            given = data.get(name, [])
            if not isinstance(given, list) or not all(type(item) is kind for item in given):
                raise KvraceError(f"the scope's {name} are not a list of {what}")
        for name, value in data.items():
            expected = {"int": int, "bool": bool}.get(str(known[name].type))
            if expected and type(value) is not expected:
                raise KvraceError(f"the scope's {name} is not {'a number' if expected is int else 'true or false'}")
            if name in _WORDS and not isinstance(value, str):
                raise KvraceError(f"the scope's {name} is not {_WORDS[name]}")
        return cls(**{**data, **{name: tuple(data[name]) for name in _LISTS if name in data}})


def both_schedulers(scope: Scope) -> list[Scope]:
    return [replace(scope, scheduling="sync"), replace(scope, scheduling="async")]
