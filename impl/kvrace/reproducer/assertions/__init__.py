"""From a recorded finding to the assertion that fails where its fault is."""

from __future__ import annotations

import re

from kvmodel.errors import KvraceError, quoted
from kvrace.reproducer import failures
from kvrace.reproducer.assertions import blocks, common_prefix, handover, pool, progress, requests
from kvrace.reproducer.assertions.assertion import Assertion, Translate
from kvrace.reproducer.order import Order

_KINDS: tuple[tuple[str, str, Translate], ...] = (
    ("no-crash", r"(?:schedule|update_from_output) returned ", requests.wrong_answer),
    ("no-crash", r"", requests.crash),
    ("no-double-free", r"", pool.double_free),
    ("no-leak", r".* did not come back$", pool.blocks_leak),
    ("no-leak", r".*, and ([A-Z])(?:, [A-Z])* is still in \w+\._(?:recv|send)_remaining_count$", pool.count_leaks),
    ("no-leak", r".*, and ([A-Z])(?:, [A-Z])* is still in ", pool.entry_leaks),
    ("no-use-after-free", r".* in the pool while the ", blocks.in_the_pool),
    ("no-use-after-free", r".* given to [A-Z] while the ", blocks.given_away),
    ("no-use-after-free", r"a step is told that all its requests have ", common_prefix.not_common),
    ("no-use-after-free", r"a step writes .* owns it too$", blocks.two_owners),
    ("no-use-after-free", r"a step writes ", blocks.step_writes),
    ("no-use-after-free", r"a step works on .* does not own any more$", blocks.given_up),
    ("no-use-after-free", r".* of the load of [A-Z] while a dispatched step ", blocks.load_under_step),
    ("no-use-after-free", r".* of the load of [A-Z] while the ", blocks.load_under_transfer),
    ("no-premature-use", r"the prefix cache offers .* whose load has failed", failures.failed_offered),
    ("no-premature-use", r"a step computes with .* whose load has failed", failures.failed_read),
    ("no-premature-use", r"the client of ([A-Z]) gets a token ", failures.failed_delivered),
    ("no-premature-use", r"the prefix cache offers ", blocks.offered_early),
    ("no-premature-use", r"the prefix cache was reset and still offers ", blocks.offered_after_reset),
    ("no-premature-use", r"a step computes with ", blocks.computed_early),
    ("no-stuck", r"the engine goes idle while [A-Z] is not over$", progress.idle_with_request),
    ("no-stuck", r"the engine goes idle while the ", progress.idle_with_transfer),
    ("finish-once", r"[A-Z] got more than one final notice$", requests.many_notices),
    ("finish-once", r"[A-Z] got more than one call of request_finished$", requests.many_calls),
    ("finish-once", r"[A-Z] got more than one notice to the workers$", requests.many_dismissals),
    ("finish-once", r"[A-Z] is over and never got its call of request_finished$", requests.no_call),
    ("finish-once", r"[A-Z] is over and never got its notice to the workers$", requests.no_dismissal),
    ("finish-once", r"request_finished was called for [A-Z], which is not over$", requests.finished_early),
    ("handover", r"request_finished\(([A-Z])\) named ", handover.wrong_handover),
    ("conservation", r"block \d+ has reference count -?\d+ and \d+ owners$", pool.references),
    *(("conservation", rf"{counter} of ([A-Z]) is negative$", pool.negative(counter)) for counter in pool.COUNTERS),
)
"""Property, how the message of :mod:`kvmodel.checks` begins, and what it becomes. The group is the request it is about."""


def assertion_for(order: Order, rule: str, message: str, shape: str, depth: int | None) -> Assertion:
    """``depth`` is how many steps are in flight in a loop. Raises KvraceError for a finding of a kind that is not known here."""
    if not order.calls:
        raise KvraceError("the order has no events")
    if rule == "no-stuck" and depth is not None:
        return progress.never_at_rest(order, depth)
    if rule == "no-stuck" and shape == "hang":
        return progress.hang(order, "")
    for known, pattern, translate in _KINDS:
        found = re.match(pattern, message) if known == rule else None
        if found:
            name = found[1] if found.re.groups else ""
            if name and name not in order.requests:
                raise KvraceError(f"the finding is about {name}, which the order does not add")
            return translate(order, name)
    raise KvraceError(f"no reproducer can be made of this kind of {rule}: {quoted(message)}")
