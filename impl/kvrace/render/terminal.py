"""What people read: who was checked over what, the verdict table, and every finding's shortest order."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

import kvrace
from kvmodel.contract import MEANINGS, Contract
from kvmodel.port import Identity
from kvmodel.properties import PROPERTIES
from kvmodel.scope import NAMED_SCOPES, Scope
from kvrace.render.swimlane import Broken, swimlane
from kvrace.result import CheckResult, Verdict, Violation

STYLES: dict[str, str] = {"holds": "green", "violated": "bold red", "incomplete": "yellow"}
SIGNS: dict[str, str] = {"holds": "✓", "violated": "✗", "incomplete": "?"}
_STOPS = {
    "time limit": ("the time limit was reached", "give a larger --time-limit, or a smaller scope"),
    "state limit": ("the state limit was reached", "give a larger --max-states, or a smaller scope"),
    "interrupted": ("the run was interrupted", "let it run to its end"),
}
_INDENT = 2


def header(
    identities: Iterable[Identity], scope_name: str, scopes: Sequence[Scope], contract: Contract, notes: Iterable[str]
) -> RenderableType:
    """Who is about to be checked, over what, and under which contract; notes of the subject come first."""
    seen = list(dict.fromkeys(identities))
    who = f"{seen[0].name} {seen[0].version}".strip()
    schedulers = " and ".join(dict.fromkeys(identity.scheduler for identity in seen))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_row(Text("checking", style="dim"), Text(f"{who}: {schedulers}", style="bold"))
    table.add_row(Text("scope", style="dim"), Text("\n".join(_scope_lines(scope_name, scopes))))
    table.add_row(Text("contract", style="dim"), Text("\n".join(_contract_lines(contract))))
    return Group(
        Text(f"kvrace {kvrace.__version__}"), *(Text(f"note: {note}", style="yellow") for note in notes), table
    )


def _scope_lines(name: str, scopes: Sequence[Scope]) -> list[str]:
    if name in NAMED_SCOPES:
        played = {scope.scheduling for scope in scopes}
        only = f", {played.pop()} only" if len(played) == 1 else ""
        orders = ", orders of the engine loop only" if all(scope.engine_order for scope in scopes) else ""
        return [f"{name}: {NAMED_SCOPES[name][0]}: {_count(len(scopes), 'case')}{only}{orders}"]
    return [str(scope) for scope in scopes]


def _contract_lines(contract: Contract) -> list[str]:
    return [f"{name}: the connector may {MEANINGS[name]}" for name in str(contract).split(",")]


def report(result: CheckResult, traces: Mapping[Violation, Path], subject_option: str, width: int) -> RenderableType:
    """The verdict table, the findings, and the verdict in one line. ``subject_option`` completes the replay command."""
    parts: list[RenderableType] = [
        Text(
            f"{'explored' if result.complete else 'explored in part:'} {_count(result.states, 'state')}, "
            f"{_count(result.transitions, 'transition')}, {_count(result.calls, 'scheduler call')} in {result.seconds:.1f} s",
            style="dim",
        ),
        Text(""),
        _verdict_table(result),
        *_never_reached(result),
        Text(""),
    ]
    for number, violation in enumerate(result.violations, start=1):
        parts += [
            finding(violation, f"{number}/{len(result.violations)}", traces.get(violation), subject_option, width),
            Text(""),
        ]
    parts += [Text(f"note: {note}", style=STYLES["incomplete"]) for note in result.notes]
    return Group(*parts, verdict_line(result))


def _never_reached(result: CheckResult) -> list[Text]:
    """The milestones that did not occur: about them the verdicts say nothing."""
    missing = [name for name, count in result.reached.items() if count == 0]
    if not missing:
        return []
    return [Text(""), Text(f"no verdict covers what this scope never reached: {', '.join(missing)}", style="dim")]


def _verdict_table(result: CheckResult) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("property", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("meaning, and what was found", overflow="fold")
    meanings = {rule.name: rule.meaning for rule in PROPERTIES}
    for name, verdict in result.verdicts.items():
        detail = Text(meanings[name], style="" if verdict == "violated" else "dim")
        for line in _details(result, name, verdict):
            detail.append(f"\n{line}", style=STYLES[verdict] if verdict != "violated" else "red")
        table.add_row(Text(name, style="bold"), Text(f"{SIGNS[verdict]} {verdict}", style=STYLES[verdict]), detail)
    return table


def _details(result: CheckResult, name: str, verdict: Verdict) -> list[str]:
    """The bound of a verdict, and for a violation what was found."""
    cases = result.cases
    if verdict == "holds":
        return [f"{_all_cases(len(cases))}, {_count(result.states, 'state')}, exhausted"]
    if verdict == "incomplete":
        return [
            f"not decided: {result.stopped} in case {len(cases)} of {result.cases_planned}, {_count(result.states, 'state')}"
        ]
    broken = sum(case.verdicts[name] == "violated" for case in cases)
    found = [v for v in result.violations if v.property == name]
    where = _all_cases(broken) if broken == len(cases) else f"{broken} of {_count(len(cases), 'case')}"
    return [f"in {where}", *(f"{_order_length(v)}, blame {v.blame}: {v.message}" for v in found)]


def _order_length(violation: Violation) -> str:
    if violation.loop_start is not None:
        return f"{_count(violation.loop_start, 'event')}, then a loop"
    return _count(len(violation.frames) - 1, "event")


def finding(violation: Violation, number: str, trace: Path | None, subject_option: str, width: int) -> RenderableType:
    """One finding: what is wrong, whose rule was broken, the shortest order, and how to see it again."""
    whose = (
        "scheduler: the connector broke no rule"
        if violation.blame == "scheduler"
        else ("connector: the order needs what exactly-once forbids")
    )
    head = Text.assemble(
        (f"{SIGNS['violated']} {violation.property}", STYLES["violated"]),
        f"  {number}  ",
        (_order_length(violation), "bold"),
        "  ",
        violation.message,
    )
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_row(Text("blame", style="dim"), Text(whose))
    if violation.location and violation.location not in violation.message:
        facts.add_row(Text("at", style="dim"), Text(violation.location))
    facts.add_row(Text("in", style="dim"), Text(f"{violation.scope} · {violation.identity.scheduler}"))
    broken = Broken.of(violation.property, violation.blocks, violation.loop_start)
    lanes = swimlane(violation.frames, broken, width - _INDENT, violation.loop_start)
    parts: list[RenderableType] = [facts, Text(""), lanes]
    if trace is not None:
        parts.append(Text.assemble(("replay  ", "dim"), replay_command(trace, subject_option)))
    return Group(head, Padding(Group(*parts), (0, 0, 0, _INDENT)))


def replay_command(trace: Path, subject_option: str) -> str:
    """The one line that plays the trace again; ``subject_option`` is empty where the trace says it itself."""
    return " ".join(filter(None, ["kvrace replay", shlex.quote(str(trace)), subject_option]))


def verdict_line(result: CheckResult) -> Text:
    """The verdict with its bound, as the last line of the report."""
    bound = f"over {_all_cases(len(result.cases))} ({_count(result.states, 'state')})"
    if result.verdict == "holds":
        return Text(f"✓ holds: every property, {bound}, exhausted", style=STYLES["holds"])
    limit, remedy = _stop(result)
    unfinished = f"{limit} in case {len(result.cases)} of {result.cases_planned}; {remedy}"
    if result.verdict == "incomplete":
        return Text(
            f"? incomplete: nothing is violated in {_count(result.states, 'state')}, but {unfinished}",
            style=STYLES["incomplete"],
        )
    names = [name for name, verdict in result.verdicts.items() if verdict == "violated"]
    line = Text(f"✗ violated: {', '.join(names)}", style=STYLES["violated"])
    return line.append(
        f", {bound}, exhausted" if result.complete else f"; not exhausted: {unfinished}", style="default"
    )


def _stop(result: CheckResult) -> tuple[str, str]:
    stopped = result.stopped or "interrupted"
    return _STOPS.get(stopped, (stopped, "run it again"))


def _all_cases(number: int) -> str:
    return {1: "the one case", 2: "both cases"}.get(number, f"all {number} cases")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
