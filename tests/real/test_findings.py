"""What kvrace finds in the stock scheduler of the pinned release, with exact counts. Nothing here is a mock.

The counts are a net: a change to the model, the explorer or the merging that alters what is explored shows here first.
"""

from __future__ import annotations

import inspect
import linecache
import re
from dataclasses import replace
from pathlib import Path

import pytest
from spec.runs import of_stock

from kvmodel.named_scopes import named_scope
from kvmodel.scope import SCHEDULINGS, Scheduling, Scope, both_schedulers
from kvrace.vllm.api import load_api
from kvrace.vllm.remedies import REMEDIES
from tests.real.helpers import broken, check_vllm, orders, table

pytestmark = pytest.mark.vllm


def test_load_and_save_of_different_requests_hold_everything() -> None:
    result = check_vllm(both_schedulers(Scope(("load", "save"))))
    assert result.complete and broken(result) == set()
    assert [(case.states, case.transitions) for case in result.cases] == [(392, 874), (1044, 2803)]


@pytest.mark.parametrize("scheduling", SCHEDULINGS)
def test_load_save_crashes_in_four_events_and_frees_under_a_transfer_both_ways(scheduling: Scheduling) -> None:
    result = check_vllm([Scope(("load_save",), scheduling)])
    assert (result.states, result.transitions) == {"sync": (50, 68), "async": (103, 181)}[scheduling]
    crashes = {v.location: v.events for v in result.violations if v.property == "no-crash"}
    first = ("add A", "schedule", "abort A", "update load:A save:A")
    send_assertion = next(location for location, events in crashes.items() if events == first)
    assert send_assertion == _assertion_lines()[1]
    assert set(crashes) == set(_assertion_lines()), "the receive is asserted too, when the send came first"
    assert orders(result, "no-use-after-free") == {
        "under a load": ("add A", "schedule", "abort A", "update save:A"),
        "under a save": ("add A", "schedule", "abort A", "update load:A"),
    }
    assert {violation.blame for violation in result.violations} == {"scheduler"}
    # Not foretold by the issue: the freed request is forgotten, so the engine goes idle and the other report never comes.
    assert broken(result) == {"no-crash", "no-use-after-free", "no-stuck"}


@pytest.mark.parametrize("scheduling", SCHEDULINGS)
def test_a_finding_names_the_line_that_decided(scheduling: Scheduling) -> None:
    """Opened in the installed vLLM. In the async scheduler the blocks wait for a step; the abort before it took them away."""

    def lines(kind: str, contract: str) -> set[tuple[str, str]]:
        found = check_vllm([Scope((kind,), scheduling)], contract).violations
        return {(v.property, _source(v.location)) for v in found if v.property != "no-crash"}

    assert lines("load_save", "exactly-once") == {
        ("no-use-after-free", "_update_from_kv_xfer_finished: self._free_blocks(self.requests[req_id])"),
        ("no-stuck", "has_requests: def has_requests(self) -> bool:"),
    }
    abort = "finish_requests: self._free_request(request, delay_free_blocks=delay_free_blocks)"
    assert ("no-use-after-free", abort) in lines("save", "unclaimed")
    asked_last = {
        "sync": "schedule: def schedule(self, throttle_prefills: bool = False) -> SchedulerOutput:",
        "async": "update_from_output: def update_from_output(",
    }
    assert lines("load", "lossy") == {
        ("no-leak", "finish_requests: def finish_requests("),
        ("no-stuck", asked_last[scheduling]),
    }


def _source(location: str | None) -> str:
    match = re.fullmatch(r"vllm/(\S+):(\d+) in (\w+)", location or "")
    assert match, location
    line = linecache.getline(str(_vllm_folder() / match[1]), int(match[2]))
    return f"{match[3]}: {line.strip()}"


def _vllm_folder() -> Path:
    import vllm

    return Path(vllm.__file__).parent


