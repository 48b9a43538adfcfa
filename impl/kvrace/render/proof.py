"""What people read of a proof: what is assumed and for which sizes, each obligation with its time, and what refutes it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path

import z3
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

import kvrace
from kvmodel.events import Event
from kvmodel.proof.induction import Counterexample
from kvmodel.proof.obligations import obligations
from kvmodel.proof.solve import Discharged, Proof, Verdict
from kvmodel.proof.theorems import THEOREMS, WHY, Search, Theorem
from kvmodel.proof.words import move_words, state_lines, witness_words
from kvmodel.relation.model import Model
from kvmodel.relation.policies import POLICIES
from kvmodel.relation.safety import ASSUMPTIONS
from kvmodel.relation.text import text
from kvrace.prove import Attempt, FoundOrder, Needed, Statement
from kvrace.render.looks import SIGNS, STYLES, count
from kvrace.render.swimlane import Legend
from kvrace.render.terminal import ReplayCommand, contract_lines, finding
from kvrace.result import Violation

_LOOKS: dict[Verdict, str] = {"proved": "holds", "refuted": "violated", "unknown": "incomplete"}
_ANY_SIZE = (
    "any number of requests, blocks and steps in flight; blocks shared by prefix and held back behind steps, "
    "requests preempted, loads that fail"
)
_TIME_WIDTH = 9
_INDENT = 2


def _sign(verdict: Verdict) -> Text:
    return Text(SIGNS[_LOOKS[verdict]], STYLES[_LOOKS[verdict]])


def header(model: Model, theorem: Theorem | None) -> RenderableType:
    """What is about to be proved, what is assumed, and for which sizes."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    table.add_row("proving", Text(f"{model.policy.name}: {model.policy.meaning}", style="bold"))
    table.add_row("contract", "\n".join(contract_lines(model.contract)))
    table.add_row("sizes", _ANY_SIZE)
    assumed = [f"{name}: {ASSUMPTIONS[name]}" for name in ASSUMPTIONS if name in model.assumed]
    table.add_row(
        "assumed", "\n".join(assumed) or "nothing beyond the contract: a forgotten id is used again, loads start again"
    )
    if theorem is not None and theorem.remark and theorem.assumed == model.assumed:
        table.add_row("remark", theorem.remark)
    many = sum(1 for _ in obligations(model))
    table.add_row("invariant", f"{len(model.invariant)} conjuncts, {many} obligations for z3 {z3.get_version_string()}")
    return Group(Text(f"kvrace {kvrace.__version__}"), table, Text(""))


def obligation_line(result: Discharged, width: int) -> RenderableType:
    """One obligation and its time."""
    return _line(result.verdict, result.obligation.name, result.seconds, width)


def _line(verdict: Verdict, name: str, seconds: float, width: int) -> Text:
    room = width - 2 - _TIME_WIDTH
    lines = textwrap.wrap(name, room, subsequent_indent="  ") or [""]
    time = f"{seconds * 1000:.0f} ms".rjust(_TIME_WIDTH)
    shown = Text.assemble(_sign(verdict), " ", lines[0], " " * (room - cell_len(lines[0])), (time, "dim"))
    for line in lines[1:]:
        shown.append(f"\n  {line}")
    return shown


def by_action(proof: Proof) -> RenderableType:
    """The obligations of each action on one line."""
    groups: dict[str, list[Discharged]] = {}
    for result in proof.results:
        where = {"starts": "at the start", "implies": "the invariant implies the properties"}
        group = where.get(result.obligation.kind) or f"action {result.obligation.actor}"
        groups.setdefault(group, []).append(result)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    table.add_column(justify="right", style="dim", no_wrap=True)
    for name, results in groups.items():
        worst = next((v for v in ("refuted", "unknown") if any(r.verdict == v for r in results)), "proved")
        failed = sum(result.verdict != "proved" for result in results)
        many = count(len(results), "obligation") + (f", {failed} not discharged" if failed else "")
        time = f"{sum(result.seconds for result in results) * 1000:.0f} ms"
        table.add_row(Text.assemble(_sign(worst), " ", name), many, time)  # type: ignore[arg-type]
    return table


