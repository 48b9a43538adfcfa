"""Exact sizes of small state spaces: any change of the rules of the scheduler or of the world shows here first."""

from __future__ import annotations

import pytest
from reference_walks import run

from kvmodel.scope import Scheduling, Scope

POLICIES = ("assert", "skip", "wait_for_all")

COUNTS: dict[tuple[tuple[str, ...], Scheduling], tuple[tuple[int, int], ...]] = {
    (("local",), "sync"): ((12, 17), (12, 17), (12, 17)),
    (("local",), "async"): ((21, 35), (21, 35), (21, 35)),
    (("load",), "sync"): ((20, 30), (20, 30), (20, 30)),
    (("load",), "async"): ((36, 65), (36, 65), (36, 65)),
    (("save",), "sync"): ((30, 41), (30, 41), (30, 41)),
    (("save",), "async"): ((59, 109), (59, 109), (59, 109)),
    (("load_save",), "sync"): ((50, 68), (46, 68), (43, 66)),
    (("load_save",), "async"): ((97, 173), (87, 173), (82, 167)),
    (("load", "save"), "sync"): ((361, 826), (361, 826), (361, 826)),
    (("load", "save"), "async"): ((901, 2500), (901, 2500), (901, 2500)),
    (("load_save", "local"), "sync"): ((436, 874), (392, 874), (338, 783)),
    (("load_save", "local"), "async"): ((1073, 2525), (931, 2525), (825, 2277)),
}
"""States and transitions under each of the policies."""


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("requests", "scheduling"), COUNTS)
def test_states_and_transitions_are_the_pinned_ones(
    requests: tuple[str, ...], scheduling: Scheduling, policy: str
) -> None:
    result = run([Scope(requests, scheduling)], policy)
    assert (result.states, result.transitions) == COUNTS[requests, scheduling][POLICIES.index(policy)]
    assert result.complete
    assert result.calls == result.transitions


def test_the_policies_differ_only_where_load_and_save_of_one_request_meet() -> None:
    for (requests, _), counts in COUNTS.items():
        assert (len(set(counts)) > 1) == ("load_save" in requests)
