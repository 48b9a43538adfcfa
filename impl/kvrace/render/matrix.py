"""The matrix of remedies on the terminal: every cell, the test plan, and each shortest order once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

import kvrace
from kvmodel.contract import EXACTLY_ONCE, MEANINGS
from kvmodel.relation.policies import POLICIES
from kvmodel.scope import Scope
from kvrace.matrix import Matrix, Place, PlanCheck, SharedOrder, length
from kvrace.render.looks import INDENT, SIGNS, STYLES, count
from kvrace.render.terminal import ReplayCommand, scope_lines, stop_words
from kvrace.result import Violation

Traces = Mapping[Violation, Path]
_BLAMES = {"scheduler": "S", "connector": "C"}
_LEGEND = (
    "✓ holds over every order. ✗ 4 S: violated, the shortest order has 4 events and blames the scheduler; "
    "C blames the connector: the order needs what its contract allows beyond exactly-once."
)
_UNKNOWN = "? was not exhausted."
_NAME_WIDTH = 18
"""So wide is the longest property with a comma, and no column of the test plan has to be wider."""
_NARROWEST = 10
"""What a word of the test plan's heads needs."""


def header(subject: str, scope_name: str, scopes: Sequence[Scope], remedies: Sequence[str]) -> RenderableType:
    """What is about to be compared, over what."""
    many = f"{len(remedies)} remedies" if len(remedies) > 1 else remedies[0]
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_row(Text("comparing", style="dim"), Text(f"{many} on {subject}", style="bold"))
    table.add_row(Text("scope", style="dim"), Text("\n".join(scope_lines(scope_name, scopes))))
    return Group(Text(f"kvrace {kvrace.__version__}"), table)


def report(matrix: Matrix, traces: Traces, replay: ReplayCommand, width: int) -> RenderableType:
    """The cells, the test plan, the orders, and the verdict in the last line."""
    parts: list[RenderableType] = [Text(""), _cells(matrix), Text("")]
    parts += [Text(line, style="dim") for line in (*_everywhere(matrix), _legend(matrix))]
    parts += [Text(""), _remedies(matrix), Text("")]
    if plan := _plan(matrix, width):
        parts += [plan, Text("")]
    orders = matrix.orders
    if orders:
        parts += [Text(f"{count(len(orders), 'shortest order')}, and which remedies play into them"), Text("")]
    for order in orders:
        parts += [_order(matrix, order, traces, replay), Text("")]
    parts += [Text(f"note: {note}", style=STYLES["incomplete"]) for note in matrix.notes]
    return Group(*parts, verdict_line(matrix))


def _shown(matrix: Matrix) -> list[str]:
    """The properties that do not hold everywhere: those that do are one line."""
    return [
        name for name in matrix.properties if any(matrix.verdict(place, name) != "holds" for place in matrix.places)
    ]


def _everywhere(matrix: Matrix) -> Iterator[str]:
    held = [name for name in matrix.properties if name not in _shown(matrix)]
    if held:
        yield f"✓ in every cell: {', '.join(held)}."


def _legend(matrix: Matrix) -> str:
    return f"{_LEGEND} {_UNKNOWN}" if matrix.missing else _LEGEND


def _cells(matrix: Matrix) -> Table:
    shown = _shown(matrix)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    for _ in shown:
        table.add_column(overflow="fold")
    table.add_row("", *(Text(name.replace("-", "-\n"), style="bold") for name in shown))
    for contract in matrix.contracts:
        table.add_row(Text(f"under {contract}", style="bold"))
        for remedy in matrix.remedies:
            place = Place(remedy, contract)
            table.add_row(f"  {remedy}", *(_cell(matrix, place, name) for name in shown))
    return table


def _cell(matrix: Matrix, place: Place, name: str) -> Text:
    verdict = matrix.verdict(place, name)
    found = [f"{length(violation)} {_BLAMES[violation.blame]}" for violation in matrix.shortest(place, name)]
    return Text(f"{SIGNS[verdict]} {', '.join(found)}".rstrip(), style=STYLES[verdict])


def _remedies(matrix: Matrix) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for remedy in matrix.remedies:
        table.add_row(Text(f"  {remedy}", style="bold"), Text(POLICIES[remedy].meaning, style="dim"))
    return table


def _plan(matrix: Matrix, width: int) -> RenderableType | None:
    plans = {remedy: matrix.plan(remedy) for remedy in matrix.remedies}
    checks = next(iter(plans.values()))
    if not checks:
        return None
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    for _ in checks:
        table.add_column(width=_check_width(matrix, len(checks), width))
    table.add_column(overflow="fold")
    heads = [*(check.name.replace("finished_", "finished_\n") for check in checks), "and yet violated"]
    table.add_row("", *(Text(head, style="bold") for head in heads))
    for remedy, own in plans.items():
        table.add_row(f"  {remedy}", *map(_check, own), _beyond(matrix, remedy, own))
    means = [Text(f"{check.name}: {check.means}.", style="dim") for check in checks]
    return Group(Text(f"the test plan, under {EXACTLY_ONCE}"), Text(""), table, Text(""), *means)


