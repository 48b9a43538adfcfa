"""``kvrace replay``: a recorded order on the same scheduler and on others, and trace files that mean no good."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import itf_py
import pytest
from syrupy.assertion import SnapshotAssertion


def test_still_failing(kvrace: Any, seed_trace: Path, snapshot: SnapshotAssertion) -> None:
    shown = kvrace("replay", seed_trace)
    assert shown.status == 1
    assert shown.screen == snapshot


def test_fixed(kvrace: Any, seed_trace: Path, snapshot: SnapshotAssertion) -> None:
    shown = kvrace("replay", seed_trace, "--policy", "wait_for_all")
    assert shown.status == 0
    assert shown.screen == snapshot


def test_fails_differently(kvrace: Any, seed_trace: Path) -> None:
    """After the recorded order one more event brings the second report: a crash under ``assert``, nothing under ``skip``."""
    kvrace("check", "--subject", "reference", "--scope", "seed", "--property", "no-crash")
    crash = next(path for path in Path("kvrace-traces").glob("no-crash-*") if path.read_text().count('"event":') == 7)
    shown = kvrace("replay", crash, "--policy", "skip")
    assert shown.status == 1
    assert "✗ fails differently: no-use-after-free (scheduler): block 1 is in the pool" in shown.out


def test_diverged_names_the_guard_and_what_was_allowed(
    kvrace: Any, seed_trace: Path, snapshot: SnapshotAssertion
) -> None:
    _change(seed_trace, _events("add A", "schedule", "update save:A", "abort A"))
    shown = kvrace("replay", seed_trace)
    assert shown.status == 3
    assert shown.screen == snapshot


def test_an_order_that_no_scheduler_can_play_is_refused_before_one_is_made(kvrace: Any, seed_trace: Path) -> None:
    _change(seed_trace, _events("add A", "update", "abort A", "schedule"))
    _change(seed_trace, lambda data: data["#meta"]["subject"].update(spec="missing:Scheduler"))
    shown = kvrace("replay", seed_trace)
    assert shown.status == 2
    assert shown.error_line.endswith("event 2 'update': no step is in flight; no scheduler can play this order")


def test_a_prefix_is_never_called_fixed(kvrace: Any, seed_trace: Path, snapshot: SnapshotAssertion) -> None:
    shown = kvrace("replay", seed_trace, "--until", 3)
    assert shown.status == 3
    assert shown.screen == snapshot
    assert kvrace("replay", seed_trace, "--until", 4).status == 1
    assert "✓ fixed" in kvrace("replay", seed_trace, "--until", 4, "--policy", "wait_for_all").out


@pytest.mark.parametrize("until", [0, -1, 5, 10**30])
def test_a_prefix_has_some_of_the_events(kvrace: Any, seed_trace: Path, until: int) -> None:
    for command in ("replay", "show"):
        shown = kvrace(command, seed_trace, "--until", until)
        assert shown.status == 2
        assert shown.error_line.endswith(f"{seed_trace} has the events 1 to 4")


def test_a_prefix_of_what_cannot_be_played_is_played(kvrace: Any, seed_trace: Path) -> None:
    _change(seed_trace, _events("add A", "schedule", "schedule", "abort A"))
    assert kvrace("replay", seed_trace).status == 2
    assert kvrace("replay", seed_trace, "--until", 2).status == 3


def test_several_files(kvrace: Any, seed_trace: Path, snapshot: SnapshotAssertion) -> None:
    data = json.loads(seed_trace.read_text())
    diverging, fixed = Path("b.json"), Path("c.json")
    for path in (diverging, fixed):
        path.write_text(json.dumps(data))
    _change(diverging, _events("add A", "schedule", "update save:A", "abort A"))
    _change(fixed, lambda data: data["#meta"]["subject"].update(policy="wait_for_all"))
    assert kvrace("replay", fixed, fixed).status == 0
    assert kvrace("replay", fixed, diverging, fixed).status == 3
    shown = kvrace("replay", fixed, diverging, seed_trace)
    assert shown.status == 1
    assert shown.screen == snapshot
    Path("d.json").write_text("no trace")
    shown = kvrace("replay", fixed, "d.json", seed_trace)
    assert shown.status == 2
    assert shown.error_line.startswith("kvrace: d.json: not JSON")


def test_a_loop_must_loop(kvrace: Any) -> None:
    kvrace("check", "--subject", "reference", "--requests", "load", "--scheduler", "sync", "--contract", "lossy",
           "--property", "no-stuck")  # fmt: skip
    (trace,) = Path("kvrace-traces").iterdir()
    shown = kvrace("replay", trace)
    assert shown.status == 1
    assert "✗ still failing: no-stuck (connector): left alone, A is never over" in shown.out
    _change(trace, lambda data: data.update(loop=1))
    assert kvrace("replay", trace).status == 0


@pytest.mark.vllm
def test_a_crash_on_another_scheduler_is_the_same_at_the_same_event(kvrace: Any) -> None:
    kvrace("check", "--subject", "reference", "--scope", "seed", "--property", "no-crash")
    trace = next(path for path in Path("kvrace-traces").iterdir() if "save_reported" in path.read_text())
    shown = kvrace("replay", trace, "--subject", "vllm")
    assert shown.status == 1
    assert "✗ still failing: no-crash (scheduler): " in shown.out


def test_an_earlier_violation_does_not_hide_the_recorded_one(kvrace: Any) -> None:
    """Under ``skip`` the pool breaks first, and then nobody is left to bring the engine to rest."""
    order = Path("order.txt")
    order.write_text(
        "format: kvrace-text 1\nproperty: no-stuck\nblame: scheduler\nsubject: reference\npolicy: skip\n"
        "requests: load_save\nadd A\nschedule\nabort A\nupdate save:A\nschedule\nupdate\n"
    )
    shown = kvrace("replay", order)
    assert "✗ still failing: no-stuck" in shown.out


@pytest.mark.vllm
def test_a_trace_of_the_reference_scheduler_on_vllm(kvrace: Any, seed_trace: Path) -> None:
    shown = kvrace("replay", seed_trace, "--subject", "vllm")
    assert shown.status == 1
    assert "✗ still failing: no-use-after-free (scheduler): block 1 is in the pool" in shown.out
    assert "(another scheduler)" in shown.out


def test_a_trace_does_not_choose_what_is_imported(kvrace: Any, seed_trace: Path) -> None:
    Path("evil.py").write_text("open('was-imported', 'w')")
    _change(seed_trace, lambda data: data["#meta"]["subject"].update(spec="evil:Scheduler"))
    shown = kvrace("replay", seed_trace)
    assert shown.status == 2
    assert "add --subject evil:Scheduler (or another) to play it" in shown.error_line
    assert not Path("was-imported").exists()


def test_a_trace_file_is_itf(seed_trace: Path) -> None:
    trace = itf_py.trace_from_json(json.loads(seed_trace.read_text()))
    assert trace.meta["format"] == "kvrace-trace"
    assert trace.meta["version"] == 2
    assert [state.values["event"] for state in trace.states] == ["", "add A", "schedule", "abort A", "update save:A"]
    last = trace.states[-1].values
    assert set(last) == set(trace.vars)
    assert last["free"] == [1, 2]
    assert [(t.request, t.direction, list(t.blocks)) for t in last["transfers"]] == [("A", "load", [1])]


def _change(path: Path, change: Callable[[Any], object]) -> None:
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def _events(*lines: str) -> Callable[[Any], object]:
    return lambda data: [state.update(event=line) for state, line in zip(data["states"][1:], lines, strict=True)]


def _meta(**changes: object) -> Callable[[Any], object]:
    return lambda data: data["#meta"].update(changes)


def _scope(**changes: object) -> Callable[[Any], object]:
    return lambda data: data["#meta"]["scope"].update(changes)


def _event(text: object) -> Callable[[Any], object]:
    return lambda data: data["states"][2].update(event=text)


HOSTILE_CHANGES: dict[str, Callable[[Any], object]] = {
    "another format": _meta(format="ITF"),
    "a later version": _meta(version=3),
    "an earlier version": _meta(version=1),
    "a version that is true": _meta(version=True),
    "no meta": lambda data: data.pop("#meta"),
    "meta is a list": lambda data: data.update({"#meta": []}),
    "no subject": _meta(subject=None),
    "no property": _meta(property=None),
    "unknown property": _meta(property="no-bugs"),
    "unknown blame": _meta(blame="user"),
    "unknown contract": _meta(contract="polite"),
    "a number as message": _meta(message=7),
    "escape codes": _meta(message="\x1b]0;owned\x07"),
    "a long message": _meta(message="x" * 5000),
    "unknown scope field": _scope(hook="rm -rf"),
    "a scope that cannot fit": _scope(blocks=1),
    "a huge scope": _scope(blocks=10**9),
    "a scope of the wrong type": _scope(blocks="2"),
    "no states": lambda data: data.update(states=[]),
    "states are numbers": lambda data: data.update(states=[1, 2]),
    "too many states": lambda data: data.update(states=data["states"] * 500),
    "the first state has an event": lambda data: data["states"][0].update(event="add A"),
    "not an event": _event("drop table"),
    "code as an event": _event("__import__('os').system('true')"),
    "an event with escape codes": _event("add \x1b[31mA"),
    "an event that is a table": _event({"#bigint": "1"}),
    "a loop beyond the end": lambda data: data.update(loop=99),
    "a loop that is text": lambda data: data.update(loop="0"),
}


@pytest.mark.parametrize("change", HOSTILE_CHANGES.values(), ids=HOSTILE_CHANGES.keys())
def test_a_hostile_trace_is_one_line(
    kvrace: Any, seed_trace: Path, snapshot: SnapshotAssertion, change: Callable[[Any], object]
) -> None:
    trace = seed_trace.rename("hostile.json")
    seed_trace.parent.rename("traces")
    _change(trace, change)
    shown = kvrace("replay", trace)
    assert shown.status == 2
    assert shown.error_line == snapshot
    assert sorted(os.listdir()) == ["hostile.json", "traces"]


HOSTILE_BYTES: dict[str, bytes] = {
    "empty": b"",
    "not JSON": b"not json at all",
    "not UTF-8": b'{"#meta": "\xff\xfe"}',
    "a number": b"7",
    "ten megabytes": b'{"#meta": "' + b"x" * 10_000_000 + b'"}',
    "nested deeply": b'{"#meta":' * 100_000,
    "lists nested deeply": b"[" * 1_000_000,
    "a huge number": b'{"states": ' + b"9" * 10_000 + b"}",
}


@pytest.mark.parametrize("name", HOSTILE_BYTES)
def test_hostile_bytes_are_one_line(kvrace: Any, snapshot: SnapshotAssertion, name: str) -> None:
    Path("hostile.json").write_bytes(HOSTILE_BYTES[name])
    shown = kvrace("replay", "hostile.json")
    assert shown.status == 2
    assert shown.error_line == snapshot


@pytest.mark.parametrize("path", ["missing.json", ".", "/dev/zero"])
def test_what_is_no_file_is_one_line(kvrace: Any, snapshot: SnapshotAssertion, path: str) -> None:
    shown = kvrace("replay", path)
    assert shown.status == 2
    assert shown.error_line == snapshot
