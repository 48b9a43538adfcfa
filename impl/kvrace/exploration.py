"""An exploration that ends at its limits, and the shortest order to each state it has found."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, Protocol, TypeVar

from kvmodel.events import Event
from kvmodel.explorer import Edge, System, explore

_SAMPLES = 12
HANGS_MAX = 3
"""A hang costs its whole time limit, so a case ends after a few of them."""


class MayHang(Protocol):
    """A state to which a call has led that may not have come back."""

    @property
    def hung(self) -> bool: ...


State = TypeVar("State", bound=MayHang)
Key = TypeVar("Key", bound=Hashable)


class Bounded:
    """Explores until everything is found or a limit is reached; then ``stopped`` says which. ``deadline`` is a time.monotonic()
    value. ``states`` and ``transitions`` count what was found so far."""

    def __init__(self, deadline: float | None, max_states: int | None) -> None:
        self._deadline, self._max_states = deadline, max_states
        self.states = 1
        self.transitions = 0
        self.stopped: str | None = None

    def edges(
        self, system: System[State, Event], start: State, report: Callable[[int, int, int], None]
    ) -> Iterator[Edge[State, Event]]:
        """Every transition; about ten times a second ``report`` hears of states, transitions and the frontier."""
        next_report = 0.0
        hangs = 0
        for edge in explore(system, start):
            self.transitions += 1
            self.states += edge.new
            yield edge
            if edge.state.hung:
                hangs += 1
                if hangs == HANGS_MAX:
                    self.stopped = f"{hangs} calls did not come back"
                    return
            if self.transitions & 63 == 0 or edge.state.hung:
                now = time.monotonic()
                if self._deadline is not None and now > self._deadline:
                    self.stopped = "time limit"
                    return
                if now >= next_report:
                    next_report = now + 0.1
                    report(self.states, self.transitions, edge.frontier)
            if self._max_states is not None and self.states >= self._max_states and edge.frontier:
                self.stopped = "state limit"
                return
        report(self.states, self.transitions, 0)


class Orders(Generic[Key]):
    """The states by number, a shortest order to each, and the keys of some of them, evenly over the whole graph."""

    def __init__(self) -> None:
        self._parents: list[tuple[int, Event | None]] = []
        self._stride = 1
        self.samples: dict[int, Key] = {}

    def __len__(self) -> int:
        return len(self._parents)

    def add(self, source: int, event: Event | None, key: Key, *, sample: bool) -> None:
        """The next state, found from ``source`` by ``event``; the first one has no event. With ``sample`` its key may be kept."""
        self._parents.append((source, event))
        newest = len(self._parents) - 1
        if sample and newest % self._stride == 0:
            self.samples[newest] = key
        if len(self.samples) > 2 * _SAMPLES:
            self._stride *= 2
            self.samples = {state: key for state, key in self.samples.items() if state % self._stride == 0}

    def to(self, state: int) -> list[Event]:
        order: list[Event] = []
        source, event = self._parents[state]
        while event is not None:
            order.append(event)
            source, event = self._parents[source]
        return order[::-1]
