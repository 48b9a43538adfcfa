"""What a text form says beneath its events, compared with what happens now; and the text with what happens now in its place."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import kvrace
from kvrace.render.observed import observations
from kvrace.replay import Replay, without_lines
from kvrace.textform import FINDING_FIELDS, SUBJECT_FIELDS, Item, TextForm, header, text_of
from kvrace.trace import NO_FINDING, RecordedTrace


@dataclass(frozen=True, slots=True)
class Difference:
    """An event beneath which something else is written than what happens: its number, its text, and a diff in lines."""

    number: int
    event: str
    diff: tuple[str, ...]


def differences(form: TextForm, replay: Replay) -> tuple[Difference, ...]:
    """One for each event that was played and is not as written. Line numbers of source files do not count."""
    if form.written is None:
        return ()
    now = observations(replay.played)
    found = []
    for number, (event, then, lines) in enumerate(zip(replay.events, form.written, now, strict=False), start=1):
        if diff := diff_of(then, lines):
            found.append(Difference(number, str(event), diff))
    return tuple(found)


def diff_of(then: Sequence[str], now: Sequence[str]) -> tuple[str, ...]:
    """The lines that differ, and one around them, each after ``-``, ``+`` or a space; none when all are the same."""
    if then == now:
        return ()
    old, new = [without_lines(line) for line in then], [without_lines(line) for line in now]
    diff = difflib.unified_diff(old, new, lineterm="", n=1)
    return tuple(line for line in diff if not line.startswith(("---", "+++", "@@")))


def settled(form: TextForm, replay: Replay) -> bool:
    """Whether the text says what happens now, on the same scheduler: then there is nothing to rewrite, whatever release it is."""
    recorded = replay.recorded
    return (
        form.written is not None
        and not differences(form, replay)
        and replay.outcome in ("still failing", "still holds")
        and (replay.spec, replay.policy) == (recorded.spec, recorded.policy)
    )


def rewritten(form: TextForm, replay: Replay) -> str:
    """The text with what happens now: beneath each event, and in the fields that name the finding and the scheduler.

    Everything else stays as it is. The replay must have played every event.
    """
    fields = header(_recorded_now(replay))
    values = {name: fields[name] for name in (*FINDING_FIELDS, *SUBJECT_FIELDS) if name in fields}
    now = iter(observations(replay.played))
    items: list[Item] = []
    for item in form.items:
        if item.kind == "event":
            items.append(Item("event", item.text, list(next(now)), item.notes))
        elif item.kind == "field" and item.name in (*FINDING_FIELDS, *SUBJECT_FIELDS):
            if item.name in values:
                items.append(Item("field", f"{item.name}: {values.pop(item.name)}"))
        else:
            items.append(item)
    missing = [Item("field", f"{name}: {value}") for name, value in values.items()]
    after = _place_of(items, "property")
    return text_of([*items[: after + 1], *missing, *items[after + 1 :]])


def _place_of(items: list[Item], name: str) -> int:
    """Where the field stands, else the first line."""
    return next((place for place, item in enumerate(items) if item.kind == "field" and item.name == name), 0)


def _recorded_now(replay: Replay) -> RecordedTrace:
    finding, recorded = replay.finding, replay.recorded
    loops = replay.outcome == "still failing" and recorded.loop is not None
    now = replace(
        recorded, kvrace=kvrace.__version__, spec=replay.spec, policy=replay.policy, identity=replay.identity, loop=None
    )
    if finding is None:
        return replace(now, property=NO_FINDING)
    return replace(
        now,
        property=finding.property,
        blame=finding.blame,
        shape=finding.shape,
        message=finding.message,
        location=replay.location,
        loop=recorded.loop if loops else None,
    )
