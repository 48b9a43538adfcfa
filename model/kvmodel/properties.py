"""The nine properties: what must hold on every transition, and where each rule comes from.

``no-stuck`` is a property of the whole graph and is judged in :mod:`kvmodel.fairness` as well.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kvmodel import checks
from kvmodel.errors import KvraceError, quoted
from kvmodel.transition import Broken, Transition
from kvmodel.world import World


class Property(NamedTuple):
    """A named rule. ``source`` says who made it: a vLLM symbol, a docstring, or plain reason."""

    name: str
    meaning: str
    source: str
    check: Callable[[Transition], Broken | None]


PROPERTIES: tuple[Property, ...] = (
    Property("no-crash", "no scheduler entry point raises", "EngineCore dies with its scheduler", checks.no_crash),
    Property(
        "no-double-free",
        "no block is returned to the pool twice; no negative reference count; pool and counts agree",
        "BlockPool.free_blocks, FreeKVCacheBlockQueue",
        checks.no_double_free,
    ),
    Property(
        "no-leak",
        "when every request is over and every transfer reported, all blocks are free and every per-request table is empty",
        "Scheduler._free_blocks: the only way out of Scheduler.requests",
        checks.no_leak,
    ),
    Property(
        "no-use-after-free",
        "no block is in the pool, or given to another owner, while a transfer touches it; "
        "no block becomes the target of a load while a dispatched step still touches it; "
        "no step writes a block that another request's transfer touches, nor, without a prefix cache, one it owns; "
        "nothing works on the null block",
        "KVConnectorBase_V1.request_finished and wait_for_save; Scheduler.defer_block_free",
        checks.no_use_after_free,
    ),
    Property(
        "no-premature-use",
        "no step computes with, and the prefix cache does not offer, a block whose load is not over or has failed",
        "KVCacheManager.allocate_slots(delay_cache_blocks), Scheduler._update_waiting_for_remote_kv",
        checks.no_premature_use,
    ),
    Property(
        "no-stuck",
        "from every reachable state, letting all transfers end and the engine step leads to every request being over; "
        "the engine never goes idle while something is pending, and does go idle afterwards",
        "Scheduler.has_requests, EngineCore.step",
        checks.no_stuck,
    ),
    Property(
        "finish-once",
        "every request gets exactly one final notice; request_finished is called exactly once",
        "KVConnectorBase_V1.request_finished: called exactly once (since 0.11.2)",
        checks.finish_once,
    ),
    Property(
        "handover",
        "the blocks named at request_finished are those that hold the request's KV",
        "Scheduler._connector_finished",
        checks.handover,
    ),
    Property(
        "conservation",
        "free + owned + null = all blocks; no table names a block twice; bookkeeping counters never negative",
        "BlockPool, Request.num_in_flight_tokens, Request.num_output_placeholders",
        checks.conservation,
    ),
)

PROPERTY_NAMES = tuple(rule.name for rule in PROPERTIES)


def chosen_properties(given: Sequence[str] | None) -> tuple[str, ...]:
    """The properties with these names, in the usual order; all of them for None. Raises KvraceError for an unknown name."""
    if given is None:
        return PROPERTY_NAMES
    if not given:
        raise KvraceError("there is nothing to check: no property was given")
    for name in given:
        if name not in PROPERTY_NAMES:
            raise KvraceError(f"unknown property {quoted(name)}: use one of {', '.join(PROPERTY_NAMES)}")
    return tuple(name for name in PROPERTY_NAMES if name in given)


class Finding(NamedTuple):
    """A property that one transition breaks. ``blame`` is ``connector`` when the order needed a weakening of the contract."""

    property: str
    message: str
    blame: str
    shape: str = ""
    blocks: tuple[int, ...] = ()

    @builtins.property  # the field above hides the short name from type checkers
    def signature(self) -> tuple[str, str, str]:
        """Findings with equal signatures are the same finding, reached in different orders."""
        return (self.property, self.blame, self.shape)


def blame_of(world: World) -> str:
    """Whose rule was broken: the connector's, if the order made use of a weakening of ``exactly-once``."""
    return "connector" if world.deviations else "scheduler"


def judge(transition: Transition) -> list[Finding]:
    """Every property the transition breaks. After a crash or a hang nothing else is judged: the state means nothing."""
    findings = []
    rules = PROPERTIES
    if transition.response.crash:
        rules = tuple(rule for rule in PROPERTIES if rule.name in ("no-crash", "no-stuck"))
    for rule in rules:
        if broken := rule.check(transition):
            findings.append(Finding(rule.name, broken.message, blame_of(transition.after), broken.shape, broken.blocks))
    return findings
