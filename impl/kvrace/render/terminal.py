"""What people read: who was checked over what, the verdict of each property, and every finding's shortest order."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

import kvrace
from kvmodel.contract import ALL_MEANINGS, EXACTLY_ONCE, Contract
from kvmodel.named_scopes import NAMED_SCOPES
from kvmodel.port import Identity
from kvmodel.scope import Scope
from kvrace.render.conformance import conformance_line, divergence
from kvrace.render.looks import INDENT, SIGNS, STYLES, count
from kvrace.render.rows import Broken
from kvrace.render.swimlane import Legend, swimlane
from kvrace.result import CheckResult, Verdict, Violation

_STOPS = {
    "time limit": ("the time limit was reached", "give a larger --time-limit, or a smaller scope"),
    "state limit": ("the state limit was reached", "give a larger --max-states, or a smaller scope"),
    "interrupted": ("the run was interrupted", "let it run to its end"),
}
NEVER: dict[str, str] = {
    "abort-before-schedule": "aborted a request that still waited",
    "abort-during-load": "aborted a request during its load",
    "abort-in-flight": "aborted a request between a schedule and its update",
    "abort-when-over": "aborted a request that was over",
    "two-steps": "had two steps in flight",
    "held-back": "held freed blocks back for a dispatched step",
    "preemption": "preempted a request",
    "pool-dry": "had a request wait for blocks",
    "shared-block": "shared a block between requests",
    "load-and-save": "had load and save of one request pending together",
    "two-reports": "brought two reports in one output",
}
"""Each milestone in the words that complete "this scope never …"."""
_VERDICTS: tuple[Verdict, ...] = ("violated", "incomplete", "holds")


@dataclass(frozen=True, slots=True)
class ReplayCommand:
    """How the user replays a trace: the program as it is called here, and the option that a trace does not give by itself."""

    program: str = "kvrace"
    option: str = ""
    instead: str = ""
    """What to say where no command can play it."""

    def line(self, trace: Path) -> str:
        if self.instead:
            return f"{trace}: {self.instead}"
        return " ".join(filter(None, [self.program, "replay", shlex.quote(str(trace)), self.option]))


def header(
    identities: Iterable[Identity],
    scope_name: str,
    scopes: Sequence[Scope],
    contract: Contract,
    notes: Iterable[str],
    doing: str = "checking",
) -> RenderableType:
    """Who is about to be checked, over what, and under which contract; notes of the subject come first."""
    return heading({doing: identities}, scope_name, scopes, contract, notes)


def heading(
    doing: Mapping[str, Iterable[Identity]],
    scope_name: str,
    scopes: Sequence[Scope],
    contract: Contract,
    notes: Iterable[str],
) -> RenderableType:
    """The same for several subjects: what is done with each."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for what, identities in doing.items():
        table.add_row(Text(what, style="dim"), Text(subject_line(identities), style="bold"))
    table.add_row(Text("scope", style="dim"), Text("\n".join(scope_lines(scope_name, scopes))))
    table.add_row(Text("contract", style="dim"), Text("\n".join(contract_lines(contract))))
    return Group(
        Text(f"kvrace {kvrace.__version__}"), *(Text(f"note: {note}", style="yellow") for note in notes), table
    )


def subject_line(identities: Iterable[Identity]) -> str:
    """One subject with its version, and its schedulers."""
    seen = list(identities)
    schedulers = " and ".join(dict.fromkeys(identity.scheduler for identity in seen))
    return f"{f'{seen[0].name} {seen[0].release}'.strip()}: {schedulers}"


def scope_lines(name: str, scopes: Sequence[Scope]) -> list[str]:
    if name in NAMED_SCOPES:
        played = {scope.scheduling for scope in scopes}
        only = f", {played.pop()} only" if len(played) == 1 else ""
        orders = ", orders of the engine loop only" if all(scope.engine_order for scope in scopes) else ""
        return [f"{name}: {NAMED_SCOPES[name][0]}: {count(len(scopes), 'case')}{only}{orders}"]
    return [str(scope) for scope in scopes]


