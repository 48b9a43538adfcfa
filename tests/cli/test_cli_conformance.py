"""``kvrace check --conformance``: what it shows, what it writes and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from syrupy.assertion import SnapshotAssertion

from kvmodel.errors import KvraceError
from kvmodel.properties import PROPERTY_NAMES
from kvmodel.scope import Scope
from kvrace.testing import VerdictError, check_scheduler

SEED = ("check", "--subject", "reference", "--requests", "load_save", "--scheduler", "sync")


def test_a_scheduler_that_conforms(kvrace: Any) -> None:
    shown = kvrace(*SEED, "--policy", "wait_for_all", "--conformance", "wait_for_all")
    assert shown.status == 0
    assert "✓ conformance  the specification with policy wait_for_all allows all 67 transitions" in shown.out
    assert "holds on the reference scheduler" in shown.out and "and conformance" in shown.out


def test_divergences_on_broken_properties(kvrace: Any, snapshot: SnapshotAssertion) -> None:
    shown = kvrace(*SEED, "--policy", "skip", "--conformance", "wait_for_all")
    assert shown.status == 1
    assert shown.screen == snapshot


def test_a_divergence_alone_is_a_violation(kvrace: Any, snapshot: SnapshotAssertion) -> None:
    shown = kvrace(*SEED, "--policy", "wait_for_all", "--conformance", "assert")
    assert shown.status == 1
    assert shown.screen == snapshot


def test_json_says_the_guard_what_was_observed_and_the_nearest_step(kvrace: Any) -> None:
    kvrace(*SEED, "--policy", "wait_for_all", "--conformance", "assert", "--json", "result.json")
    data = json.loads(Path("result.json").read_text())
    assert (data["verdict"], data["exit_code"]) == ("violated", 1)
    conformance = data["conformance"]
    assert conformance["policy"] == "assert"
    assert conformance["judged"] == data["transitions"]
    assert conformance["unexplained"] > 0
    first = conformance["divergences"][0]
    assert first["events"] == ["add A", "schedule", "abort A", "update load:A"]
    assert (first["kind"], first["action"], first["rule"]) == ("state", "report load", "phase")
    assert first["observed"].startswith("update load:A: phase(A) is held and should be gone")
    assert first["nearest"] == "process 1 + report load A A at_once, with phase(A) gone"
    assert data["cases"][0]["conformance"] == conformance


def test_a_divergence_in_junit_and_on_the_web_page(kvrace: Any) -> None:
    kvrace(*SEED, "--policy", "wait_for_all", "--conformance", "assert", "--junit", "result.xml", "--html", "page.html")
    suites = ElementTree.parse("result.xml").getroot()
    tests = {test.get("name"): test for test in suites.iter("testcase")}
    assert set(tests) == {*PROPERTY_NAMES, "conformance"}
    failure = tests["conformance"].find("failure")
    assert failure is not None and "allowed process 1 + report load A A at_once" in (failure.text or "")
    assert "4  update load:A" in (failure.text or "")
    assert not [name for name, test in tests.items() if name != "conformance" and len(test)]
    page = Path("page.html").read_text()
    assert "`report load A A at_once` leads to another `phase` in the specification" in page
    assert "forbids 6 of 67 transitions that break no property" in page


def test_github_shows_a_divergence(kvrace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    shown = kvrace(*SEED, "--policy", "wait_for_all", "--conformance", "assert")
    commands = [line for line in shown.out.splitlines() if line.startswith("::error")]
    assert len(commands) == 3
    assert commands[0].startswith("::error title=conformance::`report load A A at_once` leads to another `phase`")


def test_in_a_test_of_a_scheduler() -> None:
    check_scheduler("reference", scope=Scope(("save",)), conformance="assert").assert_holds()
    with pytest.raises(KvraceError, match="unknown policy 'trust'"):
        check_scheduler("reference", scope=Scope(("save",)), conformance="trust")


@pytest.mark.vllm
def test_a_divergence_fails_a_test_of_a_scheduler() -> None:
    from kvrace.vllm.remedies import SkipsUnknown

    checked = check_scheduler(SkipsUnknown, scope=Scope(("load_save",)), properties="no-leak", conformance="assert")
    with pytest.raises(VerdictError) as error:
        checked.assert_holds()
    stop = "and this one goes on"
    assert (
        error.value.summary[0]
        == f"conformance: at `report_unknown save A` the scheduler of the specification raises, {stop}"
    )


def test_without_the_option_nothing_is_said(kvrace: Any) -> None:
    shown = kvrace(*SEED, "--policy", "wait_for_all", "--json", "result.json")
    assert "conformance" not in shown.out
    assert json.loads(Path("result.json").read_text())["conformance"] is None


def test_an_unknown_policy(kvrace: Any) -> None:
    assert "use one of assert, skip_sends, skip, tolerate, " in kvrace("check", "--conformance", "trust").error_line


@pytest.mark.vllm
def test_vllm_conforms_to_assert(kvrace: Any) -> None:
    shown = kvrace(
        "check", "--subject", "vllm", "--requests", "load_save", "--scheduler", "async", "--conformance", "assert"
    )
    assert shown.status == 1, "what it does is allowed by `assert`, and breaks properties"
    assert "✓ conformance  the specification with policy assert allows all 181 transitions" in shown.out
