"""``kvrace prove``: a line for each obligation, what refutes a policy, and what does not count as a proof."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
import z3
from syrupy.assertion import SnapshotAssertion


def _without_times(screen: str) -> str:
    text = re.sub(r" +\d+ ms$", " TIME", screen, flags=re.MULTILINE)
    return re.sub(r"z3 [\d.]+", "z3 VERSION", text)


def test_the_main_statement_has_a_line_for_each_obligation(kvrace: Any) -> None:
    shown = kvrace("prove", "--policy", "wait_for_all", "--json", "proof.json")
    assert shown.status == 0
    lines = re.findall(r"^✓ .* +\d+ ms$", shown.out, flags=re.MULTILINE)
    data = json.loads(Path("proof.json").read_text())
    (statement,) = data["statements"]
    assert len(lines) == len(statement["obligations"]) > 250
    assert {obligation["verdict"] for obligation in statement["obligations"]} == {"proved"}
    assert "sizes      any number of requests, blocks and steps in flight" in shown.out
    assert f"all {len(lines)} obligations discharged" in " ".join(shown.out.split())
    assert not Path("kvrace-traces").exists()


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["assert", "skip"])
def test_a_policy_without_a_proof(kvrace: Any, policy: str, snapshot: SnapshotAssertion) -> None:
    shown = kvrace("prove", "--policy", policy, "--subject", "reference", "--brief")
    assert shown.status == 1
    assert _without_times(shown.screen) == snapshot
    traces = sorted(Path("kvrace-traces").iterdir())
    assert len(traces) == {"assert": 2, "skip": 1}[policy]
    replayed = kvrace("replay", traces[0])
    assert replayed.status == 1 and "✗ still failing" in replayed.out


@pytest.mark.slow
def test_an_assumption_and_what_breaks_without_it(kvrace: Any, snapshot: SnapshotAssertion) -> None:
    shown = kvrace(
        "prove", "--policy", "wait_for_all", "--contract", "unsolicited", "--subject", "reference", "--brief"
    )
    assert shown.status == 0
    assert _without_times(shown.screen) == snapshot


@pytest.mark.slow
def test_without_a_policy_the_others_stand_beside_it(kvrace: Any, snapshot: SnapshotAssertion) -> None:
    shown = kvrace("prove", "--brief")
    assert shown.status == 0
    assert _without_times(shown.screen) == snapshot


def test_the_list_of_statements(kvrace: Any, snapshot: SnapshotAssertion) -> None:
    shown = kvrace("prove", "--list")
    assert shown.status == 0
    assert shown.screen == snapshot


@pytest.mark.slow
def test_json_on_standard_output_leaves_it_alone(kvrace: Any) -> None:
    shown = kvrace("prove", "--policy", "skip", "--subject", "reference", "--brief", "--json", "-")
    assert shown.status == 1
    (statement,) = json.loads(shown.out)["statements"]
    assert statement["verdict"] == "refuted"
    (order,) = statement["orders"]
    assert order["confirmed"] and order["explorer_events"] == len(order["events"]) == 4
    assert {example["reached"] for example in statement["counterexamples"]} <= {"this", "alike"}
    assert "no proof for skip" in shown.err


def test_what_z3_gives_up_is_no_proof(kvrace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([z3.unsat] * 100 + [z3.unknown])
    monkeypatch.setattr(z3.Solver, "check", lambda _: next(answers, z3.unsat))
    monkeypatch.setattr(z3.Solver, "reason_unknown", lambda _: "timeout")
    shown = kvrace("prove", "--policy", "wait_for_all")
    assert shown.status == 3
    assert "? not proved for wait_for_all under exactly-once: z3 gave 1 of" in shown.out
    assert "(timeout)" in " ".join(shown.out.split())
    assert "✓ proved" not in shown.out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_ends_it_and_proves_nothing(start: Any, number: signal.Signals) -> None:
    process = start("prove")
    while not (line := process.stdout.readline()).startswith("✓ "):
        assert line, "it ended before the first obligation"
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 3, out
    assert "discharged, which proves nothing" in " ".join(out.split())
    assert "✓ proved" not in out
    assert err == ""


def test_an_interruption_after_the_verdict_keeps_it(start: Any) -> None:
    """The search for orders takes seconds, and each question to z3 far less."""
    process = start("prove", "--policy", "skip", "--subject", "reference", "--json", "proof.json")
    while not (line := process.stdout.readline()).startswith("✓ report_unknown keeps: loads and steps are apart"):
        assert line, "it ended before the last obligation"
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1, out
    assert "✗ no proof for skip under exactly-once" in out
    assert "interrupted while orders were looked for" in out
    assert '"verdict": "refuted"' in Path("proof.json").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "hope"], "unknown policy 'hope': use one of assert, skip_sends, skip, "),
        (["--contract", "hope"], "unknown contract 'hope'"),
        (["--assume", "hope"], "unknown assumption 'hope': use none or some of unique-ids"),
        (["--assume", "none,unique-ids"], "--assume none,unique-ids: none stands alone"),
        (["--subject", "mine:Sched"], "--subject 'mine:Sched': orders are played on vllm or on reference"),
        (["--time-limit", "0"], "--time-limit 0: must be a number of seconds, more than 0"),
        (["--json", "nowhere/proof.json"], "--json"),
    ],
)
def test_usage_errors(kvrace: Any, arguments: list[str], message: str) -> None:
    shown = kvrace("prove", *arguments)
    assert shown.status == 2
    assert message in shown.error_line
