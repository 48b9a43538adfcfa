"""What happens to one thing over all reachable states of a finite instance: the edges of its state diagram."""

from __future__ import annotations

from kvmodel.explorer import explore
from kvmodel.relation.exhaust import FiniteWalk
from kvmodel.relation.finite import FiniteInstance
from kvmodel.relation.terms import Symbol


def lives(instance: FiniteInstance, symbol: Symbol) -> set[tuple[str, str, str]]:
    """Every (value before, action, value after) by which a function changes, for any of its arguments."""
    found = set()
    cells = [cell for cell in instance.layout.places if cell[0] == symbol]
    states = [instance.start]
    for edge in explore(FiniteWalk(instance), instance.start):
        if edge.new:
            states.append(edge.state)
        before = instance.layout.values(states[edge.source])
        after = instance.layout.values(edge.state)
        for cell in cells:
            if before[cell] != after[cell]:
                found.add((before[cell].name, edge.label.action.name, after[cell].name))
    return found
