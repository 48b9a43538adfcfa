"""Every step of the reference scheduler is one that the relation with its policy allows, and a fault is one that it does not."""

from __future__ import annotations

from functools import partial

import pytest
from reference_walks import run

from kvmodel.conformance.abstraction import READINGS
from kvmodel.relation.policies import POLICIES
from kvmodel.relation.vocabulary import STATE
from kvmodel.scope import Scope, both_schedulers
from kvrace.mutants import run_mutant
from kvrace.reference.mutants import MUTANTS
from kvrace.result import CheckResult, Conformance

SEED = both_schedulers(Scope(("load_save",)))
_small = partial(Scope, output_tokens=1)
PREFIX = both_schedulers(_small(("load", "save"), prefix_sharing=True))
TIGHT = both_schedulers(Scope(("local", "save"), blocks=4, block_size=2, output_tokens=3))
IN_THE_FAST_TIER = ("assert", "wait_for_all")
BY_POLICY = [pytest.param(n, marks=[] if n in IN_THE_FAST_TIER else pytest.mark.slow) for n in POLICIES]


def conformance(result: CheckResult) -> Conformance:
    assert result.conformance is not None
    return result.conformance


@pytest.mark.parametrize("policy", POLICIES)
def test_every_step_of_the_race_is_one_that_the_policy_allows(policy: str) -> None:
    _conforms(policy, SEED)


@pytest.mark.parametrize("policy", BY_POLICY)
@pytest.mark.parametrize("scopes", [PREFIX, TIGHT], ids=["prefix", "tight"])
def test_every_step_is_one_that_the_policy_allows(policy: str, scopes: list[Scope]) -> None:
    _conforms(policy, scopes)


def _conforms(policy: str, scopes: list[Scope]) -> None:
    result = run(scopes, policy, conformance=policy)
    assert conformance(result).divergences == ()
    assert conformance(result).judged == result.transitions


@pytest.mark.parametrize("policy", BY_POLICY)
@pytest.mark.parametrize("contract", ["single", "duplicate", "unsolicited", "unclaimed", "lossy"])
def test_weaker_contracts_conform_as_well(policy: str, contract: str) -> None:
    result = run(SEED, policy, contract, conformance=policy)
    assert conformance(result).divergences == ()
    assert (conformance(result).not_judged > 0) == (contract == "lossy")


def test_the_right_policy_forbids_of_the_others_only_what_breaks_a_property() -> None:
    for policy in ("assert", "skip"):
        found = conformance(run(SEED, policy, conformance="wait_for_all"))
        assert found.unexplained == 0
        assert found.excused > 0
        assert {one.divergence.action for one in found.divergences} <= {"report load", "report save", "update"}
    phase = next(one for one in found.divergences if one.divergence.action == "report load")
    assert phase.events == ("add A", "schedule", "abort A", "update load:A")
    assert phase.divergence.kind == "state"
    assert phase.divergence.observed.startswith("update load:A: phase(A) is gone and should be held")
    assert phase.divergence.nearest == "process 1 + report load A A at_once, with phase(A) held"


def test_a_wrong_policy_diverges_at_the_reports() -> None:
    found = conformance(run(SEED, "skip", conformance="assert")).divergences
    assert {(one.divergence.kind, one.divergence.action) for one in found} == {
        ("no crash", "report_unknown load"),
        ("no crash", "report_unknown save"),
    }
    assert found[0].unexplained > 0
    assert found[0].divergence.nearest == "report_unknown save A, and the scheduler raises"
    found = conformance(run(SEED, "wait_for_all", conformance="skip")).divergences
    assert {(one.divergence.kind, one.divergence.action, one.divergence.rule) for one in found} >= {
        ("state", "report load", "phase"),
        ("state", "report save", "phase"),
    }


@pytest.mark.parametrize(
    ("name", "short", "nearest"),
    [
        ("no-fence", "`abort`: 'the fence'", "abort A nothing behind_steps"),
        ("load-over-load", "`take`: 'the block is free'", "take B 2"),
        ("wake-too-early", "`wake`: 'its load was reported'", None),
        ("offer-loading-blocks", "`offer`: 'it waits or runs'", None),
        ("skip-free", "`free` after `abort`", "abort A nothing at_once, with free(1) true"),
        ("no-room-check", "no-crash in `schedule`", None),
    ],
)
def test_a_fault_diverges_and_the_guard_is_named(name: str, short: str, nearest: str | None) -> None:
    row = run_mutant(next(mutant for mutant in MUTANTS if mutant.name == name))
    assert row.divergence is not None
    assert row.divergence.divergence.short == short
    if nearest is not None:
        assert row.divergence.divergence.nearest == nearest


def test_a_fault_that_moves_no_block_conforms() -> None:
    row = run_mutant(next(mutant for mutant in MUTANTS if mutant.name == "two-notices"))
    assert row.killed
    assert row.divergence is None


def test_every_part_of_the_relational_state_is_read() -> None:
    assert [reading.symbol for reading in READINGS] == list(STATE)
