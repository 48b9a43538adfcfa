"""One order of events as a swim-lane: a line an event; client, scheduler, connector, then one column for each block.

A block's cell says who owns it and how often it is referenced, and then who touches it: ``A×1 ↓A`` is a block of A into which A's
load still writes. What is broken carries a mark as well as a colour.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kvmodel.playback import Frame
from kvrace.render.rows import CELL_MEANINGS, LANE_MEANINGS, Broken, Row, rows_of

MARK = "◀"
BROKEN, QUIET, TOUCHED = "bold white on red", "dim", "cyan"
_MARK_MEANING = f"{MARK} broken here"
_GAP = 2
_NUMBER_WIDTH = 3
_ENOUGH_FOR_A_LANE = 14


class Legend:
    """What the words and symbols of the swim-lanes of one report mean; only those that occur in one of them."""

    def __init__(self) -> None:
        self._meanings: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._meanings)

    def learn(self, rows: Sequence[Row], shown: Sequence[int], broken: Broken | None) -> None:
        cells = " ".join(row.cells[block] for row in rows for block in shown)
        lanes = " ".join(f"{row.scheduler} {row.connector}" for row in rows)
        self._meanings |= {text for symbol, text in CELL_MEANINGS.items() if symbol in cells}
        self._meanings |= {text for word, text in LANE_MEANINGS.items() if word in lanes}
        if broken and (broken.blocks or broken.lane):
            self._meanings.add(_MARK_MEANING)

    def parts(self) -> list[str]:
        """One text for each symbol or word, in a fixed order."""
        known = (*CELL_MEANINGS.values(), *LANE_MEANINGS.values(), _MARK_MEANING)
        return [part for part in known if part in self._meanings]

    def lines(self, width: int) -> list[Text]:
        """The parts in lines, and none broken over two lines."""
        lines: list[str] = []
        for part in self.parts():
            if lines and cell_len(lines[-1]) + 3 + cell_len(part) <= width:
                lines[-1] += f"   {part}"
            else:
                lines.append(part)
        return [Text(line, style=QUIET) for line in lines]


def swimlane(
    frames: Sequence[Frame],
    broken: Broken | None,
    width: int,
    loop_start: int | None = None,
    legend: Legend | None = None,
) -> RenderableType:
    """The frames of a playback as a table at most ``width`` wide. The frames after ``loop_start`` repeat for ever.

    What its symbols mean goes to ``legend``, which the caller shows; without one it stands below the table.
    """
    rows = rows_of(frames, loop_start)
    if not rows:
        return Text("no event was played", style=QUIET)
    shown, hidden = _columns(rows, broken, width)
    lanes = _lane_widths(rows, shown, broken, width)
    table = Table.grid(padding=(0, _GAP, 0, 0))  # folded text cannot use it
    table.show_header, table.header_style = True, "bold"
    table.add_column("", width=_NUMBER_WIDTH, style=QUIET)
    for name, size in zip(("client", "scheduler", "connector"), lanes, strict=True):
        table.add_column(name, width=size)
    for block in shown:
        table.add_column(f"block {block}", width=_cell_width(rows, block), no_wrap=True)
    for row in rows:
        table.add_row(*_line(row, shown, broken))
    below = Legend() if legend is None else legend
    below.learn(rows, shown, broken)
    notes = below.lines(width) if legend is None else []
    notes += [Text(line, style=QUIET) for line in _not_shown(rows, hidden)]
    if loop_start is not None:
        notes.append(Text(f"↻ events {loop_start + 1} to {len(frames) - 1} repeat for ever", style=BROKEN))
    return Group(table, *notes)


def _columns(rows: Sequence[Row], broken: Broken | None, width: int) -> tuple[list[int], list[int]]:
    """The blocks that get a column, and those for which there is no room. Blocks that take part come first."""
    lanes = sum(min(size, _ENOUGH_FOR_A_LANE) + _GAP for size in _natural(rows, broken))
    room = width - _NUMBER_WIDTH - _GAP - lanes
    marked = broken.blocks if broken else frozenset()
    blocks = sorted(rows[0].cells, key=lambda b: (b not in marked, all(row.cells[b] == "free" for row in rows), b))
    shown: list[int] = []
    for block in blocks:
        room -= _cell_width(rows, block) + _GAP
        if room < 0:
            break
        shown.append(block)
    return sorted(shown), sorted(set(blocks) - set(shown))


def _natural(rows: Sequence[Row], broken: Broken | None) -> list[int]:
    """How wide each lane would like to be, the mark included."""
    lanes = {
        "client": [row.client for row in rows],
        "scheduler": [row.scheduler for row in rows],
        "connector": [row.connector for row in rows],
    }
    if broken and broken.lane in lanes and not broken.blocks:
        lanes[broken.lane].append(f"{lanes[broken.lane][-1]} {MARK}")
    return [max(cell_len(text) for text in (name, *texts)) for name, texts in lanes.items()]


def _lane_widths(rows: Sequence[Row], shown: Sequence[int], broken: Broken | None, width: int) -> list[int]:
    """Natural widths where they fit; else the widest lane gives way, and its text is folded."""
    room = width - _NUMBER_WIDTH - _GAP - sum(_cell_width(rows, block) + _GAP for block in shown) - 3 * _GAP
    sizes = _natural(rows, broken)
    while sum(sizes) > room and max(sizes) > 8:
        sizes[sizes.index(max(sizes))] -= 1
    return sizes


def _cell_width(rows: Sequence[Row], block: int) -> int:
    return max(cell_len(f"block {block}"), *(cell_len(row.cells[block]) + 2 * row.last for row in rows))


def _line(row: Row, shown: Sequence[int], broken: Broken | None) -> list[Text]:
    marks = broken if row.last else None
    lanes = {"client": row.client, "scheduler": row.scheduler, "connector": row.connector}
    line = [Text(row.number)]
    for name, text in lanes.items():
        here = marks is not None and not marks.blocks and marks.lane == name
        line.append(Text(f"{text} {MARK}".strip(), style=BROKEN) if here else Text(text))
    for block in shown:
        text = row.cells[block]
        if marks is not None and block in marks.blocks:
            line.append(Text(f"{text} {MARK}", style=BROKEN))
        else:
            style = QUIET if text == "free" else TOUCHED if " " in text else ""
            line.append(Text(text, style=style))
    return line


def _not_shown(rows: Sequence[Row], hidden: Sequence[int]) -> list[str]:
    """One line for blocks that nothing happens to, one for those that only lack the room."""
    idle = [block for block in hidden if all(row.cells[block] == "free" for row in rows)]
    lacking = [block for block in hidden if block not in idle]
    lines = []
    if idle:
        lines.append(f"not shown: {block_numbers(idle)}, free throughout")
    if lacking:
        lines.append(f"no room for {block_numbers(lacking)}; a wider terminal shows more")
    return lines


def block_numbers(blocks: Sequence[int]) -> str:
    """``block 4`` or ``blocks 2-5, 7``."""
    runs: list[list[int]] = []
    for block in blocks:
        if runs and block == runs[-1][-1] + 1:
            runs[-1].append(block)
        else:
            runs.append([block])
    words = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return f"block{'s' if len(blocks) > 1 else ''} {', '.join(words)}"
