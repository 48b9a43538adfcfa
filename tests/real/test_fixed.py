"""The drop-in scheduler on the real vLLM, by exhaustion: what it holds under each contract, and what it cannot."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from spec.fixed_table import EVERYTHING, RUNS, row
from spec.known_answers.expected import answers
from spec.known_answers.played import play
from spec.known_answers.table import measured
from spec.markdown import markdown_table
from spec.runs import explored

from kvmodel.contract import EXACTLY_ONCE, Contract
from kvmodel.named_scopes import named_scope
from kvmodel.scope import Scope, both_schedulers
from kvrace.check import check
from kvrace.installed import installed_vllm
from kvrace.result import CheckResult
from kvrace.subjects import choose_class, choose_subject
from tests.real.helpers import broken, orders, table

pytestmark = pytest.mark.vllm


def check_fixed(scopes: list[Scope], contract: str = EXACTLY_ONCE, spec: str = "fixed") -> CheckResult:
    result = check(choose_subject(spec, None).make, scopes, Contract.parse(contract))
    assert result.complete
    return result


def found(result: CheckResult) -> set[tuple[str, str]]:
    return {(violation.property, violation.blame) for violation in result.violations}


def test_the_race_this_project_started_from_is_over() -> None:
    result = check_fixed(named_scope("seed"))
    assert broken(result) == set()
    # Not because nothing happens: both transfers are pending together and reported in one output and in two.
    assert result.reached["load-and-save"] and result.reached["two-reports"] and result.reached["abort-during-load"]


WEAKER = {
    "single": set(),
    "duplicate": set(),
    "unsolicited": set(),
    # A save that the scheduler was never told of: nobody can hold blocks for it.
    "unclaimed": {("no-use-after-free", "connector")},
    # A report that never comes: blocks stay, and a live request waits for its load until its client gives up.
    "lossy": {("no-leak", "connector"), ("no-stuck", "connector")},
    # Together: neither crash nor double free, whatever the connector does.
    EVERYTHING: {
        ("no-use-after-free", "connector"),
        ("no-leak", "connector"),
        ("no-stuck", "connector"),
    },
}


_SECONDS = {"small": 25, "pressure": 40, "prefix": 40, "stops": 60, "chunked": 40, "priority": 60}


@pytest.mark.parametrize("contract", [contract for contract in WEAKER if contract != EVERYTHING])
def test_under_weaker_contracts_only_the_connector_breaks_anything(contract: str) -> None:
    assert found(check_fixed(both_schedulers(Scope(("load_save",))), contract)) == WEAKER[contract]


@pytest.mark.parametrize(
    ("scope", "contract"), [pytest.param(*run, marks=pytest.mark.slow(_SECONDS.get(run[0], 0))) for run in RUNS]
)
def test_in_larger_scopes_too_and_spec_says_so(scope: str, contract: str) -> None:
    """Under `exactly-once` all nine properties hold in every scope of the main job. The same runs make the table."""
    result = explored("fixed", scope, contract)
    assert result.complete and {case.scope.scheduling for case in result.cases} == {"sync", "async"}
    assert found(result) == WEAKER.get(contract, set())
    page = (Path(__file__).parents[2] / "spec" / "fixed.md").read_text()
    assert markdown_table(["", "", "", "", ""], [row(result)]).splitlines()[-1] in page, "stale: run make docs"


def test_what_no_scheduler_can_protect_against_is_a_transfer_it_was_not_told_of() -> None:
    result = check_fixed([Scope(("load_save",))], "unclaimed")
    (order,) = orders(result, "no-use-after-free").values()
    assert order == ("add A unclaimed", "schedule", "abort A", "update load:A")
    (violation,) = result.violations
    assert "while the save of A still reads there" in violation.message
    assert [transfer.claimed for transfer in violation.frames[-1].world.transfers] == [False]


def test_no_block_is_freed_under_a_transfer_the_scheduler_was_told_of() -> None:
    """Under every contract at once: each use after free is one of a hidden save."""
    result = check_fixed([Scope(("load_save",))], EVERYTHING)
    used = [violation for violation in result.violations if violation.property == "no-use-after-free"]
    assert used
    for violation in used:
        world = violation.frames[-1].world
        touching = [t for t in world.transfers if not t.over and set(t.blocks) & set(violation.blocks)]
        assert touching and not any(transfer.claimed for transfer in touching)


def test_each_class_plays_its_own_scheduling() -> None:
    from kvrace.vllm.fixed import FixedAsyncScheduler, FixedScheduler

    assert choose_class(FixedScheduler).schedulings == ("sync",)
    assert choose_class(FixedAsyncScheduler).schedulings == ("async",)
    assert choose_subject("fixed", None).schedulings == ("sync", "async")


@pytest.mark.slow
def test_compared_like_stock_or_by_every_id_the_verdicts_are_the_same() -> None:
    """The class says that it may be compared up to a renaming of blocks. Without that word there are more states, and no other
    verdict; its subclass does not inherit the word."""
    from kvrace.vllm.fixed import FixedScheduler

    class Unsaid(FixedScheduler):
        pass

    class Said(FixedScheduler):
        kvrace_compared_like_stock = True

    scopes = [Scope(("load_save", "save"), blocks=4), Scope(("load_save", "load_save"), blocks=3)]
    for contract in (EXACTLY_ONCE, "unclaimed"):
        results = {}
        for kind in (FixedScheduler, Said, Unsaid):
            results[kind] = check(choose_class(kind).make, scopes, Contract.parse(contract))
        assert results[Said].states == results[FixedScheduler].states < results[Unsaid].states
        assert results[Said].verdicts == results[FixedScheduler].verdicts == results[Unsaid].verdicts
        assert found(results[Said]) == found(results[Unsaid])
    assert any("at the word of its classes: Said" in note for note in results[Said].notes)
    assert not any("at the word of its classes" in note for note in results[Unsaid].notes)


def test_the_states_of_the_seed(snapshot: object) -> None:
    assert table(check_fixed(named_scope("seed"))) == snapshot


@pytest.mark.slow
def test_which_known_answers_of_stock_it_mends_and_which_it_leaves() -> None:
    """spec/fixed.md names each of them once, in the paragraph that is meant for it."""
    choice = choose_subject("fixed", None)
    asked = [
        answer
        for answer in answers()
        if measured()[installed_vllm().version.partition("+")[0]][answer.id]["verdict"] == "violated"
    ]
    said = {answer.id: play(answer, choice)["verdict"] for answer in asked}
    page = (Path(__file__).parents[2] / "spec" / "fixed.md").read_text()
    mends, leaves = page.partition("\n## What it leaves as it is\n")[2].partition("\n## ")[0].split("leaves these:")
    assert {name for name, verdict in said.items() if verdict == "holds"} == _named(mends, said)
    assert {name for name, verdict in said.items() if verdict == "violated"} == _named(leaves, said)


def _named(text: str, ids: dict[str, str]) -> set[str]:
    return ids.keys() & set(re.findall(r"[\w-]+", text))
