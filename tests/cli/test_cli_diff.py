"""``kvrace diff``: what it compares, what it excuses, what it shows and how it ends."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

REFERENCES = ("diff", "--subject", "reference", "--subject", "reference")
SEED = (*REFERENCES, "--scope", "seed")


def policies(first: str, second: str) -> tuple[str, ...]:
    return "--policy", first, "--policy", second


def result(shown: Any) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(shown.out)
    return data


def test_the_remedy_changes_nothing_but_what_it_mends(kvrace: Any, snapshot: SnapshotAssertion) -> None:
    shown = kvrace(*SEED, *policies("assert", "wait_for_all"))
    assert shown.status == 0
    assert shown.screen == snapshot


def test_a_difference_with_the_shortest_order(kvrace: Any, snapshot: SnapshotAssertion) -> None:
    shown = kvrace(*SEED, *policies("wait_for_all", "skip"), "--scheduler", "sync")
    assert shown.status == 1
    assert shown.screen == snapshot


def test_policies_stand_in_the_order_of_their_subjects(kvrace: Any) -> None:
    given = "diff", "--subject", "reference", "--policy", "wait_for_all", "--subject", "reference", "--policy", "skip"
    data = result(kvrace(*given, "--scope", "seed", "--json", "-"))
    assert [subject["scheduler"] for subject in data["subjects"]] == [
        "Scheduler policy wait_for_all,AsyncScheduler policy wait_for_all",
        "Scheduler policy skip,AsyncScheduler policy skip",
    ]


def test_json(kvrace: Any) -> None:
    shown = kvrace(*SEED, *policies("wait_for_all", "skip"), "--json", "diff.json")
    data = json.loads(Path("diff.json").read_text())
    assert (data["verdict"], data["exit_code"], shown.status) == ("different", 1, 1)
    assert (data["scope"], data["contract"], data["strict"]) == ({"name": "seed", "cases": 2}, "exactly-once", False)
    assert data["excused"] == {"transitions": 0, "by_property": {}}
    assert data["compared"] == sum(case["compared"] for case in data["cases"])
    (found,) = data["differences"]
    assert found["events"] == ["add A", "schedule", "abort A", "update load:A"]
    assert found["kind"] == ["update", "phases", "block tables", "references", "free blocks"]
    assert {"aspect": "phases", "first": "A HELD", "second": "none"} in found["aspects"]
    assert found["times"] == sum(one["times"] for case in data["cases"] for one in case["differences"])


def test_what_is_excused_is_counted_by_property(kvrace: Any) -> None:
    excused = result(kvrace(*SEED, *policies("assert", "wait_for_all"), "--json", "-"))["excused"]
    checked = result(kvrace("check", "--subject", "reference", "--scope", "seed", "--json", "-"))
    broken = {name for name, verdict in checked["properties"].items() if verdict == "violated"}
    assert set(excused["by_property"]) == broken
    assert 0 < excused["transitions"] <= sum(excused["by_property"].values())


def test_strict_excuses_nothing(kvrace: Any) -> None:
    data = result(kvrace(*SEED, *policies("assert", "wait_for_all"), "--strict", "--json", "-"))
    assert (data["verdict"], data["excused"]["transitions"]) == ("different", 0)
    assert data["differences"][0]["aspects"][0]["first"].startswith("no-use-after-free: ")


def test_a_scheduler_is_like_itself_where_it_breaks_things_too(kvrace: Any) -> None:
    data = result(kvrace(*SEED, "--strict", "--json", "-"))
    checked = result(kvrace("check", "--subject", "reference", "--scope", "seed", "--json", "-"))
    assert (data["verdict"], data["compared"]) == ("same", checked["transitions"])


def test_under_another_contract(kvrace: Any) -> None:
    """A connector that repeats a report: `skip` passes over what `assert` crashes at, so all that differs is excused."""
    one = (*REFERENCES, "--requests", "save", "--contract", "duplicate")
    assert kvrace(*one, *policies("assert", "skip")).status == 0
    assert kvrace(*one, *policies("skip", "assert")).status == 1


def test_a_call_that_raises_is_a_difference(kvrace: Any, snapshot: SnapshotAssertion) -> None:
    shown = kvrace(*REFERENCES, "--requests", "save", "--contract", "duplicate", *policies("skip", "assert"),
                   "--scheduler", "sync")  # fmt: skip
    assert shown.screen == snapshot


def test_a_limit_is_no_pass(kvrace: Any) -> None:
    shown = kvrace(*SEED, *policies("assert", "wait_for_all"), "--max-states", "20")
    assert shown.status == 3
    assert "? incomplete: " in shown.out and "the state limit was reached in case 1 of 2" in " ".join(shown.out.split())


def test_a_difference_counts_also_when_a_limit_comes(kvrace: Any) -> None:
    shown = kvrace(*SEED, *policies("wait_for_all", "skip"), "--max-states", "60")
    assert shown.status == 1
    assert "; not exhausted: the state limit was reached in case 2 of 2" in " ".join(shown.out.split())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_gives_the_incomplete_verdict(start: Any, number: signal.Signals) -> None:
    process = start(*REFERENCES, *policies("wait_for_all", "wait_for_all"), "--scope", "medium")
    while "contract" not in process.stdout.readline():
        pass
    time.sleep(0.5)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (3, "")
    assert "the run was interrupted in case" in " ".join(out.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--subject", "reference"), "two schedulers are compared: give --subject twice"),
        ((), "two schedulers are compared: give --subject twice"),
        (("--subject", "reference") * 3, "two schedulers are compared: give --subject twice"),
        ((*REFERENCES[1:], "--policy", "skip"), "is named 2 times here: give it as often, in the same order"),
        ((*REFERENCES[1:], *policies("skip", "trust")), "unknown policy 'trust'"),
        (("--subject", "reference", "--subject", "nothing"), "unknown subject 'nothing'"),
        ((*REFERENCES[1:], "--scheduler", "late"), "unknown scheduler 'late'"),
        ((*REFERENCES[1:], "--json", "no/such/folder.json"), "--json: "),
        ((*REFERENCES[1:], "--scope", "huge"), "unknown scope 'huge'"),
        (
            (*REFERENCES[1:], "--contract", "lossy", "--contract", "single"),
            "--contract is given 2 times: there is one contract",
        ),
        ((*REFERENCES[1:], "--scope", "chunked"), "the reference scheduler has no token budget"),
    ],
)
def test_usage_errors(kvrace: Any, arguments: tuple[str, ...], message: str) -> None:
    shown = kvrace("diff", *arguments)
    assert shown.status == 2
    assert message in shown.err and shown.err.count("\n") == 1


MINE = '''
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler


class Keeps(Scheduler):
    """Does what vLLM does, and keeps places of its own in which requests and blocks are named."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.seen = {}

    def schedule(self, *args, **kwargs):
        output = super().schedule(*args, **kwargs)
        tables = self.kv_cache_manager.coordinator.single_type_managers[0].req_to_blocks
        self.seen = {name: [block.block_id for block in tables.get(name, ())] for name in self.requests}
        return output

    def _free_blocks(self, request):
        self.seen.pop(request.request_id, None)
        super()._free_blocks(request)


