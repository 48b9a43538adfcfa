"""Exact sizes of small state spaces: any change of the rules of the scheduler or of the world shows here first."""

from __future__ import annotations

import pytest
from reference_walks import run

from kvmodel.contract import Contract
from kvmodel.scope import Scheduling, Scope
from kvrace.check import check
from kvrace.reference.subject import ReferenceSubject

POLICIES = ("assert", "skip", "wait_for_all")

COUNTS: dict[tuple[tuple[str, ...], Scheduling], tuple[tuple[int, int], ...]] = {
    (("local",), "sync"): ((14, 19), (14, 19), (14, 19)),
    (("local",), "async"): ((24, 39), (24, 39), (24, 39)),
    (("load",), "sync"): ((22, 32), (22, 32), (22, 32)),
    (("load",), "async"): ((40, 71), (40, 71), (40, 71)),
    (("save",), "sync"): ((30, 41), (30, 41), (30, 41)),
    (("save",), "async"): ((59, 109), (59, 109), (59, 109)),
    (("load_save",), "sync"): ((50, 68), (47, 69), (44, 67)),
    (("load_save",), "async"): ((100, 177), (91, 179), (86, 173)),
    (("load", "save"), "sync"): ((392, 874), (392, 874), (392, 874)),
    (("load", "save"), "async"): ((1008, 2734), (1008, 2734), (1008, 2734)),
    (("load_save", "local"), "sync"): ((487, 951), (447, 964), (390, 869)),
    (("load_save", "local"), "async"): ((1247, 2873), (1096, 2901), (979, 2627)),
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


@pytest.mark.parametrize(("blocks", "fits"), [(1, False), (2, True)])
def test_a_request_that_is_larger_than_the_pool_waits_for_ever(blocks: int, fits: bool) -> None:
    result = run([Scope(("local",), blocks=blocks, oversized=True)])
    assert (result.verdicts["no-stuck"] == "holds") == fits


@pytest.mark.parametrize(("blocks", "waits"), [(3, True), (4, False)])
def test_a_request_that_needs_more_blocks_than_are_free_waits_for_them(blocks: int, waits: bool) -> None:
    """Of three blocks two are taken and one stays free, and that is too little for the other request."""
    made = check(
        lambda scope: ReferenceSubject(scope, "wait_for_all"), [Scope(("local", "local"), blocks=blocks)], Contract()
    )
    assert (made.reached["pool-dry"] > 0) == waits
