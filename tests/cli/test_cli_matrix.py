"""``kvrace matrix remedies``: what it shows, what it writes and how it ends."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from kvmodel.errors import KvraceError

REMEDIES = ("matrix", "remedies", "--subject", "reference")
TINY = (*REMEDIES, "--requests", "load_save")
TWO = (*TINY, "--remedy", "wait_for_both", "--remedy", "skip", "--jobs", 1)


def _without_times(screen: str) -> str:
    return re.sub(r"[0-9.]+ s\)", "SECONDS s)", screen)


def test_two_remedies_under_two_contracts(kvrace: Any, snapshot: SnapshotAssertion) -> None:
    shown = kvrace(*TWO, "--contract", "duplicate", "--contract", "exactly-once")
    assert (shown.status, shown.err) == (0, ""), "a violated cell is a result"
    assert _without_times(shown.screen) == snapshot
    assert max(map(len, (line for line in shown.out.splitlines() if "replay" not in line))) <= 100


def test_each_order_is_shown_once_and_can_be_replayed(kvrace: Any) -> None:
    kvrace(*TWO, "--json", "matrix.json")
    data = json.loads(Path("matrix.json").read_text())
    orders = data["orders"]
    shown = {(order["property"], order["blame"], tuple(order["events"])) for order in orders}
    assert len(shown) == len(orders) == len(list(Path("kvrace-traces").iterdir()))
    for order in orders:
        played = kvrace("replay", order["trace"])
        assert played.status == 1 and "✗ still failing" in played.out, order
        assert order["replay"] == f"kvrace replay {order['trace']}"


def test_the_file_says_what_the_screen_says(kvrace: Any) -> None:
    kvrace(*TWO, "--json", "matrix.json")
    data = json.loads(Path("matrix.json").read_text())
    assert (data["format"], data["complete"], data["exit_code"]) == ("kvrace-matrix", True, 0)
    assert list(data["remedies"]) == ["skip", "wait_for_both"], "in their usual order"
    assert len(data["cells"]) == 2 * 6
    cells = {(cell["remedy"], cell["contract"]): cell["properties"] for cell in data["cells"]}
    skipping = cells["skip", "exactly-once"]
    assert skipping["no-crash"] == {"verdict": "holds", "orders": []}
    (number,) = skipping["no-use-after-free"]["orders"]
    assert data["orders"][number]["events"] == ["add A", "schedule", "abort A", "update save:A"]
    assert {cell["verdict"] for cell in cells["wait_for_both", "exactly-once"].values()} == {"holds"}
    assert cells["wait_for_both", "duplicate"]["no-crash"]["verdict"] == "violated"
    plan = {remedy: [(check["name"], check["verdict"]) for check in checks] for remedy, checks in data["plan"].items()}
    names = (
        "abort + finished_sending no longer crashes",
        "nothing leaks, nothing is freed twice",
        "normal transfer is unaffected",
    )
    assert plan["skip"] == plan["wait_for_both"] == [(name, "holds") for name in names]


def test_the_test_plan_can_fail(kvrace: Any) -> None:
    """A line that no remedy fails says nothing of those that pass."""
    kvrace(
        *TINY,
        "--contract",
        "exactly-once",
        "--remedy",
        "assert",
        "--remedy",
        "reclaim",
        "--jobs",
        1,
        "--json",
        "matrix.json",
    )
    plan = json.loads(Path("matrix.json").read_text())["plan"]
    crashes, leaks, normal = plan["assert"]
    assert (crashes["verdict"], leaks["verdict"], normal["verdict"]) == ("violated", "holds", "holds")
    assert crashes["events"] == ["add A", "schedule", "abort A", "update load:A save:A"]
    crashes, leaks, normal = plan["reclaim"]
    assert (crashes["verdict"], leaks["verdict"], normal["verdict"]) == ("holds", "holds", "violated")
    assert normal["events"] and not any(event.startswith("abort") for event in normal["events"])


def test_without_its_contract_there_is_no_test_plan(kvrace: Any) -> None:
    shown = kvrace(*TWO, "--contract", "single")
    assert "test plan" not in shown.out


def test_several_processes_say_the_same_as_one(kvrace: Any) -> None:
    some = (*TINY, "--remedy", "skip", "--remedy", "reclaim", "--contract", "exactly-once")
    alone, together = kvrace(*some, "--jobs", 1), kvrace(*some, "--jobs", 2)
    assert together.status == 0
    assert _without_times(together.screen) == _without_times(alone.screen)


def test_a_limit_leaves_cells_unknown_and_is_no_pass(kvrace: Any) -> None:
    shown = kvrace(*TWO, "--contract", "exactly-once", "--max-states", 20, "--json", "matrix.json")
    assert shown.status == 3
    assert "? incomplete: the state limit was reached" in shown.out
    assert "not exhausted: skip under exactly-once, wait_for_both under exactly-once" in " ".join(shown.out.split())
    data = json.loads(Path("matrix.json").read_text())
    assert not data["complete"]
    verdicts = [p["verdict"] for cell in data["cells"] for p in cell["properties"].values()]
    assert "holds" not in verdicts and "incomplete" in verdicts
    assert {check["verdict"] for checks in data["plan"].values() for check in checks} <= {"incomplete", "violated"}


@pytest.mark.parametrize("columns", [80, 100])
def test_the_point_of_the_table_is_in_sight_on_a_narrow_screen(
    kvrace: Any, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    out = kvrace(*TINY, "--contract", "exactly-once", "--jobs", 1).out
    plan = out[out.index("the test plan") : out.index("abort + finished_sending no longer crashes: ")].splitlines()
    assert plan[2].endswith("and yet violated")
    (skip,) = (number for number, line in enumerate(plan) if line.startswith("  skip "))
    assert plan[skip].endswith("no-use-after-free,") and plan[skip + 1].split() == ["no-stuck"]
    assert max(map(len, plan)) <= columns


def test_every_contract_is_every_one_there_is(kvrace: Any) -> None:
    one = (*REMEDIES, "--requests", "load", "--remedy", "not_while_loading", "--jobs", 1)
    some = kvrace(*one, "--contract", "duplicate", "--contract", "exactly-once").out
    assert "not_while_loading under every contract asked for\n" in some
    assert "not_while_loading under every contract\n" in kvrace(*one).out


def test_what_a_limit_left_untried_is_not_said_to_hold(kvrace: Any) -> None:
    """A dash stands for 'nothing else is violated', which nobody knows of what was not exhausted."""
    out = kvrace(*TWO, "--contract", "exactly-once", "--max-states", 30).out
    plan = out[out.index("the test plan") : out.index("abort + finished_sending no longer crashes: ")].splitlines()
    rows = [line.split()[-1] for line in plan if line.startswith(("  wait_for_both", " " * 70))]
    assert rows == ["?", "?"]
    assert "? was not exhausted." in " ".join(out.split())
    assert "? was not exhausted." not in " ".join(kvrace(*TWO, "--contract", "exactly-once").out.split())


def test_after_the_time_limit_nothing_more_is_begun(kvrace: Any) -> None:
    shown = kvrace(*TINY, "--jobs", 1, "--time-limit", 1e-9, "--json", "matrix.json")
    assert shown.status == 3
    assert "? incomplete: the time limit was reached" in shown.out
    data = json.loads(Path("matrix.json").read_text())
    assert (data["stopped"], data["complete"], data["states"]) == ("time limit", False, 0)


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_time_limit_ends_explorations_and_keeps_what_they_found(kvrace: Any, jobs: int) -> None:
    """A scope that takes far longer than the limit: what was begun is shown."""
    large = (*REMEDIES, "--requests", "load_save,load_save", "--remedy", "skip", "--contract", "exactly-once")
    shown = kvrace(*large, "--jobs", jobs, "--time-limit", 1, "--json", "matrix.json")
    assert shown.status == 3
    data = json.loads(Path("matrix.json").read_text())
    assert data["stopped"] == "time limit" and data["states"] > 0
    assert "holds" not in {verdict["verdict"] for verdict in data["cells"][0]["properties"].values()}


@pytest.mark.vllm
def test_what_was_compared_at_the_word_of_a_class_is_said_once(kvrace: Any) -> None:
    some = ("--requests", "load", "--remedy", "wait_for_all", "--contract", "exactly-once", "--contract", "single")
    shown = kvrace("matrix", "remedies", *some, "--jobs", 1, "--json", "matrix.json")
    notes = json.loads(Path("matrix.json").read_text())["notes"]
    assert any(note.startswith("compared like vLLM's own, at the word of its classes: ") for note in notes)
    screen = " ".join(shown.out.split())
    assert [screen.count(f"note: {note} ") for note in notes] == [1] * len(notes)
    assert screen.count("note: ") == len(notes)


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interruption_keeps_what_was_finished(start: Any, jobs: int) -> None:
    process = start(*REMEDIES, "--requests", "load_save,load_save", "--jobs", jobs, "--json", "-")
    while "scope" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 3, err
    assert "? incomplete: the run was interrupted" in err and "not exhausted: assert under exactly-once, " in err
    assert json.loads(out)["stopped"] == "interrupted"


def test_a_remedy_that_cannot_be_made_is_one_line(kvrace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_scope: object, policy: str) -> object:
        raise KvraceError(f"no {policy} today")

    monkeypatch.setattr("kvrace.reference.subject.ReferenceSubject", fails)
    shown = kvrace(*TWO)
    assert shown.status == 2 and shown.err == "kvrace: no skip today\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--remedy", "hope"], "unknown policy 'hope': use one of assert, skip_sends, "),
        (["--contract", "hope"], "unknown contract 'hope'"),
        (["--subject", "mine:Sched"], "--subject 'mine:Sched': remedies are of vllm or of reference"),
        (["--scope", "hope"], "unknown scope 'hope'"),
        (["--scope", "seed", "--requests", "load"], "--scope and --requests exclude each other"),
        (["--jobs", "0"], "--jobs 0: must be 1 or more"),
        (["--max-states", "0"], "--max-states 0: must be 1 or more"),
        (["--time-limit", "0"], "--time-limit 0: must be more than 0 seconds"),
        (["--json", "nowhere/matrix.json"], "--json"),
    ],
)
def test_usage_errors(kvrace: Any, arguments: list[str], message: str) -> None:
    shown = kvrace("matrix", "remedies", *arguments)
    assert shown.status == 2
    assert message in shown.error_line
