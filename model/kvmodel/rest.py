"""Leave the engine alone from one state on: ``no-stuck`` along a single walk, where no graph of all states is at hand."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from kvmodel.events import Event
from kvmodel.lockstep import Lockstep, Node
from kvmodel.port import Observation
from kvmodel.progress import at_rest, next_if_left_alone, stuck_message
from kvmodel.properties import Finding, blame_of
from kvmodel.scope import Scope
from kvmodel.world import World


class Walk(NamedTuple):
    """What happened by itself. When a state came again, the events from number ``loop`` on (the first is 0) repeat for ever."""

    steps: tuple[tuple[Event, Node], ...]
    loop: int | None


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


def never_at_rest_finding(scope: Scope, world: World, seen: Observation, blame: str | None = None) -> Finding:
    """The finding for a walk that ends in a loop, from a state of the loop; without ``blame``, the blame of that state."""
    return Finding("no-stuck", stuck_message(scope, world, seen), blame or blame_of(world), "never at rest")
