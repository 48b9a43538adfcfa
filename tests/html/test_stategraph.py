"""The graph that is kept for a picture, and where its states are put."""

from __future__ import annotations

from itertools import combinations

import pytest

from kvmodel.scope import Scope
from kvrace.render.html.layout import COLUMN, LINE, MARGIN, layout
from kvrace.stategraph import STATES_MAX, StateGraph
from tests.html.helpers import result_of

SCOPES = [
    Scope((kind,), scheduling) for kind in ("local", "load", "save", "load_save") for scheduling in ("sync", "async")
]


@pytest.fixture(scope="module", params=SCOPES, ids=str)
def graph(request: pytest.FixtureRequest) -> StateGraph:
    (case,) = result_of(request.param).cases
    assert case.graph is not None
    assert len(case.graph.states) == case.states
    assert len(case.graph.edges) == case.transitions
    return case.graph


def test_depths_are_shortest_distances(graph: StateGraph) -> None:
    tree = [edge for edge in graph.edges if edge.tree]
    assert sorted(edge.target for edge in tree) == list(range(1, len(graph.states)))
    assert graph.states[0].depth == 0
    for edge in graph.edges:
        step = graph.states[edge.target].depth - graph.states[edge.source].depth
        assert step == 1 if edge.tree else step <= 1


def test_nothing_follows_a_crash_and_a_crash_is_a_finding(graph: StateGraph) -> None:
    crashed = {number for number, state in enumerate(graph.states) if state.kind == "crash"}
    assert not crashed & {edge.source for edge in graph.edges}
    for edge in graph.edges:
        assert (edge.target in crashed) == any(finding.property == "no-crash" for finding in edge.findings)


def test_a_larger_graph_is_dropped_and_one_at_the_bound_is_not() -> None:
    (large,) = result_of(Scope(("local", "local"))).cases
    assert large.states > STATES_MAX
    assert large.graph is None


def test_a_loop_is_marked_on_its_edges() -> None:
    (case,) = result_of(Scope(("save",)), contract="lossy").cases
    assert case.graph is not None
    loop = [edge for edge in case.graph.edges if any(f.shape == "never at rest" for f in edge.findings)]
    assert {edge.label for edge in loop} == {"schedule", "update"}
    assert {edge.source for edge in loop} == {edge.target for edge in loop}


def test_states_stand_in_columns_without_touching(graph: StateGraph) -> None:
    placed = layout(graph)
    columns: dict[float, list[float]] = {}
    for state, (x, y) in zip(graph.states, placed.points, strict=True):
        columns.setdefault(x, []).append(y)
        assert MARGIN <= x <= placed.width - MARGIN
        assert MARGIN <= y <= placed.height - MARGIN
        assert x == MARGIN + state.depth * COLUMN
    assert len(columns) == 1 + max(state.depth for state in graph.states)
    for column in columns.values():
        ordered = sorted(column)
        assert all(low + LINE <= high + 1e-6 for low, high in zip(ordered, ordered[1:], strict=False))


def test_sorting_leaves_fewer_crossings_than_the_order_of_discovery(graph: StateGraph) -> None:
    sorted_ = [y for _, y in layout(graph).points]
    assert _crossings(graph, sorted_) <= _crossings(graph, [float(n) for n in range(len(graph.states))])


def _crossings(graph: StateGraph, heights: list[float]) -> int:
    """Of edges to the next column, those that cross another one from the same column."""
    depth = [state.depth for state in graph.states]
    forward = [(e.source, e.target) for e in graph.edges if depth[e.target] == depth[e.source] + 1]
    return sum(
        depth[a] == depth[c] and (heights[a] - heights[c]) * (heights[b] - heights[d]) < 0
        for (a, b), (c, d) in combinations(forward, 2)
    )
