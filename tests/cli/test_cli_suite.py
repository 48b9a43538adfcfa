"""``kvrace suite`` and the replay of suites: tours that take every transition, and what they say of another scheduler."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from spec.generate import ROOT, TOURED_SCOPES, tours_row
from spec.markdown import markdown_table
from syrupy.assertion import SnapshotAssertion

from kvmodel.contract import Contract
from kvmodel.explorer import explore
from kvmodel.lockstep import Lockstep
from kvmodel.named_scopes import named_scope
from kvrace import suitefile
from kvrace.reference.subject import ReferenceSubject
from kvrace.suitefile import SuiteFile, parse_suite

REFERENCE = ("--subject", "reference")
SEED = ("suite", *REFERENCE, "--scope", "seed", "--out", "suite")
_SECONDS = {"seed": 0, "small": 150}
SYNC = Path("suite/1-load_save-sync.suite.json")


def _suites() -> list[SuiteFile]:
    return [parse_suite(path, path.read_bytes()) for path in sorted(Path("suite").iterdir())]


def _files() -> list[Path]:
    return sorted(Path("suite").iterdir())


def test_what_a_suite_costs_and_that_it_conforms(kvrace: Any, snapshot: SnapshotAssertion) -> None:
    made = kvrace(*SEED)
    assert made.status == 0
    played = kvrace("replay", *_files())
    assert played.status == 0
    assert made.screen + played.screen == snapshot


def test_another_scheduler_differs_and_the_first_difference_is_shown(kvrace: Any, snapshot: SnapshotAssertion) -> None:
    kvrace(*SEED, "--scheduler", "sync")
    shown = kvrace("replay", SYNC, "--policy", "wait_for_all")
    assert shown.status == 1
    assert shown.screen == snapshot


@pytest.mark.parametrize("layout", [{"indent": None}, {"indent": 4}, {"sort_keys": True}], ids=str)
def test_how_the_json_is_laid_out_does_not_matter(kvrace: Any, layout: dict[str, Any]) -> None:
    kvrace(*SEED, "--scheduler", "sync")
    (file,) = _files()
    file.write_text(json.dumps(json.loads(file.read_text()), **layout))
    assert kvrace("replay", file).status == 0


def test_a_tour_that_cannot_be_played_any_more_differs(kvrace: Any) -> None:
    """Under ``skip`` the engine is idle where under ``wait_for_all`` it still has to wait."""
    kvrace(*SEED, "--policy", "wait_for_all")
    shown = kvrace("replay", SYNC, "--policy", "skip")
    assert shown.status == 1
    assert "differs in" in shown.out


@pytest.mark.parametrize("contract", ["exactly-once", "lossy"])
def test_the_tours_go_through_exactly_the_states_of_the_graph(kvrace: Any, contract: str) -> None:
    """Each event of each tour leads from one explored state to the explored state that the graph has there, and none is left."""
    kvrace(*SEED, "--contract", contract)
    for suite, scope in zip(_suites(), named_scope("seed"), strict=True):
        assert suite.scope == scope
        lockstep = Lockstep(ReferenceSubject(scope), Contract.parse(contract))
        start = lockstep.initial()
        keys = [start.key]
        graph = {}
        for edge in explore(lockstep, start):
            keys += [edge.state.key] if edge.new else []
            graph[keys[edge.source], edge.label] = keys[edge.target]
        taken = set()
        for tour in suite.tours:
            walk = lockstep.again()
            node = walk.initial()
            for event in tour.events:
                before, node = node.key, walk.successor(node, event)
                assert node.key == graph[before, event]
                taken.add((before, event))
        assert taken == graph.keys()


def test_what_breaks_is_recorded_and_no_reason_to_fail(kvrace: Any) -> None:
    kvrace(*SEED)
    happens = [line for suite in _suites() for tour in suite.tours for lines in tour.happens for line in lines]
    assert any(line.startswith("broken: no-crash (scheduler): AssertionError") for line in happens)
    assert any(line.startswith("broken: no-use-after-free") for line in happens)
    assert kvrace("replay", *_files()).status == 0


def test_the_figures_for_programs(kvrace: Any) -> None:
    made = kvrace("suite", *REFERENCE, "--requests", "load_save", "--contract", "lossy", "--separate-ends",
                  "--out", "suite", "--json", "-")  # fmt: skip
    assert made.status == 0
    assert "recording" in made.err
    figures = json.loads(made.out)
    assert figures["ratio"] == 1.0
    for case, suite in zip(figures["cases"], _suites(), strict=True):
        assert case["files"] == [suite.path.name]
        assert case["tours"] == case["resets"] == len(suite.tours)
        ends = sum(str(event).startswith(("ends", "lose")) for tour in suite.tours for event in tour.events)
        assert case["calls"] == suite.events - ends > 0, "the scheduler hears nothing of the end of a transfer"
        assert case["cost"] == case["bound"] == case["calls"] + 3 * case["resets"]
    assert figures["calls"] == sum(case["calls"] for case in figures["cases"])


def test_shorter_tours_cost_more_and_the_price_is_named(kvrace: Any) -> None:
    kvrace(*SEED, "--json", "whole.json")
    figures = json.loads(Path("whole.json").read_text())
    longest = max(len(tour.events) for suite in _suites() for tour in suite.tours)
    Path("suite").rename("whole")
    assert kvrace(*SEED, "--longest", longest - 2, "--json", "cut.json").status == 0
    cut = json.loads(Path("cut.json").read_text())
    assert max(len(tour.events) for suite in _suites() for tour in suite.tours) == longest - 2
    assert (cut["bound"], cut["transitions"]) == (figures["bound"], figures["transitions"])
    assert cut["resets"] > figures["resets"] and cut["cost"] > cut["bound"]
    assert kvrace("replay", *_files()).status == 0


def test_a_dear_reset_makes_longer_tours(kvrace: Any) -> None:
    kvrace(*SEED, "--reset-cost", 1, "--json", "cheap.json")
    Path("suite").rename("cheap")
    kvrace(*SEED, "--reset-cost", 1000, "--json", "dear.json")
    cheap, dear = (json.loads(Path(name).read_text()) for name in ("cheap.json", "dear.json"))
    assert dear["resets"] <= cheap["resets"] and dear["calls"] >= cheap["calls"]
    assert dear["ratio"] == cheap["ratio"] == 1.0


def test_a_large_case_gets_several_files(kvrace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kvrace(*SEED, "--scheduler", "sync")
    (whole,) = _suites()
    Path("suite").rename("whole")
    monkeypatch.setattr(suitefile, "_NEW_EVENTS", 20)
    kvrace(*SEED, "--scheduler", "sync")
    assert len(_files()) > 2
    assert tuple(tour for part in _suites() for tour in part.tours) == whole.tours
    assert kvrace("replay", *_files()).status == 0


def test_a_suite_beside_other_orders(kvrace: Any, seed_trace: Path) -> None:
    kvrace(*SEED)
    shown = kvrace("replay", SYNC, seed_trace, SYNC)
    assert shown.status == 1
    assert shown.out.endswith("3 files: 1 still failing, 2 conform\n")


def test_line_numbers_of_source_files_do_not_count(kvrace: Any) -> None:
    kvrace(*SEED)
    for path in _files():
        text = path.read_text()
        assert "policies.py:" in text
        path.write_text(text.replace("policies.py:", "policies.py:1"))
    assert kvrace("replay", *_files()).status == 0


def test_a_limit_leaves_nothing_behind(kvrace: Any) -> None:
    made = kvrace(*SEED, "--max-states", 60)
    assert made.status == 3
    assert "? incomplete: the state limit was reached after 1 of 2 cases; nothing was written" in " ".join(
        made.out.split()
    )
    assert not Path("suite").exists()


ERRORS: dict[str, tuple[tuple[object, ...], str]] = {
    "no folder": (("suite", *REFERENCE), "Missing option '--out'"),
    "a folder that is full": (("suite", *REFERENCE, "--out", "full"), "--out: full is not empty; name a folder"),
    "a file": (("suite", *REFERENCE, "--out", "full/file"), "--out: full/file is not a folder"),
    "a reset for nothing": ((*SEED, "--reset-cost", 0), "--reset-cost 0: use 1 to 1000, in scheduler calls"),
    "endless tours": ((*SEED, "--longest", 1001), "--longest 1001: use 1 to 1000, in events"),
    "tours too short": ((*SEED, "--longest", 3), "a tour of 3 transitions does not reach all of them"),
    "an unknown scope": (("suite", *REFERENCE, "--scope", "none", "--out", "suite"), "unknown scope 'none'"),
    "no place for figures": ((*SEED, "--json", "missing/f.json"), "--json: there is no folder "),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_one_line_and_leave_nothing_behind(kvrace: Any, name: str) -> None:
    Path("full").mkdir()
    Path("full/file").touch()
    arguments, message = ERRORS[name]
    shown = kvrace(*arguments)
    assert shown.status == 2
    assert message in shown.err and shown.err.count("\n") == 1
    assert sorted(Path().rglob("*")) == [Path("full"), Path("full/file")]


@pytest.mark.parametrize(
    ("option", "word"), [(("--until", 3), "played to its end"), (("--rewrite",), "is not rewritten")]
)
def test_what_goes_with_one_order_only(kvrace: Any, option: tuple[object, ...], word: str) -> None:
    kvrace(*SEED)
    shown = kvrace("replay", SYNC, *option)
    assert shown.status == 2
    assert word in shown.error_line


def test_a_suite_does_not_choose_what_is_imported(kvrace: Any) -> None:
    kvrace(*SEED)
    Path("evil.py").write_text("open('was-imported', 'w')")
    _change(lambda data: data["subject"].update(spec="evil:Scheduler"))
    assert "does not choose what is imported" in kvrace("replay", SYNC).error_line
    assert not Path("was-imported").exists()


def _change(change: Callable[[Any], object]) -> None:
    data = json.loads(SYNC.read_text())
    change(data)
    SYNC.write_text(json.dumps(data, indent=1))


HOSTILE: dict[str, Callable[[Any], object]] = {
    "a later version": lambda data: data.update(version=2),
    "a version that is true": lambda data: data.update(version=True),
    "no subject": lambda data: data.pop("subject"),
    "a policy that is a number": lambda data: data["subject"].update(policy=3),
    "no contract": lambda data: data.pop("contract"),
    "a huge scope": lambda data: data["scope"].update(blocks=10**9),
    "no tours": lambda data: data.update(tours=[]),
    "tours that are text": lambda data: data.update(tours="add A"),
    "a tour that is a number": lambda data: data["tours"].append(7),
    "a tour without events": lambda data: data["tours"].append([0]),
    "more in common than there is": lambda data: data["tours"].append([999, ["schedule", 0]]),
    "less than nothing in common": lambda data: data["tours"].append([-1, ["schedule", 0]]),
    "not an event": lambda data: data["tours"].append([0, ["drop table", 0]]),
    "an event without what happens": lambda data: data["tours"].append([0, ["schedule"]]),
    "what never happened": lambda data: data["tours"].append([0, ["schedule", 10**6]]),
    "a tour without end": lambda data: data["tours"].append([0, *[["schedule", 0]] * 1001]),
    "too much in few bytes": lambda data: data["tours"].extend([[0, *[["schedule", 0]] * 1000], *[[1000]] * 1000]),
    "escape codes": lambda data: data["happens"].append(["\x1b[31m"]),
    "what happens is text": lambda data: data.update(happens="nothing"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_suite_is_one_line(kvrace: Any, snapshot: SnapshotAssertion, name: str) -> None:
    kvrace(*SEED)
    _change(HOSTILE[name])
    shown = kvrace("replay", SYNC)
    assert shown.status == 2
    assert shown.error_line == snapshot


def test_a_suite_that_is_cut_off_is_one_line(kvrace: Any) -> None:
    kvrace(*SEED)
    SYNC.write_text(SYNC.read_text()[:900])
    assert ": not JSON: " in kvrace("replay", SYNC).error_line


@pytest.mark.parametrize(
    "scope", [pytest.param(name, marks=pytest.mark.slow(_SECONDS[name])) for name in TOURED_SCOPES]
)
@pytest.mark.vllm
def test_the_projects_own_conformance_suite(kvrace: Any, scope: str) -> None:
    """The tours on the real scheduler, made and then played in one process: every transition that is explored. Each is a row in
    spec/tours.md."""
    made = kvrace("suite", "--subject", "vllm", "--scope", scope, "--out", "suite", "--json", "figures.json")
    assert made.status == 0
    figures = json.loads(Path("figures.json").read_text())
    if scope == "small":
        assert (figures["states"], figures["transitions"]) == (23_827, 54_668)
    assert figures["cost"] == figures["bound"]
    row = markdown_table([""] * 8, [tours_row(scope, len(figures["cases"]), figures)]).splitlines()[-1]
    assert row in (ROOT / "spec" / "tours.md").read_text(), "stale: run make docs"
    shown = kvrace("replay", *_files())
    assert shown.status == 0
    many = len(figures["cases"])
    assert shown.out.endswith(f"{many} files: {many} conform\n")
