"""``kvrace promela``: the relation for Spin, and Spin's figures beside kvrace's own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kvmodel.contract import Contract
from kvmodel.relation.finite import FiniteInstance
from kvmodel.relation.model import Model
from kvmodel.relation.policies import POLICIES
from kvmodel.relation.promela import promela
from kvmodel.relation.scoped import scoped
from kvmodel.scope import Scope
from kvrace.spin import explored_by_kvrace, explored_by_spin

BROKEN = {"assert": {"no-use-after-free", "no-crash"}, "wait_for_all": set()}


@pytest.fixture
def seed() -> FiniteInstance:
    return scoped(Model(POLICIES["assert"], Contract()), Scope(("load_save",), "sync"), blocks=1)


def test_the_text_has_every_move_and_says_how_it_is_run(kvrace: Any, seed: FiniteInstance) -> None:
    shown = kvrace("promela", "--requests", "load_save")
    assert (shown.status, shown.err) == (0, "")
    head, _, body = shown.out.partition("*/")
    assert "load_save, sync, 1 block, policy assert, contract exactly-once" in head
    assert re.search(r"^ +spin .*-a FILE && gcc .* -o pan pan\.c && \./pan", head, re.M)
    assert re.findall(r'printf\("(.*)\\n"\);', body) == [str(move) for move in seed.moves]
    assert body.count(":: d_step") == len(seed.moves) + 1
    assert re.search(r"^bit free_1 = 1;$", body, re.M)
    assert kvrace("promela", "--requests", "load_save", "--output", "seed.pml").out == ""
    assert Path("seed.pml").read_text() == shown.out


def test_the_options_reach_the_text(kvrace: Any) -> None:
    shown = kvrace("promela", "--requests", "load,save", "--scheduler", "async", "--blocks", 3, "--policy", "skip",
                   "--contract", "lossy,duplicate")  # fmt: skip
    assert "load,save, async, 3 blocks, policy skip, contract duplicate,lossy" in shown.out.splitlines()[0]
    for line in ('printf("lose load A\\n");', "bit owns_B_3;", "unsigned stage_2 : 2 = IDLE;"):
        assert line in shown.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing option '--requests'. (see kvrace --help)"),
        (("--requests", "swap"), "unknown request kind 'swap': use one of local, load, save, load_save, sync_load, sync_load_save"),
        (("--requests", ""), "--requests: the value is empty"),
        (("--requests", "load,load,load,load,load"), "--requests: 5 are too many to explore; use 4 or fewer"),
        (("--requests", "load", "--scheduler", "both"), "unknown scheduler 'both': use sync or async"),
        (("--requests", "load", "--blocks", 0), "--blocks: 0 is outside 1 to 8"),
        (("--requests", "load", "--policy", "hope"), f"unknown policy 'hope': use one of {', '.join(POLICIES)}"),
        (("--requests", "load", "--run", "--output", "x"),
         "--run and --output exclude each other: with --run no text is written"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line(kvrace: Any, arguments: tuple[object, ...], message: str) -> None:
    shown = kvrace("promela", *arguments)
    assert shown.status == 2
    assert shown.error_line == f"kvrace: {message}"
    assert not list(Path().iterdir())


def test_a_target_that_cannot_be_written_is_one_line(kvrace: Any) -> None:
    shown = kvrace("promela", "--requests", "load", "--output", "missing/x")
    assert shown.status == 2
    assert shown.error_line.startswith("kvrace: --output: there is no folder ")


def test_without_spin_a_run_is_one_line(kvrace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path.cwd()))
    shown = kvrace("promela", "--requests", "load", "--run")
    assert shown.status == 2
    assert shown.error_line == "kvrace: spin and gcc not found; on Debian: apt install spin gcc libc6-dev"


@pytest.mark.slow
@pytest.mark.spin
@pytest.mark.parametrize("policy", BROKEN)
def test_spin_and_kvrace_agree(kvrace: Any, policy: str) -> None:
    """In the smallest instance; more of them, and more policies, are the table of spec/agreement.md."""
    shown = kvrace(
        "promela", "--requests", "load_save", "--scheduler", "sync", "--blocks", 1, "--policy", policy, "--run"
    )
    assert (shown.status, shown.err) == (0, "")
    rows = [re.split(r" {2,}", line.strip()) for line in shown.out.splitlines()[2:-1]]
    figures = {name: (ours, spins) for name, ours, spins in rows}
    assert all(ours == spins for ours, spins in figures.values())
    assert int(figures["states"][0].replace(",", "")) > 100
    assert figures.keys() - {"states", "transitions"} == BROKEN[policy]
    last = shown.out.splitlines()[-1]
    assert last == ("They agree." if policy != "wait_for_all" else "They agree, and every property holds.")


PLANTED = {
    "a guard": ("((phase_A == WAITING) || (phase_A == RUNNING)) && free_1", "(phase_A == WAITING) && free_1"),
    "a change": ("free_1 = false;", ""),
    "a start": ("bit free_1 = 1;", "bit free_1;"),
    "a verdict": ("assert(no_crash);", ""),
}


@pytest.mark.slow
@pytest.mark.spin
@pytest.mark.parametrize("what", PLANTED)
def test_spin_sees_a_planted_difference(seed: FiniteInstance, what: str) -> None:
    old, new = PLANTED[what]
    text = promela(seed, "")
    assert old in text
    assert explored_by_spin(text.replace(old, new)) != explored_by_kvrace(seed)


@pytest.mark.slow
@pytest.mark.spin
def test_a_difference_is_a_status_of_its_own(kvrace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from kvrace import spin

    def without_a_move(instance: FiniteInstance, about: str) -> str:
        return promela(instance, about).replace("free_1 = false;", "")

    monkeypatch.setattr(spin, "promela", without_a_move)
    shown = kvrace("promela", "--requests", "local", "--run")
    assert shown.status == 1
    assert "They do not agree" in shown.out
