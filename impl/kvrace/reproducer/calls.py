"""From events to commented calls: the middle of the generated test."""

from __future__ import annotations

from kvmodel.early import EARLY
from kvmodel.events import Abort, Add, Event, Lose, Report, ReportKind, Schedule, TransferEnds, Update
from kvmodel.life import LifeEvent
from kvrace.render.rows import at_rank
from kvrace.reproducer.assertions.touched import step_arguments
from kvrace.reproducer.drafts import accepted_items, accepted_words, proposing
from kvrace.reproducer.failures import failure_arguments, failure_lines, failure_words, mended_lines
from kvrace.reproducer.life import is_over, life_statements, life_words, lookup_lines, name_of_transfer
from kvrace.reproducer.order import Call, Order
from kvrace.reproducer.text import WIDTH, comment_lines, quoted, statement

_INDENT = "    "
_HOW: dict[ReportKind, str] = {
    "due": "",
    "duplicate": " once more",
    "unsolicited": ", which nobody asked for",
    "late": ", whose bytes still land",
    "expired": ", because its time is up",
    "earlier": " for its earlier request",
}


def call_lines(order: Order, call: Call, watched: frozenset[str]) -> list[str]:
    """One event as its comment and its call. ``watched`` names what is written down for the assertion:

    ``notices`` (final notices to the clients), ``dismissed`` and ``known`` (what the workers were told), ``output`` (the return
    value of the last call), ``used`` (the blocks that steps in flight at the end work on).
    """
    lines = comment_lines(f"{call.number}. {_words(order, call)}", _INDENT, "   ")
    return [*lines, *(_INDENT + line for line in _statements(order, call, watched))]


def _told(call: Call, order: Order) -> bool:
    assert isinstance(call.event, TransferEnds)
    ended = call.event
    return order.told_before(call.number, Report(ended.direction, ended.request, rank=ended.rank))


def _name_in(report: Report) -> str:
    return at_rank(report.request, report.rank)


def _words(order: Order, call: Call) -> str:
    match call.event:
        case Add(name, claims):
            return f"A client sends {name}." if claims else f"A client sends {name}; its save will not be claimed."
        case Abort(name):
            return f"The client of {name} is gone."
        case Schedule():
            return f"The engine asks for step {call.step}."
        case TransferEnds(name, direction, rank):
            told = "and was reported before" if _told(call, order) else "and not reported yet"
            return f"The {direction} of {at_rank(name, rank)} is over, {told}."
        case Lose(name, direction, rank):
            return f"The {direction} of {at_rank(name, rank)} is over, and will never be reported."
        case Update():
            return _words_of_update(call.step, call.event)
        case _ if isinstance(call.event, LifeEvent):
            return life_words(call.event)


def _words_of_update(step: int, event: Update) -> str:
    told = [f"the {report.direction} of {_name_in(report)}{_HOW[report.kind]}" for report in event.reports]
    said = [f"reports {' and '.join(told)}"] if told else []
    said += failure_words(event)
    said += accepted_words(event)
    said += [f"has a stop token for {', '.join(event.stops)}"] if event.stops else []
    return f"The output of step {step} {' and '.join(said) or 'is processed'}."


def _statements(order: Order, call: Call, watched: frozenset[str]) -> list[str]:
    event: Event = call.event
    match event:
        case Add(name):
            return [f"scheduler.add_request(create_request({quoted(name)}))"]
        case Abort(name):
            lines = [f"scheduler.finish_requests({quoted(name)}, RequestStatus.FINISHED_ABORTED)"]
            if "notices" in watched:
                lines += [f"if {quoted(name)} not in notices:", f"    notices.append({quoted(name)})"]
            return lines
        case Schedule():
            return _schedule(order, call, watched)
        case TransferEnds(name, direction, rank):
            if _told(call, order) and not rank:
                return [f"connector.over({quoted(direction)}, {quoted(name)})"]
            return [f"connector.ends({quoted(direction)}, {quoted(at_rank(name, rank))})"]
        case Lose(name, direction, rank) if rank:
            return [f"connector.over({quoted(direction)}, {quoted(at_rank(name, rank))})"]
        case Lose(name, direction):
            return [f"connector.running.pop(({quoted(direction)}, {quoted(name)}), None)"]
        case Update():
            return _update(order, call, event, watched)
        case _ if isinstance(event, LifeEvent):
            return life_statements(order, call, event, watched)


