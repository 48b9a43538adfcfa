"""The picture of a small state graph: lines and marks with the words for each, ready for the template."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kvrace.render.html.layout import Layout, layout
from kvrace.stategraph import GraphEdge, StateGraph

RADIUS = 9.0
_KINDS = {"ordinary": "", "resting": ", at rest", "crash": ", the scheduler has crashed"}


@dataclass(frozen=True, slots=True)
class Mark:
    """A state: its middle, and what a reader is told of it."""

    number: int
    kind: str
    x: float
    y: float
    title: str


@dataclass(frozen=True, slots=True)
class Line:
    """A transition. ``tree``: it lies on a shortest order; ``breaks`` are the names of properties, with messages."""

    source: int
    target: int
    event: str
    tree: bool
    path: str
    breaks: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """``columns`` are the places of the depths, from the left. Lines stand in the order of exploration, those that break
    something last, so that they lie on top."""

    width: float
    height: float
    columns: tuple[float, ...]
    marks: tuple[Mark, ...]
    lines: tuple[Line, ...]


def picture_of(graph: StateGraph) -> Picture:
    placed = layout(graph)
    orders = _orders(graph)
    marks = [
        Mark(
            number, state.kind, *_round(*placed.points[number]), f"state {number}{_KINDS[state.kind]}: {orders[number]}"
        )
        for number, state in enumerate(graph.states)
    ]
    lines = [_line(edge, placed) for edge in graph.edges]
    lines.sort(key=lambda line: bool(line.breaks))
    columns = tuple(sorted({mark.x for mark in marks}))
    return Picture(*_round(placed.width, placed.height), columns, tuple(marks), tuple(lines))


def _orders(graph: StateGraph) -> dict[int, str]:
    """A shortest order to each state, in words. A state is always found from one with a smaller number."""
    orders = {0: ""}
    for edge in graph.edges:
        if edge.tree:
            orders[edge.target] = f"{orders[edge.source]}, {edge.label}" if orders[edge.source] else edge.label
    return orders | {0: "the start"}


def _line(edge: GraphEdge, placed: Layout) -> Line:
    breaks = tuple((finding.property, finding.message) for finding in edge.findings)
    path = _path(placed.points[edge.source], placed.points[edge.target])
    return Line(edge.source, edge.target, edge.label, edge.tree, path, breaks)


def _path(start: tuple[float, float], end: tuple[float, float]) -> str:
    """Forward a gentle curve; back, or in place, a bow that shows that it does not go on."""
    (x1, y1), (x2, y2) = start, end
    if x2 > x1:
        return _curve((x1 + RADIUS, y1), (x1 + (x2 - x1) / 2, y1), (x1 + (x2 - x1) / 2, y2), (x2 - RADIUS, y2))
    if start == end:
        return _curve((x1 - 4, y1 - 8), (x1 - 16, y1 - 28), (x1 + 16, y1 - 28), (x1 + 4, y1 - 8))
    length = math.hypot(x2 - x1, y2 - y1)
    bow = min(40.0, 12 + length / 8)
    away = (
        (y2 - y1) / length * bow,
        (x1 - x2) / length * bow,
    )  # to one side, so that to and fro do not lie on each other
    controls = [(x1 + (x2 - x1) * part + away[0], y1 + (y2 - y1) * part + away[1]) for part in (0.25, 0.75)]
    return _curve(_towards(start, controls[0]), *controls, _towards(end, controls[1]))


def _towards(point: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """Where the line from ``point`` to ``other`` leaves the state's circle."""
    (x, y), (to_x, to_y) = point, other
    length = math.hypot(to_x - x, to_y - y) or 1.0
    return x + (to_x - x) / length * RADIUS, y + (to_y - y) / length * RADIUS


def _curve(*points: tuple[float, float]) -> str:
    start, *rest = [f"{x:g} {y:g}" for x, y in (_round(*point) for point in points)]
    return f"M{start}C{' '.join(rest)}"


def _round(x: float, y: float) -> tuple[float, float]:
    """A tenth of a pixel is enough, and keeps the page small."""
    return round(x, 1), round(y, 1)
