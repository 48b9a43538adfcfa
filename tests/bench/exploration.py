"""How much an exploration costs beside the scheduler calls it makes. All figures are from one process and one run."""

from __future__ import annotations

import resource
import statistics
import time
from typing import Any

from kvmodel.contract import Contract
from kvmodel.scope import Scope, both_schedulers
from kvrace.check import check
from kvrace.vllm.subject import VllmSubject

ENTRY_POINTS = ("add_request", "finish_requests", "schedule", "update_from_output")
SCOPES = both_schedulers(Scope(("load", "save")))


class TimedSubject(VllmSubject):
    """Adds up the time spent inside the scheduler's entry points: the bare cost of the calls."""

    bare_seconds = 0.0

    def start(self) -> None:
        super().start()
        for name in ENTRY_POINTS:
            setattr(self.scheduler, name, self._timed(getattr(self.scheduler, name)))

    def _timed(self, call: Any) -> Any:
        def timed(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            try:
                return call(*args, **kwargs)
            finally:
                TimedSubject.bare_seconds += time.perf_counter() - started

        return timed


def explore_and_compare(rounds: int) -> dict[str, Any]:
    """Calls per transition, wall time over bare time, transitions a second; medians of ``rounds``."""
    check(VllmSubject, SCOPES, Contract())  # the first run fills caches
    ratios, rates, calls, replay = [], [], [], []
    for _ in range(rounds):
        TimedSubject.bare_seconds = 0.0
        check(TimedSubject, SCOPES, Contract())
        bare = TimedSubject.bare_seconds
        result = check(VllmSubject, SCOPES, Contract())
        ratios.append(result.seconds / bare)
        rates.append(result.transitions / result.seconds)
        calls.append(result.calls / result.transitions)
        replay.append(bare / result.transitions * 1e6)
    return {
        "calls_per_transition": statistics.median(calls),
        "wall_over_bare": statistics.median(ratios),
        "transitions_per_second": statistics.median(rates),
        "bare_microseconds_per_transition": statistics.median(replay),
        "rounds": rounds,
    }


def peak_memory() -> dict[str, Any]:
    """Peak memory an exploration adds, per 100,000 states. In MiB. Run in a process of its own."""
    check(VllmSubject, SCOPES, Contract())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = check(VllmSubject, [Scope(("load", "save", "local"), "async")], Contract())
    added = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"peak_mib_per_100k_states": added / 1024 / result.states * 100_000, "states": result.states}
