"""The stock scheduler held against the relation: with policy `assert` it does nothing else, so what is proved of that is vLLM's.

All scopes of the main job are in the table of spec/conformance.md: it is made anew by a slow test, which fails on a divergence.
"""

from __future__ import annotations

import pytest

from kvmodel.named_scopes import named_scope
from kvmodel.scope import Scope, both_schedulers
from kvrace.mutants import run_mutant
from kvrace.vllm.mutants import vllm_mutants
from tests.real.helpers import check_vllm

pytestmark = pytest.mark.vllm


def _follows(scopes: list[Scope], policy: str) -> None:
    result = check_vllm(scopes, conformance=policy)
    assert result.conformance is not None
    assert result.conformance.judged == result.transitions
    unexplained = [found.divergence for found in result.conformance.divergences if found.unexplained]
    assert unexplained == []
    if policy == "assert":
        assert result.conformance.divergences == ()


def test_the_seed_conforms_to_assert() -> None:
    _follows(named_scope("seed"), "assert")


def test_a_shared_block_that_is_held_back_conforms() -> None:
    """A block that waits for a step of one owner is still used by a step of the other when it is taken off the list."""
    _follows([Scope(("local", "save"), "async", prefix_sharing=True)], "assert")


def test_the_right_policy_forbids_only_what_breaks_a_property() -> None:
    result = check_vllm(both_schedulers(Scope(("load_save",))), conformance="wait_for_all")
    assert result.conformance is not None
    assert result.conformance.unexplained == 0
    assert {found.divergence.short for found in result.conformance.divergences} == {
        "`phase` after `report load`",
        "`phase` after `report save`",
        "no-crash in `update`",
    }


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("has-no-fence", "`abort`: 'the fence'"),
        pytest.param("computes-before-the-load", "`wake`: 'its load was reported'", marks=pytest.mark.slow),
    ],
)
def test_a_fault_in_the_real_scheduler_diverges_and_the_guard_is_named(name: str, short: str) -> None:
    row = run_mutant(next(mutant for mutant in vllm_mutants() if mutant.name == name))
    assert row.divergence is not None
    assert row.divergence.divergence.short == short
