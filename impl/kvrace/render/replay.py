"""What people read after ``kvrace replay``: the outcome first, then the order as it was played."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kvrace.render.rows import Broken
from kvrace.render.swimlane import swimlane
from kvrace.replay import Outcome, Replay

_STYLES: dict[Outcome, str] = {
    "still failing": "bold red",
    "fixed": "green",
    "fails differently": "bold red",
    "diverged": "yellow",
}
_SIGNS: dict[Outcome, str] = {"still failing": "✗", "fixed": "✓", "fails differently": "✗", "diverged": "?"}
_INDENT = 2


def report(replay: Replay, width: int) -> RenderableType:
    """What was recorded, on what it was played, the order, and the outcome in the last line."""
    recorded = replay.recorded
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_row(_name("finding"), Text(f"{recorded.property} ({recorded.blame}): {recorded.message}"))
    facts.add_row(_name("recorded on"), Text(f"{_identity(recorded.identity)}, by kvrace {recorded.kvrace}"))
    facts.add_row(_name("played on"), Text(f"{_identity(replay.identity)}{_difference(replay)}"))
    facts.add_row(_name("in"), Text(f"{recorded.scope} · contract {recorded.contract}"))
    loop = recorded.loop if replay.outcome == "still failing" else None
    broken = Broken.of(replay.finding.property, replay.finding.blocks, loop) if replay.finding else None
    lanes = swimlane(replay.frames, broken, width - _INDENT, loop)
    parts: list[RenderableType] = [facts, Text(""), Padding(lanes, (0, 0, 0, _INDENT))]
    if replay.departs is not None:
        parts.append(Text(f"the states differ from the recorded ones from event {replay.departs} on", style="dim"))
    return Group(*parts, Text(""), _outcome(replay))


def _name(text: str) -> Text:
    return Text(text, style="dim")


def _identity(identity: tuple[str, str, str]) -> str:
    return f"{identity[0]} {identity[1]}: {identity[2]}"


def _difference(replay: Replay) -> str:
    then, now = replay.recorded.identity, replay.identity
    if (then.name, then.scheduler) != (now.name, now.scheduler):
        return " (another scheduler)"
    return "" if then.version == now.version else " (another version)"


def _outcome(replay: Replay) -> Text:
    finding, refused, recorded = replay.finding, replay.refused, replay.recorded
    line = Text(f"{_SIGNS[replay.outcome]} {replay.outcome}", style=_STYLES[replay.outcome])
    if replay.outcome == "fixed":
        return line.append(f": all {len(recorded.events)} events were played and nothing is violated", style="default")
    if finding:
        crash = replay.frames[-1].response.crash
        where = f" (at {crash.location})" if crash and crash.location not in finding.message else ""
        return line.append(f": {finding.property} ({finding.blame}): {finding.message}{where}", style="default")
    assert refused is not None, "a replay without finding that is not fixed was refused an event"
    allowed = ", ".join(f"'{event}'" for event in refused.allowed) or "nothing"
    return line.append(
        f" at event {refused.place + 1} '{refused.event}': {refused.guard}; allowed instead: {allowed}", style="default"
    )
