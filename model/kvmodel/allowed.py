"""Which events are allowed in a world, and why another one is not.

Sources of the rules: vLLM ``EngineCore`` (aborts are drained between any two scheduler calls, ``schedule`` only while
``has_requests()``, outputs are processed in the order of their steps) and the docstrings of ``KVConnectorBase_V1``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from typing import TypeVar

from kvmodel.contract import Contract
from kvmodel.drafts import may_accept, outcomes
from kvmodel.early import early_reports, silent
from kvmodel.events import (
    DIRECTIONS,
    Abort,
    Add,
    Direction,
    Event,
    Lose,
    Report,
    ReportKind,
    Schedule,
    TransferEnds,
    Update,
)
from kvmodel.failures import possible_failures, sets_of_failures, why_not
from kvmodel.life import (
    earlier_reports,
    life_events,
    life_refusal,
    schedules,
)
from kvmodel.relation.connector import report_kinds
from kvmodel.relation.in_world import may_report
from kvmodel.scope import Scope
from kvmodel.world import Stage, World

Item = TypeVar("Item")


def _subsets(items: list[Item]) -> Iterator[tuple[Item, ...]]:
    for size in range(len(items) + 1):
        yield from combinations(items, size)


def possible_reports(world: World, scope: Scope, contract: Contract) -> list[Report]:
    """Every report the next output may carry, due ones first: what the relation lets the connector do, and the scope allows now."""
    return [
        *(
            Report(direction, name, kind, rank)
            for kind in report_kinds(contract)
            for index, name in enumerate(scope.names)
            for direction in DIRECTIONS
            if may_report(kind)(world, name, index, direction)
            for rank in scope.rank_numbers
            if _in_time(world, scope, index, direction, kind, rank)
        ),
        *early_reports(world, scope, contract),
        *earlier_reports(world, scope),
    ]


def _in_time(world: World, scope: Scope, index: int, direction: Direction, kind: ReportKind, rank: int) -> bool:
    """A report comes after the step that announced its transfer; a request is misreported once in each way at most."""
    if kind == "unsolicited":
        return not world.requests[index].unsolicited_sent
    running = [t for t in world.transfers if t.named_by(scope.names[index], direction, rank)]
    if kind == "duplicate":  # of one rank, which has reported, while others have not
        return not (rank and running)
    return any((t.over or not scope.separate_ends) and not (t.wait or t.told) for t in running)


def stoppable(world: World, scope: Scope) -> list[str]:
    """The requests whose sampled token in the next output may be a stop token."""
    if not (scope.early_stop and world.steps):
        return []
    return [name for name in world.steps[0].samples if world.requests[scope.names.index(name)].stage == Stage.LIVE]


def fit_one_output(reports: tuple[Report, ...]) -> bool:
    """A set of ids cannot name one id twice: of two reports with the same id, only one fits into one output of a rank."""
    return len({(report.direction, report.request, report.rank) for report in reports}) == len(reports)


def _may_add(world: World, scope: Scope) -> bool:
    """EngineCore takes in new requests before it fills its pipeline, and only aborts while it waits for a step."""
    return not scope.engine_order or len(world.steps) < scope.steps_in_flight


def update_allowed(world: World, scope: Scope, pending: bool) -> bool:
    """Whether any update may come. EngineCore fills its pipeline before it waits for a step (``step_with_batch_queue``)."""
    return bool(world.steps) and (not scope.engine_order or not pending or len(world.steps) == scope.steps_in_flight)


def _updates(world: World, scope: Scope, contract: Contract, pending: bool) -> Iterator[Update]:
    if not update_allowed(world, scope, pending):
        return
    may_stop, may_fail = stoppable(world, scope), possible_failures(world, scope)
    for reports in _subsets(possible_reports(world, scope, contract)):
        if fit_one_output(reports):
            for failures in sets_of_failures(may_fail, reports):
                for stops, accepted in product(_subsets(may_stop), outcomes(world, scope)):
                    yield Update(tuple(sorted(reports)), tuple(sorted(stops)), failures, accepted)


def enabled(world: World, scope: Scope, contract: Contract, pending: bool) -> Iterator[Event]:
    """The events allowed in ``world``, updates last: there is one for each set of reports, so their number doubles with each.

    ``pending`` is the subject's ``has_requests()``: an idle engine schedules nothing.
    """
    yield from other_than_updates(world, scope, contract, pending)
    yield from _updates(world, scope, contract, pending)


def other_than_updates(world: World, scope: Scope, contract: Contract, pending: bool) -> list[Event]:
    """The allowed events of which there is one for each request or transfer at most."""
    events: list[Event] = []
    for index, (name, request) in enumerate(zip(scope.names, world.requests, strict=True)):
        if request.stage == Stage.ABSENT and _may_add(world, scope):
            events.append(Add(name))
            if contract.unclaimed and scope.saves(index):
                events.append(Add(name, claims=False))
    if pending and len(world.steps) < scope.steps_in_flight:
        events += schedules(world, scope)
    events += life_events(world, scope)
    events += [
        Abort(name)
        for name, request in zip(scope.names, world.requests, strict=True)
        if request.stage != Stage.ABSENT and not request.abort_sent
    ]
    running = [t for t in world.transfers if not t.over]
    events += [TransferEnds(t.request, t.direction, t.rank) for t in running if scope.separate_ends or t.told]
    if contract.lossy:
        events += [Lose(t.request, t.direction, t.rank) for t in running if not t.told]
    elif contract.lease:
        events += silent(world, scope)
    return events


def _allowed(world: World, scope: Scope, contract: Contract, pending: bool, event: Event) -> bool:
    """Whether ``event`` is among :func:`enabled`, without listing them all: a hostile trace could make that list endless."""
    if not isinstance(event, Update):
        return event in other_than_updates(world, scope, contract, pending)
    return (
        update_allowed(world, scope, pending)
        and set(event.reports) <= set(possible_reports(world, scope, contract))
        and set(event.stops) <= set(stoppable(world, scope))
        and may_accept(event.drafts, world, scope)
        and event.reports == tuple(sorted(set(event.reports)))
        and event.stops == tuple(sorted(set(event.stops)))
        and event.failures == tuple(sorted(set(event.failures)))
        and fit_one_output(event.reports)
        and why_not(event.failures, world, scope, event.reports) is None
    )


def refusal(world: World, scope: Scope, contract: Contract, pending: bool, event: Event) -> str | None:
    """Why ``event`` is not allowed in ``world``, naming the guard that is false; None when it is allowed."""
    if _allowed(world, scope, contract, pending, event):
        return None
    if (no_life := life_refusal(world, scope, event)) is not None:
        return no_life
    match event:
        case Schedule() if not pending:
            return "the engine is idle (has_requests() is False)"
        case Schedule() if len(world.steps) < scope.steps_in_flight:
            return "the connector is not asked for such a load now, or its answer is always the same in this scope"
        case Schedule():
            return f"{len(world.steps)} of {scope.steps_in_flight} steps are already in flight"
        case Update() if not world.steps:
            return "no step is in flight"
        case Update() if not update_allowed(world, scope, pending):
            return "the engine fills its pipeline first (the scope keeps to the engine's order)"
        case Add() if not _may_add(world, scope):
            return "the engine waits for a step (the scope keeps to the engine's order)"
        case Update(drafts=drafts) if not may_accept(drafts, world, scope):
            return f"the step has no such drafts of {' '.join(name for name, _ in drafts)} to accept"
        case Update(reports, stops, failures):
            allowed = possible_reports(world, scope, contract)
            for report in reports:
                if report not in allowed:
                    return f"the connector has no {report.kind} {report.direction} of {report.request} to report here"
            if guard := why_not(failures, world, scope, reports):
                return guard
            return f"no stop token can come for {' '.join(stops)}" if stops else "the reports exclude one another"
    name = getattr(event, "request", "")
    if name not in scope.names:
        return f"the scope has no request {name}"
    request = world.requests[scope.names.index(name)]
    match event:
        case Add(claims=False) if not contract.unclaimed:
            return "contract `unclaimed` is not in force"
        case Add(claims=False) if request.stage == Stage.ABSENT:
            return f"{name} has no save that could be left unclaimed"
        case Add():
            return f"{name} was already added"
        case Abort():
            return f"{name} was not added" if request.stage == Stage.ABSENT else f"{name} was already aborted"
        case TransferEnds() if not scope.separate_ends:
            return "the scope has no separate transfer ends"
        case Lose() if not contract.lossy:
            return "contract `lossy` is not in force"
    return f"no {getattr(event, 'direction', 'transfer')} of {name} is running"
