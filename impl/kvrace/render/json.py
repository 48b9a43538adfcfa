"""The result as JSON: for scripts, for the README's table, and for comparing runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import kvrace
from kvmodel.port import Identity
from kvrace.render.plain import Traces
from kvrace.render.terminal import ReplayCommand
from kvrace.result import CaseResult, CheckResult, Conformance, FoundDivergence, Violation

FORMAT, VERSION = "kvrace-result", 1


def result_json(result: CheckResult, identities: Sequence[Identity], traces: Traces, replay: ReplayCommand) -> str:
    """The whole result; ``identities`` are the schedulers that were to be checked.

    Keys keep their order and nothing but ``seconds`` differs between two runs of the same check.
    """
    return json.dumps(_result(result, identities, traces, replay), indent=2, ensure_ascii=False) + "\n"


def _result(
    result: CheckResult, identities: Sequence[Identity], traces: Traces, replay: ReplayCommand
) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "kvrace": kvrace.__version__,
        "verdict": result.verdict,
        "exit_code": result.exit_code,
        "subject": subject_json(identities),
        "scope": {"name": result.scope_name, "cases": result.cases_planned},
        "contract": str(result.contract),
        "states": result.states,
        "transitions": result.transitions,
        "calls": result.calls,
        "complete": result.complete,
        "stopped": result.stopped,
        "seconds": round(result.seconds, 3),
        "properties": result.verdicts,
        "reached": result.reached,
        "violations": [_violation(violation, traces, replay) for violation in result.violations],
        "conformance": _conformance(result.conformance),
        "cases": [_case(case, traces, replay) for case in result.cases],
        "notes": list(result.notes),
    }


def subject_json(identities: Sequence[Identity]) -> dict[str, Any]:
    """Who was checked. ``patch`` is there only where there is one."""
    first = identities[0]
    schedulers = dict.fromkeys(identity.scheduler for identity in identities)
    patch = {"patch": first.patch._asdict()} if first.patch else {}
    return {"name": first.name, "version": first.version, "scheduler": ",".join(schedulers), **patch}


def _case(case: CaseResult, traces: Traces, replay: ReplayCommand) -> dict[str, Any]:
    return {
        "subject": subject_json([case.identity]),
        "scope": case.scope.as_dict(),
        "states": case.states,
        "transitions": case.transitions,
        "calls": case.calls,
        "complete": case.complete,
        "stopped": case.stopped,
        "seconds": round(case.seconds, 3),
        "properties": case.verdicts,
        "reached": case.reached,
        "violations": [_violation(violation, traces, replay) for violation in case.violations],
        "conformance": _conformance(case.conformance),
    }


def _conformance(conformance: Conformance | None) -> dict[str, Any] | None:
    """None where the specification was not asked."""
    if conformance is None:
        return None
    return {
        "policy": conformance.policy,
        "judged": conformance.judged,
        "not_judged": conformance.not_judged,
        "unexplained": conformance.unexplained,
        "excused": conformance.excused,
        "divergences": [_divergence(found) for found in conformance.divergences],
    }


def _divergence(found: FoundDivergence) -> dict[str, Any]:
    divergence = found.divergence
    return {
        "kind": divergence.kind,
        "action": divergence.action,
        "rule": divergence.rule,
        "why": divergence.why,
        "source": divergence.source,
        "move": divergence.move,
        "moves": list(divergence.moves),
        "observed": divergence.observed,
        "nearest": divergence.nearest,
        "times": found.times,
        "unexplained": found.unexplained,
        "scope": found.scope.as_dict(),
        "scheduler": found.identity.scheduler,
        "events": list(found.events),
    }


def _violation(violation: Violation, traces: Traces, replay: ReplayCommand) -> dict[str, Any]:
    trace = traces.get(violation)
    return {
        "property": violation.property,
        "blame": violation.blame,
        "shape": violation.shape,
        "message": violation.message,
        "location": violation.location,
        "scope": violation.scope.as_dict(),
        "scheduler": violation.identity.scheduler,
        "events": list(violation.events),
        "loop": violation.loop_start,
        "trace": str(trace) if trace else None,
        "replay": replay.line(trace) if trace else None,
    }
