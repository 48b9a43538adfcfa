"""The other releases of vLLM that kvrace knows, each put first on the Python path: the command line as its users run it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from spec.known_answers.expected import answers
from spec.runs import of_stock

from kvmodel.errors import KvraceError
from kvrace.installed import installed_vllm
from kvrace.lab.catalogue import Release, checked
from kvrace.lab.store import install, known_versions
from kvrace.render.json import result_json
from kvrace.render.terminal import ReplayCommand

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.vllm, pytest.mark.slow]


@cache
def _folder(release: Release) -> Path | str:
    """Where its Python files are, or why they are not."""
    try:
        return install(release.version).folders[0]
    except KvraceError as error:
        return str(error)


@pytest.fixture(params=checked(), ids=lambda release: release.version)
def release(request: pytest.FixtureRequest) -> Release:
    if isinstance(_folder(request.param), str):
        pytest.skip(_folder(request.param))
    return request.param


def _kvrace(folder: Path, *arguments: object, release: Release | None = None) -> subprocess.CompletedProcess[str]:
    """Run kvrace in ``folder`` on a release, else on the vLLM that is installed."""
    path = [ROOT / "model", ROOT / "impl"]
    if release is not None:
        path.insert(0, Path(_folder(release)))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "COLUMNS": "100"}
    command = [sys.executable, "-m", "kvrace", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def _checked(folder: Path, *arguments: object, release: Release | None = None) -> dict[str, Any]:
    run = _kvrace(folder, "check", *arguments, "--json", "result.json", release=release)
    assert run.returncode in (0, 1), run.stderr
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    assert result["complete"]
    return result


def _here(scope: str) -> dict[str, Any]:
    """What was found on the installed release, from the run that other tests and tables are made from."""
    result = of_stock(scope)
    shown: dict[str, Any] = json.loads(
        result_json(result, [case.identity for case in result.cases], {}, ReplayCommand())
    )
    return shown


def _table(result: dict[str, Any]) -> list[dict[str, Any]]:
    """What was found in each case, without the numbers of lines."""
    return [
        {
            "scope": case["scope"],
            "size": (case["states"], case["transitions"]),
            "reached": case["reached"],
            "found": [
                (found["property"], found["blame"], re.sub(r"\.py:\d+", ".py", found["message"]), found["events"])
                for found in case["violations"]
            ],
        }
        for case in result["cases"]
    ]


@pytest.mark.slow(60)
def test_every_order_of_small_ends_as_on_the_installed_release(release: Release, tmp_path: Path) -> None:
    other = _checked(tmp_path, release=release)
    assert other["subject"]["version"] == release.version != installed_vllm().version
    assert _table(other) == _table(_here("small"))
    assert {found["location"].partition(":")[0] for found in other["violations"]} == {"vllm/v1/core/sched/scheduler.py"}


def test_found_orders_fail_again_there(release: Release, tmp_path: Path) -> None:
    _checked(tmp_path, "--scope", "seed", release=release)
    traces = sorted(map(str, tmp_path.glob("kvrace-traces/*.itf.json")))
    assert len(traces) == 5
    again = _kvrace(tmp_path, "replay", *traces, release=release)
    assert again.returncode == 1 and again.stdout.count("still failing") >= len(traces), again.stdout + again.stderr


def test_the_drop_in_holds_there_as_on_the_installed_release(release: Release, tmp_path: Path) -> None:
    """The states of the installed release are those of the table in spec/fixed.md."""
    other = _checked(tmp_path, "--subject", "fixed", release=release)
    assert other["subject"]["version"] == release.version and set(other["properties"].values()) == {"holds"}
    figures = f"{other['states']:,} states, {other['transitions']:,} transitions"
    row = next(line for line in (ROOT / "spec" / "fixed.md").read_text().splitlines() if line.startswith("| `small`"))
    assert figures in row


def test_whatever_the_connector_does_the_drop_in_breaks_there_what_it_breaks_here(
    release: Release, tmp_path: Path
) -> None:
    weakest = ("--subject", "fixed", "--requests", "load_save", "--contract", "unclaimed,duplicate,unsolicited,lossy")
    other, installed = _checked(tmp_path, *weakest, release=release), _checked(tmp_path, *weakest)
    assert _table(other) == _table(installed)
    assert not {"no-crash", "no-double-free"} & {found["property"] for found in other["violations"]}


def test_states_that_a_hold_on_prefills_tells_apart_are_kept_apart(release: Release, tmp_path: Path) -> None:
    """The counters of steps and the newest step with a prefill are compared by their distance. Compared as they are, which is
    what a class that names them gets, they give more states and the same verdicts."""
    (tmp_path / "mine.py").write_text(_HOLDS)
    by_distance, as_they_are, without = (
        _checked(tmp_path, "--subject", f"mine:{name}", "--requests", "local,local", release=release)
        for name in ("Holds", "HoldsAndLooks", "HoldsNothing")
    )
    assert without["states"] < by_distance["states"] < as_they_are["states"]
    assert by_distance["properties"] == as_they_are["properties"] == without["properties"]


_HOLDS = """
from vllm.v1.core.sched.scheduler import Scheduler

class HoldsNothing(Scheduler):
    pass

