"""The text of a generated file: how it reads, that it is well laid out, and that a hostile trace gets nothing into it."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvmodel.contract import Contract
from kvmodel.errors import KvraceError
from kvmodel.events import Abort, Add, Report, Schedule, Update
from kvmodel.port import AppliedPatch, Identity
from kvmodel.scope import Scope, both_schedulers
from kvrace.cli import run
from kvrace.mutants import MUTANT_LIMITS
from kvrace.reference.mutants import MUTANTS
from kvrace.reference.subject import ReferenceSubject
from kvrace.reproducer import pytest_source
from kvrace.textform import parse_text
from kvrace.trace import RecordedTrace
from tests.reproducers.helpers import COUNTEREXAMPLES, as_if_on_vllm, record, ruff_complaints, write_tests

CRASH = COUNTEREXAMPLES / "vllm-sync-no-crash-save-reported.txt"


def _crash() -> RecordedTrace:
    return parse_text(CRASH, CRASH.read_bytes()).recorded


def _seeds(folder: Path, contract: str = "exactly-once") -> list[RecordedTrace]:
    scopes = both_schedulers(Scope(("load_save",)))
    found = record(folder, lambda scope: ReferenceSubject(scope, "skip"), scopes, Contract.parse(contract))
    return [as_if_on_vllm(recorded) for recorded in found]


def test_how_it_reads(tmp_path: Path, snapshot: Any) -> None:
    assert pytest_source(_seeds(tmp_path)[0]) == snapshot


@pytest.mark.parametrize(
    ("shape", "name"),
    [
        ("under a load", "test_no_use_after_free_under_a_load"),
        ("", "test_no_use_after_free"),
        ('): import os #"é\\', "test_no_use_after_free_import_os"),
        ("x" * 900, f"test_no_use_after_free_{'x' * 40}"),
    ],
)
def test_the_name_of_the_test_says_the_kind(tmp_path: Path, shape: str, name: str) -> None:
    recorded = next(found for found in _seeds(tmp_path) if found.property == "no-use-after-free")
    source = pytest_source(replace(recorded, shape=shape))
    assert source.startswith('# SPDX-License-Identifier: Apache-2.0\n"""no-use-after-free: ')
    assert f"\ndef {name}(tmp_path):\n" in source


def test_a_place_in_the_source_is_no_kind() -> None:
    assert "\ndef test_no_crash(tmp_path):\n" in pytest_source(_crash())


def test_a_text_form_becomes_a_test_as_well(tmp_path: Path) -> None:
    target = tmp_path / "test_crash.py"
    assert run(["export", str(CRASH), "--as", "pytest", "--output", str(target)]) == 0
    assert target.read_text() == pytest_source(_crash())
    assert "# 4. update load:A save:A\n" in target.read_text()
    compile(target.read_text(), "generated", "exec")


MANY = Scope(
    ("load_save",) * 26, "async", block_size=1, blocks=128, prompts=("abcdefghijklmnop",) * 26, token_budget=1000,
    prefix_sharing=True, early_stop=True, priorities=(3,) * 26,
)  # fmt: skip


def _wide() -> RecordedTrace:
    """Every list as long as it can be: names, prompts, reports and stop tokens."""
    names = MANY.names
    kinds = ("due", "duplicate", "unsolicited")
    reports = [Report(d, n, kinds[i % 3]) for d in ("load", "save") for i, n in enumerate(names)]
    events = (*(Add(name, claims=False) for name in names), Schedule(), Update(tuple(reports), names))
    identity = Identity("vllm", "0.0", f"a.module.with.a.{'very' * 30}.long.name:Scheduler")
    everything = Contract.parse("single,unclaimed,duplicate,unsolicited,lossy")
    return replace(_crash(), scope=MANY, events=events, contract=everything, identity=identity)