def report(statement: Statement, traces: Mapping[Violation, Path], replay: ReplayCommand, width: int) -> RenderableType:
    """Everything after the obligations: counterexamples, orders, what the assumptions are needed for, and the verdict."""
    parts: list[RenderableType] = [Text("")]
    if statement.attempts:
        parts += [
            _heading(f"{count(len(statement.attempts), 'counterexample')} to induction, the smallest there are"),
            Text(""),
        ]
    for attempt in statement.attempts:
        parts += [_attempt(attempt, statement), Text("")]
    if statement.orders:
        parts += [_heading("shortest orders, by bounded model checking"), Text("")]
    legend = Legend()
    for order in statement.orders:
        parts += [*_order(order, statement, traces, replay, width, legend), Text("")]
    if legend:
        parts += [*legend.lines(width), Text("")]
    if statement.proof.verdict == "refuted" and not statement.orders and not statement.interrupted:
        parts += [Text(f"no order breaks a property within {_within(statement.searched)}"), Text("")]
    if statement.proof.verdict == "refuted" and statement.theorem is not None:
        assumed = ", ".join(statement.theorem.needed)
        parts += [Text(f"proved is what assumes {assumed}: leave out --assume"), Text("")]
    for needed in statement.needed:
        parts += [_needed(needed, statement), Text("")]
    if statement.reached:
        parts += [_situations(statement), Text("")]
    if statement.interrupted and statement.proof.complete:
        parts += [
            Text("interrupted while orders were looked for: what is missing here was not found out", "yellow"),
            Text(""),
        ]
    return Group(*parts, verdict_line(statement))