class Holds(Scheduler):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.local_prefill_interval = 3

class HoldsAndLooks(Holds):
    def look(self):
        return self.num_executed_steps, self.last_prefill_step, self.prefill_capacity_bound
"""


def test_a_load_that_starts_later_is_refused(release: Release, tmp_path: Path) -> None:
    """The release can put a load off until a dispatched step is over. The model has no such loads: no verdict."""
    (tmp_path / "mine.py").write_text(_LOADS_LATER)
    run = _kvrace(tmp_path, "check", "--subject", "mine:LoadsLater", "--requests", "load,local", release=release)
    assert run.returncode == 2
    assert "the adapter does not know loads that start in a later call" in run.stderr
    assert "violated" not in run.stdout and "holds" not in run.stdout


_LOADS_LATER = """
from vllm.v1.core.sched.async_scheduler import AsyncScheduler

class LoadsLater(AsyncScheduler):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.defer_async_loads = True
"""


_UNTIL_0_15_1 = {"0.9.2", "0.10.2", "0.11.0", "0.11.2", "0.12.0", "0.13.0", "0.14.1", "0.15.1"}
"""The scheduler holds nothing for an aborted load, and keeps its late report for ever; a second end of a request is not refused."""


_PLAYED = {version for answer in answers() for version in answer.pair}
"""The adapter drives these in test_known_answers.py."""


@pytest.mark.parametrize("version", [version for version in known_versions() if version not in _PLAYED])
def test_the_one_adapter_drives_every_release(version: str, tmp_path: Path) -> None:
    """From 0.16.0 on a report for a forgotten request is an assertion, in 0.9.2 and 0.10.2 a KeyError; 0.11.0 passed it over."""
    run = _kvrace(tmp_path, "check", "--subject", f"vllm=={version}", "--scope", "seed", "--json", "result.json")
    if "pip cannot fetch" in run.stderr:
        pytest.skip(run.stderr)
    assert run.returncode == 1, run.stderr
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["subject"]["version"] == version and result["complete"]
    broken = {name for name, verdict in result["properties"].items() if verdict != "holds"}
    expected = {"no-crash", "no-use-after-free", "no-stuck"}
    if version in _UNTIL_0_15_1:
        expected |= {"no-leak", "finish-once"}
    if version == "0.11.0":
        expected -= {"no-crash"}
    assert broken == expected
    raised = {found["message"].split()[0] for found in result["violations"] if found["property"] == "no-crash"}
    assert raised <= ({"KeyError"} if version in ("0.9.2", "0.10.2") else {"AssertionError"})


def test_what_is_found_on_an_older_release_is_shown_there_without_kvrace(tmp_path: Path) -> None:
    try:
        folders = install("0.15.1").folders
    except KvraceError as error:
        pytest.skip(str(error))
    _kvrace(tmp_path, "check", "--subject", "vllm==0.15.1", "--scope", "seed", "--scheduler", "sync")
    traces = sorted(tmp_path.glob("kvrace-traces/*.itf.json"))
    for number, trace in enumerate(traces):
        _kvrace(tmp_path, "export", trace, "--as", "pytest", "--output", f"test_{number}.py")
    alone = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "--rootdir", ".", "."]
    run = subprocess.run(command, cwd=tmp_path, env=alone, capture_output=True, text=True, check=False)
    assert f"{len(traces)} failed" in run.stdout.splitlines()[-1] and "passed" not in run.stdout.splitlines()[-1]


def test_the_matrix_of_releases_goes_on_where_it_was_and_agrees_with_what_is_published(tmp_path: Path) -> None:
    """On the installed release alone; the others are in spec/releases.json as `python -m spec.release_tables` found them."""
    version = installed_vllm().version.partition("+")[0]
    published = json.loads((ROOT / "spec/releases.json").read_text())
    wanted = ["matrix", "releases", "--release", version, "--contract", "exactly-once"]
    first = _kvrace(tmp_path, *wanted, "--json", "first.json", "--html", "page.html")
    assert first.returncode == 0, first.stderr
    made = json.loads((tmp_path / "first.json").read_text())
    (cell,) = made["cells"]
    (known,) = (c for c in published["cells"] if (c["release"], c["contract"]) == (version, "exactly-once"))
    assert cell == known
    ids = {finding["id"] for finding in made["findings"]}
    assert ids
    assert all(f'id="{name}"' in (tmp_path / "page.html").read_text() for name in ids)

    assert made["findings"][0]["shortest"]["replay"].endswith(f"--subject vllm=={version}")

    kept = [file for file in (tmp_path / "kvrace-matrix").iterdir() if file.is_file()]
    stamps = [file.stat().st_mtime_ns for file in kept]
    again = _kvrace(tmp_path, *wanted, "--json", "again.json")
    assert again.returncode == 0, again.stderr
    assert [file.stat().st_mtime_ns for file in kept] == stamps
    assert json.loads((tmp_path / "again.json").read_text())["findings"] == made["findings"]

    bisected = _kvrace(tmp_path, "bisect", "--finding", made["findings"][0]["id"], "--release", version)
    assert f"{version}   ✗ has it (kept)" in bisected.stdout
    assert f"in {version} already, the oldest that was looked at" in bisected.stdout