def _with_two_tables_and_drafts(wide: RecordedTrace) -> list[RecordedTrace]:
    """The same with a window, drafts and a pipeline, as each kind of finding that looks at tables of blocks."""
    scope = replace(MANY, window=3, drafts=2, steps=3, load_blocks=2)
    *adds, schedule, update = wide.events
    assert isinstance(update, Update)
    accepting = replace(update, drafts=tuple((name, 2) for name in MANY.names))
    steps = (*adds, schedule, schedule, schedule)
    under_a_step = "block 1 becomes the target of the load of A while a dispatched step still works there for B"
    kinds = [
        ("no-use-after-free", "a step works on block 1 for A, which A does not own any more", steps),
        ("no-use-after-free", "a step writes block 1 for A while the load of B still runs there", steps),
        ("no-use-after-free", "a step writes block 1 for A, and B owns it too", steps),
        ("no-use-after-free", "block 1 is given to A while the load of B still writes there", steps),
        ("no-use-after-free", under_a_step, steps),
        ("no-premature-use", "a step computes with block 1 of A before its load is over", steps),
        ("no-leak", "every request is over and every transfer reported, and block 1 did not come back", (*steps, accepting)),
        ("handover", "request_finished(A) named [], and the KV of A is in [1]", (*steps, accepting)),
        ("handover", "request_finished(A) named [], and the KV of A is in [1]", (*adds, schedule, update)),
        ("handover", "request_finished(A) named [], and the KV of A is in [1]", (*steps, Abort("A"))),
    ]  # fmt: skip
    scopes = [
        scope, replace(scope, drafts=0), replace(scope, window=0), replace(scope, scheduling="sync", ranks=2),
        replace(scope, scheduling="sync", token_budget=0, early_stop=False),
    ]  # fmt: skip
    return [
        replace(wide, scope=scope, events=events, property=rule, message=message)
        for scope in scopes
        for rule, message, events in kinds
    ]


def test_each_file_is_laid_out_as_ruff_would(tmp_path: Path) -> None:
    wide = _wide()
    without_stops = tuple(Update(e.reports) if isinstance(e, Update) else e for e in wide.events)
    several = replace(_crash(), scope=replace(_crash().scope, ranks=2))
    orders = [*_seeds(tmp_path), *_seeds(tmp_path, "unclaimed,duplicate,unsolicited,lossy"), _crash(), wide]
    orders += [replace(wide, events=without_stops), replace(wide, scope=replace(MANY, token_budget=0))]
    orders += _with_two_tables_and_drafts(wide)
    orders += [_on(order, version) for order in (_crash(), wide, several) for version in ("0.10.2", "0.11.2", "0.13.0")]
    written = write_tests(tmp_path / "tests", orders)
    assert len(written) > 10
    assert ruff_complaints(tmp_path / "tests") == ""


def _on(recorded: RecordedTrace, version: str) -> RecordedTrace:
    """The same as if it had been found on that release."""
    return replace(recorded, identity=recorded.identity._replace(version=version))


@pytest.mark.slow
def test_each_kind_of_finding_becomes_a_test_that_is_laid_out_as_ruff_would(tmp_path: Path) -> None:
    """The planted faults of the reference scheduler show every kind of finding there is."""
    orders = []
    for mutant in MUTANTS:
        folder = tmp_path / mutant.name
        folder.mkdir()
        found = record(folder, mutant.make_subject, [mutant.scope], mutant.contract, MUTANT_LIMITS)
        orders += [as_if_on_vllm(recorded) for recorded in found]
    written = write_tests(tmp_path / "tests", orders)
    assert len({recorded.property for recorded in written.values()}) == 9
    assert ruff_complaints(tmp_path / "tests") == ""


def test_the_same_order_gives_the_same_file(tmp_path: Path) -> None:
    assert [pytest_source(order) for order in _seeds(tmp_path)] == [pytest_source(order) for order in _seeds(tmp_path)]


NASTY = (
    '"""\nimport os; os._exit(1)\n"""',
    "\\",
    "\\N{DEAD} \\x \\",
    "'''\r\nraise SystemExit\u2028raise SystemExit\x0craise SystemExit",
    "# noqa\n    boom()",
    '""""""{boom()}%s\u202eevil\x00',
    "tab\there " * 200,
    "x" * 1000,
)


