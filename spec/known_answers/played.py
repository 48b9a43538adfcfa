"""What kvrace says of each known answer on one release of vLLM, which this process imports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spec.known_answers.expected import Answer

from kvmodel.errors import KvraceError
from kvmodel.properties import PROPERTY_NAMES
from kvrace.check import Limits, check
from kvrace.result import CheckResult, Violation
from kvrace.subjects import SubjectChoice
from kvrace.trace import write_trace

LIMITS = Limits(max_states=400_000)


def play(answer: Answer, choice: SubjectChoice, traces: Path | None = None) -> dict[str, Any]:
    """``verdict``: violated, with the order and where it ends, if the finding that is meant was found; holds, if it was not and
    the scope was exhausted; else incomplete; or refused, if the release cannot be asked, with the reason. Where something was
    found and ``traces`` is given, the order is written there as a trace file."""
    try:
        scopes = choice.cases([answer.scope], None)
        if not scopes:
            return {"verdict": "refused", "why": f"{answer.scope.scheduling} scheduling is not there"}
        result = check(choice.make, scopes, answer.contract, properties=PROPERTY_NAMES, limits=LIMITS)
    except KvraceError as error:
        return {"verdict": "refused", "why": str(error)}
    found = next((one for one in result.violations if _is_meant(answer, one)), None)
    size = {"states": result.states, "beside": _beside(answer, result)}
    if found is None:
        return {"verdict": "holds" if result.complete else "incomplete", **size}
    measured = {
        "verdict": "violated",
        "order": list(found.events),
        "location": found.location,
        "message": found.message,
        **size,
    }
    if traces is not None:
        measured["trace"] = str(write_trace(found, choice.spec, None, traces))
    return measured


def _is_meant(answer: Answer, found: Violation) -> bool:
    function = (found.location or "").rpartition(" in ")[2]
    return (
        found.property == answer.property
        and answer.shape in ("", found.shape)
        and answer.function in ("", function)
    )


def _beside(answer: Answer, result: CheckResult) -> list[str]:
    """The other properties that are broken in the same scope, which the finding is not to be mistaken for."""
    return sorted({found.property for found in result.violations if not _is_meant(answer, found)})
