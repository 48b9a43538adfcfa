"""Every planted fault is caught by the property meant to catch it, and without the fault that property holds."""

from __future__ import annotations

import pytest
from reference_walks import run

from kvmodel.properties import PROPERTY_NAMES
from kvrace.mutants import Mutant, kill_table, run_mutant
from kvrace.reference.faults import FAULTS
from kvrace.reference.mutants import MUTANTS
from kvrace.reference.subject import ReferenceSubject

PLANTED = [mutant for mutant in MUTANTS if not mutant.name.startswith("policy-")]


TAKES_LONG = {"preempt-hang", "evict-shared"}
CASES = [pytest.param(m, id=m.name, marks=[pytest.mark.slow] if m.name in TAKES_LONG else []) for m in MUTANTS]


@pytest.mark.parametrize("mutant", CASES)
def test_every_mutant_is_killed_by_its_property(mutant: Mutant) -> None:
    row = run_mutant(mutant)
    assert row.killed, f"{mutant.name} survived; violated: {row.also}"
    assert row.result.complete
    assert row.evidence is not None
    assert row.evidence.blame == "scheduler"
    assert row.shortest is not None
    assert 0 < row.shortest <= len(row.evidence.events)


@pytest.mark.parametrize("scope", sorted({mutant.scope for mutant in PLANTED}, key=str), ids=str)
def test_without_a_fault_everything_holds_in_the_scopes_of_the_mutants(scope: object) -> None:
    result = run([scope], "wait_for_all")  # type: ignore[list-item]
    assert result.verdicts == dict.fromkeys(PROPERTY_NAMES, "holds")


def test_every_property_has_a_fault_to_catch() -> None:
    assert {mutant.property for mutant in MUTANTS} == set(PROPERTY_NAMES)


def test_the_registry_is_complete_and_says_what_each_fault_breaks() -> None:
    assert {mutant.name for mutant in PLANTED} == set(FAULTS)
    assert len(PLANTED) >= 24
    assert all(mutant.breaks and "\n" not in mutant.breaks for mutant in MUTANTS)
    assert len({mutant.breaks for mutant in MUTANTS}) == len(MUTANTS)


def test_the_kill_table_gives_one_row_for_each_mutant_in_order() -> None:
    some = [mutant for mutant in MUTANTS if mutant.name in ("skip-free", "never-wake")]
    heard: list[str] = []
    rows = list(kill_table(some, listen=lambda mutant, seconds: heard.append(mutant.name)))
    assert [row.mutant.name for row in rows] == heard == ["skip-free", "never-wake"]
    assert [row.shortest for row in rows] == [6, 3]
    assert rows[0].also == ("conservation",)
    assert set(rows[0].verdicts) == set(PROPERTY_NAMES)


def test_a_sound_scheduler_survives_as_a_mutant() -> None:
    sound = MUTANTS[2]
    row = run_mutant(
        Mutant("sound", "nothing", sound.property, lambda scope: ReferenceSubject(scope, "wait_for_all"), sound.scope)
    )
    assert not row.killed
    assert row.evidence is None
    assert row.shortest is None
    assert row.also == ()


def test_a_mutant_must_name_a_property() -> None:
    with pytest.raises(ValueError, match="no property 'no-such'"):
        Mutant("x", "x", "no-such", ReferenceSubject, MUTANTS[0].scope)
