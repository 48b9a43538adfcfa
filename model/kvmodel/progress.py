"""``no-stuck``: what an engine left alone does, when it is at rest, and which transfers it lets wait.

Left alone means: no client does anything more, a paused engine is resumed, no sampled token is a stop token, and the connector
keeps to ``exactly-once``. The engine steps, transfers end, and every output carries any of the reports that are due. What of that
may go on for ever is for :mod:`kvmodel.fairness` to say.
"""

from __future__ import annotations

from kvmodel.events import DIRECTIONS, Event, Resume, Schedule, TransferEnds, Update
from kvmodel.port import Observation
from kvmodel.scope import Scope
from kvmodel.world import Stage, World

EVERY_TRANSFER = -1
"""All bits set: the transfers that wait along no event at all, to be intersected with :func:`unreported`."""


_IN_TIME = ("due", "earlier")


def left_alone(event: Event) -> bool:
    """Whether the event happens although nobody interferes."""
    match event:
        case TransferEnds() | Resume():
            return True
        case Schedule(later, missing):
            return not (later or missing)
        case Update(reports, stops, failures):
            return not stops and not failures and all(report.kind in _IN_TIME for report in reports)
    return False


def at_rest(world: World, seen: Observation) -> bool:
    """Every request is over, every transfer the scheduler knows of is reported, and the engine is idle."""
    return (
        not seen.pending
        and not world.steps
        and not any(transfer.claimed for transfer in world.unreported)
        and all(request.stage != Stage.LIVE for request in world.requests)
    )


def unreported(world: World, scope: Scope, event: Event) -> int:
    """The transfers that run before ``event`` and are not reported by it, as a set of bits: two for each request of the scope,
    two more for the earlier request of its id, and one for a pause, which waits to be over as well."""
    reports = event.reports if isinstance(event, Update) else ()
    told = {(report.direction, report.request, report.kind == "earlier") for report in reports}
    bits = 0
    for place, transfers in enumerate((world.transfers, world.earlier)):
        for transfer in transfers:
            if (transfer.direction, transfer.request, bool(place)) not in told:
                number = place * len(scope.names) + scope.names.index(transfer.request)
                bits |= 1 << 2 * number + DIRECTIONS.index(transfer.direction)
    if world.paused and not isinstance(event, Resume):
        bits |= 1 << 4 * len(scope.names)
    return bits


def stuck_message(scope: Scope, world: World, seen: Observation) -> str:
    """What never happens, in a state from which an engine left alone need never come to rest."""
    phases = dict(seen.phases)
    for name, request in zip(scope.names, world.requests, strict=True):
        if request.stage == Stage.LIVE:
            return f"left alone, {name} is never over: it stays {phases.get(name, 'unknown to the scheduler')}"
    if world.unreported:
        transfer = world.unreported[0]
        return f"left alone, the {transfer.label} is never reported"
    left = ", ".join(f"{name} is {phase}" for name, phase in seen.phases)
    return f"everything is over and the engine never goes idle{': ' + left if left else ''}"
