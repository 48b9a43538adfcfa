"""The result as SARIF 2.1.0: a rule for each property, a result for each finding, and what holds or is open as such."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import kvrace
from kvmodel.port import Identity
from kvmodel.properties import PROPERTIES, PROPERTY_NAMES
from kvrace.render.conformance import conformance_line, divergence_text
from kvrace.render.plain import Traces, place, replay_line, steps
from kvrace.render.terminal import ReplayCommand, bound, verdict_line
from kvrace.result import CheckResult, FoundDivergence, Verdict, Violation

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_PACKAGES, _SOURCES = "PACKAGES", "SRCROOT"
_BASES = {
    _PACKAGES: "the folder of installed packages that vLLM, or kvrace with its reference scheduler, is in",
    _SOURCES: "the folder that kvrace was run in",
}
CONFORMANCE = "conformance"
"""The rule that is there beside the properties when conformance was asked for."""
_KINDS: dict[Verdict, str] = {"holds": "pass", "incomplete": "open"}


def result_sarif(result: CheckResult, identities: Sequence[Identity], traces: Traces, replay: ReplayCommand) -> str:
    """The whole result; nothing in it depends on when or how fast it was found."""
    return json.dumps(_log(result, identities, traces, replay), indent=2, ensure_ascii=False) + "\n"


def _log(result: CheckResult, identities: Sequence[Identity], traces: Traces, replay: ReplayCommand) -> dict[str, Any]:
    violations = result.violations
    findings = [
        _finding(violation, result, traces, replay, fingerprint)
        for violation, fingerprint in zip(violations, _fingerprints(violations), strict=True)
    ]
    others = [(name, verdict) for name, verdict in result.verdicts.items() if verdict != "violated"]
    run = {
        "tool": {"driver": _driver(result)},
        "automationDetails": {"id": f"kvrace/{result.scope_name}/{result.contract}/"},
        "originalUriBaseIds": {name: {"description": {"text": text}} for name, text in _BASES.items()},
        "invocations": [_invocation(result, identities)],
        "results": [
            *findings,
            *(_verdict(name, verdict, result) for name, verdict in others if result.cases),
            *_conformance(result),
        ],
        "properties": {**_bound(result), "verdict": result.verdict},
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _driver(result: CheckResult) -> dict[str, Any]:
    rules = [(rule.name, rule.meaning, rule.source) for rule in PROPERTIES]
    if result.conformance is not None:
        meaning = f"every step is one that the specification with policy {result.conformance.policy} allows"
        rules.append((CONFORMANCE, meaning, "kvmodel.relation"))
    return {"name": "kvrace", "version": kvrace.__version__, "rules": [_described(*rule) for rule in rules]}


def _described(name: str, meaning: str, source: str) -> dict[str, Any]:
    return {
        "id": name,
        "shortDescription": {"text": meaning.partition(";")[0]},
        "fullDescription": {"text": meaning},
        "help": {"text": f"Where the rule comes from: {source}"},
        "defaultConfiguration": {"level": "error"},
    }


def _invocation(result: CheckResult, identities: Sequence[Identity]) -> dict[str, Any]:
    """An exploration that a limit ended has not been successful, whatever it found until then."""
    notes = [{"level": "note", "message": _message(note)} for note in result.notes]
    if not result.complete:
        notes.insert(0, {"level": "error", "message": _message(verdict_line(result, identities).plain)})
    return {
        "executionSuccessful": result.complete,
        "exitCode": result.exit_code,
        "toolExecutionNotifications": notes,
    }


def _bound(result: CheckResult) -> dict[str, Any]:
    return {
        "scope": result.scope_name,
        "contract": str(result.contract),
        "cases": len(result.cases),
        "casesPlanned": result.cases_planned,
        "states": result.states,
        "transitions": result.transitions,
        "stopped": result.stopped,
    }


def _finding(
    violation: Violation, result: CheckResult, traces: Traces, replay: ReplayCommand, fingerprint: str
) -> dict[str, Any]:
    home = _home(violation, result)
    return {
        **_rule(violation.property),
        "kind": "fail",
        "level": "error",
        "message": _message(violation.message),
        "locations": [_location(violation.location or home)],
        "codeFlows": [{"threadFlows": [{"locations": _flow(violation, home)}]}],
        "partialFingerprints": {"kvraceFinding/v1": fingerprint},
        "properties": {
            "blame": violation.blame,
            "subject": str(violation.identity),
            "scope": str(violation.scope),
            "contract": str(violation.contract),
            "order": list(violation.events),
            "loop": violation.loop_start,
            "bound": _bound(result),
            "replay": replay_line(violation, result, traces, replay),
        },
    }


def _home(violation: Violation, result: CheckResult) -> str:
    """Where the scheduler is defined that shows a finding."""
    return next(case.location for case in result.cases if case.identity == violation.identity)


def _flow(violation: Violation, home: str) -> list[dict[str, Any]]:
    """One location for each event, at the entry point it calls. What the connector does without a call is told at the class."""
    flow = []
    for number, (frame, step) in enumerate(zip(violation.frames[1:], steps(violation), strict=True), start=1):
        again = violation.loop_start is not None and number > violation.loop_start
        location = _location(next(iter(frame.response.called), home))
        flow.append(
            {
                "location": {**location, "message": _message(f"{number}  {step}{', for ever' if again else ''}")},
                "executionOrder": number,
                "nestingLevel": int(again),
                "importance": "essential" if number == len(violation.frames) - 1 else "important",
            }
        )
    return flow


def _verdict(name: str, verdict: Verdict, result: CheckResult) -> dict[str, Any]:
    """A property that holds, or that is not decided. Code scanning refuses a file with a result that is nowhere, so it is at the
    scheduler's class."""
    return {
        **_rule(name),
        "kind": _KINDS[verdict],
        "level": "none",
        "message": _message(f"{name} {verdict}: {bound(result, name, verdict)}"),
        "locations": [_location(result.cases[0].location)],
        "properties": {"bound": _bound(result)},
    }


