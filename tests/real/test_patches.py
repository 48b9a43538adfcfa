"""Diffs of the real scheduler: one that takes a free away, and one that adds the hold it lacks. Each run imports its own vLLM."""

from __future__ import annotations

import difflib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvrace.installed import installed_vllm

ROOT = Path(__file__).resolve().parents[2]
SCHEDULER = "vllm/v1/core/sched/scheduler.py"
pytestmark = [pytest.mark.vllm, pytest.mark.slow]

FREES = "        assert request.is_finished()\n        self._free_request_blocks(request)\n"
"""What ``_free_blocks`` does before it forgets a request."""
ENDS = "self._free_blocks(self.requests[req_id])\n"
"""What the report of a transfer does to a request that is over, whatever else still touches its blocks."""
HOLDS = {
    "        self.finished_recving_kv_req_ids: set[str] = set()\n": "        self.running_transfers: dict[str, int] = {}\n",
    "        delay_free_blocks |= connector_delay_free_blocks\n": (
        "        if transfers := delay_free_blocks + connector_delay_free_blocks:\n"
        "            self.running_transfers[request_id] = transfers\n"
    ),
    "    def _free_blocks(self, request: Request):\n": (
        "    def _transfer_is_over(self, req_id: str):\n"
        "        self.running_transfers[req_id] -= 1\n"
        "        if not self.running_transfers[req_id]:\n"
        "            del self.running_transfers[req_id]\n"
        "            self._free_blocks(self.requests[req_id])\n\n"
    ),
}
"""Lines of the scheduler, and what is put before each: how many transfers hold the blocks of a request that is over."""


def _installed() -> str:
    return (installed_vllm().folder.parent / SCHEDULER).read_text()


def _diff(new: str) -> str:
    lines = difflib.unified_diff(
        _installed().splitlines(True), new.splitlines(True), f"a/{SCHEDULER}", f"b/{SCHEDULER}"
    )
    return "".join(lines)


@pytest.fixture
def leak(tmp_path: Path) -> str:
    """A diff after which the blocks of a request that is over never come back."""
    assert _installed().count(FREES) == 1
    (tmp_path / "leak.diff").write_text(_diff(_installed().replace(FREES, FREES.splitlines(True)[0])))
    return "leak.diff"


@pytest.fixture
def hold(tmp_path: Path) -> str:
    """A diff after which blocks stay until the load and the save of their request are both reported."""
    text = _installed()
    for line, before in HOLDS.items():
        assert text.count(line) == 1
        text = text.replace(line, before + line)
    assert text.count(ENDS) == 3  # the last is in the new function itself
    head, *ends = text.split(ENDS)
    text = head + ENDS + "self._transfer_is_over(req_id)\n".join(ends)
    (tmp_path / "hold.diff").write_text(_diff(text))
    return "hold.diff"


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """kvrace in a process of its own, which can import a vLLM of its own."""

    def kvrace(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "model"), str(ROOT / "impl")])}
        environment.update(COLUMNS="100", KVRACE_CACHE=str(tmp_path / "cache"))
        command = [sys.executable, "-m", "kvrace", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    return kvrace


def _read(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(path.read_text())
    return data


def test_a_patch_that_takes_a_free_away_leaks_and_its_order_is_played_again_only_with_it(
    leak: str, run: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    before = _installed()
    checked = run("check", "--patch", leak, "--requests", "local", "--scheduler", "sync", "--json", "result.json")
    assert checked.returncode == 1, checked.stderr
    result = _read(tmp_path / "result.json")
    assert [violation["property"] for violation in result["violations"]] == ["no-leak"]
    assert result["violations"][0]["location"].startswith(f"{SCHEDULER}:")
    patch = result["subject"]["patch"]
    version = installed_vllm().version
    assert f"checking  vllm {version} + leak.diff ({patch['digest']}): Scheduler" in checked.stdout
    assert result["violations"][0]["replay"].endswith("--patch leak.diff")

    (trace,) = (tmp_path / "kvrace-traces").iterdir()
    assert _read(trace)["#meta"]["subject"]["patch"] == patch
    without = run("replay", str(trace))
    assert without.returncode == 2
    assert f"was recorded on vllm {version} + leak.diff ({patch['digest']}); add --patch leak.diff" in without.stderr
    again = run("replay", str(trace), "--patch", leak)
    assert again.returncode == 1, again.stderr
    assert "✗ still failing: no-leak" in again.stdout
    assert _installed() == before


def test_a_patch_that_adds_the_hold_takes_the_findings_away(
    hold: str, run: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    compared = run("diff", "--patch", hold, "--requests", "load_save", "--scheduler", "sync", "--json", "result.json")
    assert compared.returncode == 0, compared.stderr
    result = _read(tmp_path / "result.json")
    assert result["counts"] == {"new": 0, "still there": 0, "not decided": 0, "gone": 5}
    assert result["properties"]["no-use-after-free"] == {"before": "violated", "after": "holds"}
    assert result["after"]["subject"]["patch"]["file"] == hold
    assert "patch" not in result["before"]["subject"]
    gone = result["findings"][0]
    assert gone["before"]["location"].startswith(f"{SCHEDULER}:")
    assert gone["after"] is None
    assert "✓ the patch breaks nothing on vllm" in compared.stdout
