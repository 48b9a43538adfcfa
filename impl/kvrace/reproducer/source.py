"""The generated file as a whole: docstring, imports, bound, order, helpers, and one test."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from kvmodel.allowed import possible_reports
from kvmodel.contract import ALL_MEANINGS, Contract
from kvmodel.errors import KvraceError, quoted
from kvmodel.events import Schedule, Update
from kvmodel.properties import PROPERTIES
from kvrace.render.rows import Row, rows_of
from kvrace.reproducer.assertions import assertion_for
from kvrace.reproducer.assertions.assertion import Assertion
from kvrace.reproducer.calls import call_lines
from kvrace.reproducer.connector import connector_piece
from kvrace.reproducer.failures import mending_pieces
from kvrace.reproducer.older import for_release
from kvrace.reproducer.order import Order
from kvrace.reproducer.piece import Piece, import_lines
from kvrace.reproducer.setup import constants, setup_pieces
from kvrace.reproducer.text import comment_lines, docstring_lines
from kvrace.reproducer.window import with_real_blocks
from kvrace.reproducer.workers import workers_pieces
from kvrace.trace import NO_FINDING, RecordedTrace, frames_of

_CLASS_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_STOCK = {"sync": "Scheduler", "async": "AsyncScheduler"}
_LICENSE = "# SPDX-License-Identifier: Apache-2.0"
_LONGEST_KIND = 40
_CALLED = {
    "RequestStatus": "vllm.v1.request:RequestStatus",
    "PauseState": "vllm.v1.core.sched.interface:PauseState",
    "suppress(": "contextlib:suppress",
}
"""What the calls of the test may name, and where it is imported from."""
_NOTES = {"notices": "notices = []", "dismissed": "dismissed = []", "known": "known = set()"}


def pytest_source(recorded: RecordedTrace) -> str:
    """The order of a trace as one pytest file that needs vLLM and pytest alone.

    It fails on a scheduler with the fault and passes on one without it. Raises KvraceError for an order that was not found on
    vLLM, for a scheduler class that no import path names, and for a finding of an unknown kind.
    """
    try:
        return _source(recorded)
    except KvraceError as error:
        raise KvraceError(f"{recorded.path}: {str(error).removeprefix(f'{recorded.path}: ')}") from error


def _source(recorded: RecordedTrace) -> str:
    if recorded.property == NO_FINDING:
        raise KvraceError("the order breaks nothing, so there is nothing that a test could show")
    scheduler = _scheduler_path(recorded)
    order = Order.of(recorded.scope, recorded.contract, recorded.events[: recorded.loop])
    depth = None if recorded.loop is None else _depth(recorded, len(order.in_flight), recorded.loop)
    assertion = assertion_for(order, recorded.property, recorded.message, recorded.shape, depth)
    pieces = [
        *setup_pieces(order),
        connector_piece(order, assertion.watched, assertion.reports_all),
        *workers_pieces(order, assertion.reports_all),
        *dict.fromkeys((*mending_pieces(order), *assertion.pieces)),
        _test(recorded, order, assertion),
    ]
    pieces = for_release(with_real_blocks(pieces), recorded.identity.version)
    head = [
        _LICENSE,
        *_docstring(recorded),
        "",
        *import_lines(name for piece in pieces for name in piece.imports),
        "",
        *constants(order, scheduler),
        "",
        *_order_comment(recorded),
        "",
    ]
    definitions = [piece.code for piece in pieces if piece.code]
    return "\n\n\n".join(["\n".join(head).rstrip("\n"), *definitions]) + "\n"


def _depth(recorded: RecordedTrace, in_flight: int, loop: int) -> int:
    """How many steps are in flight in a loop. Raises KvraceError for a loop that the generated test would not play: there the
    engine fills its pipeline up to that depth before it updates, and every report comes at once."""
    events = recorded.events[loop:]
    before = [in_flight]
    for event in events:
        before.append(before[-1] + isinstance(event, Schedule) - isinstance(event, Update))
    depth = max(before)
    frames = frames_of(recorded)[loop:] or [None] * len(events)  # a text form has none
    for event, many, frame in zip(events, before, frames, strict=False):
        if isinstance(event, Update) and event.drafts:
            raise KvraceError("in the loop drafts are accepted; a test without kvrace plays no such loop")
        reports = event.reports if isinstance(event, Update) else ()
        late = frame and len(reports) < len(possible_reports(frame.world, recorded.scope, Contract()))
        if isinstance(event, Schedule) != (many < depth) or (isinstance(event, Update) and late):
            raise KvraceError(
                "in the loop a report or a step comes later than it could; a test without kvrace plays no such loop"
            )
    return depth


def _scheduler_path(recorded: RecordedTrace) -> str | None:
    """``module:Class`` of the scheduler, None for vLLM's own."""
    name, scheduler = recorded.identity.name, recorded.identity.scheduler
    if not name:
        raise KvraceError(
            "the order was not recorded on a scheduler; 'kvrace replay --rewrite FILE' plays and records it"
        )
    if name != "vllm":
        raise KvraceError(
            f"found on {quoted(name)}, and a reproducer is for vLLM: look for it there with 'kvrace check --subject vllm'"
        )
    if scheduler == _STOCK[recorded.scope.scheduling]:
        return None
    if "<locals>" in scheduler:
        raise KvraceError(f"the scheduler {quoted(scheduler)} is made inside a function, so no path names it")
    if not _CLASS_PATH.fullmatch(scheduler):
        raise KvraceError(f"the scheduler {quoted(scheduler)} is not a class by its path (module:Class)")
    return scheduler


