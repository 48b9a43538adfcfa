"""Orders that no scheduler can play, whatever it decides: found without one.

The order is walked in a world that is as permissive as a scheduler could ever make it: every step samples for every request,
every transfer that a request of its kind can have is running, and the engine is idle and busy as it suits. An event that is not
allowed even there is not allowed anywhere. An order that passes may still be refused when it is played.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvmodel.allowed import refusal
from kvmodel.contract import Contract
from kvmodel.events import Add, Event, Schedule, Update
from kvmodel.failures import never
from kvmodel.port import DispatchedStep, Response, ScheduledRequest
from kvmodel.rules import apply
from kvmodel.scope import Scope
from kvmodel.world import Stage, Transfer, World, initial_world


def impossible(scope: Scope, contract: Contract, events: Sequence[Event]) -> tuple[int, str] | None:
    """The place of the first event that no scheduler allows, counted from 0, and why; None when there is none."""
    world = initial_world(len(scope.requests))
    for place, given in enumerate(events):
        event = given
        if isinstance(given, Update) and given.failures:
            # Which blocks a load fills is the scheduler's choice, so the rest of the update is judged without its failures.
            if guard := never(given.failures, scope, given.reports):
                return place, guard
            event = replace(given, failures=())
        reasons = [refusal(world, scope, contract, pending, event) for pending in (True, False)]
        if None not in reasons:
            return place, str(reasons[0])
        world = _after(world, scope, contract, event)
    return None


def _after(world: World, scope: Scope, contract: Contract, event: Event) -> World:
    response = Response(_step(scope)) if isinstance(event, Schedule) else Response()
    after = apply(world, scope, contract, event, response, {})
    transfers = list(after.transfers)
    ranks = scope.rank_numbers
    for index, (name, request) in enumerate(zip(scope.names, after.requests, strict=True)):
        if scope.saves(index) and isinstance(event, Add) and event.request == name:  # a save starts once at most
            transfers += [
                Transfer(name, "save", (), 0, over=False, claimed=request.claims, rank=rank) for rank in ranks
            ]
        if (
            scope.loads(index) and not scope.loads_in_step(index) and request.stage != Stage.ABSENT
        ):  # a load may start again after it was reported
            loads = [Transfer(name, "load", (), 0, over=False, claimed=True, rank=rank) for rank in ranks]
            transfers += [load for load in loads if load not in transfers]
    return after._replace(transfers=tuple(transfers))


def _step(scope: Scope) -> DispatchedStep:
    """A step of all requests at once, each with a sampled token and with drafts."""
    drafts = scope.drafts
    entries = (
        ScheduledRequest(name, (), replaces=False, start=0, computed=0, samples=True, drafts=drafts)
        for name in scope.names
    )
    return DispatchedStep(tuple(entries), (), ())
