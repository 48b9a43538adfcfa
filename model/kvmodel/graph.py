"""The explored graph for those who want to analyse or draw it.

Built after the search and never during it: a search inside networkx is seven times slower and takes ten times the memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import networkx

from kvmodel.explorer import Edge


def to_networkx(edges: Iterable[Edge[Any, Any]]) -> networkx.MultiDiGraph[int]:
    """States by number, transitions with their ``label`` as text. State 0 is the initial one.

    An edge has ``tree=True`` when it was the first into its state: along these edges every order is a shortest one.
    """
    graph: networkx.MultiDiGraph[int] = networkx.MultiDiGraph()
    graph.add_node(0)
    for edge in edges:
        graph.add_edge(edge.source, edge.target, label=str(edge.label), tree=edge.new)
    return graph
