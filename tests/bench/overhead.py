"""What the drop-in scheduler costs beside vLLM's: both under the same load, pair by pair in turns, in one process."""

from __future__ import annotations

import copy
import gc
import statistics
import time
from types import SimpleNamespace
from typing import Any

from vllm import SamplingParams
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.request import Request

from kvmodel.port import ConnectorScript
from kvmodel.scope import Scope
from kvrace.vllm.api import load_api
from kvrace.vllm.environment import make_config
from kvrace.vllm.fixed import FixedScheduler

REQUESTS = 64
PROMPT_TOKENS, OUTPUT_TOKENS = 32, 96
POOL = SimpleNamespace(blocks=1024, block_size=16)
WARM_UP = 300


class Engine:
    """One scheduler under load: as soon as a request is over, the next one comes. Of every four one loads its prompt and saves what
    it has; each transfer is reported with the output after the one in which it began."""

    def __init__(self, scheduler_class: type, with_connector: bool) -> None:
        self._api = load_api()
        config = copy.deepcopy(make_config(Scope(("load_save",), block_size=POOL.block_size)))
        config.scheduler_config.max_num_seqs = REQUESTS
        if not with_connector:
            config.kv_transfer_config = None
        self.scheduler = self._api.make_scheduler(scheduler_class, config, POOL)  # type: ignore[arg-type]
        self.transfers = 0
        self._script: dict[str, ConnectorScript] = {}
        self._came = 0
        self._due: tuple[set[str], set[str]] = (set(), set())

    def pair(self) -> float:
        """Seconds in one schedule() and the update_from_output() that belongs to it."""
        self._fill_up()
        connector = self.scheduler.connector
        if connector is not None:
            connector.begin(self._script)
        started = time.perf_counter()
        output = self.scheduler.schedule()
        seconds = time.perf_counter() - started
        answer = self._answer(output)
        started = time.perf_counter()
        self.scheduler.update_from_output(output, answer)
        seconds += time.perf_counter() - started
        if connector is not None:
            loads = {load.request for load in connector.loads}
            saves = {handover.request for handover in connector.handovers if self._script[handover.request].load_tokens}
            self.transfers += len(loads) + len(saves)
            self._due = loads, saves
        return seconds

    def _fill_up(self) -> None:
        while sum(self.scheduler.get_request_counts()) < REQUESTS:
            name = f"request-{self._came}"
            transfers = self._came % 4 == 0
            self._script[name] = ConnectorScript(
                PROMPT_TOKENS - 1 if transfers else 0, "claimed" if transfers else "none"
            )
            # Spread over time, so that a step is not one in which all of them end.
            tokens = OUTPUT_TOKENS // 2 + 37 * self._came % OUTPUT_TOKENS
            parameters = SamplingParams(max_tokens=tokens, ignore_eos=True)
            prompt = [3 + (self._came + place) % 90 for place in range(PROMPT_TOKENS)]
            self.scheduler.add_request(Request(name, prompt, parameters, None, arrival_time=float(self._came)))
            self._came += 1

    def _answer(self, output: Any) -> Any:
        """One token for each request whose prompt is done, and the reports that are due."""
        names = list(output.num_scheduled_tokens)
        requests = self.scheduler.requests
        tokens = {name: [5] for name in names if requests[name].num_computed_tokens >= requests[name].num_tokens}
        loads, saves = self._due
        self._due = set(), set()
        return self._api.runner_output(names, tokens, saves, loads)


def compare(pairs: int) -> dict[str, Any]:
    """The drop-in's median over the stock scheduler's, with the scripted connector and without a connector."""
    figures: dict[str, Any] = {"overhead_pairs": pairs}
    for name, with_connector in (("connector", True), ("no_connector", False)):
        stock, fixed = Engine(Scheduler, with_connector), Engine(FixedScheduler, with_connector)
        seconds: dict[Engine, list[float]] = {stock: [], fixed: []}
        gc.collect()
        gc.disable()
        for number in range(WARM_UP + pairs):
            for engine in (stock, fixed) if number % 2 else (fixed, stock):
                seconds[engine].append(engine.pair())
        gc.enable()
        medians = {engine: statistics.median(times[WARM_UP:]) for engine, times in seconds.items()}
        assert stock.transfers == fixed.transfers and bool(stock.transfers) == with_connector
        figures |= {
            f"fixed_over_stock_{name}": medians[fixed] / medians[stock],
            f"stock_microseconds_{name}": medians[stock] * 1e6,
        }
        figures[f"transfers_{name}"] = stock.transfers
    return figures
