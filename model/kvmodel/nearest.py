"""Of the events that are allowed in a state, the one most like an event that is not."""

from __future__ import annotations

from kvmodel.allowed import other_than_updates, possible_reports, stoppable, update_allowed
from kvmodel.contract import Contract
from kvmodel.drafts import nearest_outcome
from kvmodel.events import Event, Failure, Report, Schedule, Update
from kvmodel.failures import why_not
from kvmodel.scope import Scope
from kvmodel.world import World


def nearest(world: World, scope: Scope, contract: Contract, pending: bool, event: Event) -> Event | None:
    """The allowed event nearest to ``event``; None where nothing is allowed.

    An update comes nearest to an update, with the same reports as far as they are possible; it is built from them, since the
    number of all updates doubles with each report. Otherwise an event of the same kind for the same request comes first, then
    one for the same request, then one of the same kind, then the engine's for the engine's.
    """
    candidates = other_than_updates(world, scope, contract, pending)
    if update_allowed(world, scope, pending):
        wanted = event if isinstance(event, Update) else Update()
        candidates.append(_nearest_update(world, scope, contract, wanted))
    return min(candidates, key=lambda candidate: _distance(event, candidate), default=None)


def _nearest_update(world: World, scope: Scope, contract: Contract, wanted: Update) -> Update:
    """Each report of ``wanted`` if it is possible, else one of another kind about the same transfer, else none."""
    possible = possible_reports(world, scope, contract)
    reports: dict[tuple[str, str], Report] = {}
    for report in wanted.reports:
        same_transfer = [other for other in possible if _transfer(other) == _transfer(report)]
        if same_transfer:
            reports.setdefault(_transfer(report), report if report in same_transfer else same_transfer[0])
    stops = set(wanted.stops).intersection(stoppable(world, scope))
    chosen = tuple(sorted(reports.values()))
    failures: tuple[Failure, ...] = ()
    for failure in sorted(set(wanted.failures)):
        if why_not((*failures, failure), world, scope, chosen) is None:
            failures = (*failures, failure)
    return Update(chosen, tuple(sorted(stops)), failures, nearest_outcome(wanted.drafts, world, scope))


def _transfer(report: Report) -> tuple[str, str]:
    return (report.direction, report.request)


def _distance(event: Event, other: Event) -> tuple[int, bool]:
    """How unlike two events are, the transfer's direction last."""
    same_kind = type(event) is type(other)
    request, direction = getattr(event, "request", None), getattr(event, "direction", None)
    same_request = request is not None and request == getattr(other, "request", None)
    engine = isinstance(event, Schedule | Update) and isinstance(other, Schedule | Update)
    rank = (
        0 if same_kind and (same_request or engine) else 1 if same_request else 2 if same_kind else 3 if engine else 4
    )
    return rank, direction != getattr(other, "direction", None)
