"""Tours on made-up graphs: every transition is taken, and no other set of tours would be cheaper."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvmodel.tours import Transition, cover


def reachable(transitions: Sequence[Transition]) -> list[Transition]:
    """Those that can be reached from state 0."""
    known = {0}
    for _ in transitions:
        known |= {t.target for t in transitions if t.source in known}
    return [t for t in transitions if t.source in known]


def graphs(states: int, most: int):
    state = st.integers(0, states - 1)
    transition = st.builds(Transition, state, state, st.integers(0, 2))
    return st.lists(transition, max_size=most).map(reachable)


def are_tours(transitions: Sequence[Transition], tours: list[list[int]]) -> bool:
    walks = [[transitions[number] for number in tour] for tour in tours]
    return all(
        walk and walk[0].source == 0 and all(a.target == b.source for a, b in zip(walk, walk[1:], strict=False))
        for walk in walks
    )


def covered(tours: list[list[int]]) -> set[int]:
    return {number for tour in tours for number in tour}


@settings(deadline=None)
@given(graphs(12, 40), st.integers(0, 8))
def test_every_transition_is_taken_at_the_cost_of_the_bound(transitions: list[Transition], reset: int) -> None:
    found = cover(transitions, reset)
    assert are_tours(transitions, found.tours)
    assert covered(found.tours) == set(range(len(transitions)))
    assert found.cost(transitions, reset) == found.bound


def least_cost(transitions: Sequence[Transition], reset: int) -> int:
    """By trying everything: Dijkstra's search over the state and the transitions that were taken."""
    everything = (1 << len(transitions)) - 1
    frontier = [(reset, 0, 0)]
    done = set()
    while frontier:
        cost, state, taken = heapq.heappop(frontier)
        if taken == everything:
            return cost
        if (state, taken) in done:
            continue
        done.add((state, taken))
        heapq.heappush(frontier, (cost + reset, 0, taken))
        for number, t in enumerate(transitions):
            if t.source == state:
                heapq.heappush(frontier, (cost + t.price, t.target, taken | 1 << number))
    raise AssertionError("every transition can be reached")


@settings(max_examples=200, deadline=None)
@given(graphs(4, 7).filter(bool), st.integers(0, 6))
def test_nothing_is_cheaper_than_the_bound(transitions: list[Transition], reset: int) -> None:
    assert cover(transitions, reset).bound == least_cost(transitions, reset)


@settings(deadline=None)
@given(graphs(8, 24).filter(bool), st.integers(1, 12))
def test_tours_that_are_cut_still_take_everything(transitions: list[Transition], longest: int) -> None:
    whole = cover(transitions, 3)
    try:
        cut = cover(transitions, 3, longest)
    except ValueError:
        assert longest < 1 + max(_depths(transitions)[t.source] for t in transitions)
        return
    assert are_tours(transitions, cut.tours)
    assert covered(cut.tours) == set(range(len(transitions)))
    assert max(map(len, cut.tours)) <= longest
    assert cut.bound == whole.bound <= cut.cost(transitions, 3)


def _depths(transitions: Sequence[Transition]) -> dict[int, int]:
    depths = {0: 0}
    for _ in transitions:
        for t in transitions:
            if t.source in depths:
                depths[t.target] = min(depths.get(t.target, 99), depths[t.source] + 1)
    return depths


def _line(*states: int) -> list[Transition]:
    return [Transition(source, target, 1) for source, target in zip(states, states[1:], strict=False)]


@pytest.mark.parametrize(("reset", "tours"), [(1, 2), (3, 1)])
def test_the_price_of_a_reset_decides_between_a_fresh_start_and_a_way_back(reset: int, tours: int) -> None:
    """Three ways lead from 1 to 4, and the way back costs 3 once more: or a reset and the first step."""
    ways = [step for between in (2, 3, 5) for step in _line(1, between, 4)]
    found = cover([*_line(0, 1), *ways, Transition(4, 1, 3)], reset)
    assert len(found.tours) == tours


def test_dead_ends_need_a_fresh_start_each() -> None:
    found = cover([*_line(0, 1), *_line(1, 2), *_line(1, 3), *_line(1, 4)], 5)
    assert sorted(map(len, found.tours)) == [2, 2, 2]
    assert found.bound == 3 * 5 + 6


def test_a_round_needs_one_fresh_start() -> None:
    assert cover(_line(0, 1, 2, 0), 5).bound == 8


def test_without_transitions_there_are_no_tours() -> None:
    assert cover([], 3) == ([], 0)


def test_two_transitions_between_the_same_states_are_both_taken_and_the_cheaper_one_again() -> None:
    dear, cheap = Transition(0, 1, 2), Transition(0, 1, 1)
    found = cover([dear, cheap, *_line(1, 2), *_line(1, 3), *_line(1, 4)], 1)
    assert sum(number == 1 for tour in found.tours for number in tour) == 2
