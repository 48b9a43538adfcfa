"""Leave the engine alone from one state on: ``no-stuck`` along a single walk, where no graph of all states is at hand; and whether
events that were found to repeat for ever do so.

The walk is that of the engine's own loop: it fills its pipeline and then processes the oldest step (as
``EngineCore.step_with_batch_queue`` does), and every output carries every report that is due.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from kvmodel.allowed import possible_reports
from kvmodel.contract import Contract
from kvmodel.events import Event, Resume, Schedule, TransferEnds, Update
from kvmodel.life import takes_calls
from kvmodel.lockstep import Lockstep, Node
from kvmodel.port import Observation
from kvmodel.progress import EVERY_TRANSFER, at_rest, left_alone, stuck_message, unreported
from kvmodel.properties import Finding, blame_of
from kvmodel.scope import Scope
from kvmodel.world import World


class Walk(NamedTuple):
    """What happened by itself. When a state came again, the events from number ``loop`` on (the first is 0) repeat for ever."""

    steps: tuple[tuple[Event, Node], ...]
    loop: int | None


def next_if_left_alone(world: World, scope: Scope, contract: Contract, seen: Observation) -> Event | None:
    """The event that comes next in the engine's own loop; None when nothing is left to happen."""
    if world.paused and takes_calls(world, scope):
        return Resume()
    for transfer in world.transfers:
        if transfer.told or (scope.separate_ends and not transfer.over):
            return TransferEnds(transfer.request, transfer.direction, transfer.rank)
    if seen.pending and len(world.steps) < scope.steps_in_flight:
        return Schedule()
    if world.steps:
        due = [report for report in possible_reports(world, scope, contract) if left_alone(Update((report,)))]
        return Update(tuple(sorted(due)))
    return None


def leave_alone(lockstep: Lockstep, node: Node) -> Walk:
    """Play what happens when nobody interferes: to rest, a crash, a dead end, or a state that came before."""
    steps: list[tuple[Event, Node]] = []
    seen: dict[Hashable, int] = {}
    while not node.crashed and not at_rest(node.world, node.observation):
        if node.key in seen:
            return Walk(tuple(steps), seen[node.key])
        seen[node.key] = len(steps)
        event = next_if_left_alone(node.world, lockstep.scope, lockstep.contract, node.observation)
        if event is None:
            break
        node = lockstep.successor(node, event)
        steps.append((event, node))
    return Walk(tuple(steps), None)


def repeats_for_ever(lockstep: Lockstep, events: Sequence[Event], loop: int) -> bool:
    """Play ``events``, all of which must be allowed: whether those from number ``loop`` on happen by themselves, are fair
    (:mod:`kvmodel.fairness`), and lead back to exactly the same state without coming to rest."""
    node = lockstep.initial()
    for event in events[:loop]:
        node = lockstep.successor(node, event)
    start, waiting = node, EVERY_TRANSFER
    for event in events[loop:]:
        if node.crashed or at_rest(node.world, node.observation) or not left_alone(event):
            return False
        waiting &= unreported(node.world, lockstep.scope, event)
        node = lockstep.successor(node, event)
    return waiting == 0 and node.key == start.key


def never_at_rest_finding(scope: Scope, world: World, seen: Observation, blame: str | None = None) -> Finding:
    """The finding for a walk that ends in a loop, from a state of the loop; without ``blame``, the blame of that state."""
    return Finding("no-stuck", stuck_message(scope, world, seen), blame or blame_of(world), "never at rest")
