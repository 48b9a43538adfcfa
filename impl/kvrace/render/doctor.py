"""A diagnosis as people read it: what was found, what can happen, and what to do."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

import kvrace
from kvmodel.contract import EXACTLY_ONCE
from kvrace.doctor import DROP_IN, Diagnosis, Hit, Outcome, SchedulerFound, Status
from kvrace.known.connectors import QUESTIONS, Answer
from kvrace.known.orders import KnownOrder, KnownResult
from kvrace.known.reading import CONTRACTS, TOGETHER, Reading
from kvrace.render.looks import INDENT, SIGNS, STYLES, count
from kvrace.render.output import one_line
from kvrace.transferconfig import ConnectorConfig

_LOOKS: dict[Status, tuple[str, str]] = {
    "not affected": (SIGNS["holds"], STYLES["holds"]),
    "affected": (SIGNS["violated"], STYLES["violated"]),
    "undetermined": (SIGNS["incomplete"], STYLES["incomplete"]),
}
RULES = {TOGETHER: "has load and save of one request pending together"} | {name: QUESTIONS[name] for name in CONTRACTS}
"""What a connector does under each rule, in words that follow its name."""
TO_FIND_OUT = {
    TOGETHER: "can request_finished return True for a request whose load still runs?",
    "unclaimed": "does it report a save for which request_finished returned False?",
    "duplicate": "does it report a transfer twice?",
    "unsolicited": "does it report a save that nobody asked for?",
    "lossy": "is a load that was started ever left without a report, as after an abort?",
}
"""What to look for in the source of a connector, for each rule; spec/operators.md has the same questions."""
CONSEQUENCES = {
    "no-crash": "the engine dies, and every request with it",
    "no-leak": "blocks are lost until the server is restarted",
    "no-double-free": "a block is given out twice",
    "no-use-after-free": "blocks are given to another request while a transfer still touches them: wrong output",
    "no-premature-use": "KV is used before it has arrived: wrong output",
    "no-stuck": "a request never ends, or the engine sleeps while something is left to do",
}
_SIGN_OF_ANSWER: dict[Answer, Status] = {
    "no": "not affected",
    "yes": "affected",
    "depends": "undetermined",
    "undetermined": "undetermined",
}
_UNTOLD = "no report tells the scheduler of it: neither kvrace's contracts nor the drop-in reach that"


def diagnosis(found: Diagnosis, program: str) -> RenderableType:
    """The whole diagnosis. ``program`` is how kvrace is called again."""
    parts: list[RenderableType] = [Text(f"kvrace {kvrace.__version__}"), _header(found), Text("")]
    if found.connector is not None:
        parts += [*_connector(found), Text("")]
    parts += [*_outcome(found, program), Text("")]
    advice = list(advised(found, program))
    if advice:
        parts.append(Text("what to do"))
        for advise in advice:
            parts.append(_indented(Text(advise.text)))
            parts += [_never_folded(advise.command)] if advise.command else []
        parts.append(Text(""))
    return Group(*parts, _verdict(found))


def _header(found: Diagnosis) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    scheduler = found.scheduler
    engine = "on" if scheduler.scheduling == "async" else "off"
    rows = [
        ("installed", one_line(f"{found.installed.name} {found.installed.version}")),
        ("", one_line(str(found.installed.folder))),
        ("scheduler", scheduler.name),
        ("", f"asynchronous scheduling {engine}: {scheduler.because}"),
        ("connector", "none" if found.connector is None else shown_connector(found.connector)),
    ]
    for name, value in rows:
        style = "bold" if name else "dim"
        table.add_row(Text(name, style="dim"), Text(value, style=style, overflow="fold"))
    return table


def shown_connector(connector: ConnectorConfig) -> str:
    """A connector with its role, and for one that holds others what is in it."""
    inside = f" of {', '.join(map(shown_connector, connector.children))}" if connector.children else ""
    return f"{connector.name} ({connector.role}){inside}"


def _connector(found: Diagnosis) -> Iterator[RenderableType]:
    yield Text("what the connector does, as read in its source (it was not run)")
    open_rules = [rule for rule in RULES if found.answers.asked[rule] != "no"]
    deciding = [reading for rule in open_rules for reading in found.answers.why(rule)]
    unread = [f"? {reading.connector}: {reading.because}" for reading in deciding if not reading.at]
    yield from (_indented(Text(line, style=STYLES["incomplete"])) for line in dict.fromkeys(unread))
    for rule, words in RULES.items():
        answer = found.answers.asked[rule]
        sign, style = _LOOKS[_SIGN_OF_ANSWER[answer]]
        yield _indented(Text.assemble((f"{sign} ", style), f"{words}: ", (answer, style)))
        yield from (_indented(line, 2) for reading in _telling(found, rule) for line in _reading(reading))
    for reading in found.answers.why("unseen"):
        if reading.answer == "yes":
            yield _indented(Text(f"! {reading.connector}: {reading.because}; {_UNTOLD}", style=STYLES["incomplete"]))
        else:
            whether = f"? {reading.connector}: whether it {QUESTIONS['unseen']} was not read"
            yield _indented(Text(whether, style=STYLES["incomplete"]))


def _telling(found: Diagnosis, rule: str) -> Sequence[Reading]:
    """What was read and decides an answer; the same reading is told once."""
    if found.answers.asked[rule] == "no":
        return []
    return [reading for reading in dict.fromkeys(found.answers.why(rule)) if reading.at]


def _reading(reading: Reading) -> Iterator[Text]:
    about = QUESTIONS[reading.ask]
    yield Text(f"{reading.connector} {about}: {reading.answer}, {reading.because}")
    for place in reading.at:
        name, _, symbol = place.rpartition("/")[2].partition(":")
        yield Text(f"read in {name}, {symbol}, vLLM {reading.release}", style="dim")


def _outcome(found: Diagnosis, program: str) -> Iterator[RenderableType]:
    outcome = found.outcome
    for missing in outcome.missing:
        yield Text(f"? {missing}", style=STYLES["incomplete"])
    for result in outcome.checked:
        yield Text(f"checked: {checked_words(result)}", style="dim")
    if outcome.certain:
        yield Text("")
        yield Text(f"what can happen: {count(len(outcome.certain), 'known order')}, the shortest first")
        yield from _orders(outcome.certain, outcome.scheduler, program)
    if outcome.possible:
        yield Text("")
        yield Text("what would happen, if the connector did this; of each the shortest order")
        for hits in _by_rule(outcome.possible):
            yield from _orders(
                hits[:1], outcome.scheduler, program, f"if it {RULES[hits[0].rule]} ({count(len(hits), 'order')}): "
            )


def checked_words(result: KnownResult) -> str:
    """What a result rests on: nothing is said beyond it."""
    bound = f"{count(result.cases, 'case')}, {count(result.states, 'state')}, exhausted"
    return (
        f"{result.scheduler} {result.scheduling} scheduler, contract {result.contract}, scope {result.scope}: {bound}"
    )


def _by_rule(hits: Iterable[Hit]) -> list[list[Hit]]:
    by_rule: dict[str, list[Hit]] = {}
    for hit in hits:
        by_rule.setdefault(hit.rule, []).append(hit)
    return list(by_rule.values())


def _orders(hits: Sequence[Hit], scheduler: SchedulerFound, program: str, before: str = "") -> Iterator[RenderableType]:
    sign, style = _LOOKS["affected" if hits[0].certain else "undetermined"]
    for index, hit in enumerate(hits):
        order = hit.order
        consequence = CONSEQUENCES.get(order.property, "a rule of the scheduler is broken")
        yield _indented(Text.assemble((f"{sign} {before}{order.property}", style), f": {consequence}"))
        for line in [*events(order), order.message, *([f"at {order.location}"] if _adds(order) else [])]:
            yield _indented(Text(line, style="dim" if line.startswith("at ") else ""), 2)
        command = see(hit, scheduler, program)
        if index + 1 == len(hits) or see(hits[index + 1], scheduler, program) != command:
            yield _never_folded(f"see it  {command}")


def _adds(order: KnownOrder) -> bool:
    return bool(order.location) and order.location.partition(" ")[0] not in order.message


def events(order: KnownOrder) -> list[str]:
    """The order in one line, and in a second what repeats for ever."""
    if order.loop < 0:
        return [" → ".join(order.events)]
    return [" → ".join(order.events[: order.loop]), f"then for ever: {' → '.join(order.events[order.loop :])}"]


def see(hit: Hit, scheduler: SchedulerFound, program: str) -> str:
    """The command that finds an order again, on the vLLM that is installed."""
    parts = [program, "check", "--requests", ",".join(hit.order.requests), "--scheduler", scheduler.scheduling]
    parts += ["--contract", hit.contract] if hit.contract != EXACTLY_ONCE else []
    parts += ["--subject", "fixed"] if scheduler.which == "fixed" else []
    return " ".join(parts)


class Advice(NamedTuple):
    """What to do, and the command that does it; empty where there is none."""

    text: str
    command: str = ""


def advised(found: Diagnosis, program: str) -> Iterator[Advice]:
    """What to do, the first thing first."""
    scheduler = found.scheduler
    if found.release is None:
        yield Advice("check this release, and the drop-in on it", f"{program} check; {program} check --subject fixed")
    elif scheduler.which is None:
        yield Advice("check this class", f"{program} check --subject {shlex.quote(_as_subject(scheduler.name))}")
    elif scheduler.made_for != scheduler.scheduling:
        yield Advice("use the class for this way of scheduling", f"--scheduler-cls {_right_class(found)}")
    elif found.outcome.missing:
        yield Advice("check what is installed", f"{program} check")
    if scheduler.which == "fixed" and scheduler.made_for == scheduler.scheduling and found.connector is not None:
        yield Advice("the drop-in is on: blocks stay until every transfer that the scheduler was told of is reported")
    elif found.with_drop_in is not None and found.outcome.hits:
        yield _switch_on(found, found.with_drop_in)
    if found.outcome.possible:
        asked = " ".join(TO_FIND_OUT[hits[0].rule] for hits in _by_rule(found.outcome.possible))
        yield Advice(f"find out in the source of the connector ('A connector of your own', spec/operators.md): {asked}")


def _switch_on(found: Diagnosis, other: Outcome) -> Advice:
    before, after = (
        [rule for rule in RULES if any(hit.rule == rule for hit in one.hits)] for one in (found.outcome, other)
    )
    ended = [rule for rule in before if rule not in after]
    if not ended:
        return Advice("kvrace's drop-in scheduler ends none of this: the connector has to be mended")
    release = found.installed.version
    verified = f"verified for {release}" if found.drop_in_starts else f"not verified for {release}: it refuses to start"
    left = f"; left is what happens if it {', or '.join(RULES[rule] for rule in after)}" if after else ""
    ends = ", or ".join(RULES[rule] for rule in ended)
    return Advice(
        f"switch kvrace's drop-in on ({verified}; it is not for diffusion models); "
        f"it ends what happens if the connector {ends}{left}",
        f"vllm serve … --scheduler-cls {DROP_IN[found.scheduler.scheduling]}",
    )


def _right_class(found: Diagnosis) -> str:
    if found.scheduler.which == "fixed":
        return DROP_IN[found.scheduler.scheduling]
    return f"{DROP_IN[found.scheduler.scheduling]}, or none for vLLM's own"


def _as_subject(name: str) -> str:
    module, _, last = name.rpartition(".")
    return f"{module}:{last}"


def _verdict(found: Diagnosis) -> Text:
    sign, style = _LOOKS[found.status]
    who = f"{found.installed.name} {found.installed.version}"
    assumed = f" (assumed: {found.assumed})" if found.assumed else ""
    if found.status == "not affected":
        what = "by no known order" if found.connector is not None else "by no known order: there is no connector"
        return Text(f"{sign} not affected: {who}, {what}{assumed}", style=style)
    if found.status == "affected":
        return Text(f"{sign} affected: {who}, {count(len(found.outcome.certain), 'known order')}{assumed}", style=style)
    why = [*found.outcome.missing, *(f"whether it {RULES[hits[0].rule]}" for hits in _by_rule(found.outcome.possible))]
    return Text(f"{sign} undetermined: {who}: {'; '.join(why)}{assumed}", style=style)


def _indented(text: Text, times: int = 1) -> Padding:
    return Padding(text, (0, 0, 0, INDENT * times))


def _never_folded(line: str) -> Text:
    return Text(" " * INDENT * 2 + line, no_wrap=True, overflow="ignore")
