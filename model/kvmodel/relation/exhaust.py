"""All states of a finite instance, and a shortest order to each property that is broken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kvmodel.explorer import explore
from kvmodel.relation.finite import FiniteInstance, Move


class FiniteWalk:
    """A :class:`~kvmodel.explorer.System` of states that are integers. A move that crashes the engine leads nowhere."""

    def __init__(self, instance: FiniteInstance) -> None:
        self.moves = instance.moves

    def labels(self, state: int) -> Sequence[Move]:
        return [move for move in self.moves if move.enabled(state) and move.survives(state)]

    def successor(self, state: int, label: Move) -> int:
        return label.apply(state)

    def key(self, state: int) -> int:
        return state


@dataclass(frozen=True, slots=True)
class Exhausted:
    """``broken``: each broken property with a shortest order of moves, the last of which breaks it. ``complete`` is False when
    ``max_states`` ended the search; then nothing is said of the properties that are not broken."""

    states: int
    transitions: int
    complete: bool
    broken: dict[str, tuple[Move, ...]] = field(default_factory=dict)


def exhaust(
    instance: FiniteInstance, max_states: int | None = None, listen: Callable[[int], None] = lambda _: None
) -> Exhausted:
    """Explore every state. ``listen`` hears of the number of states now and then."""
    walk = FiniteWalk(instance)
    parents: list[tuple[int, Move | None]] = [(0, None)]
    broken: dict[str, tuple[int, Move | None]] = {}
    transitions = 0

    def judge(number: int, state: int) -> None:
        for rule, holds in instance.judges:
            if rule.name not in broken and not holds(state):
                broken[rule.name] = (number, None)
        for move in instance.moves:
            wrong = [check.name for check, holds in move.checks if check.name not in broken and not holds(state)]
            if wrong and move.enabled(state):
                broken.update(dict.fromkeys(wrong, (number, move)))

    judge(0, instance.start)
    complete = True
    for edge in explore(walk, instance.start):
        transitions += 1
        if edge.new:
            parents.append((edge.source, edge.label))
            judge(edge.target, edge.state)
            if edge.target & 1023 == 0:
                listen(len(parents))
            if max_states is not None and len(parents) >= max_states and edge.frontier:
                complete = False
                break
    return Exhausted(len(parents), transitions, complete, {name: _order(parents, *end) for name, end in broken.items()})


def _order(parents: list[tuple[int, Move | None]], number: int, last: Move | None) -> tuple[Move, ...]:
    order = [last] if last is not None else []
    source, move = parents[number]
    while move is not None:
        order.append(move)
        source, move = parents[source]
    return tuple(reversed(order))
