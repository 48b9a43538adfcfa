"""The explored graph of a small case, for pictures: states by number, transitions with their event and what they break."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from kvmodel.properties import Finding

STATES_MAX = 120
"""A picture of more states is a thicket; one request alone, of any kind, stays below."""

StateKind = Literal["ordinary", "resting", "crash"]


@dataclass(frozen=True, slots=True)
class GraphState:
    """``depth`` is the length of a shortest order to the state; ``resting``: everything is over and the engine is idle."""

    depth: int
    kind: StateKind


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """A transition. ``tree``: it was the first into its state, so along such edges every order is a shortest one."""

    source: int
    target: int
    label: str
    tree: bool
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class StateGraph:
    """State 0 is the initial one; edges stand in the order in which they were explored."""

    states: tuple[GraphState, ...]
    edges: tuple[GraphEdge, ...]


@dataclass(slots=True)
class GraphRecorder:
    """Keeps a graph while it is explored, and drops it for good when it outgrows ``STATES_MAX``."""

    states: list[GraphState] = field(default_factory=list)
    edges: list[GraphEdge] = field(default_factory=list)
    full: bool = False

    def state(self, source: int | None, kind: StateKind) -> None:
        """The next state, found from ``source``."""
        if self.full:
            return
        if len(self.states) == STATES_MAX:
            self.full = True
            self.states.clear()
            self.edges.clear()
            return
        self.states.append(GraphState(0 if source is None else self.states[source].depth + 1, kind))

    def edge(self, source: int, target: int, label: object, tree: bool, findings: Sequence[Finding]) -> None:
        if not self.full:
            self.edges.append(GraphEdge(source, target, str(label), tree, tuple(findings)))

    def mark(self, source: int, label: object, finding: Finding) -> None:
        """A finding on the edge ``label`` out of ``source`` that shows only once the whole graph is known."""
        for index, edge in enumerate(self.edges):
            if (edge.source, edge.label) == (source, str(label)):
                self.edges[index] = replace(edge, findings=(*edge.findings, finding))

    def graph(self) -> StateGraph | None:
        return None if self.full else StateGraph(tuple(self.states), tuple(self.edges))
