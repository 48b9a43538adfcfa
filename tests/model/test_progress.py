"""Walks of an engine left alone: which of them never come to rest."""

from __future__ import annotations

from kvmodel.progress import never_at_rest


def test_a_cycle_never_rests_and_everything_that_leads_into_it() -> None:
    next_state = {0: 1, 1: 2, 2: 1, 3: 4, 5: 0}
    assert never_at_rest(next_state, [False, False, False, False, True, False]) == [0, 1, 2, 5]


def test_a_walk_that_rests_is_fine_even_where_it_could_go_on() -> None:
    assert never_at_rest({0: 1, 1: 1}, [False, True]) == []


def test_a_walk_that_leaves_the_explored_part_is_undetermined_not_stuck() -> None:
    assert never_at_rest({0: 1}, [False, False]) == []


def test_a_state_alone_with_itself_is_stuck() -> None:
    assert never_at_rest({0: 0}, [False]) == [0]