@pytest.mark.parametrize("text", NASTY)
def test_text_of_a_trace_stays_text(text: str, tmp_path: Path) -> None:
    """Whatever a message, a version or a location says: but for the docstring, the program is the same."""
    usual = _crash()
    identity = usual.identity._replace(version=text, patch=AppliedPatch(text, text))
    nasty = replace(usual, message=text, location=text, shape=text, kvrace=text, identity=identity)
    source = pytest_source(nasty)
    assert _program(source) == _program(pytest_source(usual))
    assert source.isprintable() or set(re.findall(r"[^ -~]", source)) <= {"\n", "·", "…"}
    write_tests(tmp_path, [nasty])
    assert ruff_complaints(tmp_path) == ""


def _program(source: str) -> str:
    tree = ast.parse(source)
    assert isinstance(tree.body[0], ast.Expr) and isinstance(tree.body[0].value, ast.Constant)
    return ast.dump(ast.Module(tree.body[1:], []))


def _refused(recorded: RecordedTrace) -> str:
    with pytest.raises(KvraceError) as error:
        pytest_source(recorded)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_no_reproducer_can_be_made_of_is_one_line(tmp_path: Path) -> None:
    crash = _crash()
    reference = replace(crash, identity=Identity("reference", "", "assert"))
    assert "found on 'reference', and a reproducer is for vLLM" in _refused(reference)
    hidden = replace(crash, identity=Identity("vllm", "0.0", "mine:make.<locals>.Mine"))
    assert "made inside a function" in _refused(hidden)
    for path in ("mine", "mine:", "mine:Mine'", "os:system('x')", "a..b:C", "AsyncScheduler"):
        assert "is not a class by its path" in _refused(replace(crash, identity=Identity("vllm", "0.0", path)))
    assert "breaks nothing" in _refused(replace(crash, property="none"))
    assert "was not recorded on a scheduler" in _refused(replace(crash, identity=Identity("", "", "")))
    assert "this kind of no-leak: 'what?'" in _refused(replace(crash, property="no-leak", message="what?"))
    late = replace(crash, property="handover", message="request_finished(B) named [], and the KV of B is in [1]")
    assert "the finding is about B, which the order does not add" in _refused(late)
    assert "no step is in flight" in _refused(replace(crash, events=(Update(),)))
    assert "A was already added" in _refused(replace(crash, events=(Add("A"), Add("A"))))
    assert "more than 1 steps are in flight" in _refused(replace(crash, events=(Schedule(), Schedule())))
    assert "the scope has no request B" in _refused(replace(crash, events=(Add("B"),)))
    assert str(CRASH) in _refused(replace(crash, events=()))
    assert "are for vLLM 0.10.2 and later, and this was found on 0.9.2" in _refused(_on(crash, "0.9.2"))


def _loop(folder: Path) -> RecordedTrace:
    found = record(folder, ReferenceSubject, [Scope(("load",), "async")], Contract.parse("lossy"))
    return as_if_on_vllm(next(order for order in found if order.property == "no-stuck"))


def test_an_engine_left_alone_fills_its_pipeline_as_far_as_in_the_loop(tmp_path: Path) -> None:
    loop = _loop(tmp_path)
    assert "len(steps) < 2:" in pytest_source(loop)
    shallow = (*loop.events[: loop.loop], Update(), Schedule(), Update())
    assert "len(steps) < 1:" in pytest_source(replace(loop, events=shallow, loop=len(shallow) - 2, states=()))


def test_a_loop_in_which_something_comes_late_is_refused(tmp_path: Path) -> None:
    loop = _loop(tmp_path)
    in_pairs = (*loop.events[: loop.loop], Schedule(), Update(), Update(), Schedule())
    with pytest.raises(KvraceError, match="in the loop a report or a step comes later than it could"):
        pytest_source(replace(loop, events=in_pairs, states=()))
