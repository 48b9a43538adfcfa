"""A planted fault that one walk of the engine's own loop does not see: ``no-stuck`` looks at every fair run."""

from __future__ import annotations

from typing import Any

from kvmodel.contract import Contract
from kvmodel.explorer import explore
from kvmodel.lockstep import Lockstep
from kvmodel.rest import leave_alone
from kvmodel.scope import Scope
from kvrace.check import check
from kvrace.reference.scheduler import ReferenceScheduler
from kvrace.reference.subject import ReferenceSubject

SCOPE = Scope(("load",), "async")


class WakesInAFullPipeline(ReferenceScheduler):
    """A request whose load is over is looked at only while another step is in flight."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.in_flight = 0

    def schedule(self) -> Any:
        self.in_flight += 1
        return super().schedule()

    def update(self, *args: Any) -> Any:
        self.in_flight -= 1
        return super().update(*args)

    def schedule_waiting(self, scheduled: Any) -> None:
        loaded = self.loaded
        if self.in_flight < 2:
            self.loaded = set()
        super().schedule_waiting(scheduled)
        self.loaded = loaded


class Planted(ReferenceSubject):
    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        self._class = WakesInAFullPipeline


def test_a_fair_run_that_never_fills_the_pipeline_is_found() -> None:
    result = check(Planted, [SCOPE], Contract())
    stuck = next(violation for violation in result.violations if violation.property == "no-stuck")
    assert stuck.events == ("add A", "schedule", "update load:A", "schedule", "update")
    assert (stuck.loop_start, stuck.blame) == (3, "scheduler")
    assert stuck.message == "left alone, A is never over: it stays WAITING_FOR_REMOTE_KVS"


def test_one_walk_from_each_state_sees_nothing() -> None:
    """With every state of the same scheduler, the engine's own loop comes to rest."""
    subject = Planted(SCOPE)
    lockstep = Lockstep(subject, Contract())
    start = lockstep.initial()
    states = [start, *(edge.state for edge in explore(lockstep, start) if edge.new)]
    assert all(leave_alone(lockstep, state).loop is None for state in states)


def test_the_stock_scheduler_has_no_such_run() -> None:
    assert check(ReferenceSubject, [SCOPE], Contract()).verdicts["no-stuck"] == "holds"
