"""Loads that fail: which events there are, and what is right in a block."""

from __future__ import annotations

import pytest

from kvmodel.contract import Contract
from kvmodel.errors import KvraceError
from kvmodel.events import Failure, Report, Update, parse_event
from kvmodel.failures import possible_failures, run, sets_of_failures, spoil, why_not
from kvmodel.impossible import impossible
from kvmodel.scope import Scope
from kvmodel.world import Access, Step, Transfer, initial_world

WORDS = (
    "update load:A invalid:A", "update invalid:A:first", "update invalid:A:last stop:A", "update load:A failed:A",
)  # fmt: skip
SCOPE = Scope(("load", "sync_load"), prompt_blocks=2, load_failures="recompute")
LOADING = initial_world(2)._replace(
    steps=(Step((Access("B", (4, 5, 6), (4, 5, 6), 8, 8),), ("B",), False),),
    transfers=(Transfer("A", "load", (1, 2), 0, False, True),),
)


@pytest.mark.parametrize("words", WORDS)
def test_a_failure_reads_back(words: str) -> None:
    assert str(parse_event(words)) == words


@pytest.mark.parametrize("words", ["update invalid:A:middle", "update failed:A:first", "update invalid:a"])
def test_what_is_no_failure_is_refused(words: str) -> None:
    with pytest.raises(KvraceError):
        parse_event(words)


def test_each_load_fails_in_one_way_or_not_at_all() -> None:
    possible = possible_failures(LOADING, SCOPE)
    assert [str(failure) for failure in possible] == [
        "invalid:A", "invalid:A:first", "invalid:A:last", "invalid:B", "invalid:B:first", "invalid:B:last",
    ]  # fmt: skip
    assert len(list(sets_of_failures(possible, ()))) == 4 * 4
    assert possible_failures(LOADING, Scope(SCOPE.requests, prompt_blocks=2)) == []


def test_a_request_is_named_as_failed_in_the_output_that_reports_its_load() -> None:
    by_id = Scope(SCOPE.requests, prompt_blocks=2, load_failures="fail", failed_ids=True)
    failed = (Failure("A", "id"),)
    assert why_not(failed, LOADING, by_id, (Report("load", "A"),)) is None
    assert "before its load" in str(why_not(failed, LOADING, by_id, ()))


def test_a_load_fails_once_and_writes_the_failed_blocks_no_more() -> None:
    once = LOADING._replace(transfers=(LOADING.transfers[0]._replace(failed=True),))
    assert {failure.request for failure in possible_failures(once, SCOPE)} == {"B"}


def test_a_step_that_runs_on_a_failed_load_spoils_what_it_computes() -> None:
    world = spoil(LOADING, SCOPE, [Failure("B", "last")])
    assert dict(world.spoiled) == {5: 0, 6: 0}
    assert world.steps[0].garbage == ("B",)


def test_blocks_are_mended_by_tokens_and_others_may_read_in_the_same_step() -> None:
    spoiled = {1: 0}
    first_part = [Access("A", (1,), (1,), 0)]
    assert run(first_part, spoiled, SCOPE, {"A": 3}) == ()
    assert spoiled == {1: 3}
    rest_and_reader = [Access("A", (1,), (1,), 3), Access("B", (1, 2), (2,), 4)]
    assert run(rest_and_reader, spoiled, SCOPE, {"A": 4, "B": 5}) == ()
    assert spoiled == {}


def test_an_order_whose_failures_no_scheduler_can_meet() -> None:
    events = [parse_event(line) for line in ("add A", "schedule", "update invalid:B")]
    scope = Scope(("load", "local"), load_failures="fail")
    assert impossible(scope, Contract(), [events[0], events[1], Update(failures=(Failure("A"),))]) is None
    assert impossible(scope, Contract(), events) == (2, "B loads nothing in this scope")
    assert impossible(Scope(("load", "local")), Contract(), events) == (2, "no load fails in this scope")


@pytest.mark.parametrize(
    "fields",
    [{"load_failures": "retry"}, {"failed_ids": True}, {"load_failures": "fail", "ranks": 2}, {"load_failures": 3}],
)
def test_a_scope_of_failures_that_makes_no_sense_is_refused(fields: dict) -> None:
    with pytest.raises(KvraceError):
        Scope.from_dict({**Scope(("load",)).as_dict(), **fields})
