"""Several ranks, whose reports go through the release's own aggregator; and connectors that report too early."""

from __future__ import annotations

import pytest

from kvmodel.contract import Contract
from kvmodel.scope import Scope
from kvrace.check import check
from kvrace.vllm.mutants import vllm_mutants
from kvrace.vllm.rank_faults import RANK_FAULTS
from tests.real.helpers import broken, check_vllm, orders

pytestmark = pytest.mark.vllm


@pytest.mark.parametrize("kind", ["load", "save"])
@pytest.mark.parametrize("fields", [{"ranks": 2}, {"ranks": 2, "ranks_reporting": 1}], ids=str)
def test_the_aggregator_holds_where_each_rank_reports_once(kind: str, fields: dict[str, int]) -> None:
    result = check_vllm([Scope((kind,), **fields)])  # type: ignore[arg-type]
    assert broken(result) == set()
    assert result.cases[0].states > 20


@pytest.mark.parametrize(
    ("kind", "contract", "rule", "shape", "order"),
    [
        ("save", "duplicate", "no-use-after-free", "under a save",
         "add A, schedule, abort A, update save:A@1, schedule, update save:A@1:duplicate"),
        ("save", "duplicate", "no-leak", "in _send_remaining_count",
         "add A, schedule, abort A, update save:A@1, schedule, update save:A@2 save:A@1:duplicate"),
        ("load", "duplicate", "no-premature-use", "by a step",
         "add A, schedule, update load:A@1, schedule, update load:A@1:duplicate, schedule"),
        ("load", "lossy", "no-leak", "",
         "add A, schedule, abort A, lose load:A@1, update load:A@2, schedule, update"),
    ],
)  # fmt: skip
def test_one_rank_that_breaks_the_contract(kind: str, contract: str, rule: str, shape: str, order: str) -> None:
    """Reports are counted by number: the second of one rank stands for the first of another."""
    result = check_vllm([Scope((kind,), ranks=2)], contract)
    assert {violation.blame for violation in result.violations} == {"connector"}
    assert ", ".join(map(str, orders(result, rule)[shape])) == order


def test_two_reports_of_a_load_while_its_bytes_land() -> None:
    result = check_vllm([Scope(("load",))], "late")
    assert {violation.blame for violation in result.violations} == {"connector"}
    freed = orders(result, "no-use-after-free")["under a load"]
    assert ", ".join(map(str, freed)) == "add A, schedule, abort A, update load:A:late"
    crashes = [", ".join(map(str, order)) for order in orders(result, "no-crash").values()]
    assert "add A, schedule, update load:A:late, schedule, update load:A:duplicate" in crashes


def test_a_save_whose_time_is_up() -> None:
    result = check_vllm([Scope(("save",))], "lease")
    assert {violation.blame for violation in result.violations} == {"connector"}
    freed = orders(result, "no-use-after-free")["under a save"]
    assert ", ".join(map(str, freed)) == "add A, schedule, abort A, update save:A:expired"
    crashes = {", ".join(map(str, order)) for order in orders(result, "no-crash").values()}
    assert crashes == {
        "add A, schedule, update save:A:expired",
        "add A, schedule, abort A, update save:A:expired, schedule, update save:A:duplicate",
    }


def test_a_preempted_request_loads_again() -> None:
    scope = Scope(("load", "local"), block_size=2, output_tokens=3, blocks=4, loads_again=True)
    result = check_vllm([scope])
    assert broken(result) == set()
    once = check_vllm([Scope(("load", "local"), block_size=2, output_tokens=3, blocks=4)])
    assert result.cases[0].states > once.cases[0].states


@pytest.mark.parametrize("name", RANK_FAULTS)
def test_a_fault_of_the_aggregator_is_caught_by_the_property_meant_for_it(name: str) -> None:
    mutant = next(mutant for mutant in vllm_mutants() if mutant.name == name)
    result = check(mutant.make_subject, [mutant.scope], Contract())
    assert mutant.property in broken(result)
    assert {violation.blame for violation in result.violations} == {"scheduler"}