def _assertion_lines() -> list[str]:
    """Where `assert req_id in self.requests` stands in the installed vLLM: first for receives, then for sends."""
    function = load_api().scheduler._update_from_kv_xfer_finished
    lines, start = inspect.getsourcelines(function)
    file = "vllm/v1/core/sched/scheduler.py"
    return [
        f"{file}:{start + index} in {function.__name__}"
        for index, line in enumerate(lines)
        if line.strip() == "assert req_id in self.requests"
    ]


@pytest.mark.parametrize("scheduling", SCHEDULINGS)
def test_skipping_unknown_requests_stops_the_crash_and_keeps_the_use_after_free(scheduling: Scheduling) -> None:
    skipping = REMEDIES["skip"].scheduler(scheduling)
    result = check_vllm([Scope(("load_save",), scheduling)], scheduler_class=skipping)
    assert result.verdicts["no-crash"] == "holds"
    assert set(orders(result, "no-use-after-free")) == {"under a load", "under a save"}
    assert all(len(events) == 4 for events in orders(result, "no-use-after-free").values())


def test_one_pending_transfer_at_a_time_holds_everything() -> None:
    result = check_vllm(both_schedulers(Scope(("load_save",))), "single")
    assert result.complete and broken(result) == set()
    assert [(case.states, case.transitions) for case in result.cases] == [(41, 58), (87, 161)]


@pytest.mark.slow
@pytest.mark.parametrize("contract", ["duplicate", "unsolicited", "unclaimed", "lossy"])
def test_weaker_contracts_give_the_verdicts_as_they_are(contract: str, snapshot) -> None:
    """`load,save` breaks nothing under `exactly-once`, so whatever is broken here is the connector's doing."""
    result = check_vllm(both_schedulers(Scope(("load", "save"))), contract)
    assert {violation.blame for violation in result.violations} == {"connector"}
    assert table(result) == snapshot


def test_one_request_of_each_kind(snapshot) -> None:
    """The smallest cases of `small`; all of it is in the slow tier."""
    result = check_vllm([scope for scope in named_scope("small") if len(scope.requests) == 1])
    assert result.complete
    assert table(result) == snapshot


@pytest.mark.slow
def test_small(snapshot) -> None:
    result = of_stock("small")
    assert result.complete
    assert all(violation.blame == "scheduler" for violation in result.violations)
    double = [case for case in result.cases if "load_save" in case.scope.requests]
    single = [case for case in result.cases if "load_save" not in case.scope.requests]
    assert all("violated" in case.verdicts.values() for case in double)
    assert all(set(case.verdicts.values()) == {"holds"} for case in single)
    for name in ("abort-before-schedule", "abort-in-flight", "abort-when-over", "two-steps", "held-back"):
        assert result.reached[name] > 0
    assert table(result) == snapshot


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pressure", "prefix", "stops"])
def test_larger_scopes(name: str, snapshot) -> None:
    result = of_stock(name)
    assert result.complete
    wanted = {"pressure": ("preemption", "pool-dry"), "prefix": ("shared-block",), "stops": ("held-back",)}[name]
    assert all(result.reached[milestone] > 0 for milestone in wanted)
    assert table(result) == snapshot


def test_every_finding_is_reached_in_an_order_that_the_engine_can_make() -> None:
    """EngineCore's loop makes fewer orders than all; nothing that is found needs one that it cannot make."""
    any_order = check_vllm(both_schedulers(Scope(("load_save",))))
    engine_order = check_vllm([replace(scope, engine_order=True) for scope in both_schedulers(Scope(("load_save",)))])
    assert engine_order.transitions < any_order.transitions
    assert {v.signature for v in engine_order.violations} == {v.signature for v in any_order.violations}


@pytest.mark.slow
@pytest.mark.parametrize("scheduling", SCHEDULINGS)
def test_three_requests_hold_everything(scheduling: Scheduling, snapshot) -> None:
    scope = Scope(("load", "save", "local"), scheduling)
    result = check_vllm([scope])
    assert result.complete and broken(result) == set()
    assert table(result) == snapshot
