"""What people read after ``kvrace show``: a recorded order as it was found, drawn from the file alone."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from kvmodel.playback import Frame
from kvrace.render.replay import facts_of
from kvrace.render.rows import Broken
from kvrace.render.swimlane import swimlane
from kvrace.trace import RecordedTrace

_INDENT = 2


def shown(recorded: RecordedTrace, frames: Sequence[Frame], replay_line: str, width: int) -> RenderableType:
    """The finding, where it was recorded, the order up to the last of ``frames``, and the line that plays it again."""
    whole = len(frames) == len(recorded.states)
    loop = recorded.loop if whole else None
    lanes = swimlane(frames, broken_of(recorded, frames) if whole else None, width - _INDENT, loop)
    parts: list[RenderableType] = [facts_of(recorded), Text(""), Padding(lanes, (0, 0, 0, _INDENT))]
    if not whole:
        parts.append(Text(f"the first {len(frames) - 1} of {len(recorded.events)} events", style="dim"))
    return Group(*parts, Text(""), Text.assemble(("replay  ", "dim"), replay_line))


def broken_of(recorded: RecordedTrace, frames: Sequence[Frame]) -> Broken:
    """What the recorded finding broke in the last of ``frames``."""
    named = (recorded.property, recorded.blame, recorded.shape)
    blocks = [finding.blocks for finding in frames[-1].findings if finding.signature == named]
    return Broken.of(recorded.property, blocks[0] if blocks else (), recorded.loop)
