"""The result as JUnit XML: one suite for each case, one test case for each property and for conformance. What is not decided is an
error there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from junitparser import Error, Failure, JUnitXml, TestCase, TestSuite

import kvrace
from kvmodel.port import Identity
from kvmodel.scope import Scope
from kvrace.render.conformance import divergence_text
from kvrace.render.output import one_line
from kvrace.render.plain import Traces, finding_text
from kvrace.render.terminal import ReplayCommand
from kvrace.result import CaseResult, CheckResult, Conformance, Violation

_NOT_IN_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def result_junit(result: CheckResult, identities: Sequence[Identity], traces: Traces, replay: ReplayCommand) -> str:
    """The whole result; nothing but seconds differs between two runs of the same check."""
    document = JUnitXml(f"kvrace {kvrace.__version__}")
    suites = [_case(case, result, traces, replay) for case in result.cases]
    schedulers = dict(zip(dict.fromkeys(scope.scheduling for scope in result.planned), identities, strict=True))
    suites += [_not_run(scope, schedulers[scope.scheduling], result) for scope in result.not_run]
    for suite in suites:
        document.add_testsuite(suite)
    document.update_statistics()  # type: ignore[no-untyped-call]
    # The properties of a case are judged together, so its time belongs to the suite alone.
    for suite, case in zip(suites, result.cases, strict=False):
        suite.time = round(case.seconds, 3)
    document.time = round(result.seconds, 3)
    root = ElementTree.fromstring(document.tostring())  # type: ignore[no-untyped-call]
    ElementTree.indent(root)
    return f"<?xml version='1.0' encoding='utf-8'?>\n{ElementTree.tostring(root, encoding='unicode')}\n"


def _suite(scope: Scope, identity: Identity, result: CheckResult, facts: dict[str, object]) -> TestSuite:
    suite = TestSuite(_attribute(f"{scope} on {identity}"))
    said = {
        "kvrace": kvrace.__version__,
        "subject": identity.name,
        "version": identity.release,
        "scheduler": identity.scheduler,
        "scope": scope,
        "contract": result.contract,
        **facts,
    }
    for name, value in said.items():
        suite.add_property(name, _attribute(str(value)))
    return suite


def _test(name: str, scope: Scope, identity: Identity) -> TestCase:
    return TestCase(name, _attribute(f"{scope} on {identity.scheduler}"))


def _case(case: CaseResult, result: CheckResult, traces: Traces, replay: ReplayCommand) -> TestSuite:
    facts = {"states": case.states, "transitions": case.transitions, "stopped": case.stopped or "exhausted"}
    suite = _suite(case.scope, case.identity, result, facts)
    for name, verdict in case.verdicts.items():
        test = _test(name, case.scope, case.identity)
        if verdict == "violated":
            found = [violation for violation in case.violations if violation.property == name]
            test.result = [_failure(found, result, traces, replay)]
        elif verdict == "incomplete":
            test.result = [_error(f"not decided: {case.stopped} after {case.states} states")]
        suite.add_testcase(test)
    if case.conformance is not None:
        suite.add_testcase(_conformance(case, case.conformance))
    return suite


def _conformance(case: CaseResult, conformance: Conformance) -> TestCase:
    """Fails for a divergence that no broken property explains: those that are explained fail as that property."""
    test = _test("conformance", case.scope, case.identity)
    found = [one for one in conformance.divergences if one.unexplained]
    if found:
        failure = Failure(_attribute("; ".join(one.divergence.words for one in found)), "violated")
        failure.text = _legal("\n\n".join(map(divergence_text, found)))
        test.result = [failure]
    elif not case.complete:
        test.result = [_error(f"not decided: {case.stopped} after {case.states} states")]
    return test


def _not_run(scope: Scope, identity: Identity, result: CheckResult) -> TestSuite:
    suite = _suite(scope, identity, result, {"states": 0, "transitions": 0, "stopped": result.stopped})
    for name in result.properties:
        test = _test(name, scope, identity)
        test.result = [_error(f"not decided: the case was not run ({result.stopped})")]
        suite.add_testcase(test)
    return suite


def _failure(found: Sequence[Violation], result: CheckResult, traces: Traces, replay: ReplayCommand) -> Failure:
    """One element for all findings of a property: many readers of JUnit XML look at the first one only."""
    failure = Failure(_attribute("; ".join(violation.message for violation in found)), "violated")
    failure.text = _legal("\n\n".join(finding_text(violation, result, traces, replay) for violation in found))
    return failure


def _error(text: str) -> Error:
    error = Error(_attribute(text), "incomplete")
    error.text = _legal(text)
    return error


def _legal(text: str) -> str:
    """Characters that XML has no way to write become visible escapes."""
    return _NOT_IN_XML.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def _attribute(text: str) -> str:
    return one_line(_legal(text))