def _check_width(matrix: Matrix, checks: int, width: int) -> int:
    """As wide as a screen of ``width`` allows when every name of a property in the last column has to stay whole."""
    first = INDENT + max(map(len, matrix.remedies))
    left = width - first - _NAME_WIDTH - 2 * (checks + 1)
    return max(_NARROWEST, min(_NAME_WIDTH, left // checks))


def _beyond(matrix: Matrix, remedy: str, own: Sequence[PlanCheck]) -> Text:
    """What a remedy violates that the test plan does not look at; not known of what was not exhausted."""
    planned = {rule for check in own for rule in check.rules}
    verdicts = {name: matrix.verdict(Place(remedy, EXACTLY_ONCE), name) for name in matrix.properties}
    beyond = [name for name, verdict in verdicts.items() if verdict == "violated" and name not in planned]
    if any(verdict == "incomplete" and name not in planned for name, verdict in verdicts.items()):
        return Text(", ".join([*beyond, SIGNS["incomplete"]]), style=STYLES["violated" if beyond else "incomplete"])
    return Text(", ".join(beyond) or "-", style="red" if beyond else "")


def _check(check: PlanCheck) -> Text:
    many = length(check.violation) if check.violation else len(check.events)
    return Text(f"{SIGNS[check.verdict]} {count(many, 'event') if many else ''}".rstrip(), style=STYLES[check.verdict])


def _order(matrix: Matrix, order: SharedOrder, traces: Traces, replay: ReplayCommand) -> RenderableType:
    found = order.violation
    head = Text.assemble(
        (f"✗ {found.property}", STYLES["violated"]),
        f"  {count(length(found), 'event')}  blame {found.blame}  {found.message}",
    )
    events = " · ".join(found.events[: found.loop_start])
    if found.loop_start is not None:
        events += f" · then for ever: {' · '.join(found.events[found.loop_start :])}"
    lines = [Text(events), Text(f"{found.scope}", style="dim")]
    lines += [Text(line) for line in _where(matrix, order)]
    parts: list[RenderableType] = [head, Padding(Group(*lines), (0, 0, 0, INDENT))]
    if found in traces:  # never folded: it is there to be copied
        command = Text.assemble((" " * INDENT + "replay  ", "dim"), replay.line(traces[found]))
        parts.append(Text.assemble(command, no_wrap=True, overflow="ignore"))
    return Group(*parts)


def _where(matrix: Matrix, order: SharedOrder) -> Iterator[str]:
    """Which cells the order belongs to: remedies with the same contracts in one line."""
    contracts: dict[str, list[str]] = {}
    for place in order.places:
        contracts.setdefault(place.remedy, []).append(place.contract)
    remedies: dict[tuple[str, ...], list[str]] = {}
    for remedy, names in contracts.items():
        remedies.setdefault(tuple(names), []).append(remedy)
    for under, names in remedies.items():
        yield f"{', '.join(names)} under {_contracts(matrix, under)}"


def _contracts(matrix: Matrix, under: tuple[str, ...]) -> str:
    if under != matrix.contracts or len(under) == 1:
        return ", ".join(under)
    return "every contract" if MEANINGS.keys() <= set(under) else "every contract asked for"


def verdict_line(matrix: Matrix) -> Text:
    """Whether every cell is known, and which remedies hold everything while the connector keeps its rules."""
    cells = [(place, name) for place in matrix.places for name in matrix.properties]
    violated = sum(matrix.verdict(place, name) == "violated" for place, name in cells)
    many = f"{violated} of {len(cells)} cells are violated ({count(matrix.states, 'state')}, {matrix.seconds:.1f} s)"
    if not matrix.complete:
        limit, remedy = stop_words(matrix.stopped or "interrupted")
        missing = ", ".join(f"{place.remedy} under {place.contract}" for place in matrix.missing)
        what = f"; not exhausted: {missing}" if missing else ""
        return Text(f"? incomplete: {limit}; {remedy}. {many}{what}", style=STYLES["incomplete"])
    text = f"the matrix is complete: {many}"
    if EXACTLY_ONCE in matrix.contracts:
        good = [remedy for remedy in matrix.remedies if not matrix.violated(Place(remedy, EXACTLY_ONCE))]
        text += f". Under {EXACTLY_ONCE} every property holds with {', '.join(good) or 'none of them'}"
    return Text(text)
