"""The connector's guards, read in a :class:`~kvmodel.world.World`: the explorer of real schedulers and the random orders ask the
relation that is proved what the contract allows.

Only what the world knows can be read: a guard that speaks of blocks or of the scheduler's own state cannot.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from kvmodel.contract import Contract
from kvmodel.events import Direction
from kvmodel.relation.connector import REPORT_GUARDS, KnownReport
from kvmodel.relation.lifecycle import answer_guards
from kvmodel.relation.terms import (
    And,
    Atom,
    Element,
    Equal,
    Formula,
    Implies,
    Not,
    Or,
    Value,
    bind,
    conjunction,
)
from kvmodel.relation.vocabulary import ABSENT, CLAIMED, HIDDEN, answer, claimed, d, phase, reported, transfer
from kvmodel.world import Stage, World

Guard = Callable[[World, str, int, Direction], bool]
"""Whether something holds in a world for a request, given by its id and its number, and a direction."""


def _transfer_of(element: object) -> Guard:
    """Some transfer of the request: in the given direction, or in the one the formula names."""
    named = element.name if isinstance(element, Element) else None
    return lambda world, name, _, direction: any(
        t.request == name and t.direction == (named or direction) for t in world.transfers
    )


def _reading(formula: Formula) -> Guard:
    """``formula`` as a Python function. Raises TypeError for what no world can say."""
    match formula:
        case Atom(symbol, (direction, _)) if symbol == transfer:
            return _transfer_of(direction)
        case Atom(symbol, (direction, _)) if symbol == reported and direction == d:
            return lambda world, _, index, direction: direction in world.requests[index].repeatable
        case Atom(symbol, _) if symbol == claimed:
            return lambda world, _, index, __: world.requests[index].save_started and world.requests[index].claims
        case Equal(Value(symbol, _), right) if symbol == phase and right == ABSENT:
            return lambda world, _, index, __: world.requests[index].stage == Stage.ABSENT
        case Equal(left, Element(_, element)) if left == d:
            return lambda _, __, ___, direction: direction == element
        case Equal(Element() as left, Element() as right):
            return lambda _, __, ___, ____: left == right
        case Not(inner):
            read = _reading(inner)
            return lambda *where: not read(*where)
        case Implies(premise, conclusion):
            return _reading(~premise | conclusion)
        case And(parts):
            return _all([_reading(part) for part in parts])
        case Or(parts):
            readings = [_reading(part) for part in parts]
            return lambda *where: any(read(*where) for read in readings)
    raise TypeError(f"a world cannot say whether {formula!r}")


def _all(readings: list[Guard]) -> Guard:
    if len(readings) == 1:
        return readings[0]
    return lambda *where: all(read(*where) for read in readings)


@cache
def may_report(kind: KnownReport) -> Guard:
    """The connector's guards of a report of this kind."""
    return _reading(conjunction(guard.formula for guard in REPORT_GUARDS[kind]))


@cache
def may_save(contract: Contract, claims: bool) -> Guard:
    """Whether a save may start when a request ends, claimed or hidden."""
    chosen = {answer: CLAIMED if claims else HIDDEN}
    return _reading(conjunction(bind(guard.formula, chosen) for guard in answer_guards(contract)))
