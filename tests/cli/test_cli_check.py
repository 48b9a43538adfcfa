"""``kvrace check``: what it shows, what it writes and how it ends."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

REFERENCE = ("check", "--subject", "reference")
VLLM = ("check", "--subject", "vllm")


def _unfolded(text: str) -> str:
    return " ".join(text.split())


def test_the_seed_on_the_reference_scheduler(kvrace: Any, snapshot: SnapshotAssertion) -> None:
    shown = kvrace(*REFERENCE, "--scope", "seed")
    assert shown.status == 1
    assert shown.err == ""
    assert shown.screen == snapshot


@pytest.mark.vllm
def test_the_seed_on_vllm(kvrace: Any, snapshot: SnapshotAssertion) -> None:
    shown = kvrace(*VLLM, "--scope", "seed")
    assert shown.status == 1
    assert shown.err == "", "what vLLM prints at its import is not for the user"
    assert shown.screen == snapshot


@pytest.mark.vllm
def test_vllm_is_checked_where_nothing_else_is_named(kvrace: Any) -> None:
    shown = kvrace("check", "--requests", "local", "--scheduler", "sync")
    assert shown.status == 0
    assert "checking  vllm " in shown.out


@pytest.mark.vllm
def test_a_subclass_from_the_current_folder(kvrace: Any, snapshot: SnapshotAssertion) -> None:
    Path("patched_for_check.py").write_text(
        "from vllm.v1.core.sched.async_scheduler import AsyncScheduler\nclass Patched(AsyncScheduler): pass\n"
    )
    shown = kvrace("check", "--subject", "patched_for_check:Patched", "--scope", "seed", "--property", "no-crash")
    assert shown.status == 1
    assert "--subject patched_for_check:Patched" in shown.out
    assert shown.screen == snapshot


def test_what_holds_says_over_what(kvrace: Any, snapshot: SnapshotAssertion) -> None:
    shown = kvrace(*REFERENCE, "--policy", "wait_for_all", "--scope", "seed")
    assert shown.status == 0
    assert shown.screen == snapshot
    assert list(Path().iterdir()) == [], "an empty trace folder is not left behind"


def test_incomplete_says_which_limit_and_what_to_do(kvrace: Any, snapshot: SnapshotAssertion) -> None:
    shown = kvrace(*REFERENCE, "--policy", "wait_for_all", "--max-states", 10)
    assert shown.status == 3
    assert shown.screen == snapshot


def test_a_violation_found_before_the_limit_is_a_violation(kvrace: Any) -> None:
    shown = kvrace(*REFERENCE, "--requests", "load_save", "--scheduler", "sync", "--max-states", 35)
    assert shown.status == 1
    assert "not exhausted: the state limit was reached" in _unfolded(shown.out)


def test_the_time_limit(kvrace: Any) -> None:
    shown = kvrace(*REFERENCE, "--policy", "wait_for_all", "--scope", "medium", "--time-limit", 0.2)
    assert shown.status == 3
    assert "the time limit was reached" in _unfolded(shown.out)
    assert "give a larger --time-limit" in _unfolded(shown.out)


def test_a_loop_is_marked(kvrace: Any, snapshot: SnapshotAssertion) -> None:
    shown = kvrace(
        *REFERENCE, "--requests", "load", "--scheduler", "sync", "--contract", "lossy", "--property", "no-stuck"
    )
    assert shown.status == 1
    assert shown.screen == snapshot


@pytest.mark.parametrize("width", [80, 140])
def test_a_tight_pool_at_other_widths(
    kvrace: Any, snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """Six blocks: at 80 columns some have no room, and the report says so. No line is longer than the terminal."""
    monkeypatch.setenv("COLUMNS", str(width))
    shown = kvrace(*REFERENCE, "--requests", "load_save,load,save", "--scheduler", "sync", "--max-states", 400,
                   "--property", "no-use-after-free")  # fmt: skip
    assert max(map(len, shown.out.splitlines())) <= width
    assert shown.screen == snapshot


def test_the_json_result(kvrace: Any) -> None:
    shown = kvrace(*REFERENCE, "--scope", "seed", "--json", "result.json")
    result = json.loads(Path("result.json").read_text())
    assert list(result) == [
        "format", "version", "kvrace", "verdict", "exit_code", "subject", "scope", "contract", "states", "transitions",
        "calls", "complete", "stopped", "seconds", "properties", "reached", "violations", "conformance",
        "cases", "notes",
    ]  # fmt: skip
    assert result["exit_code"] == shown.status == 1
    assert result["verdict"] == "violated"
    assert set(result["subject"]) == {"name", "version", "scheduler"}
    assert result["complete"] is True
    assert result["states"] == sum(case["states"] for case in result["cases"])
    assert result["properties"]["no-crash"] == "violated"
    assert result["properties"]["no-leak"] == "holds"
    crash = result["violations"][0]
    assert crash["events"] == ["add A", "schedule", "abort A", "update load:A save:A"]
    assert crash["blame"] == "scheduler"
    assert ".py:" in crash["location"]
    assert Path(crash["trace"]).is_file()


def test_json_on_standard_output_has_it_for_itself(kvrace: Any) -> None:
    shown = kvrace(*REFERENCE, "--policy", "wait_for_all", "--scope", "seed", "--json", "-")
    assert json.loads(shown.out)["verdict"] == "holds"
    assert "✓ holds on the reference scheduler 0.1.0 (not vLLM): every property" in shown.err


def test_the_same_check_writes_the_same_files(kvrace: Any) -> None:
    kvrace(*REFERENCE, "--scope", "seed", "--trace-dir", "one")
    kvrace(*REFERENCE, "--scope", "seed", "--trace-dir", "two")
    one, two = ({path.name: path.read_bytes() for path in Path(name).iterdir()} for name in ("one", "two"))
    assert one
    assert one == two


def test_only_the_properties_asked_for(kvrace: Any) -> None:
    fixed = (*REFERENCE, "--policy", "wait_for_all", "--scope", "seed")
    shown = kvrace(*fixed, "--property", "no-leak", "--property", "handover")
    assert shown.status == 0
    assert "no-crash" not in shown.out
    assert kvrace(*fixed, "--property", "no-leak, handover").screen == shown.screen


def test_a_named_scope_with_orders_of_the_engine_loop_only(kvrace: Any) -> None:
    shown = kvrace(*REFERENCE, "--scope", "seed", "--engine-order", "--json", "result.json")
    assert "orders of the engine loop only" in _unfolded(shown.out)
    assert all(case["scope"]["engine_order"] for case in json.loads(Path("result.json").read_text())["cases"])


def test_the_report_fits_two_screens(kvrace: Any) -> None:
    """Most of it is the shortest orders, and they are the same over scope small, which only takes longer. What holds takes a
    line, and what the symbols mean is said once."""
    shown = kvrace(*REFERENCE, "--scope", "seed", "--policy", "assert")
    lines = shown.out.splitlines()
    assert len(lines) <= 84
    assert sum("◀ broken here" in line for line in lines) == 1
    lengths = [int(events) for events in re.findall(r"^✗ \S+  \d/\d  (\d+) events", shown.out, re.MULTILINE)]
    assert len(lengths) > 1
    assert lengths == sorted(lengths)


@pytest.mark.parametrize(
    ("policy", "status", "start"),
    [("assert", 1, "✗ violated on "), ("wait_for_all", 0, "✓ holds on ")],
)
def test_the_verdict_names_who_was_checked(kvrace: Any, policy: str, status: int, start: str) -> None:
    shown = kvrace(*REFERENCE, "--policy", policy, "--scope", "seed")
    assert shown.status == status
    assert f"{start}the reference scheduler 0.1.0 (not vLLM): " in shown.out


def test_every_situation_has_words_for_a_scope_that_never_reached_it() -> None:
    from kvmodel.milestones import MILESTONE_NAMES
    from kvrace.render.terminal import NEVER

    assert tuple(NEVER) == MILESTONE_NAMES


def test_the_names_with_their_meanings(kvrace: Any, snapshot: SnapshotAssertion) -> None:
    shown = kvrace("check", "--list")
    assert shown.status == 0
    assert shown.screen == snapshot


def test_the_version(kvrace: Any) -> None:
    assert kvrace("--version").out.startswith("kvrace 0.")


@pytest.mark.parametrize("command", ["check", "diff", "replay", "show", "export", "mutants", "promela", "suite"])
def test_no_line_of_the_examples_and_the_exit_status_is_folded(
    kvrace: Any, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = kvrace(command, "--help").out
    block = shown[shown.index("Exit status:") :].split("\n \n")[0].split("╭")[0]
    if "Examples:" in shown:
        block += shown[shown.index("Examples:") : shown.index("Exit status:")]
    lines = [line.rstrip() for line in block.splitlines() if line.strip() and not line.rstrip().endswith(":")]
    assert lines
    assert all(line.startswith("   ") for line in lines), lines


def test_a_case_that_crashes_cut_short_does_not_hide_the_next_one(kvrace: Any) -> None:
    """The crash is not asked for, so that what comes after it is not known; of the second case everything is."""
    shown = kvrace("check", "--subject", "reference", "--scope", "seed", "--property", "no-leak", "--json", "-")
    assert shown.status == 3
    result = json.loads(shown.out)
    assert [(case["complete"], case["properties"]["no-leak"]) for case in result["cases"]] == [
        (False, "incomplete")
    ] * 2
    assert result["stopped"] == result["cases"][0]["stopped"]
    assert "crash or a hang in case 1 of 2; nothing beyond them is known" in " ".join(shown.err.split())


def test_no_column_of_a_swim_lane_touches_the_next(kvrace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text that is folded in its column stays out of the gap before the next one."""
    monkeypatch.setenv("COLUMNS", "80")
    shown = kvrace(
        "check", "--requests", "load_save,local", "--prompts", "ab,ab", "--prefix-sharing", "--subject", "reference"
    )
    begins: list[int] = []
    folded = 0
    for line in shown.out.splitlines():
        headers = line.split()[:2] == ["client", "scheduler"]
        if headers:
            begins = [match.start() for match in re.finditer(r"client|scheduler|connector|block \d+", line)]
        elif not re.match(r"  (\d+|   )  ", line):
            begins = []
        for begin in begins:
            assert line[begin - 2 : begin].strip() == "", line
        folded += bool(begins) and not headers and line.startswith(" " * 7)
    assert folded
