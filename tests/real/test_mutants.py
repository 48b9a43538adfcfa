"""Faults planted into the real scheduler, each caught by the property meant for it."""

from __future__ import annotations

import pytest

from kvmodel.contract import Contract
from kvmodel.named_scopes import named_scope
from kvmodel.properties import PROPERTY_NAMES
from kvmodel.scope import SCHEDULINGS
from kvrace.vllm.mutants import _FAULTS, vllm_mutants
from tests.real.helpers import broken, check_vllm

pytestmark = pytest.mark.vllm


@pytest.mark.parametrize("name", ["aborts-free-at-once", "computes-before-the-load"])
def test_the_mutant_is_killed_by_the_property_meant_for_it(name: str) -> None:
    """Two of them; that every one is killed is what the table of spec/mutants.md is made from."""
    from kvrace.check import check
    from kvrace.mutants import MUTANT_LIMITS

    mutant = next(mutant for mutant in vllm_mutants() if mutant.name == name)
    result = check(mutant.make_subject, [mutant.scope], Contract(), limits=MUTANT_LIMITS)
    assert mutant.property in broken(result)


@pytest.mark.parametrize("scheduling", SCHEDULINGS)
def test_three_steps_in_flight_need_the_fence(scheduling: str) -> None:
    """The scope `pipeline` has a pool in which freed blocks are given out again while a step still writes them."""
    from kvrace.check import check

    mutant = next(mutant for mutant in vllm_mutants() if mutant.name == "has-no-fence")
    scopes = [scope for scope in named_scope("pipeline") if scope.scheduling == scheduling and scope.blocks == 2]
    result = check(mutant.make_subject, scopes, Contract())
    assert "under a step" in {v.shape for v in result.violations if v.property == "no-use-after-free"}


@pytest.mark.slow
def test_the_stock_scheduler_breaks_nothing_where_mutants_are_looked_for() -> None:
    scopes = sorted({mutant.scope for mutant in vllm_mutants()}, key=str)
    assert broken(check_vllm(scopes)) == set()


def test_every_property_is_shown_to_fire() -> None:
    assert {meant_for for _, _, meant_for, _ in _FAULTS.values()} == set(PROPERTY_NAMES)
