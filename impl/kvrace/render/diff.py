"""What people read after ``kvrace diff``: how much was compared, each difference with the shortest order to it, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kvmodel.differences import CRASH
from kvmodel.port import Identity
from kvrace.diffresult import DiffResult, FoundDifference
from kvrace.render.looks import INDENT, SIGNS, STYLES, count
from kvrace.render.swimlane import Legend, swimlane
from kvrace.render.terminal import all_cases, stop_words, subject_line

Both = tuple[Sequence[Identity], Sequence[Identity]]
"""The schedulers of both subjects that were to be compared."""


def report(result: DiffResult, both: Both, width: int) -> RenderableType:
    """How much was compared and excused, the differences with the shortest first, and the verdict in one line."""
    parts: list[RenderableType] = [
        Text(effort_line(result), style="dim"),
        Text(excused_line(result), style="dim"),
        Text(""),
    ]
    found = result.differences
    if found:
        many = "1 difference, with" if len(found) == 1 else f"{len(found)} differences, each with"
        parts += [Text(f"{many} the shortest order that shows it"), Text("")]
    legend = Legend()
    for number, one in enumerate(found, start=1):
        parts += [_difference(one, f"{number}/{len(found)}", width, legend), Text("")]
    if legend:
        parts += [*legend.lines(width), Text("")]
    parts += [Text(f"note: {note}", style=STYLES["incomplete"]) for note in result.notes]
    return Group(*parts, verdict_line(result, both))


def effort_line(result: DiffResult) -> str:
    """How much was compared, and how long it took."""
    return (
        f"compared {count(result.compared, 'transition')} of {count(result.states, 'pair')} of states, "
        f"{count(result.calls, 'scheduler call')} in {result.seconds:.1f} s"
    )


def excused_line(result: DiffResult) -> str:
    """On how many transitions nothing was asked of the second, and why."""
    if result.strict:
        return "nothing was to be excused: they were compared also where the first breaks a property"
    if not result.excused:
        return "nothing had to be excused: the first breaks no property"
    broken = ", ".join(f"{name} ({times:,})" for name, times in result.broken.items())
    return f"excused {count(result.excused, 'transition')}, on which the first breaks {broken}"


def _difference(found: FoundDifference, number: str, width: int, legend: Legend) -> RenderableType:
    head = Text.assemble(
        (f"{SIGNS['violated']} difference", STYLES["violated"]),
        f"  {number}  ",
        (count(len(found.events), "event"), "bold"),
        "  ",
        summary(found),
    )
    facts = Text(f"on {count(found.times, 'transition')} · {found.scope}", style="dim")
    lanes = swimlane(found.frames, None, width - INDENT, None, legend)
    return Group(head, Padding(Group(facts, lanes, Text(""), _values(found)), (0, 0, 0, INDENT)))


def summary(found: FoundDifference) -> str:
    """After which event what is not the same."""
    after = f"after '{found.events[-1]}'" if found.events else "before any event"
    told = found.differences[0]
    if told.aspect == CRASH.name:
        return f"at '{found.events[-1]}' the first {told.first}, and the second {told.second}"
    return f"{after} they differ in {', '.join(found.kind[1:])}"


def _values(found: FoundDifference) -> Table:
    """What each of the two shows after the last event."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    names = [identity.scheduler for identity in found.identities]
    if names[0] == names[1]:
        names = ["the first", "the second"]
    heads = [name.replace(":", ":\n") for name in names]  # a class stays whole where its path is as wide as the column
    table.add_row(Text(""), *(Text(head, style="bold") for head in heads))
    for difference in found.differences:
        table.add_row(
            Text(difference.aspect, style="dim"), Text(difference.first), Text(difference.second, STYLES["violated"])
        )
    return table


def verdict_line(result: DiffResult, both: Both) -> Text:
    """The verdict with who was compared and its bound, as the last line of the report."""
    who = f"{subject_line(both[1])}, compared with {subject_line(both[0])}"
    compared = f"{count(result.compared, 'transition')} compared"
    bound = f"over {all_cases(len(result.cases))}, exhausted"
    if result.verdict == "same":
        excused = f", {result.excused:,} excused" if result.excused else ""
        return Text(f"✓ same in every order: {who}, {bound}: {compared}{excused}", STYLES["holds"])
    limit, remedy = stop_words(result.stopped or "interrupted")
    unfinished = f"{limit} in case {max(1, len(result.cases))} of {len(result.planned)}; {remedy}"
    if result.verdict == "incomplete":
        return Text(f"? incomplete: {who}: no difference in {compared}, but {unfinished}", STYLES["incomplete"])
    line = Text(f"✗ different: {who}", style=STYLES["violated"])
    return line.append(f", {bound}" if result.complete else f"; not exhausted: {unfinished}", style="default")
