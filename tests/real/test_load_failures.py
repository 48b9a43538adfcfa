"""Loads that fail, and loads inside a step, on the real scheduler."""

from __future__ import annotations

import pytest

from kvmodel.contract import Contract
from kvmodel.scope import FAILURE_POLICIES, SCHEDULINGS, FailurePolicy, Scheduling, Scope
from kvrace.check import check
from kvrace.vllm.failure_faults import FAILURE_FAULTS
from kvrace.vllm.mutants import vllm_mutants
from tests.real.helpers import broken, check_vllm, orders

pytestmark = pytest.mark.vllm


@pytest.mark.parametrize("policy", FAILURE_POLICIES)
@pytest.mark.parametrize("scheduling", SCHEDULINGS)
@pytest.mark.parametrize("failed_ids", [False, True])
def test_an_asynchronous_load_may_fail(policy: FailurePolicy, scheduling: Scheduling, failed_ids: bool) -> None:
    scope = Scope(("load",), scheduling, prompt_blocks=2, load_failures=policy, failed_ids=failed_ids)
    result = check_vllm([scope])
    assert broken(result) == set()
    without = check_vllm([Scope(("load",), scheduling, prompt_blocks=2)])
    assert result.cases[0].states > without.cases[0].states


def test_a_failed_load_frees_the_blocks_under_the_save_that_its_end_begins() -> None:
    result = check_vllm([Scope(("load_save",), load_failures="fail", failed_ids=True)])
    freed = orders(result, "no-use-after-free")["under a save"]
    assert ", ".join(map(str, freed)) == "add A, schedule, update load:A failed:A"


def test_what_a_failed_load_has_left_stays_in_the_prefix_cache_when_its_request_is_aborted() -> None:
    result = check_vllm([Scope(("sync_load", "local"), prefix_sharing=True, load_failures="fail")])
    assert broken(result) == {"no-premature-use"}
    found = {shape: ", ".join(map(str, order)) for shape, order in orders(result, "no-premature-use").items()}
    assert found["offered"] == "add A, schedule, abort A, update invalid:A"
    assert found["failed and taken"] == "add A, schedule, add B, abort A, update invalid:A, schedule"


def test_who_shares_a_block_that_nobody_computes_again_computes_with_it() -> None:
    result = check_vllm([Scope(("sync_load", "local"), prefix_sharing=True, load_failures="recompute")])
    found = orders(result, "no-premature-use")["failed and kept"]
    assert ", ".join(map(str, found)) == "add A, add B, schedule, update invalid:A, abort A, schedule"


def test_a_load_that_failed_inside_a_step_is_computed_again_one_step_at_a_time() -> None:
    assert broken(check_vllm([Scope(("sync_load",), prompt_blocks=2, load_failures="recompute")])) == set()


def test_with_steps_in_flight_its_tokens_are_delivered_and_the_request_never_ends() -> None:
    result = check_vllm([Scope(("sync_load",), "async", load_failures="recompute")])
    assert broken(result) == {"no-premature-use", "no-stuck"}
    told = orders(result, "no-premature-use")["token"]
    assert ", ".join(map(str, told)) == "add A, schedule, schedule, update invalid:A, update"
    assert "never at rest" in orders(result, "no-stuck")


def test_a_failed_load_that_is_offered_again_waits_for_what_is_reserved_for_it() -> None:
    """And what it has lost is not handed over, though its blocks went back without a word to the workers."""
    result = check_vllm([Scope(("load",), output_tokens=1, load_failures="recompute", loads_again=True)])
    assert broken(result) == {"no-stuck"}
    stuck = orders(result, "no-stuck")["never at rest"]
    assert ", ".join(map(str, stuck)) == "add A, schedule, update load:A invalid:A, schedule, update, schedule"
    roomy = Scope(("load",), output_tokens=1, blocks=4, load_failures="recompute", loads_again=True)
    assert broken(check_vllm([roomy])) == set()


@pytest.mark.parametrize("name", FAILURE_FAULTS)
def test_a_fault_in_taking_failures_is_caught_by_the_property_meant_for_it(name: str) -> None:
    mutant = next(mutant for mutant in vllm_mutants() if mutant.name == name)
    result = check(mutant.make_subject, [mutant.scope], Contract())
    assert mutant.property in broken(result)
    assert mutant.property not in broken(check_vllm([mutant.scope]))
