"""``no-premature-use`` of blocks whose load has failed. What it means for a block to be spoiled: :mod:`kvmodel.failures`."""

from __future__ import annotations

from kvmodel.events import Update
from kvmodel.failures import garbage_in_output, reads, run
from kvmodel.transition import Broken, Transition


def no_use_of_failed_loads(t: Transition) -> Broken | None:
    """No step computes with such a block, none of its tokens is delivered, and the prefix cache does not offer it for good."""
    if not t.scope.load_failures:
        return None
    return _delivered(t) or _computed(t) or _offered(t)


def _delivered(t: Transition) -> Broken | None:
    """Steps in flight when a failure is reported cannot be taken back; what was sampled in them can."""
    if not isinstance(t.event, Update) or not t.response.delivered:
        return None
    for name in garbage_in_output(t.before, t.scope, t.event):
        if name in t.response.delivered:
            return Broken(f"the client of {name} gets a token that was computed without what a failed load should have brought",
                          "token")  # fmt: skip
    return None


def _computed(t: Transition) -> Broken | None:
    step = t.response.step
    if step is None or not t.before.spoiled:
        return None
    spoiled = dict(t.before.spoiled)
    for load in t.response.loads:
        for block in load.blocks:
            spoiled.pop(block, None)
    accesses = t.after.steps[-1].accesses
    for name in run(accesses, dict(spoiled), t.scope, {entry.request: entry.computed for entry in step.scheduled}):
        (access,) = (access for access in accesses if access.request == name)
        blocks = reads(access, spoiled, t.scope)
        had = t.before.requests[t.scope.names.index(name)].table
        shape = "failed and kept" if set(blocks) <= set(had) else "failed and taken"
        return Broken(f"a step computes with {_numbered(blocks)} of {name}, whose load has failed", shape, blocks)
    return None


def _numbered(blocks: tuple[int, ...]) -> str:
    return f"block{'s' if len(blocks) > 1 else ''} {', '.join(map(str, blocks))}"


def _offered(t: Transition) -> Broken | None:
    """While a request owns the block, it may be about to compute it again; the step that does not is the one that breaks."""
    owned = {block for _, blocks in t.seen.owned for block in blocks}
    blocks = tuple(block for block, _ in t.after.spoiled if block in t.seen.cached and block not in owned)
    if not blocks:
        return None
    return Broken(
        f"the prefix cache offers {_numbered(blocks)}, whose load has failed and which nobody will compute again",
        "offered",
        blocks,
    )
