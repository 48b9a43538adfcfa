"""The events of the engine's and the client's life on the real schedulers."""

from __future__ import annotations

import pytest

from kvmodel.scope import Scope
from tests.real.helpers import broken, check_vllm, orders

pytestmark = pytest.mark.vllm


@pytest.mark.parametrize("kind", ["local", "load", "save"])
def test_a_sync_engine_that_is_reset_paused_and_told_to_abort_everything_holds(kind: str) -> None:
    result = check_vllm([Scope((kind,), lifecycle=("abort_all", "reset", "reset_running", "pause"))])
    assert broken(result) == set()
    assert result.cases[0].states > 40


def test_a_reset_that_preempts_is_refused_because_of_a_step_in_flight() -> None:
    """Only running requests owned blocks, for which it promises to succeed; the engine's own loop makes this order."""
    result = check_vllm([Scope(("local",), "async", lifecycle=("reset_running",), engine_order=True)])
    (order,) = orders(result, "no-crash").values()
    assert ", ".join(map(str, order)) == "add A, schedule, reset running"


def test_a_reset_may_be_refused_while_a_load_runs_or_blocks_are_held() -> None:
    result = check_vllm([Scope(("load_save",), lifecycle=("reset_running",))])
    assert not any("reset" in str(event) for violation in result.violations for event in violation.events)


@pytest.mark.parametrize(
    ("kind", "order"),
    [
        ("save", "add A, schedule, abort A, update, add A again"),
        ("load", "add A, schedule, abort A, update, add A again"),
        ("load_save", "add A, schedule, abort A, update load:A, add A again, schedule, update save:A:earlier"),
    ],
)
def test_an_id_that_is_used_again_meets_what_is_left_of_the_earlier_request(kind: str, order: str) -> None:
    result = check_vllm([Scope((kind,), lifecycle=("reuse",))])
    assert order in {", ".join(map(str, found)) for found in orders(result, "no-crash").values()}


def test_a_report_of_the_earlier_request_is_taken_for_one_of_the_new() -> None:
    result = check_vllm([Scope(("load_save",), lifecycle=("reuse",))])
    (order,) = orders(result, "no-premature-use").values()
    assert str(order[-2]) == "update load:A:earlier"


def test_an_id_is_free_again_where_nothing_is_left() -> None:
    assert broken(check_vllm([Scope(("local",), lifecycle=("reuse",))])) == set()


@pytest.mark.parametrize("kinds", [("load",), ("load", "local")])
def test_a_connector_that_cannot_say_yet_blocks_nobody_for_ever(kinds: tuple[str, ...]) -> None:
    assert broken(check_vllm([Scope(kinds, blocks=2, max_requests=1, lifecycle=("lookup",))])) == set()
