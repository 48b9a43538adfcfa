"""A state and an action in words."""

from __future__ import annotations

from collections.abc import Mapping

from kvmodel.relation.finite import FiniteInstance, Move
from kvmodel.relation.terms import Element, Symbol, Variable
from kvmodel.relation.vocabulary import (
    BLOCK,
    DIRECTION,
    REQUEST,
    STEP,
    arrived,
    awaited,
    cached,
    computed,
    filled,
    free,
    held_back,
    name_of,
    owns,
    phase,
    reported,
    spoiled,
    stage,
    touches,
    transfer,
    unasked,
    uses,
)


def state_lines(instance: FiniteInstance, state: int) -> list[str]:
    """A line for each request that is there, for each block that is not just in the pool, and for each step that is under way."""
    read = _Reader(instance, state)
    of = instance.layout.universe.of
    lines = [*map(read.request, of(REQUEST)), *map(read.block, of(BLOCK)), *map(read.step, of(STEP))]
    return [line for line in lines if line]


def move_words(move: Move) -> str:
    """``report(d: load, r: A, q: A)``."""
    values = ", ".join(f"{variable.name}: {element.name}" for variable, element in move.values.items())
    return f"{move.action.name}({values})".replace("_", " ")


def witness_words(witness: Mapping[Variable, Element]) -> str:
    """``x = A, c = block 1``; empty when the formula speaks of nothing in particular."""
    return ", ".join(f"{variable.name} = {_called(element)}" for variable, element in witness.items())


def _called(element: Element) -> str:
    return f"{element.sort.name.lower()} {element.name}" if element.sort in (BLOCK, STEP) else element.name


class _Reader:
    """One state, asked part by part."""

    def __init__(self, instance: FiniteInstance, state: int) -> None:
        layout = instance.layout
        self._universe = layout.universe
        self._true = {*layout.true_cells(state), *layout.universe.true}
        self._values = {**layout.values(state), **layout.universe.values}

    def _holds(self, symbol: Symbol, *arguments: Element) -> bool:
        return (symbol, arguments) in self._true

    def _blocks(self, symbol: Symbol, *arguments: Element) -> str:
        """The blocks for which the relation holds."""
        found = [block for block in self._universe.of(BLOCK) if self._holds(symbol, *arguments, block)]
        return ", ".join(map(_called, found))

    def request(self, name: Element) -> str:
        where = self._values[phase, (name,)].name
        parts = [f"owns {own}"] if (own := self._blocks(owns, name)) else []
        parts += [f"KV counted in {counted}"] if (counted := self._blocks(computed, name)) else []
        for direction in self._universe.of(DIRECTION):
            if self._holds(transfer, direction, name):
                on = self._blocks(touches, direction, name)
                parts.append(f"its {direction.name} runs{f' on {on}' if on else ''}")
            elif self._holds(reported, direction, name):
                parts.append(f"its {direction.name} was reported")
        waited = [direction.name for direction in self._universe.of(DIRECTION) if self._holds(awaited, direction, name)]
        parts += [f"the scheduler waits for its {' and '.join(waited)}"] if waited else []
        parts += ["its load has arrived"] if self._holds(arrived, name) else []
        parts += ["a report of a save is on its way that nobody asked for"] if self._holds(unasked, name) else []
        parts += [f"the load of {failed} failed"] if (failed := self._blocks(spoiled, name)) else []
        if where == "absent" and not parts:
            return ""
        own_id = self._values[name_of, (name,)]
        others = [x.name for x in self._universe.of(REQUEST) if x != name and self._values[name_of, (x,)] == own_id]
        parts += [f"same id as {', '.join(others)}"] if others else []
        return f"{name.name} is {where}" + "".join(f"; {part}" for part in parts)

    def block(self, name: Element) -> str:
        owned = any(self._holds(owns, request, name) for request in self._universe.of(REQUEST))
        parts = ["is in the pool"] if self._holds(free, name) else []
        parts += ["is held back behind a step"] if self._holds(held_back, name) else []
        parts += ["is nobody's"] if not owned and not parts else []
        parts += ["is offered by the prefix cache"] if self._holds(cached, name) else []
        if parts in ([], ["is in the pool"]):
            return ""
        parts += ["holds valid KV"] if self._holds(filled, name) else []
        return f"{_called(name)} {', '.join(parts)}"

    def step(self, name: Element) -> str:
        where = self._values[stage, (name,)].name
        used = [f"{blocks} for {request.name}" for request in self._universe.of(REQUEST)
                if (blocks := self._blocks(uses, name, request))]  # fmt: skip
        if where == "idle" and not used:
            return ""
        return f"{_called(name)} is {where.replace('_', ' ')}" + (f" and uses {', '.join(used)}" if used else "")
