"""Orders of the relation as events that a scheduler can be played."""

from __future__ import annotations

from kvmodel.events import Abort, Add, Direction, Event, Lose, Report, ReportKind, Schedule, Update
from kvmodel.proof.bounded import Order
from kvmodel.relation.finite import Move
from kvmodel.relation.vocabulary import HIDDEN, answer, d, r

_REPORT_KINDS: dict[str, ReportKind] = {
    "report": "due", "report_unknown": "due",
    "report_again": "duplicate", "report_again_unknown": "duplicate",
    "report_unasked": "unsolicited", "report_unasked_unknown": "unsolicited",
}  # fmt: skip


def events_of(order: Order) -> tuple[Event, ...]:
    """The events of the order, in the language of :mod:`kvmodel.events`. A request is named, not its id."""
    made = [move for moves in order.events for move in moves]
    hidden = {_request(move) for move in made if move.values.get(answer) == HIDDEN}
    return tuple(_event(kind, moves, hidden) for kind, moves in zip(order.kinds, order.events, strict=True))


def _event(kind: str, moves: tuple[Move, ...], hidden: set[str]) -> Event:
    first = moves[0]
    match kind:
        case "add":
            return Add(_request(first), claims=_request(first) not in hidden)
        case "abort":
            return Abort(_request(first))
        case "lose":
            return Lose(_request(first), _direction(first))
        case "schedule":
            return Schedule()
    reports = [
        Report(_direction(move), _request(move), _REPORT_KINDS[move.action.name])
        for move in moves
        if move.action.name in _REPORT_KINDS
    ]
    stops = sorted(_request(move) for move in moves if move.action.name == "stop")
    return Update(tuple(sorted(reports)), tuple(stops))


def _request(move: Move) -> str:
    return move.values[r].name


def _direction(move: Move) -> Direction:
    return "load" if move.values[d].name == "load" else "save"
