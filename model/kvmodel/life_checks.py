"""What the checks ask of a reset of the prefix cache."""

from __future__ import annotations

from kvmodel.events import Reset
from kvmodel.port import Crash
from kvmodel.transition import Broken, Transition


def unfounded_refusal(t: Transition) -> Crash | None:
    """The error of a reset that preempts, where nothing but running requests owned blocks.

    vLLM documents that it refuses while a load is waited for; blocks that are held for a send cannot be taken either. For blocks
    of requests that run it promises to succeed (``Scheduler.reset_prefix_cache``).
    """
    answer = t.response.reset
    if answer is None or answer.refusal is None:
        return None
    phases = dict(t.seen_before.phases)
    others = [name for name, blocks in t.seen_before.owned if blocks and phases.get(name) != "RUNNING"]
    return None if others else answer.refusal


def offered_after_reset(t: Transition) -> Broken | None:
    """A reset that said True, and a prefix cache that is not empty."""
    done = isinstance(t.event, Reset) and t.response.reset is not None and t.response.reset.done
    if not (done and t.seen.cached):
        return None
    blocks = tuple(sorted(t.seen.cached))
    return Broken(f"the prefix cache was reset and still offers {', '.join(map(str, blocks))}", "reset", blocks)