def contract_lines(contract: Contract) -> list[str]:
    if not contract.names:
        return [f"{EXACTLY_ONCE}: the connector keeps every rule ('kvrace check --list' names them)"]
    return [f"{name}: the connector may {ALL_MEANINGS[name]}" for name in str(contract).split(",")]


def report(
    result: CheckResult,
    identities: Sequence[Identity],
    traces: Mapping[Violation, Path],
    replay: ReplayCommand,
    width: int,
) -> RenderableType:
    """The verdict of each property, the findings with the shortest first, and the verdict in one line."""
    shortest_first = numbered(result)
    parts: list[RenderableType] = [
        Text(effort_line(result), style="dim"),
        Text(""),
        _verdicts(result, shortest_first),
        Text(""),
    ]
    if result.conformance is not None:
        parts += [conformance_line(result.conformance), Text("")]
    if never := never_reached(result):
        parts += [Text(never, style="dim"), Text("")]
    if shortest_first:
        parts += [_how_many(shortest_first), Text("")]
    legend = Legend()
    for number, violation in enumerate(shortest_first, start=1):
        which = f"{number}/{len(shortest_first)}"
        parts += [finding(violation, which, traces.get(violation), replay, width, legend), Text("")]
    found = result.conformance.divergences if result.conformance is not None else ()
    for number, one in enumerate(found, start=1):
        parts += [divergence(one, f"{number}/{len(found)}", width, legend), Text("")]
    if legend:
        parts += [*legend.lines(width), Text("")]
    parts += [Text(f"note: {note}", style=STYLES["incomplete"]) for note in result.notes]
    return Group(*parts, verdict_line(result, identities))


def numbered(result: CheckResult) -> list[Violation]:
    """The findings in the order in which reports show them: finding 1 is the first."""
    return sorted(result.violations, key=lambda violation: len(violation.frames))


def effort_line(result: CheckResult) -> str:
    """How much was explored, and how long it took."""
    return (
        f"{'explored' if result.complete else 'explored in part:'} {count(result.states, 'state')}, "
        f"{count(result.transitions, 'transition')}, {count(result.calls, 'scheduler call')} in {result.seconds:.1f} s"
    )


def _how_many(violations: Sequence[Violation]) -> Text:
    if len(violations) == 1:
        return Text("1 finding, with the shortest order that shows it")
    return Text(f"{len(violations)} findings, each with the shortest order that shows it; the shortest first")


def never_reached(result: CheckResult) -> str | None:
    """The milestones that did not occur, in words: about them the verdicts say nothing."""
    missing = [NEVER[name] for name, times in result.reached.items() if times == 0]
    if not missing or not result.cases:
        return None
    words = missing[0] if len(missing) == 1 else f"{', '.join(missing[:-1])} or {missing[-1]}"
    return f"this scope never {words}: its verdicts say nothing about that"


