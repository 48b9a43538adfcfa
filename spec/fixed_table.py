"""The table of spec/fixed.md: the drop-in scheduler under each contract, a row a run."""

from __future__ import annotations

from spec.markdown import markdown_table
from spec.runs import explored

from kvmodel.contract import EXACTLY_ONCE, MEANINGS
from kvmodel.properties import PROPERTY_NAMES
from kvrace.result import CheckResult

EVERYTHING = "unclaimed,duplicate,unsolicited,lossy"
PAIR = "load_save,local"
RUNS: tuple[tuple[str, str], ...] = (
    *((name, EXACTLY_ONCE) for name in ("small", "pressure", "prefix", "stops", "chunked", "priority")),
    *((PAIR, name) for name in MEANINGS if name != EXACTLY_ONCE),
    ("load_save", EVERYTHING),
)
"""Scope and contract of each row: every scope that can be exhausted, and every contract in a smaller one."""


def row(result: CheckResult) -> list[str]:
    violated: dict[str, list[str]] = {}
    for violation in result.violations:
        order = ", ".join(violation.events[: violation.loop_start])
        violated.setdefault(f"`{violation.property}`, blame {violation.blame}", []).append(order)
    held = sum(verdict == "holds" for verdict in result.verdicts.values())
    return [
        f"`{result.scope_name}`",
        ", ".join(f"`{name}`" for name in str(result.contract).split(",")),
        f"{len(result.cases)} cases, {result.states:,} states, {result.transitions:,} transitions",
        f"{held} of {len(PROPERTY_NAMES)}",
        "<br>".join(f"{what}: {orders[0]}" for what, orders in violated.items()) or "nothing",
    ]


def fixed() -> str:
    rows = [row(explored("fixed", scope, contract)) for scope, contract in RUNS]
    return markdown_table(
        ["scope", "contract", "exhausted", "properties that hold", "violated, and a shortest order"], rows
    )
