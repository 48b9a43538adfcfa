"""Edge-covering tours of a finished graph: a directed Chinese postman who may begin again.

A tour is an order of transitions from the start; together the tours of a suite take every transition at least once. What is
made small is their whole cost: the price of each transition, every time it is taken, and the price of a reset for each tour,
because each begins on a fresh scheduler.

Closing each tour with a reset, from where it ends back to the start, makes one closed walk. How often that takes each
transition is a circulation with at least one on each transition, and at least one on the resets together. One of least cost is
a minimum cost flow: what enters a state more often than it leaves has to leave it once more. Every transition can be reached
from the start, so the circulation hangs together and an Eulerian circuit takes all of it. The cost of the flow is therefore the
least cost of any set of tours, and the tours that are cut from the circuit have just this cost.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import networkx

START = 0
_RESET = -1


class Transition(NamedTuple):
    """A transition of the graph, and what it costs to take it. Two may lead from the same state to the same state."""

    source: int
    target: int
    price: int


class Tours(NamedTuple):
    """``tours`` are the numbers of transitions, each from the start. No set of tours that takes every transition costs less than
    ``bound``, which is computed before any tour is."""

    tours: list[list[int]]
    bound: int

    def cost(self, transitions: Sequence[Transition], reset: int) -> int:
        """What the tours cost, counted transition by transition and tour by tour."""
        return sum(reset + sum(transitions[number].price for number in tour) for tour in self.tours)


def cover(transitions: Sequence[Transition], reset: int, longest: int | None = None) -> Tours:
    """Cheapest tours from state 0 that take every transition, each of which it must reach; prices and ``reset`` are not negative.

    Tours of more than ``longest`` transitions are cut, and the rest goes on after a reset and a shortest way to where it was cut;
    the cost counts both. Raises ValueError when some transition cannot be reached in as many.
    """
    if not transitions:
        return Tours([], 0)
    bound, times, resets = _least_circulation(transitions, reset)
    tours = _cut_at_resets(_circuit(transitions, times, resets))
    return Tours(tours if longest is None else _shortened(transitions, tours, longest), bound)


def _least_circulation(transitions: Sequence[Transition], reset: int) -> tuple[int, list[int], dict[int, int]]:
    """The least cost, how often each transition is taken, and how many resets there are from each state that has any."""
    import networkx  # here, because importing it would take a third of the start of every command

    # Of transitions between the same two states only a cheapest one is ever taken more than once.
    cheapest: dict[tuple[int, int], int] = {}
    demand: Counter[int] = Counter()
    for number, (source, target, price) in enumerate(transitions):
        demand[source] += 1
        demand[target] -= 1
        known = cheapest.setdefault((source, target), number)
        if price < transitions[known].price:
            cheapest[source, target] = number
    flow_graph: networkx.DiGraph[int] = networkx.DiGraph()
    for (source, target), number in cheapest.items():
        flow_graph.add_edge(source, target, weight=transitions[number].price)
    # All resets go through one state, so that there is at least one: it asks for one more than it gets, the start gives it.
    for state in demand:
        flow_graph.add_edge(state, _RESET, weight=0)
        flow_graph.nodes[state]["demand"] = demand[state] - (state == START)
    flow_graph.add_edge(_RESET, START, weight=reset)
    flow_graph.nodes[_RESET]["demand"] = 1
    least, flow = networkx.network_simplex(flow_graph)
    times = [1] * len(transitions)
    for (source, target), number in cheapest.items():
        times[number] += flow[source][target]
    resets = {state: flow[state][_RESET] for state in demand if flow[state][_RESET]}
    return least + reset + sum(transition.price for transition in transitions), times, resets


def _circuit(transitions: Sequence[Transition], times: Sequence[int], resets: dict[int, int]) -> list[int]:
    """An Eulerian circuit from the start, as numbers of transitions, with ``_RESET`` for a reset. It ends with one."""
    import networkx

    graph: networkx.MultiDiGraph[int] = networkx.MultiDiGraph()
    for number, (source, target, _) in enumerate(transitions):
        for time in range(times[number]):
            graph.add_edge(source, target, (number, time))
    for state, many in resets.items():
        for time in range(many):
            graph.add_edge(state, START, (_RESET, time))
    walk = [key[0] for _, _, key in networkx.eulerian_circuit(graph, source=START, keys=True)]
    last = len(walk) - 1 - walk[::-1].index(_RESET)
    return walk[last + 1 :] + walk[: last + 1]


def _cut_at_resets(walk: Sequence[int]) -> list[list[int]]:
    tours: list[list[int]] = [[]]
    for number in walk:
        if number == _RESET:
            tours.append([])
        else:
            tours[-1].append(number)
    return [tour for tour in tours if tour]


def _shortened(transitions: Sequence[Transition], tours: list[list[int]], longest: int) -> list[list[int]]:
    if all(len(tour) <= longest for tour in tours):
        return tours
    way_to = _shortest_ways(transitions)
    short = []
    for tour in tours:
        rest = tour
        while len(rest) > longest:
            way = way_to(transitions[rest[longest]].source)
            if len(way) >= longest:
                raise ValueError(
                    f"a tour of {longest} transitions does not reach all of them: one needs {len(way) + 1}"
                )
            short.append(rest[:longest])
            rest = [*way, *rest[longest:]]
        short.append(rest)
    return short


def _shortest_ways(transitions: Sequence[Transition]) -> Callable[[int], list[int]]:
    """From a state to the numbers of the transitions that lead there from the start, as few as possible."""
    out: dict[int, list[int]] = {}
    for number, transition in enumerate(transitions):
        out.setdefault(transition.source, []).append(number)
    came_by: dict[int, int] = {}
    frontier = deque([START])
    while frontier:
        for number in out.get(frontier.popleft(), ()):
            target = transitions[number].target
            if target != START and target not in came_by:
                came_by[target] = number
                frontier.append(target)

    def way_to(state: int) -> list[int]:
        way = []
        while state != START:
            way.append(came_by[state])
            state = transitions[came_by[state]].source
        return way[::-1]

    return way_to