def _situations(statement: Statement) -> RenderableType:
    """That the relation does something: what is never reached has no order."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for name, events in statement.reached:
        shown = Text("not reached", style="yellow") if events is None else Text(_events(events))
        table.add_row(Text(f"  {name}", style="dim"), shown)
    return Group(_heading("the proof is about something: reached, in the fewest events"), table)


def _heading(words: str) -> Text:
    return Text(words, style="bold")


def _within(searched: Iterable[Search]) -> str:
    return "; ".join(f"{search.most} events of {search}" for search in searched)


def _events(events: Iterable[Event]) -> str:
    return " · ".join(map(str, events))


def _attempt(attempt: Attempt, statement: Statement) -> RenderableType:
    example = attempt.counterexample
    lines = [Text(line) for line in example_lines(example)]
    conjunct = Text(f"{example.obligation.about.name}: {text(example.obligation.about.formula)}", style="dim")
    head = Text.assemble(_sign("refuted"), f" {example.obligation.name}")
    return Group(head, Padding(Group(conjunct, *lines, _fate(attempt, statement)), (0, 0, 0, _INDENT)))


def example_lines(example: Counterexample) -> list[str]:
    """The state before, the move, the state after, and what is broken then."""
    lines = ["in the state", *(f"  {line}" for line in state_lines(example.instance, example.before))]
    if example.move is not None:
        lines.append(f"comes {move_words(example.move)}: {example.move.action.meaning}; then")
        lines += [f"  {line}" for line in state_lines(example.instance, example.after)]
    if example.witness:
        lines.append(f"broken for {witness_words(example.witness)}")
    return lines


def _fate(attempt: Attempt, statement: Statement) -> Text:
    if attempt.reached is None:
        return Text(f"not reached within {_within(attempt.searched)}; that it never is, is not shown", style="yellow")
    what = "this very state is" if attempt.reached == "this" else "a state from which the same breaks is"
    where = f"{what} reached: {_events(attempt.events)}"
    if attempt.breaks is None:
        return Text(f"{where}; not played on a scheduler", style="yellow")
    on = _subject(statement)
    if attempt.breaks:
        return Text(f"{where}; a finding: on {on} that breaks {', '.join(attempt.breaks)}", style="bold red")
    return Text(f"{where}; played on {on}, it breaks no property", style="yellow")


def _subject(statement: Statement) -> str:
    assert statement.subject is not None
    spec, policy = statement.subject.spec, statement.subject.policy
    played = next((order.violation.identity for order in statement.orders if order.violation), None)
    if spec == "reference":
        return f"the reference scheduler with policy {policy}"
    return str(played) if played else spec


def _order(
    order: FoundOrder,
    statement: Statement,
    traces: Mapping[Violation, Path],
    replay: ReplayCommand,
    width: int,
    legend: Legend,
) -> list[RenderableType]:
    length = count(len(order.events), "event")
    if order.violation is None:
        lines = [Text.assemble(_sign("refuted"), f" {order.rule}  {length}  {_events(order.events)}")]
        lines += [Text(f"  in {order.search}", style="dim")]
        why = order.why or "it does not break this property there"
        subject = f" on {_subject(statement)}" if statement.subject else ""
        return [*lines, Text(f"  not confirmed{subject}: {why}", style="yellow")]
    shown = finding(order.violation, "", traces.get(order.violation), replay, width, legend)
    agrees = f"the explorer's shortest order has {count(order.explorer, 'event')}" if order.explorer is not None else ""
    same = "as many" if order.explorer == len(order.events) else f"bounded model checking found {length}"
    note = f"{agrees}, {same}" if agrees else "the explorer finds none in this scope"
    style = "dim" if order.explorer == len(order.events) else "yellow"
    return [shown, Text(f"  confirmed on {_subject(statement)}; {note}", style=style)]


def _needed(needed: Needed, statement: Statement) -> RenderableType:
    if not needed.events:
        line = f"{needed.assumption} is not known to be needed: nothing breaks within {_within([needed.search])}"
        return Text(line, style="yellow")
    same = f" ({' and '.join(needed.search.scope.names)} have one id)" if needed.search.ids else ""
    confirmed = []
    if needed.violation is not None:
        confirmed.append(Text(f"  confirmed on {_subject(statement)}: {needed.violation.message}", style="dim"))
    return Group(
        Text.assemble((f"{needed.assumption} is needed", "bold"), f": without it this breaks {needed.rule}{same}"),
        Text(f"  {_events(needed.events)}"),
        *confirmed,
        Text(f"  {WHY[needed.assumption]}", style="dim"),
    )


def _safe(model: Model) -> str:
    return ", ".join(dict.fromkeys(rule.name for rule in model.properties))


def _checks(model: Model) -> str:
    return ", ".join(dict.fromkeys(check.name for action in model.actions for check in action.checks))


def verdict_line(statement: Statement) -> Text:
    """What was proved, refuted or left open, as the last line."""
    proof, model = statement.proof, statement.model
    on = f"{model.policy.name} under {model.contract}"
    on += f" assuming {', '.join(sorted(model.assumed))}" if model.assumed else ""
    seconds = f"in {proof.seconds:.1f} s"
    look = STYLES[_LOOKS[proof.verdict]]
    if proof.verdict == "proved":
        names = dict.fromkeys([*_safe(model).split(", "), *_checks(model).split(", ")])
        return Text(
            f"✓ proved for {on}: {', '.join(names)}; all {len(proof.results)} obligations discharged {seconds}",
            style=look,
        )
    if proof.verdict == "refuted":
        refuted = proof.having("refuted")
        where = ", ".join(dict.fromkeys(result.obligation.actor or "the invariant" for result in refuted))
        more = f", {len(proof.having('unknown'))} given up" if proof.having("unknown") else ""
        return Text(
            f"✗ no proof for {on}: {len(refuted)} of {count(len(proof.results), 'obligation')} refuted{more} "
            f"(by {where}) {seconds}",
            style=look,
        )
    if not proof.complete:
        return Text(f"? interrupted: {len(proof.results)} obligations are discharged, which proves nothing", style=look)
    unknown = proof.having("unknown")
    return Text(
        f"? not proved for {on}: z3 gave {len(unknown)} of {count(len(proof.results), 'obligation')} up "
        f"({unknown[0].why}); a larger --time-limit may help",
        style=look,
    )


def beside(statement: Statement, program: str) -> RenderableType:
    """A policy beside the one that was asked for, in short."""
    lines: list[RenderableType] = [verdict_line(statement)]
    for order in statement.orders:
        lines.append(Text(f"  {order.rule}: {_events(order.events)} ({count(len(order.events), 'event')})"))
    if statement.proof.verdict == "refuted":
        model = statement.model
        option = f" --contract {model.contract}" if model.contract.names else ""
        command = f"{program} prove --policy {model.policy.name}{option}"
        why = f"  why, played on a scheduler: {command}"
        lines.append(Text(why, style="dim", no_wrap=True, overflow="ignore"))
    return Group(Text(""), *lines)


def theorems() -> RenderableType:
    """The statements by policy, the assumptions, and what no scheduler can do without them."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(4):
        table.add_column(overflow="fold")  # these are values to copy
    table.add_row(*(Text(name, style="bold") for name in ("--policy", "--contract", "--assume", "remark")))
    for theorem in THEOREMS:
        table.add_row(
            theorem.policy, theorem.contract, "\n".join(theorem.needed) or "nothing", Text(theorem.remark, "dim")
        )
    names = Table.grid(padding=(0, 2, 0, 0))
    for name, meaning in ASSUMPTIONS.items():
        names.add_row(Text(f"  {name}", style="bold"), f"{meaning}. Needed: {WHY[name]}")
    policies = Table.grid(padding=(0, 2, 0, 0))
    for policy in POLICIES.values():
        policies.add_row(Text(f"  {policy.name}", style="bold"), policy.meaning)
    return Group(
        Text(f"proved for {_ANY_SIZE}"), Text(""), table, Text(""),
        Text("assumptions", style="bold"), names, Text(""), Text("policies", style="bold"), policies,
    )  # fmt: skip
