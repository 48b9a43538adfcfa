"""The nine checks: each looks at one transition and says what is wrong with it, or None.

What each rule means and where it comes from is in :mod:`kvmodel.properties`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kvmodel.accesses import given_up, holding_kv, names_kv
from kvmodel.common_prefix import strange_prefix
from kvmodel.drafts import kv_tokens
from kvmodel.events import Update
from kvmodel.failed_loads import no_use_of_failed_loads
from kvmodel.failures import kv_before_spoiled, spoil
from kvmodel.life_checks import offered_after_reset, unfounded_refusal
from kvmodel.port import Observation
from kvmodel.transition import Broken, Transition
from kvmodel.world import Access, RequestState, Stage, Transfer


def _blocks(blocks: Iterable[int], verb: str = "") -> str:
    """``block 1 is`` or ``blocks 1, 2 are``: the blocks by number, with ``verb`` (a form of "is" or "becomes") to match."""
    ordered = sorted(set(blocks))
    if len(ordered) == 1:
        return f"block {ordered[0]} {verb}".rstrip()
    plural = {"is": "are", "has": "have", "becomes": "become"}.get(verb, verb)
    return f"blocks {', '.join(map(str, ordered))} {plural}".rstrip()


def no_crash(t: Transition) -> Broken | None:
    crash = t.response.crash or unfounded_refusal(t)
    if crash is None or crash.hang:
        return None
    return Broken(f"{crash.error} at {crash.location}: {crash.source}", crash.location)


def no_double_free(t: Transition) -> Broken | None:
    seen = t.seen
    free = set(seen.free)
    if len(free) < len(seen.free):
        repeated = [block for block, count in Counter(seen.free).items() if count > 1]
        return Broken(f"{_blocks(repeated, 'is')} in the pool twice", blocks=tuple(repeated))
    below = [block for block, count in enumerate(seen.references) if count is not None and count < 0]
    if below:
        return Broken(f"{_blocks(below, 'has')} a negative reference count", blocks=tuple(below))
    wrong = [b for b, count in enumerate(seen.references) if count is not None and (count == 0) != (b in free)]
    if wrong:
        word = "in" if wrong[0] in free else "not in"
        count = seen.references[wrong[0]]
        return Broken(f"block {wrong[0]} has reference count {count} and is {word} the pool", blocks=(wrong[0],))
    if seen.free_count != len(seen.free):
        return Broken(f"the pool counts {seen.free_count} free blocks and holds {len(seen.free)}")
    return None


def no_leak(t: Transition) -> Broken | None:
    world, seen = t.after, t.seen
    if world.steps or not world.quiescent or not (world.settled or not seen.pending):
        return None
    kept = [b for b, count in enumerate(seen.references) if count is not None and count != 0]
    if kept:
        message = f"every request is over and every transfer reported, and {_blocks(kept)} did not come back"
        return Broken(message, blocks=tuple(kept))
    for table, names in seen.tables:
        if names:
            message = f"every request is over and every transfer reported, and {', '.join(names)} is still in {table}"
            return Broken(message, f"in {table.rpartition('.')[2]}")  # of whichever class of an ancestry
    return None


def _taken_from(transfer: Transfer, seen: Observation, free: set[int]) -> tuple[list[int], str]:
    """The blocks of a running transfer that are in the pool, or that another request owns alone, and where they are."""
    gone = [block for block in transfer.blocks if block in free]
    if gone:
        return gone, "in the pool"
    owners = dict(seen.owned)
    mine = {*owners.get(transfer.request, ()), *seen.held_back}
    for owner, blocks in seen.owned:
        # Blocks that are only read may have more owners; blocks that a load fills belong to its request alone.
        lost = [b for b in transfer.blocks if b in blocks and (transfer.direction == "load" or b not in mine)]
        if lost and owner != transfer.request:
            return lost, f"given to {owner}"
    return [], ""


def _overwrites(access: Access, t: Transition) -> Broken | None:
    """A step may read what a transfer of another request uses (a shared prefix), but never write it. Without a prefix cache
    no block has two owners at all; with one, a request may own the prefix that another's step is about to write before it.
    """
    for transfer in t.after.unreported:
        # What a failed load has left in a block is nothing that writing could destroy.
        hit = tuple(b for b in access.written if b in transfer.blocks and b not in dict(t.before.spoiled))
        others = transfer.request != access.request or transfer in t.after.earlier
        if hit and not transfer.over and others:
            what = f"the {transfer.label} still runs there"
            message = f"a step writes {_blocks(hit)} for {access.request} while {what}"
            return Broken(message, f"under a {transfer.direction}", hit)
    for owner, blocks in () if t.scope.prefix_sharing else t.seen.owned:
        hit = tuple(block for block in access.written if block in blocks)
        if hit and owner != access.request:
            return Broken(
                f"a step writes {_blocks(hit)} for {access.request}, and {owner} owns it too", "two owners", hit
            )
    return None


def _nobodys(blocks: Iterable[int], t: Transition) -> tuple[int, ...]:
    """Those of the blocks that nobody can own: the null block, and what is no block of the pool."""
    counts = t.seen.references
    return tuple(block for block in blocks if not 0 <= block < len(counts) or counts[block] is None)


def _on_nobodys_blocks(t: Transition) -> Broken | None:
    for transfer in t.after.unreported:
        if null := _nobodys(transfer.blocks, t):
            what = f"the {transfer.label} works on {_blocks(null)}"
            return Broken(f"{what}, which nobody can own", "nobody's", null)
    for access in t.after.steps[-1].accesses if t.response.step is not None else ():
        if null := _nobodys(access.blocks, t):
            return Broken(
                f"a step works on {_blocks(null)} for {access.request}, which nobody can own", "nobody's", null
            )
    return None


def no_use_after_free(t: Transition) -> Broken | None:
    if broken := _on_nobodys_blocks(t) or strange_prefix(t):
        return broken
    free = set(t.seen.free)
    for transfer in t.after.unreported:
        if not transfer.over:
            lost, where = _taken_from(transfer, t.seen, free)
            if lost:
                verb = "writes there" if transfer.direction == "load" else "reads there"
                message = f"{_blocks(lost, 'is')} {where} while the {transfer.label} still {verb}"
                return Broken(message, f"under a {transfer.direction}", tuple(lost))
    if t.response.step is not None:
        for access in t.after.steps[-1].accesses:
            if broken := _overwrites(access, t):
                return broken
        for name, taken in given_up(t.after.steps[-1].accesses, t.seen.owned) if t.scope.window else ():
            message = f"a step works on {_blocks(taken)} for {name}, which {name} does not own any more"
            return Broken(message, "given up", taken)
    for load in t.response.loads:
        if load.in_step:  # what a step loads it writes, in its turn
            continue
        for other in t.before.unreported:
            hit = set(load.blocks).intersection(() if other.over else other.blocks)
            if hit:
                message = (
                    f"{_blocks(hit, 'becomes')} the target of the load of {load.request} while the {other.direction}"
                )
                message += f" of {other.request} still runs there"
                return Broken(message, f"under a {other.direction}", tuple(sorted(hit)))
        for step in t.after.steps:
            for access in step.accesses:
                hit = set(load.blocks) & set(access.blocks)
                if hit:
                    return Broken(
                        f"{_blocks(hit, 'becomes')} the target of the load of {load.request} while a dispatched step "
                        f"still works there for {access.request}",
                        "under a step",
                        tuple(sorted(hit)),
                    )
    return None


def no_premature_use(t: Transition) -> Broken | None:
    if broken := offered_after_reset(t):
        return broken
    loading = [tr for tr in t.after.unreported if tr.direction == "load" and not tr.over]
    for transfer in loading:
        offered = t.seen.cached.intersection(transfer.blocks)
        if offered:
            message = f"the prefix cache offers {_blocks(offered)} before the load of {transfer.request} is over"
            return Broken(message, blocks=tuple(sorted(offered)))
    if broken := no_use_of_failed_loads(t):
        return broken
    if t.response.step is None:
        return None
    for access in t.after.steps[-1].accesses:
        for transfer in loading:
            used = set(access.blocks).intersection(transfer.blocks)
            if used and transfer.request == access.request and transfer not in t.after.earlier:
                message = f"a step computes with {_blocks(used)} of {access.request} before its load is over"
                return Broken(message, "by a step", tuple(sorted(used)))
    return None


def no_stuck(t: Transition) -> Broken | None:
    crash = t.response.crash
    if crash is not None and crash.hang:
        return Broken(f"{crash.error}, at {crash.location}: {crash.source}", "hang")
    if crash is not None or t.seen.pending or t.after.steps:
        return None
    for name, request in zip(t.scope.names, t.after.requests, strict=True):
        if request.stage == Stage.LIVE and not t.after.paused:
            return Broken(f"the engine goes idle while {name} is not over", "not over")
    for transfer in t.after.unreported:
        if transfer.claimed and t.after.paused != "all":
            return Broken(f"the engine goes idle while the {transfer.label} is not reported")
    return None


def finish_once(t: Transition) -> Broken | None:
    finished = t.after.settled or not (t.seen.pending or t.after.steps)
    for name, request in zip(t.scope.names, t.after.requests, strict=True):
        counts = (
            (request.notices, "final notice"),
            (request.finished_calls, "call of request_finished"),
            (request.dismissals, "notice to the workers"),
        )
        owed = {"notice to the workers": request.known}  # workers need no notice of what they never heard of
        for count, what in counts:
            if count > 1:
                return Broken(f"{name} got more than one {what}", f"more than one {what}")
            if count == 0 and request.stage == Stage.OVER and finished and owed.get(what, True):
                return Broken(f"{name} is over and never got its {what}", f"no {what}")
        if request.finished_calls and request.stage == Stage.LIVE and isinstance(t.event, Update):
            return Broken(f"request_finished was called for {name}, which is not over", "not over")
    return None


def handover(t: Transition) -> Broken | None:
    known = spoil(t.before, t.scope, t.event.failures) if isinstance(t.event, Update) and t.event.failures else t.before
    for handover in t.response.handovers:
        request: RequestState = t.before.requests[t.scope.names.index(handover.request)]
        # One call too many is for finish-once to report: the table was forgotten with the first.
        if request.finished_calls:
            continue
        tokens = kv_before_spoiled(request.table, kv_tokens(handover.request, t), known, t.scope)
        if not names_kv(handover, request, tokens, t.scope):
            return Broken(
                f"request_finished({handover.request}) named {list(handover.named)}, and the KV of {handover.request} "
                f"is in {list(holding_kv(request, tokens, t.scope))}"
            )
    return None


def conservation(t: Transition) -> Broken | None:
    owners = [0] * len(t.seen.references)
    for _, blocks in t.seen.owned:
        for block in blocks:
            owners[block] += 1
    for block in t.seen.held_back:
        owners[block] += 1
    for block, count in enumerate(t.seen.references):
        if count is not None and count != owners[block]:
            return Broken(f"block {block} has reference count {count} and {owners[block]} owners", blocks=(block,))
    for owner, blocks in t.seen.owned:
        twice = [block for block, count in Counter(blocks).items() if count > 1 and not _nobodys([block], t)]
        if twice:
            return Broken(f"{_blocks(twice, 'is')} twice in the table of {owner}", "twice in a table", tuple(twice))
    if t.seen.negative:
        return Broken(f"{t.seen.negative[0]} is negative", "a counter")
    return None
