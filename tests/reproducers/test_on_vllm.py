"""Generated files fail where the fault is, in an environment without kvrace, and pass where it is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kvmodel.contract import Contract
from kvmodel.properties import PROPERTY_NAMES
from kvmodel.scope import SCHEDULINGS, Scope, both_schedulers
from kvrace.cli import run
from kvrace.mutants import MUTANT_LIMITS
from kvrace.textform import parse_text
from kvrace.trace import RecordedTrace
from tests.reproducers.conftest import HERE, BareEnvironment
from tests.reproducers.helpers import COUNTEREXAMPLES, record, shows, write_tests

pytestmark = pytest.mark.vllm

STOCK = {
    "sync": "vllm.v1.core.sched.scheduler.Scheduler",
    "async": "vllm.v1.core.sched.async_scheduler.AsyncScheduler",
}
FIXED = {"sync": "held_until_over.HeldUntilOver", "async": "held_until_over.HeldUntilOverAsync"}


def _missed(failures: dict[str, str], written: dict[str, RecordedTrace]) -> list[str]:
    assert failures.keys() == written.keys()
    return [f"{written[n].message}: {text or 'passed'}" for n, text in failures.items() if not shows(text, written[n])]


def _kept(pattern: str) -> list[RecordedTrace]:
    """Orders of stock vLLM that are kept in tests/counterexamples."""
    found = [parse_text(path, path.read_bytes()).recorded for path in sorted(COUNTEREXAMPLES.glob(pattern))]
    assert found
    return found


@pytest.mark.slow
def test_the_exported_crash_fails_without_kvrace(bare: BareEnvironment, tmp_path: Path) -> None:
    order = COUNTEREXAMPLES / "vllm-sync-no-crash-save-reported.txt"
    assert run(["export", str(order), "--as", "pytest", "--output", str(tmp_path / "test_crash.py")]) == 0
    failures = bare.run_tests(tmp_path)
    assert _missed(failures, {"test_crash": parse_text(order, order.read_bytes()).recorded}) == []


@pytest.mark.slow(60)
def test_crash_and_use_after_free_fail_on_stock_vllm_and_pass_where_blocks_are_held_until_over(
    bare: BareEnvironment, tmp_path: Path
) -> None:
    for scheduling in SCHEDULINGS:
        written = write_tests(tmp_path / scheduling, _kept(f"vllm-{scheduling}-*.txt"))
        assert {order.property for order in written.values()} >= {"no-crash", "no-use-after-free"}
        assert _missed(bare.run_tests(tmp_path / scheduling), written) == []
        fixed = bare.run_tests(tmp_path / scheduling, path=(HERE,), SCHEDULER=FIXED[scheduling])
        assert fixed == dict.fromkeys(written, "")


ONE, TWO = Scope(("load_save",)), Scope(("load_save", "local"))
LOOKED_AT: list[tuple[str, list[Scope]]] = [
    ("exactly-once", both_schedulers(ONE)),
    ("exactly-once", both_schedulers(replace(TWO, token_budget=3))),
    ("exactly-once", [replace(TWO, prefix_sharing=True)]),
    ("exactly-once", [replace(TWO, priorities=(1, 0), blocks=2), replace(ONE, early_stop=True, separate_ends=True)]),
    *((contract, both_schedulers(ONE)) for contract in ("unclaimed", "duplicate", "unsolicited", "lossy")),
    ("unclaimed", [Scope(("local", "save"), block_size=2, output_tokens=3, blocks=4)]),
    ("exactly-once", [replace(ONE, ranks=2)]),
    ("late", [Scope(("load",), ranks=2)]),
    ("lease", [Scope(("save",))]),
    ("duplicate", [Scope(("save",), ranks=2)]),
    ("exactly-once", [Scope(("load_save",), load_failures="fail", failed_ids=True)]),
    ("exactly-once", [Scope(("load_save",), prompt_blocks=2, load_failures="fail")]),
]
"""Small scopes that show every finding in stock vLLM."""


@pytest.mark.slow(10)
def test_what_a_failed_load_inside_a_step_breaks_fails_on_stock_vllm(bare: BareEnvironment, tmp_path: Path) -> None:
    """Holding blocks until every transfer is over mends none of it."""
    from kvrace.vllm.subject import VllmSubject

    scopes = [
        Scope(("sync_load",), "async", load_failures="recompute"),
        Scope(("sync_load", "local"), prefix_sharing=True, load_failures="recompute"),
    ]
    recorded = [found for scope in scopes for found in record(tmp_path, VllmSubject, [scope], Contract())]
    assert {found.property for found in recorded} == {"no-premature-use", "no-stuck"}
    written = write_tests(tmp_path / "tests", recorded)
    assert _missed(bare.run_tests(tmp_path / "tests"), written) == []


@pytest.mark.slow(60)
def test_every_finding_in_stock_vllm_fails_on_it(bare: BareEnvironment, tmp_path: Path) -> None:
    from kvrace.vllm.subject import VllmSubject

    found: dict[str, list[RecordedTrace]] = {contract: [] for contract, _ in LOOKED_AT}
    for contract, scopes in LOOKED_AT:
        for scope in scopes:  # of several scopes only the shortest order of each finding would be kept
            found[contract] += record(tmp_path, VllmSubject, [scope], Contract.parse(contract))
    assert {order.property for order in sum(found.values(), [])} == {
        "no-crash", "no-leak", "no-use-after-free", "no-premature-use", "no-stuck"
    }  # fmt: skip
    written = write_tests(tmp_path / "stock", sum(found.values(), []))
    assert _missed(bare.run_tests(tmp_path / "stock"), written) == []
    for scheduling in SCHEDULINGS:
        orders = [order for order in found["exactly-once"] if order.scope.scheduling == scheduling]
        written = write_tests(tmp_path / scheduling, orders)
        fixed = bare.run_tests(tmp_path / scheduling, path=(HERE,), SCHEDULER=FIXED[scheduling])
        assert fixed == dict.fromkeys(written, "")


@pytest.mark.slow(60)
def test_every_planted_fault_fails_and_stock_vllm_passes(
    bare: BareEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The faults are classes of kvrace, so here it can be imported; the files that are run are the same."""
    from kvrace.vllm.subject import VllmSubject
    from tests.reproducers import planted

    root = HERE.parent.parent
    path = (root, root / "model", root / "impl")
    orders: dict[str, list[RecordedTrace]] = {"sync": [], "async": []}
    for name, scope in planted.SCOPES.items():
        faulty = getattr(planted, name)
        found = record(tmp_path, lambda s, f=faulty: VllmSubject(s, f), [scope], Contract(), MUTANT_LIMITS)
        orders[scope.scheduling] += found
    assert {order.property for found in orders.values() for order in found} == set(PROPERTY_NAMES)
    for scheduling, found in orders.items():
        written = write_tests(tmp_path / scheduling, found)
        assert _missed(bare.run_tests(tmp_path / scheduling, path=path), written) == []
        assert bare.run_tests(tmp_path / scheduling, SCHEDULER=STOCK[scheduling]) == dict.fromkeys(written, "")
