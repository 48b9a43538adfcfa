"""What the drop-in scheduler costs beside vLLM's: both under the same load, in turns, each in a process of its own.

In one process they would share the code of vLLM's methods, which Python specialises for the class that it sees most: then any
subclass, even an empty one, seems to cost some percent more.
"""

from __future__ import annotations

import copy
import gc
import multiprocessing
import statistics
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
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
TURN = 20


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
        """CPU seconds in one schedule() and the update_from_output() that belongs to it: a busy machine must not count."""
        self._fill_up()
        connector = self.scheduler.connector
        if connector is not None:
            connector.begin(self._script)
        started = time.thread_time()
        output = self.scheduler.schedule()
        seconds = time.thread_time() - started
        answer = self._answer(output)
        started = time.thread_time()
        self.scheduler.update_from_output(output, answer)
        seconds += time.thread_time() - started
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


def _serve(parent: Connection, drop_in: bool, with_connector: bool) -> None:
    """In a process of its own: play as many pairs as are asked for and answer with their seconds; at last with the transfers."""
    engine = Engine(FixedScheduler if drop_in else Scheduler, with_connector)
    for _ in range(WARM_UP):
        engine.pair()
    gc.collect()
    gc.disable()
    parent.send("ready")
    while pairs := parent.recv():
        parent.send([engine.pair() for _ in range(pairs)])
    parent.send(engine.transfers)


def compare(pairs: int) -> dict[str, Any]:
    """The drop-in's median over the stock scheduler's, with the scripted connector and without a connector. The stock scheduler
    runs twice, and what it costs beside itself says how far the ratio can be trusted."""
    figures: dict[str, Any] = {"overhead_pairs": pairs}
    for name, with_connector in (("connector", True), ("no_connector", False)):
        (stock, again, fixed), transfers = _medians((False, False, True), with_connector, pairs)
        assert len(set(transfers)) == 1 and bool(transfers[0]) == with_connector
        figures |= {
            f"fixed_over_stock_{name}": fixed / statistics.mean((stock, again)),
            f"stock_over_itself_{name}": max(stock, again) / min(stock, again),
            f"stock_microseconds_{name}": stock * 1e6,
            f"transfers_{name}": transfers[0],
        }
    return figures


def _medians(drop_ins: Sequence[bool], with_connector: bool, pairs: int) -> tuple[list[float], list[int]]:
    """The median seconds of a pair and the transfers, for each engine. One after the other plays :data:`TURN` pairs, and so on."""
    context = multiprocessing.get_context("fork")  # vLLM is imported once
    pipes, processes = [], []
    for drop_in in drop_ins:
        mine, its = context.Pipe()
        processes.append(context.Process(target=_serve, args=(its, drop_in, with_connector), daemon=True))
        processes[-1].start()
        its.close()  # so that a process that ends too early is noticed
        pipes.append(mine)
    for pipe in pipes:
        pipe.recv()
    seconds: list[list[float]] = [[] for _ in pipes]
    for _ in range(pairs // TURN):
        for pipe, times in zip(pipes, seconds, strict=True):
            pipe.send(TURN)
            times.extend(pipe.recv())
    for pipe in pipes:
        pipe.send(0)
    transfers = [pipe.recv() for pipe in pipes]
    for process in processes:
        process.join()
    return [statistics.median(times) for times in seconds], transfers
