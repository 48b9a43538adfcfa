"""The matrix of releases on the terminal: every cell, and each distinct finding with the releases that have it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

import kvrace
from kvmodel.scope import Scope
from kvrace.cells import CellFinding
from kvrace.lab.use import PREFIX
from kvrace.releasematrix import Finding, ReleaseMatrix, Where
from kvrace.render.looks import INDENT, SIGNS, STYLES, count
from kvrace.render.terminal import ReplayCommand, scope_lines, stop_words

NOT_THERE = "–"


def header(releases: Sequence[str], scope_name: str, scopes: Sequence[Scope], folder: Path) -> RenderableType:
    """What is about to be compared, over what, and where results are kept."""
    table = Table.grid(padding=(0, 2, 0, 0))
    many = (
        f"{len(releases)} releases of vLLM, {releases[0]} to {releases[-1]}"
        if len(releases) > 1
        else f"vLLM {releases[0]}"
    )
    table.add_row(Text("comparing", style="dim"), Text(many, style="bold"))
    table.add_row(Text("scope", style="dim"), Text("\n".join(scope_lines(scope_name, scopes))))
    table.add_row(Text("kept in", style="dim"), Text(str(folder)))
    return Group(Text(f"kvrace {kvrace.__version__}"), table)


def report(matrix: ReleaseMatrix, folder: Path, replay: ReplayCommand) -> RenderableType:
    """The cells, the findings, and the verdict in the last line."""
    parts: list[RenderableType] = [Text("")]
    if matrix.cells:
        parts += [_cells(matrix), Text(""), Text(legend(matrix), style="dim"), Text("")]
    findings = matrix.findings
    if findings:
        parts += [Text(f"{count(len(findings), 'distinct finding')}, those of the newest releases first"), Text("")]
    for one in findings:
        parts += [finding(matrix, one, folder, replay), Text("")]
    for release, why in matrix.failed.items():
        parts.append(Text(f"vLLM {release}: {why}", style=STYLES["incomplete"]))
    return Group(*parts, verdict_line(matrix))


def legend(matrix: ReleaseMatrix) -> str:
    """What stands in a cell."""
    held = [name for name in matrix.properties if name not in shown_properties(matrix)]
    known = "" if matrix.complete else " that is known"
    everywhere = f"✓ in every cell{known}: {', '.join(held)}. " if held and matrix.cells else ""
    return (
        f"{everywhere}A cell is {' · '.join(matrix.schedulings)}. ✓ holds over every order, ✗ 4: violated, the shortest order has "
        f"4 events (C: only by what the contract allows beyond exactly-once), {NOT_THERE}: no such scheduler, ?: not known."
    )


def shown_properties(matrix: ReleaseMatrix) -> list[str]:
    """The properties that do not hold in every cell that is known."""
    return [name for name in matrix.properties if any(_broken(matrix, where, name) for where in _all(matrix))]


def _all(matrix: ReleaseMatrix) -> list[Where]:
    return [Where(r, c, s) for r in matrix.releases for c in matrix.contracts for s in matrix.schedulings]


def _broken(matrix: ReleaseMatrix, where: Where, name: str) -> bool:
    return matrix.verdict(where, name) == "violated"


def cell_text(matrix: ReleaseMatrix, release: str, contract: str, name: str) -> str:
    """One cell: the verdict in each way of scheduling."""
    return " · ".join(_one(matrix, Where(release, contract, scheduling), name) for scheduling in matrix.schedulings)


def _one(matrix: ReleaseMatrix, where: Where, name: str) -> str:
    verdict = matrix.verdict(where, name)
    if verdict is None:
        return NOT_THERE if (where.release, where.contract) in matrix.cells else SIGNS["incomplete"]
    found = matrix.shortest(where, name)
    if found is None:
        return SIGNS[verdict]
    return f"{SIGNS[verdict]} {found.length}{'' if found.blame == 'scheduler' else ' C'}"


def rows(matrix: ReleaseMatrix, contract: str, names: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Releases that follow each other and have the same cells, with those cells. Where every property holds there are none, and
    yet what is known is not put together with what is not."""
    together: list[tuple[list[str], list[str], bool]] = []
    for release in matrix.releases:
        cells = [cell_text(matrix, release, contract, name) for name in names]
        known = (release, contract) in matrix.cells
        if together and together[-1][1:] == (cells, known):
            together[-1][0].append(release)
        else:
            together.append(([release], cells, known))
    return [(span(releases) + ("" if known else " not known"), cells) for releases, cells, known in together]