def _schedule(order: Order, call: Call, watched: frozenset[str]) -> list[str]:
    step = f"step_{call.step}"
    lines = [*lookup_lines(order, call.event), f"{step} = scheduler.schedule()"]
    if "dismissed" in watched:
        lines.append(f"dismissed += {step}.finished_req_ids")
    if "known" in watched:
        lines.append(f"known |= {step}.num_scheduled_tokens.keys()")
    if "used" in watched and call.step in order.in_flight:
        lines.append(f"used_{call.step} = used_blocks({step_arguments(order, call.step)})")
    return [*lines, *mended_lines(order, call)]


def _update(order: Order, call: Call, event: Update, watched: frozenset[str]) -> list[str]:
    step = f"step_{call.step}"
    arguments = ["scheduler", step] if order.takes_scheduler else [step]
    for direction, keyword in (("load", "finished_recving"), ("save", "finished_sending")):
        names = [report for report in event.reports if report.direction == direction]
        if names:
            arguments.append(_argument(keyword, _reported(order, call, direction, names)))
    arguments += failure_arguments(event)
    if event.drafts:
        arguments.append(_argument("accepted", accepted_items(event), "{}"))
    if event.stops:
        arguments.append(f"stopped=[{_names(list(event.stops))}]")
    last = call is order.calls[-1]
    outputs = "outputs = " if "notices" in watched or ("output" in watched and last) else ""
    line = f"{outputs}scheduler.update_from_output({step}, model_output({', '.join(arguments)}))"
    lines = [line]
    if len(_INDENT + line) > WIDTH or proposing(order):
        lines = statement("output = model_output(", arguments)
        lines += [f"{outputs}scheduler.update_from_output({step}, output)", *proposing(order)]
    if "notices" in watched:
        lines.append("notices += final_notices(outputs)")
    return [*failure_lines(event), *lines]


def _argument(keyword: str, items: list[str], marks: str = "[]") -> str:
    """A list as an argument, with one item a line where it is too long; one that is another list is that list. ``marks`` {} make
    a dict of it."""
    if len(items) == 1 and items[0].startswith("*"):
        return f"{keyword}={items[0].removeprefix('*')}"
    opens, closes = marks[0], marks[1]
    text = f"{keyword}={opens}{', '.join(items)}{closes}"
    if len(2 * _INDENT + text) < WIDTH:
        return text
    return "\n".join([f"{keyword}={opens}", *(f"{3 * _INDENT}{item}," for item in items), f"{2 * _INDENT}{closes}"])


def _reported(order: Order, call: Call, direction: str, reports: list[Report]) -> list[str]:
    """The ids in one set of an output: those of transfers that are over, and those that are reported in spite of it."""
    due = [report for report in reports if is_over(report)]
    early = [report for report in reports if report.kind in EARLY]
    again = [report for report in reports if report.kind == "duplicate" and order.told_before(call.number, report)]
    other = [report for report in reports if report not in (*due, *early)]
    calls = [
        f"*connector.{method}({quoted(direction)}, {_names(list(map(name_of_transfer, told)))})"
        for method, told in (("over", [*due, *again]), ("too_early", early))
        if told
    ]
    return [*calls, *([_names(list(map(_name_in, other)))] if other else [])]


_MANY = 5


def _names(names: list[str]) -> str:
    """Arguments, or the letters of one string where there are many."""
    if len(names) >= _MANY and all(len(name) == 1 for name in names):
        return f"*{quoted(''.join(names))}"
    return ", ".join(map(quoted, names))
