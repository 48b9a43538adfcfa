"""A finding in plain text, in the words that every report for programs uses: where, in which order, and how to see it again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from kvmodel.playback import Frame
from kvrace.render.rows import rows_of
from kvrace.render.terminal import ReplayCommand
from kvrace.result import CheckResult, Violation

Traces = Mapping[Violation, Path]
"""The trace files that were written. Of each distinct finding only the shortest order over all cases has one."""
_PLACE = re.compile(r"(.+):(\d+) in (.+)", re.DOTALL)


class Place(NamedTuple):
    """A line of code. ``file`` is absolute, or relative to the folder of installed packages or to the one kvrace runs in."""

    file: str
    line: int
    function: str


def place(location: str | None) -> Place | None:
    """Take ``file:line in function`` apart; None where there is nothing of that form."""
    match = _PLACE.fullmatch(location or "")
    return Place(match[1], int(match[2]), match[3]) if match else None


def steps(violation: Violation) -> list[str]:
    """The order, one line of text for each event: the event, and then what it did."""
    rows = rows_of(violation.frames, violation.loop_start)
    return [
        f"{frame.event}{_effects(frame, row.scheduler, row.connector)}"
        for frame, row in zip(violation.frames[1:], rows, strict=True)
    ]


def _effects(frame: Frame, scheduler: str, connector: str) -> str:
    """What came of an event, without what the event itself says."""
    effects = [word for word in scheduler.split(", ") if word not in ("", "schedule", "update")]
    effects += [word for word in connector.split(", ") if "starts" in word]
    effects += [f"{name} over" for name in frame.response.notices]
    return f"  ({', '.join(effects)})" if effects else ""


def finding_text(violation: Violation, result: CheckResult, traces: Traces, replay: ReplayCommand) -> str:
    """Everything a reader needs of one finding, in lines."""
    lines = [violation.message]
    if violation.location:
        lines.append(f"at {violation.location}")
    lines += [
        f"blame {violation.blame}",
        f"bound {violation.scope} on {violation.identity}, contract {violation.contract}",
        "order",
        *(f"  {number}  {step}" for number, step in enumerate(steps(violation), start=1)),
    ]
    if violation.loop_start is not None:
        lines.append(f"  events {violation.loop_start + 1} to {len(violation.frames) - 1} repeat for ever")
    command = replay_line(violation, result, traces, replay)
    return "\n".join([*lines, *([command] if command else [])])


def replay_line(violation: Violation, result: CheckResult, traces: Traces, replay: ReplayCommand) -> str | None:
    """How to play the order again. Where another case has a shorter order to the same finding, that one has the trace file."""
    if violation in traces:
        return f"replay {replay.line(traces[violation])}"
    for other in result.violations:
        if other.signature == violation.signature and other in traces:
            return f"replay of the shortest order to this finding: {replay.line(traces[other])}"
    return None