def _docstring(recorded: RecordedTrace) -> list[str]:
    rule = next(rule for rule in PROPERTIES if rule.name == recorded.property)
    contract = str(recorded.contract)
    meanings = "; ".join(ALL_MEANINGS[name] for name in contract.split(","))
    lines = docstring_lines(f"{rule.name}: {recorded.message}")
    lines += ["", *docstring_lines(f"The rule: {rule.meaning} ({rule.source}).")]
    lines += [""]
    for title, text in (
        ("Found on", f"vllm {recorded.identity.release}, {recorded.identity.scheduler}, by kvrace {recorded.kvrace}"),
        ("Scope", str(recorded.scope)),
        ("Contract", f"{contract}: {meanings}"),
        ("Blame", f"the {recorded.blame}"),
    ):
        lines += docstring_lines(f"{title}: {text}", "    ")
    lines += [
        "",
        "Needs vLLM and pytest: no GPU, no weights, no network. Another scheduler class is tested with",
        "SCHEDULER=module.Class in the environment.",
    ]
    return ['"""' + lines[0], *lines[1:], '"""']


def _order_comment(recorded: RecordedTrace) -> list[str]:
    """Of a text form only the events are known, and not what happened at each."""
    rows: list[Row | None] = [None] * len(recorded.events)
    if recorded.states:
        rows = list(rows_of(frames_of(recorded), recorded.loop))
    did = ", and what the scheduler and the connector did when it was found" if recorded.states else ""
    lines = [f"# The order{did}:"]
    for number, (row, event) in enumerate(zip(rows, recorded.events, strict=True), 1):
        lines += comment_lines(f"{number}. {event}{_effect(row)}", "", "   ")
    if recorded.loop is not None:
        lines.append(f"# Events {recorded.loop + 1} to {len(recorded.events)} repeat for ever.")
    return lines


def _effect(row: Row | None) -> str:
    if row is None:
        return ""
    told = [text for text in (row.scheduler, row.connector) if text and text not in ("schedule", "update")]
    return f" -> {', '.join(told)}" if told else ""


def _name(recorded: RecordedTrace) -> str:
    """The property and, where words say it, the kind of the finding. That of a crash is a place in the source."""
    kind = "" if recorded.property == "no-crash" else re.sub(r"[^a-z0-9]+", "_", recorded.shape.lower())
    return f"test_{recorded.property.replace('-', '_')}_{kind[:_LONGEST_KIND].strip('_')}".rstrip("_")


def _test(recorded: RecordedTrace, order: Order, assertion: Assertion) -> Piece:
    lines = [
        f"def {_name(recorded)}(tmp_path):",
        "    scheduler = create_scheduler(tmp_path)",
    ]
    events: list[str] = []
    for call in order.calls:
        if call is order.calls[-1] and assertion.whole_order:
            events += _indented(assertion.before)
        events += call_lines(order, call, assertion.watched)
    after = _indented(assertion.after)
    if any("connector" in line for line in [*events, *after]):
        lines.append("    connector = scheduler.connector")
    lines += [f"    {_NOTES[name]}" for name in _NOTES if name in assertion.watched]
    events = _without_unused_steps(events, after)
    imports = [path for word, path in _CALLED.items() if any(word in line for line in [*events, *after])]
    return Piece("\n".join([*lines, "", *events, "", *after]), tuple(imports))


def _without_unused_steps(events: list[str], after: list[str]) -> list[str]:
    """A step that nothing looks at gets no name."""
    words = Counter(re.findall(r"step_\d+", "\n".join([*events, *after])))
    pattern = re.compile(r"^( +)(step_\d+) = (scheduler\.schedule\(\))$")
    return [pattern.sub(lambda m: m[0] if words[m[2]] > 1 else m[1] + m[3], line) for line in events]


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]
