"""What the runs have shown, for the terminal and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kvrace.files import write_atomically

from .runs import Run

_MARKS = {"shown": "✓", "not shown": "✗", "undetermined": "?", "skipped": "-"}


def lines(run: Run) -> list[str]:
    """A run in a few lines of plain text."""
    shown = [f"{_MARKS[run.verdict]} {run.name}: {run.verdict}  ({run.seconds:.0f} s)", f"    {run.shows}"]
    shown += [f"    {run.verdict}: {reason}" for reason in run.reasons]
    if run.seen:
        seen = run.seen
        shown.append(f"    clients: {_counted(seen['clients'])}; {seen['seconds of an answer']} s an answer")
        if seen["failures"]:
            shown.append(f"    failures: {_counted(seen['failures'])}")
        if seen["transfers"]:
            shown.append(f"    connector: {_counted(seen['transfers'])}")
        for name, after in seen["after"].items():
            shown.append(f"    {name} at the end: {_after(after)}")
        found = {error: count for error, count in seen["errors"].items() if count}
        if found:
            shown.append(f"    lines in the log: {_counted(found)}")
    shown += [f"    said: {line}" for line in _most(run.said)]
    return shown


def _counted(counts: dict[str, Any]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def _after(after: dict[str, float] | None) -> str:
    if after is None:
        return "does not answer"
    return (
        f"{after['running']:g} requests running, {after['waiting']:g} waiting, {after['usage']:.1%} of the KV cache in use; "
        f"{after['preemptions']:g} preemptions since the start"
    )


def _most(said: list[str], limit: int = 4) -> list[str]:
    left = len(said) - limit
    return said if left <= 0 else [*said[: limit // 2], f"... {left} more lines", *said[-(limit - limit // 2) :]]


def write_json(path: Path, facts: dict[str, Any], runs: list[Run]) -> None:
    """Raises KvraceError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps({**facts, "runs": [asdict(run) for run in runs]}, indent=2) + "\n")
