"""``no-stuck`` on the finished graph: no fair run of an engine left alone avoids rest for ever.

Judged is the part of the graph in which nobody interferes (:func:`kvmodel.progress.left_alone`): in each state *every* event
that can happen by itself, with every choice of reports and every order of schedules and updates, not one walk. Two things are
demanded:

a. from every state that is not a crash, a state at rest can be reached in that part;
b. no *fair* run stays for ever in states that are not at rest.

A run is fair when the engine keeps stepping and every transfer is at last reported.

* *The engine keeps stepping* asks nothing more of a cycle: a transfer ends only once, so a cycle is made of schedules and
  updates, as many of the one as of the other.
* *Every transfer is at last reported* is asked of each transfer (a request and a direction) by itself: again and again it is
  reported, or does not run. As for the event, this is *strong* fairness: a report that can come again and again does come.
  Weak fairness would be too little: between an update and the next schedule no report can come, so none can come *all the
  time*, and the connector would never have to report. As for the states, it says "again and again", so a strongly connected
  part of the graph has a fair run through all of it, or no fair run at all: none when some transfer waits along all of its
  transitions. Parts of the part need no look.

Which of several running transfers is reported first, and how the engine interleaves schedule and update, is not subject to
fairness: it may always be chosen in the same way.

So (b) is broken where a strongly connected component without a state at rest has a transition inside, and no transfer waits
along all of them: a *trap*. (a) needs no search of its own. Where it is broken and no crash or dead end comes, which are seen
on the transition that leads there, a component without rest has no way out. Every report that can come in it leads back into
it, so no transfer waits along all of its transitions, and it is a trap.

Only what was explored is judged. A trap in an unfinished graph is one in the whole graph, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import reduce
from operator import and_
from typing import Generic, NamedTuple, TypeVar

from kvmodel.progress import EVERY_TRANSFER

Label = TypeVar("Label")


class Alone(NamedTuple, Generic[Label]):
    """A transition that happens by itself. ``waiting``: the transfers that run before it and are not reported by it, as bits."""

    source: int
    label: Label
    target: int
    waiting: int


def is_fair(transitions: list[Alone[Label]]) -> bool:
    """Whether a run that takes all of these again and again, and no others, is fair."""
    return reduce(and_, (step.waiting for step in transitions), EVERY_TRANSFER) == 0


class Trap(NamedTuple, Generic[Label]):
    """States that a fair run need never leave, none of them at rest, and every transition among them."""

    states: frozenset[int]
    transitions: list[Alone[Label]]

    @property
    def nearest(self) -> int:
        """The state with the shortest order to it, where states have the numbers of a breadth-first search."""
        return min(self.states)

    def loop(self) -> list[Alone[Label]]:
        """A shortest fair run from the nearest state back to it.

        A breadth-first search over the states, each with the transfers that have waited all along.
        """
        out: dict[int, list[Alone[Label]]] = {}
        for step in self.transitions:
            out.setdefault(step.source, []).append(step)
        start = (self.nearest, EVERY_TRANSFER)
        came_by: dict[tuple[int, int], tuple[tuple[int, int], Alone[Label]]] = {}
        frontier = deque([start])
        while (self.nearest, 0) not in came_by:
            place = frontier.popleft()
            for step in out[place[0]]:
                reached = (step.target, place[1] & step.waiting)
                if reached not in came_by:
                    came_by[reached] = place, step
                    frontier.append(reached)
        run = []
        place = (self.nearest, 0)
        while place != start:
            place, step = came_by[place]
            run.append(step)
        return run[::-1]


def traps(transitions: list[Alone[Label]], resting: bytearray) -> Iterator[Trap[Label]]:
    """Every trap among ``transitions``. ``resting`` has a 1 for each state at rest; from there nothing leads out of rest."""
    import networkx  # here, because importing it would take a third of the start of every command

    graph: networkx.DiGraph[int] = networkx.DiGraph()
    graph.add_edges_from((step.source, step.target) for step in transitions if not resting[step.source])
    component_of: dict[int, int] = {}
    components: list[set[int]] = []
    for component in networkx.strongly_connected_components(graph):
        if len(component) > 1 or graph.has_edge(*2 * tuple(component)):
            component_of.update(dict.fromkeys(component, len(components)))
            components.append(component)
    inside: list[list[Alone[Label]]] = [[] for _ in components]
    for step in transitions:
        number = component_of.get(step.source)
        if number is not None and component_of.get(step.target) == number:
            inside[number].append(step)
    for component, within in zip(components, inside, strict=True):
        if is_fair(within) and not any(resting[state] for state in component):
            yield Trap(frozenset(component), within)
