"""Play one order of events from the start, step by step, and keep what was seen at each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvmodel.contract import Contract
from kvmodel.events import Event
from kvmodel.lockstep import Lockstep, Node
from kvmodel.port import Observation, Response, Subject
from kvmodel.properties import Finding
from kvmodel.rules import enabled, refusal
from kvmodel.world import World


class Frame(NamedTuple):
    """The state after one event; the first frame of a playback has no event."""

    event: Event | None
    response: Response
    world: World
    observation: Observation
    findings: tuple[Finding, ...]


class Refused(NamedTuple):
    """An event that was not allowed: its place in the order, the guard that was false, and what was allowed instead."""

    place: int
    event: Event
    guard: str
    allowed: tuple[Event, ...]


def play(subject: Subject, contract: Contract, events: Sequence[Event]) -> tuple[list[Frame], Refused | None]:
    """Play ``events`` on a fresh scheduler. Stops at a crash, and at the first event that is not allowed."""
    walk = Lockstep(subject, contract)
    node = walk.initial()
    frames = [_frame(None, node)]
    for index, event in enumerate(events):
        pending = node.observation.pending
        allowed = () if node.crashed else tuple(enabled(node.world, subject.scope, contract, pending))
        if event not in allowed:
            guard = "the scheduler has crashed"
            if not node.crashed:
                guard = refusal(node.world, subject.scope, contract, pending, event) or guard
            return frames, Refused(index, event, guard, allowed)
        node = walk.successor(node, event)
        frames.append(_frame(event, node))
    return frames, None


def _frame(event: Event | None, node: Node) -> Frame:
    return Frame(event, node.response, node.world, node.observation, tuple(node.findings))
