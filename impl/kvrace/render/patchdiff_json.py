"""What a patch changes, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kvrace
from kvrace.patchdiff import FATES, Checked, PatchDiff
from kvrace.render.json import subject_json
from kvrace.result import Violation

FORMAT, VERSION = "kvrace-patch-diff", 1


def patch_diff_json(found: PatchDiff, traces: Mapping[Violation, Path], replay: Mapping[Violation, str]) -> str:
    """The whole comparison. Keys keep their order, and nothing but ``seconds`` differs between two runs."""

    def order(violation: Violation | None) -> dict[str, Any] | None:
        if violation is None:
            return None
        return {
            "message": violation.message,
            "location": violation.location,
            "scope": violation.scope.as_dict(),
            "scheduler": violation.identity.scheduler,
            "events": list(violation.events),
            "loop": violation.loop_start,
            "trace": str(traces[violation]) if violation in traces else None,
            "replay": replay.get(violation),
        }

    data = {
        "format": FORMAT,
        "version": VERSION,
        "kvrace": kvrace.__version__,
        "exit_code": found.exit_code,
        "complete": found.complete,
        "scope": {"name": found.after.result.scope_name, "cases": found.after.result.cases_planned},
        "contract": str(found.after.result.contract),
        "before": _side(found.before),
        "after": _side(found.after),
        "properties": {name: {"before": b, "after": a} for name, (b, a) in found.verdicts.items()},
        "counts": {fate: found.count(fate) for fate in FATES},
        "findings": [
            {
                "fate": one.fate,
                "property": one.violation.property,
                "blame": one.violation.blame,
                "shape": one.violation.shape,
                "before": order(one.before),
                "after": order(one.after),
            }
            for one in found.findings
        ],
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _side(side: Checked) -> dict[str, Any]:
    result = side.result
    return {
        "subject": subject_json(side.identities),
        "verdict": result.verdict,
        "complete": result.complete,
        "stopped": result.stopped,
        "states": result.states,
        "transitions": result.transitions,
        "seconds": round(result.seconds, 3),
        "notes": list(result.notes),
    }
