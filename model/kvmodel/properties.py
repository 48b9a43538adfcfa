"""The nine properties: what must hold on every transition, and where each rule comes from.

A check looks at one transition. ``no-stuck`` is a property of the whole graph and is judged in :mod:`kvmodel.progress` as well.
"""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from kvmodel.events import Event
from kvmodel.port import Observation, Response
from kvmodel.scope import Scope
from kvmodel.world import RequestState, Stage, Transfer, World


class Transition(NamedTuple):
    """One event played on one state. ``seen_before`` and ``seen`` are the observations around it."""

    scope: Scope
    event: Event
    before: World
    seen_before: Observation
    response: Response
    after: World
    seen: Observation


class Broken(NamedTuple):
    """What is wrong, in words. ``shape`` tells kinds of the same fault apart (which transfer, which source line)."""

    message: str
    shape: str = ""


class Property(NamedTuple):
    """A named rule. ``source`` says who made it: a vLLM symbol, a docstring, or plain reason."""

    name: str
    meaning: str
    source: str
    check: Callable[[Transition], Broken | None]


def _blocks(blocks: Iterable[int], verb: str = "") -> str:
    """``block 1 is`` or ``blocks 1, 2 are``: the blocks by number, with ``verb`` (a form of "is" or "becomes") to match."""
    ordered = sorted(set(blocks))
    if len(ordered) == 1:
        return f"block {ordered[0]} {verb}".rstrip()
    plural = {"is": "are", "has": "have", "becomes": "become"}.get(verb, verb)
    return f"blocks {', '.join(map(str, ordered))} {plural}".rstrip()


def _no_crash(t: Transition) -> Broken | None:
    crash = t.response.crash
    if crash is None or crash.hang:
        return None
    return Broken(f"{crash.error} at {crash.location}: {crash.source}", crash.location)


def _no_double_free(t: Transition) -> Broken | None:
    seen = t.seen
    repeated = [block for block, count in Counter(seen.free).items() if count > 1]
    if repeated:
        return Broken(f"{_blocks(repeated, 'is')} in the pool twice")
    below = [block for block, count in enumerate(seen.references) if count is not None and count < 0]
    if below:
        return Broken(f"{_blocks(below, 'has')} a negative reference count")
    free = set(seen.free)
    wrong = [b for b, count in enumerate(seen.references) if count is not None and (count == 0) != (b in free)]
    if wrong:
        word = "in" if wrong[0] in free else "not in"
        return Broken(f"block {wrong[0]} has reference count {seen.references[wrong[0]]} and is {word} the pool")
    if seen.free_count != len(seen.free):
        return Broken(f"the pool counts {seen.free_count} free blocks and holds {len(seen.free)}")
    return None


def _no_leak(t: Transition) -> Broken | None:
    world, seen = t.after, t.seen
    if world.steps or not world.quiescent or not (world.settled or not seen.pending):
        return None
    kept = [b for b, count in enumerate(seen.references) if count is not None and count != 0]
    if kept:
        return Broken(f"every request is over and every transfer reported, and {_blocks(kept)} did not come back")
    for table, names in seen.tables:
        if names:
            return Broken(
                f"every request is over and every transfer reported, and {', '.join(names)} is still in {table}"
            )
    return None


def _taken_from(transfer: Transfer, seen: Observation, free: set[int]) -> tuple[list[int], str]:
    gone = [block for block in transfer.blocks if block in free]
    if gone:
        return gone, "in the pool"
    owners = dict(seen.owned)
    mine = set(owners.get(transfer.request, ()))
    for owner, blocks in seen.owned:
        # Blocks that are only read may have more owners; blocks that a load fills belong to its request alone.
        lost = [b for b in transfer.blocks if b in blocks and (transfer.direction == "load" or b not in mine)]
        if lost and owner != transfer.request:
            return lost, f"given to {owner}"
    return [], ""


def _no_use_after_free(t: Transition) -> Broken | None:
    free = set(t.seen.free)
    for transfer in t.after.transfers:
        if not transfer.over:
            lost, where = _taken_from(transfer, t.seen, free)
            if lost:
                verb = "writes there" if transfer.direction == "load" else "reads there"
                message = (
                    f"{_blocks(lost, 'is')} {where} while the {transfer.direction} of {transfer.request} still {verb}"
                )
                return Broken(message, f"under a {transfer.direction}")
    for load in t.response.loads:
        for other in t.before.transfers:
            hit = set(load.blocks).intersection(() if other.over else other.blocks)
            if hit:
                message = (
                    f"{_blocks(hit, 'becomes')} the target of the load of {load.request} while the {other.direction}"
                )
                return Broken(f"{message} of {other.request} still runs there", f"under a {other.direction}")
        for step in t.after.steps:
            for access in step.accesses:
                hit = set(load.blocks) & set(access.blocks)
                if hit and access.request != load.request:
                    return Broken(
                        f"{_blocks(hit, 'becomes')} the target of the load of {load.request} while a dispatched step "
                        f"still works there for {access.request}",
                        "under a step",
                    )
    return None


