"""Play one order of events from the start, step by step, and keep what was seen at each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from kvmodel.allowed import enabled, refusal
from kvmodel.contract import Contract
from kvmodel.events import Event
from kvmodel.lockstep import Lockstep, Node
from kvmodel.nearest import nearest
from kvmodel.port import Observation, Response, Subject
from kvmodel.properties import Finding
from kvmodel.world import World

OTHERS_MAX = 32
"""How many other allowed events a refusal names: with many reports there may be more than a machine can list."""


class Frame(NamedTuple):
    """The state after one event; the first frame of a playback has no event."""

    event: Event | None
    response: Response
    world: World
    observation: Observation
    findings: tuple[Finding, ...]


class Refused(NamedTuple):
    """An event that was not allowed: its place in the order (from 0), the guard that was false, the allowed event nearest to it,
    and the first :data:`OTHERS_MAX` of the others. After a crash nothing is allowed."""

    place: int
    event: Event
    guard: str
    nearest: Event | None
    others: tuple[Event, ...]


def play(subject: Subject, contract: Contract, events: Sequence[Event]) -> tuple[list[Frame], Refused | None]:
    """Play ``events`` on a fresh scheduler. Stops at a crash, and at the first event that is not allowed."""
    walk = Lockstep(subject, contract, keys=False)
    node = walk.initial()
    frames = [frame_of(None, node)]
    for index, event in enumerate(events):
        state = (node.world, subject.scope, contract, node.observation.pending)
        if node.crashed:
            return frames, Refused(index, event, "the scheduler has crashed", None, ())
        guard = refusal(*state, event)
        if guard is not None:
            instead = nearest(*state, event)
            others = islice((allowed for allowed in enabled(*state) if allowed != instead), OTHERS_MAX)
            return frames, Refused(index, event, guard, instead, tuple(others))
        node = walk.successor(node, event)
        frames.append(frame_of(event, node))
    return frames, None


def frame_of(event: Event | None, node: Node) -> Frame:
    """What is kept of the state ``node``, to which ``event`` has led."""
    return Frame(event, node.response, node.world, node.observation, tuple(node.findings))