def span(releases: Sequence[str]) -> str:
    """Releases that follow each other, in few words."""
    return releases[0] if len(releases) == 1 else f"{releases[0]} to {releases[-1]} ({len(releases)})"


def _cells(matrix: ReleaseMatrix) -> Table:
    names = shown_properties(matrix)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_row("", *(Text(name.replace("-", "-\n"), style="bold") for name in names))
    for contract in matrix.contracts:
        table.add_row(Text(f"under {contract}", style="bold"))
        for releases, cells in rows(matrix, contract, names):
            table.add_row(f"  {releases}", *(Text(cell, style=_style(cell)) for cell in cells))
    return table


def _style(cell: str) -> str:
    verdicts = (v for v in ("violated", "incomplete") if SIGNS[v] in cell)
    return STYLES[next(verdicts, "holds")]


def finding(matrix: ReleaseMatrix, one: Finding, folder: Path, replay: ReplayCommand) -> RenderableType:
    """One finding: its id, since when, its line and a shortest order."""
    found = one.shortest
    head = Text.assemble(
        (f"{SIGNS['violated']} {one.id}", STYLES["violated"]),
        f"  {found.property}  {count(found.length, 'event')}  ",
        (since(matrix, one), "bold"),
    )
    lines = [
        found.message,
        order_text(found),
        f"blame {found.blame} · under {', '.join(one.contracts)}",
        f"in {one.last} at {found.location}: {found.code}" if found.location else "",
    ]
    body = Group(*(Text(line, style="" if number < 2 else "dim") for number, line in enumerate(lines) if line))
    command = Text.assemble((" " * INDENT + "replay  ", "dim"), replay_line(one, folder, replay))
    return Group(head, Padding(body, (0, 0, 0, INDENT)), Text.assemble(command, no_wrap=True, overflow="ignore"))


def replay_line(one: Finding, folder: Path, replay: ReplayCommand) -> str:
    """How the shortest order of a finding is played again, on the release it is of."""
    return replace(replay, option=f"--subject {PREFIX}{one.last}").line(folder / one.shortest.trace)


def since(matrix: ReleaseMatrix, one: Finding) -> str:
    """The releases that have the finding, of those that were looked at."""
    whole = f"{one.first} to {one.last}" if one.first != one.last else one.first
    newest = " and still there" if one.last == matrix.releases[-1] and one.first != one.last else ""
    gaps = f", not in {', '.join(one.without)}" if one.without else ""
    return f"{whole}{newest} ({len(one.releases)} of {len(matrix.releases)} releases{gaps})"


def order_text(found: CellFinding) -> str:
    """The events in one line."""
    text = " · ".join(found.events[: found.loop])
    return text if found.loop is None else f"{text} · then for ever: {' · '.join(found.events[found.loop :])}"


def verdict_line(matrix: ReleaseMatrix) -> Text:
    """Whether every cell is known, and how much of it was done now."""
    kept = f"{count(len(matrix.cells), 'cell')}, {count(matrix.states, 'state')}, {matrix.seconds:.1f} s"
    if matrix.complete:
        return Text(f"the matrix is complete: {kept}")
    places = [f"{release} under {contract}" for release, contract in matrix.missing]
    named = ", ".join(places[:4]) + (f" and {len(places) - 4} more" if len(places) > 4 else "")
    limit, _ = stop_words(matrix.stopped) if matrix.stopped else ("some could not be explored", "")
    return Text(
        f"? incomplete: {limit}; what was finished is kept, run it again to go on. {kept}; not known: {named}",
        style=STYLES["incomplete"],
    )
