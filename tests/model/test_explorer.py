"""The explorer against published numbers: two-phase commit has 56, 288 and 8,832 states with 2, 3 and 5 resource managers.

The model is Gray and Lamport's (Consensus on Transaction Commit); TLC and stateright report the same counts.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import networkx
import pytest

from kvmodel.explorer import explore
from kvmodel.graph import to_networkx


class Commit(NamedTuple):
    """Resource managers, transaction manager, who has said that it is prepared, and all messages ever sent."""

    managers: tuple[str, ...]
    coordinator: str
    prepared: frozenset[int]
    messages: frozenset[tuple[str, int]]


class TwoPhaseCommit:
    def __init__(self, managers: int) -> None:
        self.start = Commit(("working",) * managers, "init", frozenset(), frozenset())

    def labels(self, state: Commit) -> list[tuple[str, int]]:
        labels = []
        everyone = range(len(state.managers))
        if state.coordinator == "init":
            labels.append(("coordinator aborts", 0))
            labels += [("hears", i) for i in everyone if ("prepared", i) in state.messages]
            if len(state.prepared) == len(state.managers):
                labels.append(("coordinator commits", 0))
        for i in everyone:
            if state.managers[i] == "working":
                labels += [("prepares", i), ("chooses abort", i)]
            labels += [(verdict, i) for verdict in ("commit", "abort") if (verdict, -1) in state.messages]
        return labels

    def successor(self, state: Commit, label: tuple[str, int]) -> Commit:
        action, i = label
        match action:
            case "coordinator commits":
                return state._replace(coordinator="committed", messages=state.messages | {("commit", -1)})
            case "coordinator aborts":
                return state._replace(coordinator="aborted", messages=state.messages | {("abort", -1)})
            case "hears":
                return state._replace(prepared=state.prepared | {i})
            case "prepares":
                state = state._replace(messages=state.messages | {("prepared", i)})
                return state._replace(managers=self._set(state, i, "prepared"))
            case "commit":
                return state._replace(managers=self._set(state, i, "committed"))
        return state._replace(managers=self._set(state, i, "aborted"))

    @staticmethod
    def _set(state: Commit, i: int, value: str) -> tuple[str, ...]:
        return (*state.managers[:i], value, *state.managers[i + 1 :])

    def key(self, state: Commit) -> Hashable:
        return state


@pytest.mark.parametrize(("managers", "states"), [(2, 56), (3, 288), (5, 8832)])
def test_two_phase_commit_has_the_published_number_of_states(managers: int, states: int) -> None:
    system = TwoPhaseCommit(managers)
    edges = list(explore(system, system.start))
    assert 1 + sum(edge.new for edge in edges) == states
    assert max(edge.target for edge in edges) == states - 1


def test_the_tree_of_first_edges_holds_shortest_orders() -> None:
    """networkx agrees on every distance from the start."""
    system = TwoPhaseCommit(3)
    graph = to_networkx(explore(system, system.start))
    tree = networkx.MultiDiGraph([edge[:2] for edge in graph.edges(data="tree") if edge[2]])
    lengths = networkx.single_source_shortest_path_length(graph, 0)
    assert graph.number_of_nodes() == 288
    assert networkx.is_arborescence(tree)
    assert networkx.single_source_shortest_path_length(tree, 0) == lengths


def test_the_caller_stops_the_search() -> None:
    system = TwoPhaseCommit(5)
    edges = explore(system, system.start)
    assert len([next(edges) for _ in range(10)]) == 10
