"""What the tests on the real scheduler share."""

from __future__ import annotations

from collections.abc import Sequence

from kvmodel.contract import Contract
from kvmodel.scope import Scope
from kvrace.check import Limits, check
from kvrace.result import CheckResult
from kvrace.vllm.subject import VllmSubject


def check_vllm(
    scopes: Sequence[Scope],
    contract: str = "exactly-once",
    scheduler_class: type | None = None,
    max_states: int | None = None,
    conformance: str | None = None,
) -> CheckResult:
    return check(
        lambda scope: VllmSubject(scope, scheduler_class),
        scopes,
        Contract.parse(contract),
        limits=Limits(max_states=max_states),
        conformance=conformance,
    )


def broken(result: CheckResult) -> set[str]:
    return {name for name, verdict in result.verdicts.items() if verdict != "holds"}


def orders(result: CheckResult, rule: str) -> dict[str, tuple[str, ...]]:
    """The shortest order of each finding of a property, by its shape."""
    return {violation.shape: violation.events for violation in result.violations if violation.property == rule}


def table(result: CheckResult) -> str:
    """One line a case: scope, states, transitions, what is violated and by whom. For snapshots."""
    lines = []
    for case in result.cases:
        found = sorted({f"{v.property} ({v.blame}, {len(v.events)} events)" for v in case.violations})
        lines.append(f"{case.scope} | {case.states} | {case.transitions} | {'; '.join(found) or 'holds'}")
    reached = ", ".join(f"{name} {count}" for name, count in result.reached.items())
    return "\n".join([*lines, f"reached: {reached}"])
