"""What kvrace says of each known answer on one release of vLLM, which this process imports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from spec.known_answers.expected import Answer

from kvmodel.errors import KvraceError
from kvmodel.events import parse_event
from kvmodel.properties import Finding
from kvrace.check import Limits, check
from kvrace.places import line_behind, play_recording
from kvrace.replay import replay
from kvrace.result import Violation
from kvrace.subjects import SubjectChoice
from kvrace.trace import read_trace, write_trace
from kvrace.watchdog import watched

CALL_SECONDS = 10.0


def play(answer: Answer, choice: SubjectChoice, traces: Path | None = None) -> dict[str, Any]:
    """``verdict``: violated, with the order and where it ends, if the finding that is meant was found; differently, if that order
    is not the one of the answer; hidden, if the same property is broken there by the other side's fault; holds, if it was not found
    and the scope was exhausted; else incomplete; or refused, if the release cannot be asked, with the reason. Where something was
    found and ``traces`` is given, the order is written there as a trace file, and ``replayed`` says what became of that."""
    if answer.scope.scheduling not in choice.schedulings:
        return {"verdict": "refused", "why": f"{answer.scope.scheduling} scheduling is not there"}
    try:
        return _given(answer, choice, traces) if answer.as_given else _explored(answer, choice, traces)
    except KvraceError as error:
        return {"verdict": "refused", "why": str(error)}


def _explored(answer: Answer, choice: SubjectChoice, traces: Path | None) -> dict[str, Any]:
    """The whole scope is exhausted; the order is the shortest."""
    result = check(choice.make, [answer.scope], answer.contract, limits=Limits(max_states=answer.max_states))
    found = next((one for one in result.violations if _is_meant(answer, one)), None)
    beside = {one.property for one in result.violations if not _is_meant(answer, one)}
    size = {"states": result.states, "beside": sorted(beside)}
    if found is not None:
        return {**_found(answer, found, choice, traces), **size}
    hidden = any(_is_meant(replace(answer, blame=one.blame), one) for one in result.violations)
    return {"verdict": "hidden" if hidden else "holds" if result.complete else "incomplete", **size}


def _given(answer: Answer, choice: SubjectChoice, traces: Path | None) -> dict[str, Any]:
    """The order of the report is played as it is: a shorter one breaks the same property otherwise. It holds where nothing of the
    property is broken by the end of the order."""
    with watched(choice.make(answer.scope), CALL_SECONDS) as subject:
        frames, responses, refused = play_recording(subject, answer.contract, [parse_event(e) for e in answer.order])
    if refused is not None:
        return {"verdict": "refused", "why": f"{refused.event}: {refused.guard}"}
    meant = [one for one in frames[-1].findings if _is_that_property(answer, one)]
    if not meant:
        return {"verdict": "holds"}
    found = meant[0]
    violation = Violation(
        found.property, found.blame, found.shape, found.message, line_behind(found, False, responses), answer.scope,
        subject.identity, answer.contract, tuple(frames), found.blocks,
    )  # fmt: skip
    return _found(answer, violation, choice, traces)


def _found(answer: Answer, found: Violation, choice: SubjectChoice, traces: Path | None) -> dict[str, Any]:
    measured = {
        "verdict": "violated" if found.events[: len(answer.order)] == answer.order else "differently",
        "order": list(found.events),
        "location": found.location,
        "message": found.message,
    }
    if traces is not None:
        path = write_trace(found, choice.spec, None, traces)
        measured |= {"trace": str(path), "replayed": replay(read_trace(path), choice, CALL_SECONDS).outcome}
    return measured


def _is_meant(answer: Answer, found: Violation) -> bool:
    function = (found.location or "").rpartition(" in ")[2]
    return _is_that_property(
        answer, Finding(found.property, found.message, found.blame, found.shape)
    ) and answer.function in ("", function)


def _is_that_property(answer: Answer, found: Finding) -> bool:
    return found.property == answer.property and found.blame == answer.blame and answer.shape in ("", found.shape)
