"""Traps in made-up graphs: cycles in which a fair run avoids rest for ever, and cycles that only look like it.

A transition is written ``source label target``, and after it the transfers that wait along it, as bits.
"""

from __future__ import annotations

import networkx
from hypothesis import given, settings
from hypothesis import strategies as st

from kvmodel.fairness import Alone, is_fair, traps

LOAD, SAVE = 1, 2
NO_REST: frozenset[int] = frozenset()


def trap_states(transitions: list[Alone[str]], resting: frozenset[int] = NO_REST) -> list[list[int]]:
    return sorted(sorted(trap.states) for trap in found(transitions, resting))


def found(transitions: list[Alone[str]], resting: frozenset[int] = NO_REST):
    states = 1 + max((max(step.source, step.target) for step in transitions), default=0)
    return list(traps(transitions, bytearray(state in resting for state in range(states))))


def test_a_cycle_is_a_trap_and_what_only_leads_into_it_is_none() -> None:
    assert trap_states([Alone(0, "a", 1, 0), Alone(1, "b", 2, 0), Alone(2, "c", 1, 0)]) == [[1, 2]]


def test_a_state_alone_with_itself_is_a_trap() -> None:
    assert trap_states([Alone(0, "a", 0, 0)]) == [[0]]
    assert trap_states([Alone(0, "a", 1, 0)]) == []


def test_a_walk_that_rests_does_not_hide_a_cycle_beside_it() -> None:
    """From 0 and 1 the engine's own loop (``all reports``) comes to rest in two steps; stepping in another order never does."""
    graph = [
        Alone(0, "schedule", 1, 0),
        Alone(1, "all reports", 2, 0),
        Alone(0, "schedule late", 3, 0),
        Alone(3, "update", 0, 0),
    ]
    assert trap_states(graph, frozenset({2})) == [[0, 3]]


def test_a_connector_that_never_reports_is_no_fault_of_the_scheduler() -> None:
    """The engine steps for ever while the load runs: unfair. Reported once, it rests."""
    waits = [Alone(0, "schedule", 1, LOAD), Alone(1, "update", 0, LOAD)]
    assert trap_states([*waits, Alone(1, "update load:A", 2, 0)], frozenset({2})) == []


def test_a_cycle_that_lets_another_transfer_wait_each_time_is_unfair_to_neither() -> None:
    """Load and save take turns: each is reported again and again, so a fair run stays here."""
    graph = [Alone(0, "report the load", 1, SAVE), Alone(1, "report the save", 0, LOAD)]
    assert trap_states(graph) == [[0, 1]]
    assert [step.label for step in found(graph)[0].loop()] == ["report the load", "report the save"]


def test_the_loop_of_a_trap_reports_every_transfer_even_if_a_shorter_one_does_not() -> None:
    graph = [
        Alone(0, "update", 0, LOAD),
        Alone(0, "update load:A", 1, 0),
        Alone(1, "schedule", 2, 0),
        Alone(2, "load again", 0, 0),
    ]
    (trap,) = found(graph)
    assert [step.label for step in trap.loop()] == ["update load:A", "schedule", "load again"]


def test_a_part_that_leads_to_rest_and_back_is_no_trap() -> None:
    assert trap_states([Alone(0, "a", 1, 0), Alone(1, "b", 0, 0)], frozenset({1})) == []


TRANSITIONS = st.lists(
    st.builds(Alone, st.integers(0, 7), st.just("e"), st.integers(0, 7), st.integers(0, 3)), max_size=24
)


@settings(deadline=None)
@given(TRANSITIONS, st.frozensets(st.integers(0, 7), max_size=3))
def test_the_loop_of_every_trap_is_a_fair_run_that_stays_in_it(
    transitions: list[Alone[str]], resting: frozenset[int]
) -> None:
    transitions = [step for step in transitions if step.source not in resting]
    for trap in found(transitions, resting):
        loop = trap.loop()
        assert loop and is_fair(loop)
        assert loop[0].source == loop[-1].target == trap.nearest
        assert all(step.target == after.source for step, after in zip(loop, loop[1:], strict=False))
        assert {step.source for step in loop} <= trap.states and not trap.states & resting


@settings(deadline=None)
@given(TRANSITIONS, st.frozensets(st.integers(0, 7), max_size=3))
def test_without_a_trap_every_state_can_come_to_rest_or_to_a_dead_end(
    transitions: list[Alone[str]], resting: frozenset[int]
) -> None:
    """What is said of (a): it needs no search of its own where each transfer that waits can be reported in place."""
    transitions = [step for step in transitions if step.source not in resting]
    transitions = [step._replace(waiting=waiting) for step in transitions for waiting in (step.waiting, 0)]
    graph = networkx.DiGraph([(step.source, step.target) for step in transitions])
    ends = {state for state in graph if not graph.out_degree(state)}
    if not found(transitions, resting):
        assert all({state, *networkx.descendants(graph, state)} & (ends | resting) for state in graph)
