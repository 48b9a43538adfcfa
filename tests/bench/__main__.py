"""`python -m tests.bench`: run all benchmarks, print them beside their aims, write build/bench.json."""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

IMPORT = "import vllm; from vllm.v1.core.sched.async_scheduler import AsyncScheduler"
SEED = ["-m", "kvrace", "check", "--requests", "load_save", "--scheduler", "sync", "--trace-dir", "build/bench-traces"]
AIMS = {
    "calls_per_transition": ("scheduler calls per distinct transition (plain replay: 7, lower limit 1.0)", 3.0),
    "wall_over_bare": ("wall time over the bare cost of the same calls", 2.0),
    "seconds_to_seed_beyond_import": (
        "seconds from process start to the seed counterexample, beyond vLLM's import",
        1.0,
    ),
    "peak_mib_per_100k_states": ("peak MiB per 100,000 states", None),
    "fixed_over_stock_connector": (
        "schedule() and update_from_output() of the drop-in scheduler over vLLM's, 64 requests, some with transfers",
        1.02,
    ),
    "fixed_over_stock_no_connector": ("the same without a connector", 1.02),
    "seconds_import_fixed": ("seconds that importing the drop-in adds to importing vLLM's schedulers", 0.05),
}


def _seconds(arguments: list[str]) -> float:
    started = time.perf_counter()
    run = subprocess.run([sys.executable, *arguments], capture_output=True, check=False)
    if run.returncode not in (0, 1):
        sys.exit(f"{arguments}: exit status {run.returncode}\n{run.stderr.decode()[-2000:]}")
    return time.perf_counter() - started


def time_to_seed(rounds: int) -> dict[str, Any]:
    """Importing vLLM's schedulers and the whole seed check, in turns, so that noise meets both alike."""
    environment = "import kvrace.vllm.environment as e; e.import_vllm();" + IMPORT
    pairs = [(_seconds(SEED), _seconds(["-c", environment])) for _ in range(rounds)]
    return {
        "seconds_to_seed_beyond_import": statistics.median(seed - bare for seed, bare in pairs),
        "seconds_import": statistics.median(bare for _, bare in pairs),
        "seconds_seed": statistics.median(seed for seed, _ in pairs),
    }


def import_cost(rounds: int) -> dict[str, Any]:
    """The drop-in as vLLM imports it: its schedulers are there already."""
    program = (
        "import time; started = time.perf_counter(); import kvrace.vllm.fixed; print(time.perf_counter() - started)"
    )
    runs = [_output(f"{IMPORT}; {program}") for _ in range(rounds)]
    return {"seconds_import_fixed": statistics.median(map(float, runs))}


def _output(program: str) -> str:
    """The last line that a program prints."""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return run.stdout.splitlines()[-1]


def _in_own_process(module: str, function: str, argument: str = "") -> dict[str, Any]:
    program = f"import json; from tests.bench.{module} import {function}; print(json.dumps({function}({argument})))"
    figures: dict[str, Any] = json.loads(_output(program))
    return figures


def _coverage(figures: dict[str, Any]) -> Table:
    """Distinct (state, event) pairs, by the explorer and by random orders."""
    table = Table("distinct (state, event) pairs", "a second", "in all", "steps", "never reached")
    pairs = figures["explorer_pairs"]
    table.add_row("explorer, one scope", f"{figures['explorer_pairs_per_second']:,.0f}", f"{pairs:,}", f"{pairs:,}", "")
    for name, words in (
        ("same_scope", "random orders, the same scope"),
        ("mixed_scopes", "random orders, mixed scopes"),
    ):
        rate, total, steps, never = (
            figures[f"random_{name}_{what}"] for what in ("pairs_per_second", "pairs", "steps", "never_reached")
        )
        table.add_row(words, f"{rate:,.0f}", f"{total:,}", f"{steps:,}", ", ".join(never))
    return table


def main() -> None:
    figures: dict[str, Any] = {}
    for name, measure in (
        ("exploration", lambda: _in_own_process("exploration", "explore_and_compare", "5")),
        ("memory", lambda: _in_own_process("exploration", "peak_memory")),
        ("random orders", lambda: _in_own_process("random_orders", "cover")),
        ("overhead", lambda: _in_own_process("overhead", "compare", "4000")),
        ("imports", lambda: import_cost(3)),
        ("start", lambda: time_to_seed(3)),
    ):
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        figures.update(measure())
    figures["python"] = platform.python_version()
    Path("build").mkdir(exist_ok=True)
    Path("build/bench.json").write_text(
        json.dumps({"aims": {k: v[1] for k, v in AIMS.items()}, **figures}, indent=2) + "\n"
    )
    table = Table("figure", "measured", "aim")
    for name, (meaning, aim) in AIMS.items():
        table.add_row(meaning, f"{figures[name]:.3f}", "-" if aim is None else f"{aim:g}")
    Console().print(table)
    Console().print(_coverage(figures))
    print(f"{figures['transitions_per_second']:.0f} transitions a second; written to build/bench.json")


if __name__ == "__main__":
    main()
