"""The result of ``kvrace diff`` as JSON."""

from __future__ import annotations

import json
from typing import Any

import kvrace
from kvrace.diffresult import DiffCase, DiffResult, FoundDifference
from kvrace.render.diff import Both, summary
from kvrace.render.json import subject_json

FORMAT, VERSION = "kvrace-diff-result", 1


def diff_json(result: DiffResult, both: Both) -> str:
    """The whole result. Keys keep their order and nothing but ``seconds`` differs between two runs of the same comparison."""
    data = {
        "format": FORMAT,
        "version": VERSION,
        "kvrace": kvrace.__version__,
        "verdict": result.verdict,
        "exit_code": result.exit_code,
        "subjects": [subject_json(identities) for identities in both],
        "scope": {"name": result.scope_name, "cases": len(result.planned)},
        "contract": str(result.contract),
        "strict": result.strict,
        "states": result.states,
        "compared": result.compared,
        "excused": {"transitions": result.excused, "by_property": result.broken},
        "calls": result.calls,
        "complete": result.complete,
        "stopped": result.stopped,
        "seconds": round(result.seconds, 3),
        "differences": [_difference(found) for found in result.differences],
        "cases": [_case(case) for case in result.cases],
        "notes": list(result.notes),
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _case(case: DiffCase) -> dict[str, Any]:
    return {
        "subjects": [subject_json([identity]) for identity in case.identities],
        "scope": case.scope.as_dict(),
        "states": case.states,
        "compared": case.compared,
        "excused": {"transitions": case.excused, "by_property": case.broken},
        "calls": case.calls,
        "complete": case.complete,
        "stopped": case.stopped,
        "seconds": round(case.seconds, 3),
        "differences": [_difference(found) for found in case.differences],
    }


def _difference(found: FoundDifference) -> dict[str, Any]:
    return {
        "kind": list(found.kind),
        "summary": summary(found),
        "aspects": [{"aspect": d.aspect, "first": d.first, "second": d.second} for d in found.differences],
        "times": found.times,
        "scope": found.scope.as_dict(),
        "schedulers": [identity.scheduler for identity in found.identities],
        "events": list(found.events),
    }