def _verdicts(result: CheckResult, violations: Sequence[Violation]) -> Table:
    """One line for each property: what is violated first, what holds last."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, verdict in sorted(result.verdicts.items(), key=lambda item: _VERDICTS.index(item[1])):
        where = bound(result, name, verdict)
        found = [f"{n} ({order_length(v)})" for n, v in enumerate(violations, start=1) if v.property == name]
        if found:
            where += f": finding{'s' if len(found) > 1 else ''} {', '.join(found)}"
        table.add_row(
            Text(f"{SIGNS[verdict]} {name}", style=STYLES[verdict]),
            Text(verdict),
            Text(where, style="" if found else "dim"),
        )
    return table


def bound(result: CheckResult, name: str, verdict: Verdict) -> str:
    """Over what a verdict holds, and for a violation in how many cases."""
    cases = result.cases
    if verdict == "holds":
        return f"{all_cases(len(cases))}, {count(result.states, 'state')}, exhausted"
    if verdict == "incomplete":
        return f"not decided: {result.stopped} in case {result.stopped_in} of {result.cases_planned}"
    broken = sum(case.verdicts[name] == "violated" for case in cases)
    where = all_cases(broken) if broken == len(cases) else f"{broken} of {count(len(cases), 'case')}"
    return f"in {where}"


def order_length(violation: Violation) -> str:
    if violation.loop_start is not None:
        return f"{count(violation.loop_start, 'event')}, then a loop"
    return count(len(violation.frames) - 1, "event")


def blame_words(violation: Violation) -> str:
    """Whose rule was broken, and for a connector why."""
    return violation.blame + ("" if violation.blame == "scheduler" else ": the order needs what exactly-once forbids")


def finding(
    violation: Violation, number: str, trace: Path | None, replay: ReplayCommand, width: int, legend: Legend
) -> RenderableType:
    """One finding: what is wrong, whose rule was broken, the shortest order, and how to see it again."""
    head = Text.assemble(
        (f"{SIGNS['violated']} {violation.property}", STYLES["violated"]),
        f"  {number}  " if number else "  ",
        (order_length(violation), "bold"),
        "  ",
        violation.message,
    )
    facts = [Text(f"blame {blame_words(violation)} · {violation.scope} · {violation.identity.scheduler}", style="dim")]
    if violation.location and violation.location not in violation.message:
        facts.append(Text(f"at {violation.location}", style="dim"))
    broken = Broken.of(violation.property, violation.blocks, violation.loop_start)
    lanes = swimlane(violation.frames, broken, width - INDENT, violation.loop_start, legend)
    parts: list[RenderableType] = [head, Padding(Group(*facts, lanes), (0, 0, 0, INDENT))]
    if trace is not None:  # never folded: it is there to be copied
        command = Text.assemble((" " * INDENT + "replay  ", "dim"), replay.line(trace))
        parts.append(Text.assemble(command, no_wrap=True, overflow="ignore"))
    return Group(*parts)


def verdict_line(result: CheckResult, identities: Sequence[Identity]) -> Text:
    """The verdict with who was checked and its bound, as the last line of the report."""
    who = _who(identities)
    bound = f"over {all_cases(len(result.cases))} ({count(result.states, 'state')})"
    if result.verdict == "holds":
        what = "every property" if result.conformance is None else "every property, and conformance"
        return Text(f"✓ holds on {who}: {what}, {bound}, exhausted", style=STYLES["holds"])
    limit, remedy = _stop(result)
    unfinished = f"{limit} in case {result.stopped_in} of {result.cases_planned}; {remedy}"
    if result.verdict == "incomplete":
        return Text(
            f"? incomplete on {who}: nothing is violated in {count(result.states, 'state')}, but {unfinished}",
            style=STYLES["incomplete"],
        )
    names = [name for name, verdict in result.verdicts.items() if verdict == "violated"]
    names += ["conformance"] if result.conformance is not None and result.conformance.unexplained else []
    line = Text(f"✗ violated on {who}: {', '.join(names)}", style=STYLES["violated"])
    return line.append(
        f", {bound}, exhausted" if result.complete else f"; not exhausted: {unfinished}", style="default"
    )


def _who(identities: Sequence[Identity]) -> str:
    """Nobody shall take a verdict on the reference scheduler for one on vLLM, nor one on a subclass for one on its base."""
    first = identities[0]
    if first.name == "reference":
        return f"the reference scheduler {first.version} (not vLLM)"
    own = [identity.scheduler for identity in identities if ":" in identity.scheduler]
    return f"{own[0]} with {first.name} {first.release}" if own else f"{first.name} {first.release}"


def _stop(result: CheckResult) -> tuple[str, str]:
    stopped = result.stopped or "interrupted"
    if "crash" in stopped:
        return stopped, "nothing beyond them is known"
    return stop_words(stopped)


def stop_words(stopped: str) -> tuple[str, str]:
    """Why a run ended before its end, and what may be done about it."""
    return _STOPS.get(stopped, (stopped, "run it again"))


def all_cases(number: int) -> str:
    """The cases of a run that reached its end, by their number."""
    return {1: "the one case", 2: "both cases"}.get(number, f"all {number} cases")
