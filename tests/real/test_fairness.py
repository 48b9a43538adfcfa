"""A fault planted into the real scheduler that the engine's own loop never shows: only another fair run does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvmodel.scope import Scope
from kvrace.vllm.api import load_api
from tests.real.helpers import check_vllm

pytestmark = pytest.mark.vllm

SCOPE = Scope(("load",), "async")


def wakes_in_a_full_pipeline() -> type:
    class WakesInAFullPipeline(load_api().async_scheduler):
        """A request whose load is over is looked at only while another step is in flight."""

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.in_flight = 0

        def schedule(self, *args: Any, **options: Any) -> Any:
            self.in_flight += 1
            return super().schedule(*args, **options)

        def update_from_output(self, *args: Any, **options: Any) -> Any:
            self.in_flight -= 1
            return super().update_from_output(*args, **options)

        def _handle_blocked_waiting_request(self, request: Any) -> bool:
            waits = request.status.name == "WAITING_FOR_REMOTE_KVS" and self.in_flight < 2
            return not waits and super()._handle_blocked_waiting_request(request)

    return WakesInAFullPipeline


def test_a_fair_run_that_never_fills_the_pipeline_is_found_and_blamed_on_the_scheduler() -> None:
    result = check_vllm([SCOPE], scheduler_class=wakes_in_a_full_pipeline())
    (stuck,) = result.violations
    assert (stuck.property, stuck.blame, stuck.loop_start) == ("no-stuck", "scheduler", 3)
    assert stuck.events == ("add A", "schedule", "update load:A", "schedule", "update")


def test_where_the_engine_always_fills_its_pipeline_the_fault_is_none() -> None:
    result = check_vllm([replace(SCOPE, engine_order=True)], scheduler_class=wakes_in_a_full_pipeline())
    assert result.complete and not result.violations
