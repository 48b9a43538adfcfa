"""Breadth-first search over any transition system, shortest orders first.

The search knows nothing of requests or schedulers: :class:`System` is all it needs. Being generic is what lets it be tested on
two-phase commit, whose state counts are published.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

State = TypeVar("State")
Label = TypeVar("Label")


class System(Protocol[State, Label]):
    """What is explored. Two states with equal ``key`` are one state."""

    def labels(self, state: State) -> Sequence[Label]: ...

    def successor(self, state: State, label: Label) -> State: ...

    def key(self, state: State) -> Hashable: ...


class Edge(NamedTuple, Generic[State, Label]):
    """One transition as it is found. ``before`` is the state it comes from and ``state`` the state it led to, before merging;
    ``target`` is the number of the state it was merged with, and ``new`` says that it was not known. ``frontier`` counts states
    not expanded yet."""

    source: int
    label: Label
    target: int
    before: State
    state: State
    new: bool
    frontier: int


def explore(system: System[State, Label], start: State) -> Iterator[Edge[State, Label]]:
    """Yield every transition of the reachable graph, in breadth-first order; ``start`` is state 0.

    States are numbered in the order in which they are found, so the first edge into a state is the last step of a shortest
    order to it. The caller stops the search by not asking for more.
    """
    numbers: dict[Hashable, int] = {system.key(start): 0}
    frontier: deque[tuple[int, State]] = deque([(0, start)])
    while frontier:
        source, state = frontier.popleft()
        for label in system.labels(state):
            reached = system.successor(state, label)
            key = system.key(reached)
            target = numbers.get(key)
            new = target is None
            if target is None:
                target = numbers[key] = len(numbers)
                frontier.append((target, reached))
            yield Edge(source, label, target, state, reached, new, len(frontier))
