"""The events of the engine's life in the generated test, and what the connector there has to know of them."""

from __future__ import annotations

from kvmodel.events import AbortAll, AddAgain, Event, Pause, Report, Reset, Resume, Schedule
from kvmodel.life import LifeEvent
from kvrace.render.rows import at_rank
from kvrace.reproducer.order import Call, Order
from kvrace.reproducer.text import quoted

EARLIER = "earlier "
"""Before the name of a request in the generated connector: the transfer is one of the first request with that id."""
_STATES = {"new": "PAUSED_NEW", "all": "PAUSED_ALL"}


def is_over(report: Report) -> bool:
    """Whether the report is that of a transfer which ran."""
    return report.kind in ("due", "earlier")


def name_of_transfer(report: Report) -> str:
    """The request in the generated connector whose transfer is reported."""
    return (EARLIER if report.kind == "earlier" else "") + at_rank(report.request, report.rank)


def life_words(event: LifeEvent) -> str:
    match event:
        case AddAgain(name):
            return f"A client sends another request under the id {name}."
        case AbortAll():
            return "All requests are aborted at once."
        case Reset(running):
            return f"The prefix cache is reset{', and running requests are preempted for it' if running else ''}."
        case Pause(mode):
            return "The engine is paused: " + ("nobody new is started." if mode == "new" else "nothing is scheduled.")
        case Resume():
            return "The pause is over."


def life_statements(order: Order, call: Call, event: LifeEvent, watched: frozenset[str]) -> list[str]:
    match event:
        case AddAgain(name):
            forget = [f"notices.remove({quoted(name)})"] if "notices" in watched else []
            again = f"connector.again({quoted(name)})"
            return [*forget, again, f"scheduler.add_request(create_request({quoted(name)}))"]
        case AbortAll():
            live = "notices += [name for name, request in scheduler.requests.items() if not request.is_finished()]"
            abort = "scheduler.finish_requests(None, RequestStatus.FINISHED_ABORTED)"
            return [live, abort] if "notices" in watched else [abort]
        case Reset(running):
            reset = f"scheduler.reset_prefix_cache({'True' if running else ''})"
            if call is order.calls[-1] and "reset" in watched:
                return [f"done = {reset}"]
            if call is order.calls[-1] or not running:
                return [reset]
            return ["with suppress(RuntimeError):  # it may refuse, and the engine goes on", f"    {reset}"]
        case Pause(mode):
            return [f"scheduler.set_pause_state(PauseState.{_STATES[mode]})"]
        case Resume():
            return ["scheduler.set_pause_state(PauseState.UNPAUSED)"]


def lookup_lines(order: Order, event: Event) -> list[str]:
    """What the connector says of loads during a schedule, where that changes in the order."""
    if not (order.lookups and isinstance(event, Schedule)):
        return []
    answers = {**dict.fromkeys(event.later, "(None, False)"), **dict.fromkeys(event.missing, "(0, False)")}
    inside = ", ".join(f"{quoted(name)}: {answer}" for name, answer in sorted(answers.items()))
    return [f"connector.answers = {{{inside}}}"]


def resumed(order: Order) -> tuple[str, ...]:
    """A paused engine that is left alone is resumed first."""
    return ("scheduler.set_pause_state(PauseState.UNPAUSED)",) if order.paused else ()


def again_lines(order: Order) -> list[str]:
    """The method of the connector that tells the transfers of the first request with an id from those of the second."""
    return [
        "    def again(self, name):",
        '        """The id is used again: what runs for it belongs to the earlier request."""',
        '        for kind in ("load", "save"):',
        "            if (kind, name) in self.running:",
        f'                self.running[kind, f"{EARLIER}{{name}}"] = self.running.pop((kind, name))',
        *(["        self.loaded.discard(name)"] if order.loads and not order.scope.loads_again else []),
    ]
