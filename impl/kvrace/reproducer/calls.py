"""From events to commented calls: the middle of the generated test."""

from __future__ import annotations

from collections.abc import Iterable

from kvmodel.events import Abort, Add, Event, Lose, Report, Schedule, TransferEnds, Update
from kvmodel.life import LifeEvent
from kvrace.reproducer.life import EARLIER, is_over, life_statements, life_words, lookup_lines
from kvrace.reproducer.order import Call, Order
from kvrace.reproducer.text import WIDTH, comment_lines, enclosed, quoted

_INDENT = "    "
_HOW = {
    "due": "",
    "duplicate": " once more",
    "unsolicited": ", which nobody asked for",
    "earlier": " for its earlier request",
}


def call_lines(order: Order, call: Call, watched: frozenset[str]) -> list[str]:
    """One event as its comment and its call. ``watched`` names what is written down for the assertion:

    ``notices`` (final notices to the clients), ``dismissed`` and ``known`` (what the workers were told), ``output`` (the return
    value of the last call), ``used`` (the blocks that steps in flight at the end work on).
    """
    lines = comment_lines(f"{call.number}. {_words(call)}", _INDENT, "   ")
    return [*lines, *(_INDENT + line for line in _statements(order, call, watched))]


def _words(call: Call) -> str:
    match call.event:
        case Add(name, claims):
            return f"A client sends {name}." if claims else f"A client sends {name}; its save will not be claimed."
        case Abort(name):
            return f"The client of {name} is gone."
        case Schedule():
            return f"The engine asks for step {call.step}."
        case TransferEnds(name, direction):
            return f"The {direction} of {name} is over, and not reported yet."
        case Lose(name, direction):
            return f"The {direction} of {name} is over, and will never be reported."
        case Update(reports, stops):
            return _words_of_update(call.step, reports, stops)
        case _ if isinstance(call.event, LifeEvent):
            return life_words(call.event)


def _words_of_update(step: int, reports: Iterable[Report], stops: tuple[str, ...]) -> str:
    told = [f"the {report.direction} of {report.request}{_HOW[report.kind]}" for report in reports]
    words = f"The output of step {step}"
    if told:
        words += f" reports {' and '.join(told)}"
    if stops:
        words += f"{' and' if told else ''} has a stop token for {', '.join(stops)}"
    return f"{words}{'' if told or stops else ' is processed'}."


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
        case TransferEnds(name, direction):
            return [f"connector.ends({quoted(direction)}, {quoted(name)})"]
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
        lines.append(f"used_{call.step} = used_blocks(scheduler, {step})")
    return lines


def _update(order: Order, call: Call, event: Update, watched: frozenset[str]) -> list[str]:
    step = f"step_{call.step}"
    arguments = ["scheduler", step] if order.scope.token_budget else [step]
    for direction, keyword in (("load", "finished_recving"), ("save", "finished_sending")):
        names = [report for report in event.reports if report.direction == direction]
        if names:
            arguments.append(f"{keyword}={_reported(direction, names)}")
    if event.stops:
        arguments.append(f"stopped=[{_names(list(event.stops))}]")
    last = call is order.calls[-1]
    outputs = "outputs = " if "notices" in watched or ("output" in watched and last) else ""
    line = f"{outputs}scheduler.update_from_output({step}, model_output({', '.join(arguments)}))"
    lines = [line]
    if len(_INDENT + line) > WIDTH:
        whole = enclosed("output = model_output(", arguments, ")", _INDENT)
        lines = [part.removeprefix(_INDENT) for part in whole]
        lines.append(f"{outputs}scheduler.update_from_output({step}, output)")
    if "notices" in watched:
        lines.append("notices += final_notices(outputs)")
    return lines


def _reported(direction: str, reports: list[Report]) -> str:
    """The ids in one set of an output: those of transfers that ran, and those that are reported in spite of it."""
    due = _names(
        [f"{EARLIER if report.kind == 'earlier' else ''}{report.request}" for report in reports if is_over(report)]
    )
    other = _names([report.request for report in reports if not is_over(report)])
    over = f"connector.over({quoted(direction)}, {due})"
    if not other:
        return over
    return f"[*{over}, {other}]" if due else f"[{other}]"


_MANY = 5


def _names(names: list[str]) -> str:
    """Arguments, or the letters of one string where there are many."""
    if len(names) >= _MANY:
        return f"*{quoted(''.join(names))}"
    return ", ".join(map(quoted, names))
