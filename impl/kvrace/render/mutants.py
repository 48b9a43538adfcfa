"""The kill table: one line a mutant, as soon as it is known, and a summary."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from kvrace.mutants import Outcome, Row
from kvrace.render.looks import SIGNS, STYLES

_WIDTHS = (1, 27, 17, 12, None)
_LOOKS: dict[Outcome, str] = {"killed": "holds", "survived": "violated", "undetermined": "incomplete"}


def kill_table_row(row: Row) -> Table:
    """Name, the property meant to catch it, the length of the shortest order, what was planted, and how conformance sees it."""
    events = row.outcome if row.shortest is None else f"{row.shortest} events"
    sign, style = SIGNS[_LOOKS[row.outcome]], STYLES[_LOOKS[row.outcome]]
    table = Table.grid(padding=(0, 1, 0, 0))
    for width in _WIDTHS:
        table.add_column(width=width)
    table.add_row(
        Text(sign, style),
        Text(row.mutant.name, "bold"),
        row.mutant.property,
        Text(events, "" if row.killed else style),
        Text(f"{row.mutant.breaks}\n{_conformance(row)}", "dim"),
    )
    return table


def _conformance(row: Row) -> str:
    if row.result.conformance is None and not row.interrupted:
        return "not held against the specification, which does not know the scope"
    return f"diverges: {row.divergence.divergence.short}" if row.divergence else "conforms"


def kill_table_summary(rows: Sequence[Row], planned: int) -> Text:
    """How many of the ``planned`` mutants were killed, and which were not. What is not known is never called killed."""
    killed = sum(row.killed for row in rows)
    if killed == planned:
        diverge = sum(row.divergence is not None for row in rows)
        return Text(
            f"{SIGNS['holds']} all {planned} mutants are killed by the property meant for them; "
            f"{diverge} of them also diverge from the specification",
            STYLES["holds"],
        )
    survivors = [row.mutant.name for row in rows if row.outcome == "survived"]
    if survivors:
        return Text(
            f"{SIGNS['violated']} {len(survivors)} of {planned} survived: {', '.join(survivors)}", STYLES["violated"]
        )
    if len(rows) < planned or any(row.interrupted for row in rows):
        why = f"interrupted: {killed} of {planned} are killed so far, and none has survived"
    else:
        unknown = ", ".join(row.mutant.name for row in rows if not row.killed)
        why = f"undetermined, because a limit was reached first: {unknown}; {killed} of {planned} are killed"
    return Text(f"{SIGNS['incomplete']} {why}", STYLES["incomplete"])
