"""Drafts: what an output may say of those that its step verified, and what becomes known of the steps behind it.

A step verifies its drafts from the first on and the output gives how many were accepted; the others are rejected, and what was
computed for them does not count. With the steps behind it in flight, only then it is known where those begin.
"""

from __future__ import annotations

from itertools import product

from kvmodel.accesses import first_in_window
from kvmodel.events import Update
from kvmodel.scope import Scope
from kvmodel.transition import Transition
from kvmodel.world import Access, Drafts, RequestState, Stage, Step, World

Accepted = tuple[tuple[str, int], ...]


def _verified(world: World, scope: Scope) -> list[Drafts]:
    """The drafts of the next output whose fate makes a difference: those of requests that are not over."""
    if not (scope.drafts and world.steps):
        return []
    return [d for d in world.steps[0].drafts if world.requests[scope.names.index(d.request)].stage == Stage.LIVE]


def outcomes(world: World, scope: Scope) -> list[Accepted]:
    """How many drafts of which requests the next output may accept, those without any left out."""
    verified = _verified(world, scope)
    counts = product(*(range(drafts.many + 1) for drafts in verified))
    return [
        tuple((drafts.request, count) for drafts, count in zip(verified, accepted, strict=True) if count)
        for accepted in counts
    ]


def may_accept(accepted: Accepted, world: World, scope: Scope) -> bool:
    """Whether the next output may be so, without listing them all."""
    most = dict(_verified(world, scope))
    names = [name for name, _ in accepted]
    return names == sorted(set(names)) and all(1 <= count <= most.get(name, 0) for name, count in accepted)


def nearest_outcome(accepted: Accepted, world: World, scope: Scope) -> Accepted:
    """As much of it as is possible."""
    most = dict(_verified(world, scope))
    return tuple((name, min(count, most[name])) for name, count in accepted if name in most)


def kv_tokens(name: str, t: Transition) -> int:
    """How many tokens of a request have KV for certain when it is handed over: not those of steps in flight, nor of a load that is
    not over. In a window it matters which tokens are the last, so there the step whose output has come counts as done.

    Accepted drafts may go beyond the last token that the request may have: they are cut off, and their KV is nobody's."""
    world = t.before
    if any(tr.request == name and tr.direction == "load" and not tr.over for tr in world.transfers):
        return 0
    requests, steps = list(world.requests), world.steps
    if isinstance(t.event, Update) and (t.scope.window or t.scope.drafts):
        requests, steps = settled(steps[0], steps[1:], requests, t.event.drafts, t.scope)
    index = t.scope.names.index(name)
    starts = [access.start - access.loaded for step in steps for access in step.accesses if access.request == name]
    return min([t.scope.most_computed(index), requests[index].computed, *starts])


def settled(
    processed: Step, behind: tuple[Step, ...], requests: list[RequestState], accepted: Accepted, scope: Scope
) -> tuple[list[RequestState], tuple[Step, ...]]:
    """The requests and the steps ``behind`` once the output of ``processed`` is known."""
    requests = list(requests)
    for name, many in processed.drafts:
        index = scope.names.index(name)
        began = next(access.start for access in processed.accesses if access.request == name)
        later = [access.start for step in behind for access in step.accesses if access.request == name]
        if not requests[index].table or any(start <= began for start in later):  # preempted since
            continue
        right = dict(accepted).get(name, 0)
        requests[index] = requests[index]._replace(computed=requests[index].computed - many + right)
        request = requests[index]
        behind = tuple(
            step._replace(accesses=tuple(_later(a, name, right, request, scope) for a in step.accesses))
            for step in behind
        )
    return requests, behind


def _later(access: Access, name: str, tokens: int, request: RequestState, scope: Scope) -> Access:
    """A step that begins so many tokens later than it could have, for the request ``name``. It reads nothing that has left the
    window by then."""
    if access.request != name:
        return access
    start = access.start + tokens
    if not scope.window:
        return access._replace(start=start)
    left = request.window_table[first_in_window(access.start, scope) : first_in_window(start, scope)]
    return access._replace(start=start, blocks=tuple(block for block in access.blocks if block not in left))
