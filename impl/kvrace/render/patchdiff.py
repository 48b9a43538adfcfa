"""What people read after ``kvrace diff --patch``: the verdicts on both sides, what became of each finding, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kvrace.patchdiff import FATES, Fate, FindingFate, PatchDiff
from kvrace.render.looks import INDENT, SIGNS, STYLES, count
from kvrace.render.rows import Broken
from kvrace.render.swimlane import Legend, swimlane
from kvrace.render.terminal import all_cases, effort_line, heading, order_length, stop_words, subject_line
from kvrace.result import Verdict, Violation

Replay = Mapping[Violation, str]
_FATES: dict[Fate, tuple[str, str]] = {
    "new": (SIGNS["violated"], STYLES["violated"]),
    "still there": (SIGNS["violated"], ""),
    "not decided": (SIGNS["incomplete"], STYLES["incomplete"]),
    "gone": (SIGNS["holds"], STYLES["holds"]),
}


def report(found: PatchDiff, replay: Replay, width: int) -> RenderableType:
    """Who was compared, the verdicts, the findings with the new ones first, and the verdict in one line."""
    before, after = found.before, found.after
    who = {"comparing": before.identities, "with": after.identities}
    result = after.result
    parts: list[RenderableType] = [
        heading(who, result.scope_name, result.planned, result.contract, ()),
        Text(f"as it is: {effort_line(before.result)}", style="dim"),
        Text(f"with the patch: {effort_line(result)}", style="dim"),
        Text(""),
        _verdicts(found),
        Text(""),
    ]
    legend = Legend()
    for one in found.findings:
        parts += [_finding(one, replay, width, legend), Text("")]
    if legend:
        parts += [*legend.lines(width), Text("")]
    notes = dict.fromkeys((*before.result.notes, *result.notes))
    parts += [Text(f"note: {note}", style=STYLES["incomplete"]) for note in notes]
    return Group(*parts, verdict_line(found))


def _verdicts(found: PatchDiff) -> RenderableType:
    """A line for each property that does not hold on both sides; those that do in one line."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_row("", Text("as it is", style="dim"), Text("with the patch", style="dim"))
    held = []
    for name, (before, after) in found.verdicts.items():
        if before == after == "holds":
            held.append(name)
        else:
            table.add_row(Text(name, style="bold"), _verdict(before), _verdict(after))
    line = Text(f"✓ on both sides: {', '.join(held)}", style="dim")
    if len(held) == len(found.verdicts):
        return line
    return Group(table, line) if held else table


def _verdict(verdict: Verdict) -> Text:
    return Text(f"{SIGNS[verdict]} {verdict}", style=STYLES[verdict])


def _finding(one: FindingFate, replay: Replay, width: int, legend: Legend) -> RenderableType:
    sign, style = _FATES[one.fate]
    violation = one.violation
    head = Text.assemble(
        (f"{sign} {one.fate}", style),
        f"  {violation.property}  ",
        (order_length(violation), "bold"),
        f"  {violation.message}",
    )
    facts = [Text(f"blame {violation.blame} · {violation.scope} · {violation.identity.scheduler}", style="dim")]
    facts += [Text(line, style="dim") for line in _places(one)]
    broken = Broken.of(violation.property, violation.blocks, violation.loop_start)
    lanes = swimlane(violation.frames, broken, width - INDENT, violation.loop_start, legend)
    parts: list[RenderableType] = [head, Padding(Group(*facts, lanes), (0, 0, 0, INDENT))]
    if violation in replay:  # never folded: it is there to be copied
        command = Text.assemble((" " * INDENT + "replay  ", "dim"), replay[violation])
        parts.append(Text.assemble(command, no_wrap=True, overflow="ignore"))
    return Group(*parts)


def _places(one: FindingFate) -> list[str]:
    """The line of the code behind the finding, on each side where it is not the same."""
    before, after = (side.location if side else None for side in (one.before, one.after))
    if before == after or not (before and after):
        place = before or after
        return [f"at {place}"] if place and place not in one.violation.message else []
    return [f"as it is at {before}", f"with the patch at {after}"]


def verdict_line(found: PatchDiff) -> Text:
    """What the patch changes, with its bound, as the last line of the report."""
    result = found.after.result
    who = subject_line(found.after.identities)
    fates = [f"{found.count(fate)} {fate}" for fate in FATES if found.count(fate)]
    counted = f"{count(len(found.findings), 'finding')}: {', '.join(fates)}" if fates else "no finding on either side"
    bound = f"over {all_cases(len(result.cases))}, exhausted"
    if not found.complete:
        stopped = result.stopped or found.before.result.stopped or "interrupted"
        limit, remedy = stop_words(stopped)
        bound = f"not exhausted: {limit}; {remedy}"
    if found.exit_code == 1:
        return Text(f"✗ the patch breaks something on {who}", STYLES["violated"]).append(
            f": {counted}; {bound}", "default"
        )
    if found.exit_code == 3:
        return Text(f"? incomplete on {who}: {counted}; {bound}", STYLES["incomplete"])
    return Text(f"✓ the patch breaks nothing on {who}: {counted}; {bound}", STYLES["holds"])
