"""Recorded orders for the tests of reproducers, and what a file that was generated from one should look like."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from kvmodel.contract import Contract
from kvmodel.port import Identity
from kvmodel.scope import Scope
from kvrace.check import Limits, MakeSubject, check
from kvrace.reproducer import pytest_source
from kvrace.trace import RecordedTrace, read_trace, write_trace

COUNTEREXAMPLES = Path(__file__).resolve().parent.parent / "counterexamples"
_STOCK = {"sync": "Scheduler", "async": "AsyncScheduler"}


def record(
    folder: Path, make: MakeSubject, scopes: Sequence[Scope], contract: Contract, limits: Limits | None = None
) -> list[RecordedTrace]:
    """What a check finds, written to trace files and read back. Findings keep the order of the properties."""
    result = check(make, scopes, contract, limits=limits or Limits())
    return [read_trace(write_trace(violation, "test", None, folder)) for violation in result.violations]


def as_if_on_vllm(recorded: RecordedTrace) -> RecordedTrace:
    """An order of the reference scheduler, as if vLLM's own had been recorded: where only the text of a file is looked at."""
    return replace(recorded, identity=Identity("vllm", "0.0", _STOCK[recorded.scope.scheduling]))


def write_tests(folder: Path, orders: Iterable[RecordedTrace]) -> dict[str, RecordedTrace]:
    """One file for each order. The order of each file, by the module's name."""
    folder.mkdir(exist_ok=True)
    written = {}
    for number, recorded in enumerate(orders):
        name = f"test_{recorded.property.replace('-', '_')}_{number}"
        (folder / f"{name}.py").write_text(pytest_source(recorded))
        written[name] = recorded
    return written


_SAYS = {
    "no-double-free": r"holds a block twice|references; in the pool|counts its blocks wrongly",
    "no-leak": r"did not come back|is over, and still in",
    "no-use-after-free": (
        r"are free while the (load|save)|are given to|a step writes blocks|a step works on a block|"
        r"the load of \w (starts|writes)|are said to be common"
    ),
    "no-premature-use": r"the prefix cache (was reset and still )?offers|a step computes with|gets a token of a step",
    "no-stuck": r"the engine is idle|is not at rest",
    "finish-once": r"request_finished (was called|came|never)|the workers were|more than one final",
    "handover": r"request_finished\(\w\) named",
    "conservation": r"references and \d+ owners|_tokens is -\d+|_placeholders is -\d+",
}


def shows(failure: str, recorded: RecordedTrace) -> bool:
    """A crash is the scheduler's own, at the recorded line; everything else is the assertion that was generated."""
    if recorded.property == "no-crash":
        line = (recorded.location or "").partition(" in ")[0].rpartition("/vllm/")[2]
        return re.search(rf"/{re.escape(line)}: \w+", failure) is not None
    return re.search(f"^AssertionError: .*({_SAYS[recorded.property]})", failure) is not None


def ruff_complaints(folder: Path) -> str:
    """What ruff says with its own defaults and sorted imports; empty when a file is as ruff would write it."""
    said = ""
    for command in (["check", "-q", "--extend-select", "I"], ["format", "-q", "--diff"]):
        ran = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--isolated", "--no-cache", str(folder)],
            capture_output=True,
            text=True,
            check=False,
        )
        said += ran.stdout + ran.stderr
    return said
