"""What people read of ``kvrace bisect``: each probe, and the releases that brought and removed the finding."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from kvrace.bisect import Bisection, Probe
from kvrace.render.looks import SIGNS, STYLES
from kvrace.render.releases import order_text


def probe_line(probe: Probe) -> Text:
    """One release that was looked at."""
    how = "kept" if probe.kept else "explored"
    if probe.has is None:
        return Text(
            f"  {probe.release:<8} {SIGNS['incomplete']} could not be explored: {probe.why}", STYLES["incomplete"]
        )
    if probe.has:
        return Text(f"  {probe.release:<8} {SIGNS['violated']} has it ({how})", STYLES["violated"])
    return Text(f"  {probe.release:<8} {SIGNS['holds']} has it not ({how})", STYLES["holds"])


def report(found: Bisection) -> RenderableType:
    """The finding, since when and until when, and what that rests on."""
    finding = found.finding
    shortest = finding.shortest
    looked = f"{len(found.having)} of {len(found.releases)} releases looked at, under {finding.contracts[0]}"
    lines = [
        Text(f"{finding.id}  {finding.signature.property}: {order_text(shortest)}"),
        Text(f"at {shortest.location}: {shortest.code}" if shortest.location else "", style="dim"),
        Text(brought(found), style="bold"),
        Text(removed(found), style="bold"),
    ]
    if not found.monotone:
        text = "it came and went more than once, so halves say nothing: these are the first and the last release that have it"
        lines.append(Text(f"note: {text}", style=STYLES["incomplete"]))
    if not found.complete:
        lines.append(Text("? incomplete: not every probe could be made", style=STYLES["incomplete"]))
    return Group(*lines, Text(looked, style="dim"))


def brought(found: Bisection) -> str:
    """Which release brought it."""
    if found.before is None:
        return f"in {found.first} already, the oldest that was looked at"
    return f"brought by {found.first}: {found.before} has it not"


def removed(found: Bisection) -> str:
    """Which release took it away."""
    if found.gone is None:
        return f"still in {found.last}, the newest that was looked at"
    return f"gone in {found.gone}: {found.last} is the last that has it"