class Raises(Scheduler):
    def finish_requests(self, request_ids, finished_status):
        if self.running:
            raise RuntimeError("not now")
        return super().finish_requests(request_ids, finished_status)


class Sleeps(Scheduler):
    def finish_requests(self, request_ids, finished_status):
        while True:
            pass


class Fickle(Scheduler):
    """Keeps state where no copy reaches it."""

    def update_from_output(self, scheduler_output, model_runner_output):
        CALLS[0] += 1
        outputs = super().update_from_output(scheduler_output, model_runner_output)
        return {} if 3 < CALLS[0] < 9 else outputs


CALLS = [0]


class Base(Scheduler):
    added = []

    def schedule(self, *args, **kwargs):
        if Base.added:
            raise RuntimeError("somebody has added something")
        return super().schedule(*args, **kwargs)


class Shares(Base):
    """Keeps state in a class that the first scheduler has too."""

    def add_request(self, request):
        Base.added.append(request.request_id)
        super().add_request(request)


class Late(AsyncScheduler):
    pass
'''


@pytest.fixture
def mine(request: pytest.FixtureRequest) -> str:
    """A module of schedulers in the current folder; each test has its own, since Python imports a name once."""
    name = f"mine_{abs(hash(request.node.name)):019}"  # always as wide: lines are folded by it
    Path(f"{name}.py").write_text(MINE)
    return name


def versus(first: str, second: str, requests: str = "load_save") -> tuple[str, ...]:
    return "diff", "--subject", first, "--subject", second, "--requests", requests


@pytest.mark.vllm
def test_the_drop_in_scheduler_does_what_vllm_does(kvrace: Any) -> None:
    data = result(kvrace("diff", "--subject", "vllm", "--subject", "fixed", "--scope", "seed", "--json", "-"))
    assert data["verdict"] == "same"
    assert data["compared"] > data["excused"]["transitions"] > 0


@pytest.mark.vllm
def test_places_that_only_a_subclass_has_are_no_difference(kvrace: Any, mine: str) -> None:
    assert result(kvrace(*versus("vllm", f"{mine}:Keeps"), "--json", "-"))["verdict"] == "same"


@pytest.mark.vllm
def test_a_subclass_that_raises(kvrace: Any, mine: str, snapshot: SnapshotAssertion) -> None:
    shown = kvrace(*versus("vllm", f"{mine}:Raises", "local"))
    assert shown.status == 1
    assert shown.screen.replace(mine, "mine") == snapshot


@pytest.mark.vllm
def test_a_call_that_does_not_come_back_is_a_difference(kvrace: Any, mine: str) -> None:
    shown = kvrace(*versus("vllm", f"{mine}:Sleeps", "local"), "--call-timeout", "1", "--json", "-")
    first = result(shown)["differences"][0]
    assert first["events"] == ["add A", "abort A"]
    assert first["aspects"][0]["second"].startswith("hangs: the call did not come back within 1 s at ")


@pytest.mark.vllm
def test_a_scheduler_that_does_not_do_the_same_twice_gets_no_verdict(kvrace: Any, mine: str) -> None:
    error = kvrace(*versus("vllm", f"{mine}:Fickle", "local")).err
    assert f"{mine}:Fickle does not behave the same twice" in error


@pytest.mark.vllm
def test_what_one_keeps_in_a_class_of_both_does_not_reach_the_other(kvrace: Any, mine: str) -> None:
    (found,) = result(kvrace(*versus(f"{mine}:Base", f"{mine}:Shares", "local"), "--json", "-"))["differences"]
    assert found["events"] == ["add A", "schedule"]
    assert found["aspects"][0]["first"] == "returns"


@pytest.mark.vllm
def test_schedulers_that_have_no_scheduling_in_common(kvrace: Any, mine: str) -> None:
    shown = kvrace(*versus(f"{mine}:Keeps", f"{mine}:Late"))
    assert shown.status == 2
    assert "there is nothing that both can play" in shown.err
