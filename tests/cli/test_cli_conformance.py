"""``kvrace check --conformance``: what it shows, what it writes and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

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


def test_without_the_option_nothing_is_said(kvrace: Any) -> None:
    shown = kvrace(*SEED, "--policy", "wait_for_all", "--json", "result.json")
    assert "conformance" not in shown.out
    assert json.loads(Path("result.json").read_text())["conformance"] is None


def test_an_unknown_policy(kvrace: Any) -> None:
    assert "use one of assert, skip, wait_for_all" in kvrace("check", "--conformance", "trust").error_line


@pytest.mark.vllm
def test_vllm_conforms_to_assert(kvrace: Any) -> None:
    shown = kvrace(
        "check", "--subject", "vllm", "--requests", "load_save", "--scheduler", "async", "--conformance", "assert"
    )
    assert shown.status == 1, "what it does is allowed by `assert`, and breaks properties"
    assert "✓ conformance  the specification with policy assert allows all 181 transitions" in shown.out
