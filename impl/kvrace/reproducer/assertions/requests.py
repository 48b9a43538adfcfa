"""``no-crash`` and ``finish-once``: what a request's client, its workers and the connector are told."""

from __future__ import annotations

from kvmodel.errors import KvraceError
from kvmodel.events import Schedule, Update
from kvrace.reproducer.assertions.assertion import Assertion
from kvrace.reproducer.assertions.helpers import FINAL_NOTICES, run_to_the_end
from kvrace.reproducer.order import Order
from kvrace.reproducer.piece import piece


def crash(order: Order, name: str) -> Assertion:
    return Assertion(("# No call raises, and neither does what the engine asks next.", "scheduler.has_requests()"))


def wrong_answer(order: Order, name: str) -> Assertion:
    match order.calls[-1].event:
        case Schedule():
            after = f"assert isinstance(step_{order.calls[-1].step}, SchedulerOutput)"
            kind = piece("", "vllm.v1.core.sched.output:SchedulerOutput")
            return Assertion((after,), (kind,))
        case Update():
            return Assertion(("assert isinstance(outputs, dict)",), watched=frozenset({"output"}))
        case _:
            raise KvraceError("the last event of the order returns nothing")


_NOTICES = frozenset({"notices"})


def many_notices(order: Order, name: str) -> Assertion:
    after = (
        "for name in PROMPTS:",
        '    assert notices.count(name) <= 1, f"{name} got more than one final notice"',
    )
    return Assertion(after, (FINAL_NOTICES,), watched=_NOTICES)


def many_calls(order: Order, name: str) -> Assertion:
    after = (
        "for name in PROMPTS:",
        "    calls = connector.finished.count(name)",
        '    assert calls <= 1, f"request_finished was called {calls} times for {name}"',
    )
    return Assertion(after, watched=frozenset({"finished"}))


def many_dismissals(order: Order, name: str) -> Assertion:
    after = (
        "for name in PROMPTS:",
        '    assert dismissed.count(name) <= 1, f"the workers were told twice of {name}"',
    )
    return Assertion(after, watched=frozenset({"dismissed"}))


def _to_the_end(order: Order, *lines: str) -> tuple[str, ...]:
    return (
        "# Let everything come to its end, and clean up.",
        "for step, outputs in run_to_the_end(scheduler, connector):",
        *lines,
        "    notices += final_notices(outputs)",
    )


def no_call(order: Order, name: str) -> Assertion:
    after = (
        *_to_the_end(order),
        "for name in notices:",
        '    assert name in connector.finished, f"request_finished never came for {name}"',
    )
    pieces = (FINAL_NOTICES, run_to_the_end(order))
    return Assertion(after, pieces, watched=_NOTICES | {"finished"}, reports_all=True)


def no_dismissal(order: Order, name: str) -> Assertion:
    after = (
        *_to_the_end(order, "    dismissed += step.finished_req_ids", "    known |= step.num_scheduled_tokens.keys()"),
        "for name in known.intersection(notices):",
        '    assert name in dismissed, f"the workers were never told that {name} is over"',
    )
    pieces = (FINAL_NOTICES, run_to_the_end(order))
    return Assertion(after, pieces, watched=_NOTICES | {"dismissed", "known"}, reports_all=True)


def finished_early(order: Order, name: str) -> Assertion:
    after = (
        "for name in connector.finished:",
        '    assert name in notices, f"request_finished came for {name}, which is not over"',
    )
    return Assertion(after, (FINAL_NOTICES,), watched=_NOTICES | {"finished"})
