"""``no-stuck`` on the finished graph: an engine left alone must come to rest.

Left alone means: no client does anything more, the engine fills its pipeline and then processes the oldest step (as
``EngineCore.step_with_batch_queue`` does), and every output carries every report that is due. From each state that is one
walk, so the walks form a graph with one edge a state, and every walk either comes to rest or ends in a cycle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvmodel.contract import Contract
from kvmodel.events import Event, Schedule, TransferEnds, Update
from kvmodel.port import Observation
from kvmodel.rules import possible_reports
from kvmodel.scope import Scope
from kvmodel.world import Stage, World


def next_if_left_alone(world: World, scope: Scope, contract: Contract, seen: Observation) -> Event | None:
    """The one event that happens when nobody interferes; None when nothing is left to happen."""
    if scope.separate_ends:
        for transfer in world.transfers:
            if not transfer.over:
                return TransferEnds(transfer.request, transfer.direction)
    if seen.pending and len(world.steps) < scope.steps_in_flight:
        return Schedule()
    if world.steps:
        due = [report for report in possible_reports(world, scope, contract) if report.kind == "due"]
        return Update(tuple(sorted(due)))
    return None


def at_rest(world: World, seen: Observation) -> bool:
    """Every request is over, every transfer the scheduler knows of is reported, and the engine is idle."""
    return (
        not seen.pending
        and not world.steps
        and not any(transfer.claimed for transfer in world.transfers)
        and all(request.stage != Stage.LIVE for request in world.requests)
    )


def never_at_rest(next_state: Mapping[int, int], resting: Sequence[bool]) -> list[int]:
    """The states whose walk ends in a cycle and never at rest, in the order of their numbers.

    ``next_state`` has the one successor of each state. A walk that leaves the explored part of the graph, or ends in a state
    where nothing can happen, is not reported here: the first is undetermined, the second is seen on the transition itself.
    """
    fine: dict[int, bool] = {}
    for start in range(len(resting)):
        path: list[int] = []
        on_path: set[int] = set()
        state: int | None = start
        outcome = True
        while state is not None and not resting[state]:
            if state in fine:
                outcome = fine[state]
                break
            if state in on_path:
                outcome = False
                break
            path.append(state)
            on_path.add(state)
            state = next_state.get(state)
        for visited in path:
            fine[visited] = outcome
    return [state for state, good in sorted(fine.items()) if not good]


def stuck_message(scope: Scope, world: World, seen: Observation) -> str:
    """What never happens, in a state from which an engine left alone never comes to rest."""
    phases = dict(seen.phases)
    for name, request in zip(scope.names, world.requests, strict=True):
        if request.stage == Stage.LIVE:
            return f"left alone, {name} is never over: it stays {phases.get(name, 'unknown to the scheduler')}"
    if world.transfers:
        transfer = world.transfers[0]
        return f"left alone, the {transfer.direction} of {transfer.request} is never reported"
    left = ", ".join(f"{name} is {phase}" for name, phase in seen.phases)
    return f"everything is over and the engine never goes idle{': ' + left if left else ''}"