def _no_premature_use(t: Transition) -> Broken | None:
    loading = [tr for tr in t.after.transfers if tr.direction == "load" and not tr.over]
    for transfer in loading:
        offered = t.seen.cached.intersection(transfer.blocks)
        if offered:
            return Broken(f"the prefix cache offers {_blocks(offered)} before the load of {transfer.request} is over")
    if t.response.step is None:
        return None
    for access in t.after.steps[-1].accesses:
        for transfer in loading:
            used = set(access.blocks).intersection(transfer.blocks)
            if used and transfer.request == access.request:
                return Broken(f"a step computes with {_blocks(used)} of {access.request} before its load is over")
    return None


def _no_stuck(t: Transition) -> Broken | None:
    crash = t.response.crash
    if crash is not None and crash.hang:
        return Broken(f"{crash.error}, at {crash.location}: {crash.source}", "hang")
    if crash is not None or t.seen.pending or t.after.steps:
        return None
    for name, request in zip(t.scope.names, t.after.requests, strict=True):
        if request.stage == Stage.LIVE:
            return Broken(f"the engine goes idle while {name} is not over")
    for transfer in t.after.transfers:
        if transfer.claimed:
            return Broken(f"the engine goes idle while the {transfer.direction} of {transfer.request} is not reported")
    return None


def _finish_once(t: Transition) -> Broken | None:
    finished = t.after.settled or not (t.seen.pending or t.after.steps)
    for name, request in zip(t.scope.names, t.after.requests, strict=True):
        counts = (
            (request.notices, "final notice"),
            (request.finished_calls, "call of request_finished"),
            (request.dismissals, "notice to the workers"),
        )
        for count, what in counts:
            if count > 1:
                return Broken(f"{name} got more than one {what}")
            if count == 0 and request.stage == Stage.OVER and finished:
                return Broken(f"{name} is over and never got its {what}")
        if request.finished_calls and request.stage == Stage.LIVE:
            return Broken(f"request_finished was called for {name}, which is not over")
    return None


def _handover(t: Transition) -> Broken | None:
    for handover in t.response.handovers:
        index = t.scope.names.index(handover.request)
        request: RequestState = t.before.requests[index]
        needed = -(-request.computed // t.scope.block_size)
        if handover.blocks != request.table[: len(handover.blocks)] or len(handover.blocks) < needed:
            return Broken(
                f"request_finished({handover.request}) named {list(handover.blocks)}, and the KV of {handover.request} "
                f"is in {list(request.table[:needed])}"
            )
    return None


def _conservation(t: Transition) -> Broken | None:
    owners = Counter(block for _, blocks in t.seen.owned for block in blocks)
    owners.update(t.seen.held_back)
    for block, count in enumerate(t.seen.references):
        if count is not None and count != owners[block]:
            return Broken(f"block {block} has reference count {count} and {owners[block]} owners")
    if t.seen.negative:
        return Broken(f"{t.seen.negative[0]} is negative")
    return None


PROPERTIES: tuple[Property, ...] = (
    Property("no-crash", "no scheduler entry point raises", "EngineCore dies with its scheduler", _no_crash),
    Property(
        "no-double-free",
        "no block is returned to the pool twice; no negative reference count; pool and counts agree",
        "BlockPool.free_blocks, FreeKVCacheBlockQueue",
        _no_double_free,
    ),
    Property(
        "no-leak",
        "when every request is over and every transfer reported, all blocks are free and every per-request table is empty",
        "Scheduler._free_blocks: the only way out of Scheduler.requests",
        _no_leak,
    ),
    Property(
        "no-use-after-free",
        "no block is in the pool, or given to another owner, while a transfer touches it; "
        "no block becomes the target of a load while a dispatched step still touches it",
        "KVConnectorBase_V1.request_finished and wait_for_save; Scheduler.defer_block_free",
        _no_use_after_free,
    ),
    Property(
        "no-premature-use",
        "no step computes with, and the prefix cache does not offer, a block whose load is not over or has failed",
        "KVCacheManager.allocate_slots(delay_cache_blocks), Scheduler._update_waiting_for_remote_kv",
        _no_premature_use,
    ),
    Property(
        "no-stuck",
        "from every reachable state, letting all transfers end and the engine step leads to every request being over; "
        "the engine never goes idle while something is pending, and does go idle afterwards",
        "Scheduler.has_requests, EngineCore.step",
        _no_stuck,
    ),
    Property(
        "finish-once",
        "every request gets exactly one final notice; request_finished is called exactly once",
        "KVConnectorBase_V1.request_finished: called exactly once (since 0.11.2)",
        _finish_once,
    ),
    Property(
        "handover",
        "the blocks named at request_finished are those that hold the request's KV",
        "Scheduler._connector_finished",
        _handover,
    ),
    Property(
        "conservation",
        "free + owned + null = all blocks; bookkeeping counters never negative",
        "BlockPool, Request.num_in_flight_tokens, Request.num_output_placeholders",
        _conservation,
    ),
)

PROPERTY_NAMES = tuple(rule.name for rule in PROPERTIES)


class Finding(NamedTuple):
    """A property that one transition breaks. ``blame`` is ``connector`` when the order needed a weakening of the contract."""

    property: str
    message: str
    blame: str
    shape: str = ""

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
            findings.append(Finding(rule.name, broken.message, blame_of(transition.after), broken.shape))
    return findings
