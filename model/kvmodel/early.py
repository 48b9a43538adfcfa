"""Reports that come too early: the transfer they name is not over, or has not begun (contracts ``late`` and ``lease``).

``late``: a load is reported, and its bytes still land. So it is when one of two connectors that load the same request is through,
or one of several handles, and the other is not.

``lease``: the producer keeps the blocks of a save for its peer for so long and no longer. When that time is up it reports the save,
whether or not the peer still reads, and whether or not the request is over.

Either way the scheduler has had its report. What still runs ends in silence, or with a second report.
"""

from __future__ import annotations

from kvmodel.contract import Contract
from kvmodel.events import Lose, Report, ReportKind
from kvmodel.scope import Scope
from kvmodel.world import Stage, Transfer, World

EARLY: dict[ReportKind, str] = {"late": "late", "expired": "lease"}
"""The kinds of report that come too early, and the contract that allows each."""


def early_reports(world: World, scope: Scope, contract: Contract) -> list[Report]:
    """What these contracts let the next output carry beside the reports that the relation knows."""
    if not (contract.late or contract.lease):
        return []
    reports = [_first(t) for t in world.transfers if _may_be_early(t, contract)]
    if contract.lease:
        reports += [
            Report("save", name, "expired", rank) for name in _lapsing(world, scope) for rank in scope.rank_numbers
        ]
    again = [Report(t.direction, t.request, "duplicate", t.rank) for t in world.transfers if t.told]
    return [*reports, *again]


def _may_be_early(transfer: Transfer, contract: Contract) -> bool:
    allowed = contract.late if transfer.direction == "load" else contract.lease
    return allowed and not (transfer.told or transfer.over or transfer.wait)


def _first(transfer: Transfer) -> Report:
    kind: ReportKind = "late" if transfer.direction == "load" else "expired"
    return Report(transfer.direction, transfer.request, kind, transfer.rank)


def _lapsing(world: World, scope: Scope) -> list[str]:
    """The live requests whose time may be up: the workers know them, and will be asked to keep their blocks."""
    return [
        name
        for index, (name, request) in enumerate(zip(scope.names, world.requests, strict=True))
        if scope.saves(index) and request.stage == Stage.LIVE and request.known and not request.lease_over
    ]


def silent(world: World, scope: Scope) -> list[Lose]:
    """The saves of which the workers know nothing any more: their time was up before they began, so no report need come."""
    lapsed = {name for name, request in zip(scope.names, world.requests, strict=True) if request.lease_over}
    return [
        Lose(t.request, t.direction, t.rank)
        for t in world.transfers
        if t.direction == "save" and t.request in lapsed and not (t.told or t.over)
    ]


def told_early(transfers: list[Transfer], report: Report) -> list[Transfer]:
    """The transfers after an early report: the one it names runs on, and the scheduler takes it for over."""
    return [
        t._replace(told=report.kind, claimed=False) if t.named_by(report.request, report.direction, report.rank) else t
        for t in transfers
    ]
