"""``no-premature-use`` of blocks whose load has failed. What it means for a block to be spoiled: :mod:`kvmodel.failures`."""

from __future__ import annotations

from kvmodel.events import Update
from kvmodel.failures import garbage_in_output, reads
from kvmodel.scope import Scope
from kvmodel.transition import Broken, Transition
from kvmodel.world import Step


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
    if t.response.step is None or not t.after.steps[-1].garbage:
        return None
    step = t.after.steps[-1]
    blocks = _bad(step, dict(t.before.spoiled), t.scope)
    which = f"block{'s' if len(blocks) > 1 else ''} {', '.join(map(str, blocks))}"
    return Broken(f"a step computes with {which} of {step.garbage[0]}, whose load has failed", "failed", blocks)


def _bad(step: Step, spoiled: dict[int, int], scope: Scope) -> tuple[int, ...]:
    bad = {b for a in step.accesses if a.request in step.garbage for b in reads(a, spoiled, scope)}
    return tuple(sorted(bad))


def _offered(t: Transition) -> Broken | None:
    """While a request owns the block, it may be about to compute it again; the step that does not is the one that breaks."""
    owned = {block for _, blocks in t.seen.owned for block in blocks}
    blocks = tuple(block for block, _ in t.after.spoiled if block in t.seen.cached and block not in owned)
    if not blocks:
        return None
    which = f"block{'s' if len(blocks) > 1 else ''} {', '.join(map(str, blocks))}"
    return Broken(f"the prefix cache offers {which}, whose load has failed and which nobody will compute again", "offered", blocks)
