"""What people read after ``kvrace replay``: the outcome first, then the order as it was played."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kvmodel.playback import OTHERS_MAX, Refused
from kvmodel.port import Identity
from kvrace.render.looks import count
from kvrace.render.rows import Broken
from kvrace.render.swimlane import swimlane
from kvrace.replay import Outcome, Replay
from kvrace.trace import NO_FINDING, RecordedTrace
from kvrace.written import Difference

_STYLES: dict[Outcome, str] = {
    "still failing": "bold red",
    "fixed": "green",
    "fails differently": "bold red",
    "newly failing": "bold red",
    "still holds": "green",
    "nothing yet": "yellow",
    "diverged": "yellow",
}
_SIGNS: dict[Outcome, str] = {
    "still failing": "✗",
    "fixed": "✓",
    "fails differently": "✗",
    "newly failing": "✗",
    "still holds": "✓",
    "nothing yet": "?",
    "diverged": "?",
}
_INDENT = 2
_OTHERS_SHOWN = 4


def report(replay: Replay, width: int) -> RenderableType:
    """What was recorded, on what it was played, the order, and the outcome in the last line."""
    recorded = replay.recorded
    facts = facts_of(recorded, f"{_identity(replay.identity)}{_difference(replay)}")
    loop = recorded.loop if replay.outcome == "still failing" else None
    broken = Broken.of(replay.finding.property, replay.finding.blocks, loop) if replay.finding else None
    lanes = swimlane(replay.frames, broken, width - _INDENT, loop)
    parts: list[RenderableType] = [facts, Text(""), Padding(lanes, (0, 0, 0, _INDENT))]
    if replay.departs is not None:
        parts.append(Text(f"the states differ from the recorded ones from event {replay.departs} on", style="dim"))
    return Group(*parts, Text(""), _outcome(replay))


def facts_of(recorded: RecordedTrace, played_on: str | None = None) -> Table:
    """What a trace says of itself: its finding, where it was recorded, and in which scope."""
    facts = Table.grid(padding=(0, 2, 0, 0))
    named = recorded.property != NO_FINDING
    finding = f"{recorded.property} ({recorded.blame}): {recorded.message}" if named else "none is expected"
    facts.add_row(_name("finding"), Text(finding))
    by = f", by kvrace {recorded.kvrace}" if recorded.kvrace else ""
    where = f"{_identity(recorded.identity)}{by}" if recorded.identity.scheduler else "nothing yet"
    facts.add_row(_name("recorded on"), Text(where))
    if played_on is not None:
        facts.add_row(_name("played on"), Text(played_on))
    facts.add_row(_name("in"), Text(f"{recorded.scope} · contract {recorded.contract}"))
    return facts


def _name(text: str) -> Text:
    return Text(text, style="dim")


def _identity(identity: Identity) -> str:
    return f"{identity.name} {identity.release}: {identity.scheduler}"


def _difference(replay: Replay) -> str:
    then, now = replay.recorded.identity, replay.identity
    if not then.scheduler or then == now:
        return ""
    if (then.name, then.scheduler) != (now.name, now.scheduler):
        return " (another scheduler)"
    if then.version != now.version:
        return " (another version)"
    return " (the same patch under another name)" if _digest(then) == _digest(now) else " (another patch)"


def _digest(identity: Identity) -> str | None:
    return identity.patch.digest if identity.patch else None


def _outcome(replay: Replay) -> Text:
    finding, refused, recorded = replay.finding, replay.refused, replay.recorded
    line = Text(f"{_SIGNS[replay.outcome]} {replay.outcome}", style=_STYLES[replay.outcome])
    if finding:
        at = replay.location
        where = f" (at {at})" if at and at not in finding.message else ""
        return line.append(f": {finding.property} ({finding.blame}): {finding.message}{where}", style="default")
    if replay.outcome == "nothing yet":
        first = f"first {len(replay.events)} of" if len(replay.events) > 1 else "first of"
        were = "were" if len(replay.events) > 1 else "was"
        played = f"the {first} {count(len(recorded.events), 'event')} {were} played"
        return line.append(f": {played}, and nothing is violated so far", style="default")
    if refused is None:
        every = f"all {len(replay.events)} events were" if len(replay.events) > 1 else "the event was"
        return line.append(f": {every} played and nothing is violated", style="default")
    return line.append(f" at event {refused.place + 1} '{refused.event}': {refusal(refused)}", style="default")


def refusal(refused: Refused) -> str:
    """The guard that was false, and what was allowed instead."""
    if refused.nearest is None:
        return f"{refused.guard}, and nothing is allowed instead"
    text = f"{refused.guard}; nearest to it is '{refused.nearest}'"
    if not refused.others:
        return f"{text}, and nothing else is allowed"
    shown = [f"'{event}'" for event in refused.others[:_OTHERS_SHOWN]]
    more = len(refused.others) - len(shown)
    if more:
        shown.append(f"{more}{' or more' if len(refused.others) == OTHERS_MAX else ''} others")
    return f"{text}, and allowed {'is' if len(shown) == 1 else 'are'} also {', '.join(shown)}"


def as_written(replay: Replay, found: Sequence[Difference], compared: bool) -> RenderableType:
    """Whether what happens is what the text says, event by event, as far as it was played. Only of a whole order is
    ``--rewrite`` offered: it writes no other."""
    many = len(replay.played) - 1
    if not compared:
        hint = "; --rewrite writes them" if replay.whole else ""
        return Text(f"no observations are written beneath the events{hint}", style="dim")
    if not many:
        return Text("no event was played that could be compared with what is written", style="dim")
    if not found:
        beneath = "the event" if many == 1 else f"all {many} events"
        return Text(f"✓ as written, beneath {beneath}{'' if replay.whole else ' played'}", style="green")
    parts: list[RenderableType] = []
    for difference in found:
        parts.append(Text(f"event {difference.number} '{difference.event}' is not as written:"))
        parts += diff_lines(difference.diff)
    hint = "; --rewrite accepts what happens now" if replay.whole else ""
    of = f"{len(found)} of {count(many, 'event')}{'' if replay.whole else ' played'}"
    parts.append(Text.assemble(("✗ written otherwise", "bold red"), f": {of}{hint}"))
    return Group(*parts)


def diff_lines(diff: Sequence[str]) -> list[RenderableType]:
    """What is written and does not happen, and what happens instead."""
    styles = {"-": "red", "+": "green"}
    return [
        Padding(Text(f"{line[0]} {line[1:]}", style=styles.get(line[0], "dim")), (0, 0, 0, _INDENT)) for line in diff
    ]


def unchanged_or_rewritten(replay: Replay, changed: bool) -> Text:
    """What became of the file with ``--rewrite``."""
    path = replay.recorded.path
    if replay.refused is not None:
        place = f"event {replay.refused.place + 1} '{replay.refused.event}'"
        return Text(f"{path} is left as it is: {place} cannot be played", style="yellow")
    return Text(f"{path} is rewritten" if changed else f"{path} is as written")


def heading(path: str) -> Text:
    """Above the report of one of several files."""
    return Text(f"── {path}", style="bold")


def counts(replays: Sequence[Replay], otherwise: int, rewritten: int, conforming: int, differing: int) -> Text:
    """The last line for several files: how many came out how. The last two are suites."""
    outcomes = Counter(replay.outcome for replay in replays)
    words = [f"{outcomes[name]} {name}" for name in _SIGNS if outcomes[name]]
    words += [f"{otherwise} written otherwise"] if otherwise else []
    words += [f"{rewritten} rewritten"] if rewritten else []
    words += [f"{conforming} conform{'s' if conforming == 1 else ''}"] if conforming else []
    words += [f"{differing} differ{'s' if differing == 1 else ''}"] if differing else []
    return Text(f"{len(replays) + conforming + differing} files: {', '.join(words)}")
