"""Which line a finding names on the reference scheduler, and that looking for it changes nothing."""

from __future__ import annotations

import linecache
import re
from pathlib import Path

import pytest

import kvrace.reference
from kvmodel.contract import Contract
from kvmodel.events import parse_event
from kvmodel.playback import play
from kvmodel.scope import SCHEDULINGS, Scheduling, Scope
from kvrace.check import check
from kvrace.reference.subject import ReferenceSubject
from kvrace.result import Violation

FOLDER = Path(kvrace.reference.__file__).parent


def _found(scope: Scope, contract: str = "exactly-once", mutant: str | None = None) -> tuple[Violation, ...]:
    made = check(lambda s: ReferenceSubject(s, policy="skip", mutant=mutant), [scope], Contract.parse(contract))
    return made.violations


def _line(location: str | None) -> str:
    """The source of a named line, and the function."""
    match = re.fullmatch(r"kvrace/reference/(\w+\.py):(\d+) in (\w+)", location or "")
    assert match, location
    return f"{match[3]}: {linecache.getline(str(FOLDER / match[1]), int(match[2])).strip()}"


@pytest.mark.parametrize("scheduling", SCHEDULINGS)
def test_an_early_free_names_the_report_that_freed(scheduling: Scheduling) -> None:
    lines = {v.shape: _line(v.location) for v in _found(Scope(("load_save",), scheduling)) if v.blocks}
    assert lines == {
        "under a load": "save_reported: scheduler.release(request)",
        "under a save": "load_reported: scheduler.release(request)",
    }


@pytest.mark.parametrize("scheduling", SCHEDULINGS)
def test_blocks_that_waited_for_a_step_name_the_abort(scheduling: Scheduling) -> None:
    found = _found(Scope(("save",), scheduling), "unclaimed")
    early = next(v for v in found if v.property == "no-use-after-free")
    assert early.events[-1].startswith("update" if scheduling == "async" else "abort")
    assert _line(early.location) == "abort: self.finish(request, load_runs)"


def test_what_is_stuck_names_who_was_asked_last() -> None:
    idle = next(v for v in _found(Scope(("load_save",))) if v.property == "no-stuck")
    loop = next(v for v in _found(Scope(("load",)), "lossy") if v.property == "no-stuck")
    assert _line(idle.location) == "has_requests: def has_requests(self) -> bool:"
    assert _line(loop.location) == "schedule: def schedule(self) -> DispatchedStep:"


def test_a_fault_in_a_subclass_is_named_there() -> None:
    twice = next(v for v in _found(Scope(("local",)), mutant="free-twice") if v.property == "no-double-free")
    assert twice.location is not None
    assert twice.location.startswith("kvrace/reference/faults")


def test_a_leak_names_no_line_that_gave_the_block_out() -> None:
    """It names the line that took the block from its request, else the entry point in which the request was handed over."""
    names = ("keep-table", "forget-table-entry", "drop-deferred-frees")
    scopes = (Scope(("local",)), Scope(("load",)), Scope(("local",), "async"))
    found = [_found(scope, mutant=name) for name, scope in zip(names, scopes, strict=True)]
    lines = [_line(next(v for v in some if v.property == "no-leak").location) for some in found]
    assert lines == [
        "abort: def abort(self, request_id: str) -> None:",
        "abort: def abort(self, request_id: str) -> None:",
        "abort: self.finish(request, load_runs)",
    ]


def test_recording_is_off_until_asked_for_and_changes_nothing_else() -> None:
    scope = Scope(("load_save",), "async")
    order = [parse_event(line) for line in ("add A", "schedule", "schedule", "abort A", "update", "update save:A")]
    plain, recording = ReferenceSubject(scope, policy="skip"), ReferenceSubject(scope, policy="skip")
    recording.records = True
    seen, _ = play(plain, Contract(), order)
    recorded, _ = play(recording, Contract(), order)
    assert not any(frame.response.moves or frame.response.called for frame in seen)
    assert any(frame.response.moves for frame in recorded)
    assert [frame._replace(response=frame.response._replace(moves=(), called=())) for frame in recorded] == seen
