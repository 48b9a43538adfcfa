"""One order of events as a Mermaid sequence diagram in a fenced block, as an issue comment shows it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from kvmodel.errors import KvraceError
from kvmodel.events import (
    Abort,
    AbortAll,
    Add,
    AddAgain,
    Lose,
    Pause,
    Reset,
    Resume,
    Schedule,
    TransferEnds,
    Update,
)
from kvmodel.playback import Frame
from kvrace.render.rows import Row, rows_of, starts
from kvrace.trace import RecordedTrace

MAX_EVENTS = 60
_OBEYED = re.compile(r"[^\w ,.:()·×↓↑•≡+/=✗-]")
_KEYWORD = re.compile(r"\bend\b|style|classdef", re.IGNORECASE)
"""``end`` closes a group wherever it stands; what follows the other two loses its character codes."""


def mermaid(recorded: RecordedTrace, frames: Sequence[Frame]) -> str:
    """The diagram. Raises KvraceError for an order so long that nobody could read it."""
    if len(recorded.events) > MAX_EVENTS:
        raise KvraceError(f"{recorded.path}: {len(recorded.events)} events; a diagram has at most {MAX_EVENTS}")
    finding = f"{recorded.property} ({recorded.blame}): {recorded.message}"
    lines = [
        "```mermaid",
        "sequenceDiagram",
        f"    title {_label(f'{finding} · {recorded.scope} · contract {recorded.contract}')}",
        *(f"    participant {name}" for name in ("client", "scheduler", "connector")),
    ]
    rows = rows_of(frames, recorded.loop)
    cells = rows_of([frames[0], frames[0]])[0].cells
    for index, row in enumerate(rows):
        if index == recorded.loop:
            lines.append("    loop for ever")
        event = [*_event(frames[index], frames[index + 1], row, index + 1), *_changes(cells, row)]
        if row.last and recorded.loop is None:
            marked = f"Note over client,connector: ✗ {_label(finding)}"
            event = ["rect rgb(255, 215, 215)", *event, marked, "end"]
        lines += [f"    {line}" for line in event]
        cells = row.cells
    if recorded.loop is not None:
        lines += ["    end", f"    Note over client,connector: ✗ {_label(finding)}"]
    return "\n".join([*lines, "```", ""])


def _event(before: Frame, frame: Frame, row: Row, number: int) -> list[str]:
    """The event as a numbered arrow, then what the scheduler did with it."""
    text = f"{number}. {frame.event}"
    match frame.event:
        case Add() | Abort() | AddAgain() | AbortAll() | Reset() | Pause() | Resume():
            lines = [_arrow("client", "scheduler", text), *_note(row.scheduler)]
        case Schedule():
            lines = [_arrow("scheduler", "scheduler", f"{number}. {row.scheduler}")]
        case Update(reports, _, failures) if reports or failures:
            lines = [_arrow("connector", "scheduler", text), *_note(row.scheduler.removeprefix("update").lstrip(", "))]
        case Update():
            lines = [_arrow("scheduler", "scheduler", text), *_note(row.scheduler.removeprefix("update").lstrip(", "))]
        case TransferEnds() | Lose():
            lines = [_arrow("connector", "connector", text)]
        case None:
            lines = []
    begun = starts(before, frame)
    lines += [_arrow("scheduler", "connector", ", ".join(begun))] if begun else []
    return lines + [_arrow("scheduler", "client", f"{name} over", "-->>") for name in frame.response.notices]


def _arrow(source: str, target: str, text: str, line: str = "->>") -> str:
    return f"{source}{line}{target}: {_label(text)}"


def _note(text: str) -> Iterable[str]:
    return [f"Note over scheduler: {_label(text)}"] if text else []


def _changes(then: dict[int, str], row: Row) -> list[str]:
    changed = [f"block {block} {cell}" for block, cell in row.cells.items() if cell != then.get(block)]
    return [f"Note right of connector: {_label(', '.join(changed))}"] if changed else []


def _label(text: str) -> str:
    """``text`` with everything that Mermaid or Markdown might obey as character codes."""
    line = " ".join(text.split())
    coded = _OBEYED.sub(lambda match: _code(match[0]), line)
    return _KEYWORD.sub(lambda match: _code(match[0][0]) + match[0][1:], coded)


def _code(character: str) -> str:
    return f"#{ord(character)};"
