"""Failing orders made short."""

from __future__ import annotations

from functools import partial

import pytest

from kvmodel.contract import Contract
from kvmodel.events import parse_event
from kvmodel.playback import play
from kvmodel.reduce import reduce
from kvmodel.scope import Scope
from kvrace.check import check
from kvrace.reference.subject import ReferenceSubject

SKIP = partial(ReferenceSubject, policy="skip")
LONG = ["add A", "add B", "schedule", "add C", "update", "abort A", "schedule", "abort C", "update", "add D", "schedule",
        "abort D", "abort B", "update load:B"]  # fmt: skip


def _finding(scope: Scope, words: list[str], contract: Contract):
    events = [parse_event(word) for word in words]
    subject = SKIP(scope)
    frames, refused = play(subject, contract, events)
    assert refused is None
    return subject, events, frames[-1].findings[0]


def test_a_long_order_in_a_large_scope_becomes_four_events_in_the_smallest() -> None:
    scope = Scope(
        ("local", "load_save", "save", "load"), block_size=2, prompts=("a", "ab", "b", "a"), prefix_sharing=True
    )
    subject, events, finding = _finding(scope, LONG, Contract())
    short = reduce(SKIP, Contract(), subject, events, finding)
    assert short is not None
    assert [str(event) for event in short.events] == ["add A", "schedule", "abort A", "update load:A"]
    assert short.subject.scope == Scope(("load_save",), output_tokens=1)
    assert short.finding.signature == finding.signature


@pytest.mark.parametrize("contract", ["exactly-once", "duplicate", "unsolicited", "lossy"])
def test_what_the_explorer_calls_shortest_gets_no_longer(contract: str) -> None:
    scope = Scope(("load_save",))
    result = check(SKIP, [scope], Contract.parse(contract))
    assert result.violations
    for violation in result.violations:
        events = [frame.event for frame in violation.frames[1:] if frame.event is not None]
        finding = violation.frames[-1].findings[0] if violation.frames[-1].findings else None
        if finding is not None:
            short = reduce(SKIP, Contract.parse(contract), SKIP(scope), events, finding)
            assert short is not None
            assert len(short.events) <= len(events)


def test_an_order_that_shows_nothing_is_not_reduced() -> None:
    scope = Scope(("local", "load_save", "save", "load"))
    subject, events, finding = _finding(scope, LONG, Contract())
    assert (
        reduce(
            partial(ReferenceSubject, policy="wait_for_all"),
            Contract(),
            ReferenceSubject(scope, "wait_for_all"),
            events,
            finding,
        )
        is None
    )
    assert reduce(SKIP, Contract(), subject, events[:3], finding) is None
