"""The kill table: one line a mutant, as soon as it is known, and a summary."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from kvrace.mutants import Row
from kvrace.render.terminal import SIGNS, STYLES

_WIDTHS = (1, 27, 17, 9, None)


def kill_table_row(row: Row) -> Table:
    """Name, the property meant to catch it, the length of the shortest order, and what was planted."""
    events = "survived" if row.shortest is None else f"{row.shortest} events"
    sign, style = (SIGNS["holds"], STYLES["holds"]) if row.killed else (SIGNS["violated"], STYLES["violated"])
    table = Table.grid(padding=(0, 1, 0, 0))
    for width in _WIDTHS:
        table.add_column(width=width)
    table.add_row(
        Text(sign, style),
        Text(row.mutant.name, "bold"),
        row.mutant.property,
        Text(events, "" if row.killed else style),
        Text(row.mutant.breaks, "dim"),
    )
    return table


def kill_table_summary(rows: Sequence[Row]) -> Text:
    """How many mutants were killed, and which were not."""
    survivors = [row.mutant.name for row in rows if not row.killed]
    if survivors:
        return Text(
            f"{SIGNS['violated']} {len(survivors)} of {len(rows)} survived: {', '.join(survivors)}", STYLES["violated"]
        )
    return Text(f"{SIGNS['holds']} all {len(rows)} mutants are killed by the property meant for them", STYLES["holds"])
