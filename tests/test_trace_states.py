"""A trace file holds the whole playback: what is read back is what was written, and a state that means no good is one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import itf_py
import pytest

from kvmodel.contract import Contract
from kvmodel.errors import KvraceError
from kvmodel.named_scopes import named_scope
from kvmodel.scope import Scope, both_schedulers
from kvrace.check import Limits, check
from kvrace.reference.mutants import MUTANTS
from kvrace.render.rows import rows_of
from kvrace.result import Violation
from kvrace.subjects import choose_subject
from kvrace.trace import frames_of, read_trace, write_trace
from kvrace.trace_states import VARIABLES

FEW = Limits(max_states=200, call_seconds=1.0)
CHECKS = {
    "seed": (named_scope("seed"), "exactly-once", "assert"),
    "skipping": (named_scope("seed"), "exactly-once", "skip"),
    "unclaimed": (both_schedulers(Scope(("load", "save"))), "unclaimed", "assert"),
    "loops": (both_schedulers(Scope(("load",))), "lossy", "assert"),
    "twice": (both_schedulers(Scope(("load_save",), separate_ends=True)), "duplicate,unsolicited", "assert"),
}


def _is_recorded(violation: Violation, folder: Path) -> None:
    recorded = read_trace(write_trace(violation, "reference", "assert", folder))
    frames = frames_of(recorded)
    assert frames == violation.frames
    assert rows_of(frames, recorded.loop) == rows_of(violation.frames, violation.loop_start)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n == "unclaimed" else []) for n in CHECKS])
def test_the_frames_of_every_finding_are_read_back(name: str, tmp_path: Path) -> None:
    scopes, contract, policy = CHECKS[name]
    result = check(choose_subject("reference", policy).make, scopes, Contract.parse(contract))
    assert result.violations
    for violation in result.violations:
        _is_recorded(violation, tmp_path)


@pytest.mark.vllm
@pytest.mark.parametrize("contract", ["exactly-once", "unsolicited"])
def test_so_are_those_of_vllm(tmp_path: Path, contract: str) -> None:
    result = check(choose_subject("vllm", None).make, named_scope("seed"), Contract.parse(contract))
    assert result.violations
    for violation in result.violations:
        _is_recorded(violation, tmp_path)


@pytest.mark.slow
def test_so_are_those_of_broken_pools(tmp_path: Path) -> None:
    """Negative counts, a block twice in the pool, hangs: whatever a fault shows can be recorded."""
    for mutant in MUTANTS:
        for violation in check(mutant.make_subject, [mutant.scope], mutant.contract, limits=FEW).violations:
            _is_recorded(violation, tmp_path)


@pytest.fixture(scope="module")
def a_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    scope = Scope(("load_save",))
    result = check(choose_subject("reference", "assert").make, [scope], Contract())
    crash = next(violation for violation in result.violations if violation.property == "no-crash")
    return write_trace(crash, "reference", "assert", tmp_path_factory.mktemp("traces"))


def _changed(trace: Path, folder: Path, change: Callable[[Any], object]) -> Path:
    data = json.loads(trace.read_text())
    change(data["states"])
    path = folder / "hostile.json"
    path.write_text(json.dumps(data))
    return path


def _set(number: int, name: str, value: Any) -> Callable[[Any], object]:
    return lambda states: states[number].update({name: value})


def _in_record(number: int, name: str, **fields: Any) -> Callable[[Any], object]:
    return lambda states: states[number][name][0].update(fields)


BIG = {"#bigint": "9" * 5000}
HOSTILE: dict[str, tuple[Callable[[Any], object], str]] = {
    "missing": (lambda states: states[1].pop("free"), "state 1: free is missing"),
    "a number for a list": (_set(1, "free", 7), "state 1: free is not a list"),
    "text for a list": (_set(1, "owned", "A"), "state 1: owned is not a map"),
    "true for a number": (_set(2, "free_count", True), "state 2: free_count is not a number"),
    "a number for true": (_set(2, "pending", {"#bigint": "1"}), "state 2: pending is not true or false"),
    "a fraction": (_set(2, "free_count", 1.5), "state 2: free_count is not a number"),
    "null": (_set(2, "free_count", None), "state 2: free_count is not a number"),
    "a block beyond the pool": (_set(2, "free", [{"#bigint": "3"}]), "state 2: free, entry 0: 3 is outside 0 to 2"),
    "a negative block": (_set(2, "held_back", [{"#bigint": "-1"}]), "state 2: held_back, entry 0: -1 is outside 0 to 2"),
    "a huge number": (_set(2, "free_count", BIG), "state 2: free_count is not an ITF value"),
    "a number that is a list": (_set(2, "free_count", {"#bigint": []}), "state 2: free_count is not an ITF value"),
    "too many entries": (_set(2, "free", [{"#bigint": "1"}] * 2000), "state 2: free has more than 1024 entries"),
    "nested deeply": (_set(2, "free", json.loads("[" * 90 + "]" * 90)), "state 2: free is nested too deeply"),
    "a field that is no name": (_set(2, "transfers", [{"__class__": 1}]), "transfers has an unknown field '__class__'"),
    "code as a field": (_set(2, "free", {"x=print(1)": 1}), "state 2: free has an unknown field 'x=print(1)'"),
    "a tagged union": (_set(2, "free", {"tag": "x", "value": 1}), "state 2: free has an unknown field 'tag'"),
    "a field too many": (_in_record(2, "transfers", hang=False), "transfers, entry 0 has an unknown field 'hang'"),
    "a field too few": (lambda states: states[2]["transfers"][0].pop("wait"), "transfers, entry 0 has no field 'wait'"),
    "a list for a record": (_set(2, "transfers", [[]]), "state 2: transfers, entry 0 is not a record"),
    "an unknown direction": (_in_record(2, "transfers", direction="copy"), "transfers, entry 0: direction: 'copy' is none"),
    "an unknown request": (_in_record(2, "transfers", request="B"), "transfers, entry 0: request: 'B' is none of A"),
    "a request too few": (_set(2, "requests", []), "state 2: requests: 0, and the scope has 1"),
    "a request too many": (lambda s: s[2]["requests"].append(s[2]["requests"][0]), "requests has more than 1 entries"),
    "an unknown stage": (_in_record(2, "requests", stage="dead"), "requests, entry 0: stage: 'dead' is none of absent"),
    "two crashes": (lambda s: s[-1]["crash"].append(s[-1]["crash"][0]), "state 4: crash has more than 1 entries"),
    "escape codes": (_in_record(4, "crash", error="\x1b[2J"), "crash, entry 0: error has unprintable characters"),
    "a long text": (_in_record(4, "crash", source="x" * 2000), "crash, entry 0: source is longer than 1000 characters"),
    "an unknown property": (_in_record(4, "findings", property="x"), "findings, entry 0: property: 'x' is none of no-crash"),
    "a set of lists": (_set(1, "cached", {"#set": [[]]}), "state 1: cached is not a number"),
    "a map of one": (_set(1, "phases", {"#map": [["A"]]}), "state 1: phases is not an ITF value"),
    "a map that is a number": (_set(1, "phases", {"#map": 7}), "state 1: phases is not an ITF value"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_state_is_one_line_that_names_it(a_trace: Path, tmp_path: Path, name: str) -> None:
    change, expected = HOSTILE[name]
    path = _changed(a_trace, tmp_path, change)
    with pytest.raises(KvraceError) as error:
        frames_of(read_trace(path))
    assert str(error.value).startswith(f"{path}: state ")
    assert expected in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "value", [None, 7, -1.5, "x", [], {}, [[]], {"#map": []}, {"#set": [1]}, {"#tup": [1]}, [None]]
)
def test_every_variable_may_be_anything(a_trace: Path, tmp_path: Path, value: object) -> None:
    """A state either is read or refused in one line; it is never an error of kvrace's own."""
    for name in VARIABLES[1:]:
        path = _changed(a_trace, tmp_path, _set(3, name, value))
        try:
            frames = frames_of(read_trace(path))
        except KvraceError as error:
            assert f"state 3: {name}" in str(error)
        else:
            assert rows_of(frames)


def test_a_state_is_itf_with_records(a_trace: Path) -> None:
    trace = itf_py.trace_from_json(json.loads(a_trace.read_text()))
    assert tuple(trace.vars) == VARIABLES
    dispatched = trace.states[2].values["step"]
    assert [(entry.request, entry.samples) for step in dispatched for entry in step.scheduled] == []
    assert trace.states[3].values["handovers"][0].request == "A"
    assert trace.states[4].values["crash"][0].hang is False
