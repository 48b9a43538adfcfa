"""Where the states of a small graph stand in its picture: one column for each depth, few crossings, little white space."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from kvrace.stategraph import StateGraph

COLUMN, LINE, MARGIN = 84.0, 32.0, 36.0
"""Distance of two depths, of two states of one depth, and of the outermost states from the edge of the picture."""
_SWEEPS = 12

Neighbours = Mapping[int, Sequence[int]]


@dataclass(frozen=True, slots=True)
class Layout:
    """The middle of each state, and the size of the picture."""

    points: tuple[tuple[float, float], ...]
    width: float
    height: float


def layout(graph: StateGraph) -> Layout:
    """Layers are the depths of the breadth-first search; the order in a layer comes from barycentres, swept to and fro."""
    before, after = _neighbours(graph)
    layers = _ordered(_layers(graph), before, after)
    heights = {state: place * LINE for layer in layers for place, state in enumerate(layer)}
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        for layer, _ in _pairs(layers, forward):
            _settle(layer, before if forward else after, heights)
    top = min(heights.values())
    points = tuple(
        (MARGIN + state.depth * COLUMN, MARGIN + (heights[number] - top)) for number, state in enumerate(graph.states)
    )
    return Layout(points, max(x for x, _ in points) + MARGIN, max(y for _, y in points) + MARGIN)


def _layers(graph: StateGraph) -> list[list[int]]:
    layers: defaultdict[int, list[int]] = defaultdict(list)
    for number, state in enumerate(graph.states):
        layers[state.depth].append(number)
    return [layers[depth] for depth in sorted(layers)]


def _neighbours(graph: StateGraph) -> tuple[Neighbours, Neighbours]:
    """For each state those of the layer before it and of the layer after it. Other edges have no say in where states stand."""
    before: defaultdict[int, list[int]] = defaultdict(list)
    after: defaultdict[int, list[int]] = defaultdict(list)
    for edge in graph.edges:
        if graph.states[edge.target].depth == graph.states[edge.source].depth + 1:
            before[edge.target].append(edge.source)
            after[edge.source].append(edge.target)
    return before, after


def _ordered(layers: list[list[int]], before: Neighbours, after: Neighbours) -> list[list[int]]:
    """The layers with their states in the best order that the sweeps come by; the order of discovery is the first to beat."""
    best, fewest = [layer.copy() for layer in layers], _crossings(layers, after)
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        for layer, fixed in _pairs(layers, forward):
            _sort(layer, before if forward else after, {state: place for place, state in enumerate(fixed)})
        crossings = _crossings(layers, after)
        if crossings < fewest:
            best, fewest = [layer.copy() for layer in layers], crossings
    return best


def _crossings(layers: list[list[int]], after: Neighbours) -> int:
    """How many pairs of edges between a layer and the next one cross."""
    count = 0
    for layer, following in zip(layers, layers[1:], strict=False):
        places = {state: place for place, state in enumerate(following)}
        ends = [[places[target] for target in after.get(state, ())] for state in layer]
        for upper, lower in combinations(ends, 2):
            count += sum(high > low for high in upper for low in lower)
    return count


def _pairs(layers: list[list[int]], forward: bool) -> Iterable[tuple[list[int], list[int]]]:
    """Each layer with the one that is held still meanwhile."""
    return zip(layers[1:], layers, strict=False) if forward else zip(layers[-2::-1], layers[:0:-1], strict=True)


def _sort(layer: list[int], neighbours: Neighbours, places: Mapping[int, int]) -> None:
    """By the mean place of the neighbours; a state without any stays about where it is."""
    now = {state: place for place, state in enumerate(layer)}
    stretch = len(places) / len(layer)

    def wanted(state: int) -> float:
        there = [places[n] for n in neighbours.get(state, ())]
        return sum(there) / len(there) if there else now[state] * stretch

    layer.sort(key=wanted)


def _settle(layer: Sequence[int], neighbours: Neighbours, heights: dict[int, float]) -> None:
    """Move states to the mean height of their neighbours, in the order they have, at least one line apart.

    States that would come too close are moved as one group, to the mean of what they want.
    """
    groups: list[tuple[float, list[int]]] = []  # where the first state of a group wants to be, and its states
    for state in layer:
        near = [heights[n] for n in neighbours.get(state, ())]
        wish, members = (sum(near) / len(near) if near else heights[state]), [state]
        while groups and groups[-1][0] + len(groups[-1][1]) * LINE > wish:
            other, others = groups.pop()
            shifted = wish - len(others) * LINE
            wish = (other * len(others) + shifted * len(members)) / (len(others) + len(members))
            members = others + members
        groups.append((wish, members))
    for wish, members in groups:
        for place, state in enumerate(members):
            heights[state] = wish + place * LINE
