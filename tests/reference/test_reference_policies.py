"""What each completion policy does to the nine properties."""

from __future__ import annotations

import pytest
from reference_walks import SCHEDULINGS, of, run

from kvmodel.errors import KvraceError
from kvmodel.named_scopes import named_scope
from kvmodel.properties import PROPERTY_NAMES
from kvmodel.relation import policies
from kvmodel.scope import Scheduling, Scope
from kvrace.reference.policies import POLICIES
from kvrace.reference.subject import ReferenceSubject

BOTH = ("load_save",)


@pytest.mark.parametrize("scheduling", SCHEDULINGS)
def test_assert_crashes_in_four_events(scheduling: Scheduling) -> None:
    found = of(run([Scope(BOTH, scheduling)]), "no-crash")
    assert found[0].events == ("add A", "schedule", "abort A", "update load:A save:A")
    assert found[0].location is not None
    assert found[0].location.startswith("kvrace/reference/policies.py:")
    assert "save of an unknown request" in found[0].message


@pytest.mark.parametrize("policy", ["assert", "skip"])
@pytest.mark.parametrize("scheduling", SCHEDULINGS)
def test_the_first_report_frees_blocks_under_the_other_transfer(scheduling: Scheduling, policy: str) -> None:
    found = of(run([Scope(BOTH, scheduling)], policy), "no-use-after-free")
    assert {(v.shape, v.events) for v in found} == {
        ("under a save", ("add A", "schedule", "abort A", "update load:A")),
        ("under a load", ("add A", "schedule", "abort A", "update save:A")),
    }
    assert {v.blame for v in found} == {"scheduler"}


@pytest.mark.parametrize("scheduling", SCHEDULINGS)
def test_skip_does_not_crash(scheduling: Scheduling) -> None:
    assert run([Scope(BOTH, scheduling)], "skip").verdicts["no-crash"] == "holds"


@pytest.mark.parametrize("policy", ["assert", "skip"])
@pytest.mark.parametrize("scheduling", SCHEDULINGS)
def test_with_one_transfer_at_a_time_every_policy_holds(scheduling: Scheduling, policy: str) -> None:
    result = run([Scope(("load_save", "local"), scheduling)], policy, "single")
    assert result.verdicts == dict.fromkeys(PROPERTY_NAMES, "holds")


@pytest.mark.parametrize("requests", [("load_save",), ("load_save", "local"), ("load", "save")])
@pytest.mark.parametrize("scheduling", SCHEDULINGS)
def test_wait_for_all_holds_everything(scheduling: Scheduling, requests: tuple[str, ...]) -> None:
    assert run([Scope(requests, scheduling)], "wait_for_all").verdicts == dict.fromkeys(PROPERTY_NAMES, "holds")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["small", "pressure", "prefix", "stops"])
def test_wait_for_all_holds_everything_in_the_named_scopes(name: str) -> None:
    result = run(named_scope(name), "wait_for_all")
    assert result.complete
    assert result.verdicts == dict.fromkeys(PROPERTY_NAMES, "holds")


@pytest.mark.parametrize("scheduling", SCHEDULINGS)
def test_wait_for_all_holds_under_duplicate_reports(scheduling: Scheduling) -> None:
    assert run([Scope(("load_save",), scheduling)], "wait_for_all", "duplicate").verdict == "holds"


@pytest.mark.parametrize(
    ("contract", "broken"),
    [
        ("unclaimed", {"no-use-after-free"}),
        ("unsolicited", {"no-use-after-free", "no-stuck"}),
        ("lossy", {"no-leak", "no-stuck"}),
    ],
)
def test_no_policy_can_mend_a_connector_that_hides_invents_or_loses_reports(contract: str, broken: set[str]) -> None:
    result = run([Scope(("load_save",))], "wait_for_all", contract)
    assert {name for name, verdict in result.verdicts.items() if verdict == "violated"} == broken
    assert {violation.blame for violation in result.violations} == {"connector"}


def test_identity_names_scheduler_and_policy() -> None:
    assert "reference" in str(ReferenceSubject(Scope(BOTH)).identity)
    assert ReferenceSubject(Scope(BOTH)).identity.scheduler == "Scheduler policy assert"
    assert ReferenceSubject(Scope(BOTH, "async"), "skip").identity.scheduler == "AsyncScheduler policy skip"
    mutant = ReferenceSubject(Scope(BOTH), "wait_for_all", "skip-free")
    assert mutant.identity.scheduler == "Scheduler policy wait_for_all mutant skip-free"


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(KvraceError, match="unknown policy 'hope': use one of assert, skip_sends, skip, "):
        ReferenceSubject(Scope(BOTH), "hope")
    with pytest.raises(KvraceError, match="unknown mutant 'hope': use one of .*skip-free"):
        ReferenceSubject(Scope(BOTH), "assert", "hope")
    assert tuple(POLICIES) == tuple(policies.POLICIES), "the relation and the reference scheduler have the same"