def _conformance(result: CheckResult) -> list[dict[str, Any]]:
    """A divergence that no broken property explains fails, at the scheduler's class; those that are explained are there already."""
    if result.conformance is None:
        return []
    found = [one for one in result.conformance.divergences if one.unexplained]
    if found:
        return [_divergence(one, result) for one in found]
    verdict: Verdict = "holds" if result.complete else "incomplete"
    return [
        {
            **_rule(CONFORMANCE),
            "kind": _KINDS[verdict],
            "level": "none",
            "message": _message(conformance_line(result.conformance).plain),
            "locations": [_location(result.cases[0].location)],
            "properties": {"bound": _bound(result)},
        }
    ]


def _divergence(found: FoundDivergence, result: CheckResult) -> dict[str, Any]:
    digest = hashlib.blake2b(json.dumps(found.divergence.signature).encode(), digest_size=16).hexdigest()
    return {
        **_rule(CONFORMANCE),
        "kind": "fail",
        "level": "error",
        "message": _message(divergence_text(found)),
        "locations": [_location(next(case.location for case in result.cases if case.identity == found.identity))],
        "partialFingerprints": {"kvraceFinding/v1": f"{digest}:1"},
        "properties": {
            "subject": str(found.identity),
            "scope": str(found.scope),
            "contract": str(found.contract),
            "order": list(found.events),
            "bound": _bound(result),
        },
    }


def _rule(name: str) -> dict[str, Any]:
    return {"ruleId": name, "ruleIndex": (*PROPERTY_NAMES, CONFORMANCE).index(name)}


def _location(text: str) -> dict[str, Any]:
    at = place(text)
    if at is None:  # of a call that was never in the scheduler's code
        return {"logicalLocations": [{"fullyQualifiedName": text}]}
    return {
        "physicalLocation": {"artifactLocation": _artifact(at.file), "region": {"startLine": max(1, at.line)}},
        "logicalLocations": [{"name": at.function, "kind": "type" if at.function[0].isupper() else "function"}],
    }


def _artifact(file: str) -> dict[str, str]:
    if file.startswith("/"):
        return {"uri": Path(file).as_uri()}
    installed = file.startswith(("vllm/", "kvrace/"))
    return {"uri": quote(os.fsencode(file)), "uriBaseId": _PACKAGES if installed else _SOURCES}


def _message(text: str) -> dict[str, str]:
    """SARIF reads braces as places for arguments unless they are doubled."""
    return {"text": text.replace("{", "{{").replace("}", "}}")}


def _fingerprints(violations: Sequence[Violation]) -> list[str]:
    """One for each finding, of its signature without line numbers; findings that are alike then are counted."""
    prints, seen = [], Counter[str]()
    for violation in violations:
        crash = violation.frames[-1].response.crash
        name, blame, shape = violation.signature
        text = json.dumps([name, blame, re.sub(r":\d+ in ", " in ", shape), crash.source if crash else ""])
        digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        seen[digest] += 1
        prints.append(f"{digest}:{seen[digest]}")
    return prints
