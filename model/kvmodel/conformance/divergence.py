"""Where a scheduler and the relation part: what the relation asks for, what was observed, and the nearest step it allows."""

from __future__ import annotations

from typing import Literal, NamedTuple

from kvmodel.relation.finite import FiniteInstance, Move
from kvmodel.relation.ground import Cell
from kvmodel.relation.terms import Element
from kvmodel.relation.vocabulary import DIRECTION, REQUEST, phase

Kind = Literal["guard", "no crash", "state", "crash"]


class Divergence(NamedTuple):
    """One step that the relation does not allow.

    ``guard``: a move was made whose guard ``rule`` is false. ``no crash``: the relation says that the scheduler raises at the move,
    and it goes on. ``state``: every move is allowed, and what they lead to is not what was observed (``rule`` names the part of the
    state). ``crash``: the scheduler raised, or did not come back, where the relation goes on.

    ``move`` is the move in question, ``moves`` the whole explanation of the event as far as it is allowed; ``action`` is the move
    without the names of requests, blocks and steps. ``nearest`` is the allowed step most like what was observed, None where
    there is none. ``why`` and ``source`` give the reason for the rule, and for a crash what raised.
    """

    kind: Kind
    rule: str
    why: str
    source: str
    action: str
    move: str
    moves: tuple[str, ...]
    observed: str
    nearest: str | None

    @property
    def signature(self) -> tuple[str, str, str]:
        """Divergences with equal signatures are the same one, reached in different orders."""
        return (self.kind, self.action, self.rule)

    @property
    def words(self) -> str:
        """What the relation asks for, in a line."""
        match self.kind:
            case "guard":
                return f"`{self.move}` is not allowed: '{self.rule}' is false"
            case "no crash":
                return f"at `{self.move}` the scheduler of the specification raises, and this one goes on"
            case "state":
                return f"`{self.move}` leads to another `{self.rule}` in the specification"
            case "crash":
                return f"the scheduler stops in {self.action}, and the specification goes on"

    @property
    def short(self) -> str:
        """The same in a few words, without the names of requests, blocks and steps."""
        match self.kind:
            case "guard":
                return f"`{self.action}`: '{self.rule}'"
            case "no crash":
                return f"`{self.action}` should raise"
            case "state":
                return f"`{self.rule}` after `{self.action}`"
            case "crash":
                return f"{self.rule} in `{self.action}`"


def nearest_move(instance: FiniteInstance, state: int, wanted: Move) -> Move | None:
    """Of the moves that are allowed in ``state``, the one most like ``wanted``: the same action with as many of the same elements
    as can be, else another action of the same request."""
    elements = [element.name for element in wanted.elements]
    best: tuple[tuple[int, int], Move] | None = None
    for move in instance.moves:
        its = [element.name for element in move.elements]
        same = move.action == wanted.action
        alike = sum(a == b for a, b in zip(its, elements, strict=False)) if same else len({*its} & {*elements})
        alike += move.action.who == wanted.action.who
        if not (same or _requests(move) & _requests(wanted)):
            continue
        rank = (int(same), alike)
        if (best is None or rank > best[0]) and move.enabled(state) and all(holds(state) for _, holds in move.checks):
            best = rank, move
    return best[1] if best else None


def without_names(move: Move) -> str:
    """The action, and the direction of a transfer: what a move is whoever makes it."""
    return " ".join((move.action.name, *(e.name for e in move.elements if e.sort == DIRECTION)))


def _requests(move: Move) -> set[str]:
    return {element.name for element in move.elements if element.sort == REQUEST}


class Difference(NamedTuple):
    """A cell of the state in which what was observed is not what the relation has."""

    key: Cell
    wanted: str
    observed: str

    @property
    def symbol(self) -> str:
        return self.key[0].name

    @property
    def cell(self) -> str:
        return f"{self.symbol}({', '.join(element.name for element in self.key[1])})"

    def __str__(self) -> str:
        return f"{self.cell} is {self.observed} and should be {self.wanted}"


def differences(instance: FiniteInstance, wanted: int, observed: int, compared: int) -> list[Difference]:
    """The compared cells in which two states differ, phases first."""
    found = []
    for (symbol, elements), (shift, width) in instance.layout.places.items():
        mask = ((1 << width) - 1) << shift
        if (wanted ^ observed) & compared & mask:
            of: tuple[Element, ...] = instance.layout.universe.of(symbol.result) if symbol.result else ()
            one, two = ((which & mask) >> shift for which in (wanted, observed))
            values = [of[number].name if of else str(bool(number)).lower() for number in (one, two)]
            found.append(Difference((symbol, elements), *values))
    return sorted(found, key=lambda difference: difference.symbol != phase.name)
