"""What an exploration has to reach before its verdicts say anything: the situations in which schedulers go wrong.

A property that holds in a scope in which nothing was ever preempted says nothing about preemption. So each transition is
looked at for these situations, and a result says how often each was reached.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kvmodel.events import Abort, Schedule, Update
from kvmodel.transition import Transition
from kvmodel.world import Stage


class Milestone(NamedTuple):
    """A situation by name, what it means, and how a transition shows it."""

    name: str
    meaning: str
    reached: Callable[[Transition], bool]


def _aborted(t: Transition) -> bool:
    return isinstance(t.event, Abort)


def _stage_before(t: Transition) -> Stage:
    assert isinstance(t.event, Abort)
    return t.before.requests[t.scope.names.index(t.event.request)].stage


def _phase_before(t: Transition) -> str:
    assert isinstance(t.event, Abort)
    return dict(t.seen_before.phases).get(t.event.request, "")


def _waits_for_blocks(t: Transition) -> bool:
    """After a schedule a request waits, and fewer blocks are free than its prompt needs: its full ones and one more."""
    waiting = [t.scope.names.index(name) for name, phase in t.seen.phases if phase == "WAITING"]
    return isinstance(t.event, Schedule) and any(
        len(t.seen.free) < t.scope.prompt_blocks_of(index) + 1 for index in waiting
    )


MILESTONES: tuple[Milestone, ...] = (
    Milestone(
        "abort-before-schedule",
        "a request is aborted before it was ever scheduled",
        lambda t: _aborted(t) and _phase_before(t) == "WAITING",
    ),
    Milestone(
        "abort-during-load",
        "a request is aborted while its load runs",
        lambda t: (
            _aborted(t)
            and _stage_before(t) == Stage.LIVE
            and any(tr.direction == "load" and tr.request == t.event.request for tr in t.before.transfers)  # type: ignore[union-attr]
        ),
    ),
    Milestone(
        "abort-in-flight",
        "a request is aborted between a schedule and its update",
        lambda t: (
            _aborted(t)
            and _stage_before(t) == Stage.LIVE
            and any(a.request == t.event.request for step in t.before.steps for a in step.accesses)  # type: ignore[union-attr]
        ),
    ),
    Milestone(
        "abort-when-over",
        "an abort comes for a request that is already over",
        lambda t: _aborted(t) and _stage_before(t) == Stage.OVER,
    ),
    Milestone("two-steps", "two steps are in flight", lambda t: len(t.after.steps) > 1),
    Milestone(
        "held-back", "freed blocks wait for a dispatched step before they go back", lambda t: bool(t.seen.held_back)
    ),
    Milestone(
        "preemption", "a running request is preempted", lambda t: bool(t.response.step and t.response.step.preempted)
    ),
    Milestone(
        "pool-dry",
        "a request waits for blocks",
        _waits_for_blocks,
    ),
    Milestone(
        "shared-block",
        "two requests own one block",
        lambda t: any(count is not None and count > 1 for count in t.seen.references),
    ),
    Milestone(
        "load-and-save",
        "load and save of one request are pending together",
        lambda t: any(
            a.request == b.request and a.direction != b.direction for a in t.after.transfers for b in t.after.transfers
        ),
    ),
    Milestone(
        "two-reports",
        "one output carries two reports",
        lambda t: isinstance(t.event, Update) and len(t.event.reports) > 1,
    ),
)


MILESTONE_NAMES = tuple(milestone.name for milestone in MILESTONES)


def milestones_of(transition: Transition) -> tuple[str, ...]:
    """The names of the situations this transition reaches."""
    return tuple(milestone.name for milestone in MILESTONES if milestone.reached(transition))
