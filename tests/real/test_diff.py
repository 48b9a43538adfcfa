"""The differential check on the real scheduler: what is the same is found the same, and no planted fault is.

That kvrace's drop-in scheduler does what vLLM does in whole scopes is a generated table of spec/diff.md; a slow test makes it anew.
"""

from __future__ import annotations

import pytest

from kvmodel.contract import Contract
from kvmodel.named_scopes import named_scope
from kvmodel.scope import Scope, both_schedulers
from kvrace.check import MakeSubject, check
from kvrace.diff import diff
from kvrace.diffresult import DiffResult
from kvrace.mutants import MUTANT_LIMITS
from kvrace.reference.subject import ReferenceSubject
from kvrace.subjects import choose_class
from kvrace.vllm.mutants import _FAULTS, vllm_mutants
from kvrace.vllm.subject import VllmSubject

pytestmark = pytest.mark.vllm
IN_THE_FAST_TIER = {"holds-a-reference", "goes-idle-early"}


def with_vllm(
    other: MakeSubject, scopes: list[Scope], contract: str = "exactly-once", strict: bool = False
) -> DiffResult:
    return diff(VllmSubject, other, scopes, Contract.parse(contract), strict=strict, limits=MUTANT_LIMITS)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in IN_THE_FAST_TIER else pytest.mark.slow) for name in _FAULTS]
)
def test_every_planted_fault_is_a_difference(name: str) -> None:
    mutant = next(mutant for mutant in vllm_mutants() if mutant.name == name)
    result = with_vllm(mutant.make_subject, [mutant.scope])
    assert result.verdict == "different"
    assert result.excused == 0, "the stock scheduler breaks nothing there"


@pytest.mark.slow
def test_pairs_are_merged_as_exactly_as_the_states_of_a_subclass() -> None:
    """The one is compared up to a renaming of blocks and the other by exact ids: the pairs are as many as its states."""
    from vllm.v1.core.sched.scheduler import Scheduler

    class Plain(Scheduler):  # type: ignore[misc]
        pass

    scope = Scope(("load", "save"), blocks=3)
    make = choose_class(Plain).make
    pairs, own = with_vllm(make, [scope]), check(make, [scope], Contract())
    assert (pairs.verdict, own.verdict) == ("same", "holds")
    assert (pairs.states, pairs.compared) == (own.states, own.transitions)
    assert pairs.states > check(VllmSubject, [scope], Contract()).states


@pytest.mark.parametrize("contract", ["exactly-once", "duplicate,unsolicited", "unclaimed", "lossy"])
def test_the_reference_scheduler_does_what_vllm_does_under_every_contract(contract: str) -> None:
    """Also where that breaks a property, and block by block."""
    result = with_vllm(ReferenceSubject, both_schedulers(Scope(("load_save",))), contract, strict=True)
    assert (result.verdict, result.excused) == ("same", 0)
    assert all(case.compared > 60 for case in result.cases)


@pytest.mark.parametrize(
    "scope",
    [
        pytest.param(
            Scope(("local", "load"), "async", blocks=4, block_size=2, output_tokens=3), marks=pytest.mark.slow
        ),
        Scope(("load", "save"), prefix_sharing=True),
    ],
    ids=["preemption", "prefix"],
)
def test_the_reference_scheduler_preempts_and_shares_as_vllm_does(scope: Scope) -> None:
    result = with_vllm(ReferenceSubject, [scope], strict=True)
    assert result.verdict == "same" and result.compared > 1000
    # It remembers nothing that vLLM does not: where the states of vLLM are one, so are its own.
    assert result.states == check(VllmSubject, [scope], Contract()).states


@pytest.mark.slow(50)
@pytest.mark.parametrize("name", ["small", "pressure", "prefix", "stops"])
def test_the_reference_scheduler_does_what_vllm_does_in_the_named_scopes(name: str) -> None:
    result = diff(VllmSubject, ReferenceSubject, named_scope(name), Contract(), strict=True)
    assert (result.verdict, result.excused) == ("same", 0)
