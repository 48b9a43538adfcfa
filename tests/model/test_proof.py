"""The proofs: everything is discharged, nothing is discharged for nothing, and what has no proof fails where it should."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import z3

from kvmodel.contract import Contract
from kvmodel.errors import KvraceError
from kvmodel.proof.bounded import broken, rules, shortest
from kvmodel.proof.induction import counterexample
from kvmodel.proof.obligations import obligations
from kvmodel.proof.orders import events_of
from kvmodel.proof.solve import Proof, Solver, prove
from kvmodel.proof.theorems import SEED, theorem_for
from kvmodel.proof.vacuity import changed, fails_without_conjunct, fails_without_guard
from kvmodel.proof.words import state_lines
from kvmodel.relation.model import Model
from kvmodel.relation.policies import policy_named
from kvmodel.relation.possible import POSSIBLE
from kvmodel.relation.terms import FALSE, Named

EXACTLY_ONCE = Contract()
MAIN = Model(policy_named("wait_for_all"), EXACTLY_ONCE)


@cache
def proof_of(policy: str, contract: str = "exactly-once") -> Proof:
    return prove(Model(policy_named(policy), Contract.parse(contract)))


def test_the_main_statement_is_proved() -> None:
    """All statements of the list are in a table of spec/proofs.md, which a slow test makes anew."""
    theorem = theorem_for("wait_for_all", EXACTLY_ONCE)
    assert theorem is not None
    proof = prove(theorem.model)
    assert proof.verdict == "proved", [result.obligation.name for result in proof.results if result.verdict != "proved"]
    assert len(proof.results) == len(list(obligations(theorem.model))) > 250


def test_the_main_statement_assumes_nothing_and_has_all_properties() -> None:
    theorem = theorem_for("wait_for_all", EXACTLY_ONCE)
    assert theorem is not None and theorem.assumed == frozenset()
    names = {rule.name for rule in MAIN.properties}
    assert names == {"no-use-after-free", "no-premature-use", "conservation", "no-leak", "no-stuck"}
    checks = {check.name for action in MAIN.actions for check in action.checks}
    assert {"no-crash", "no-double-free", "finish-once"} <= checks


@pytest.mark.parametrize("policy", ["assert", "skip"])
def test_what_vllm_does_and_what_is_proposed_fail_at_the_report_alone(policy: str) -> None:
    proof = proof_of(policy)
    assert proof.verdict == "refuted" and not proof.having("unknown")
    assert {result.obligation.name for result in proof.having("refuted")} == {
        "report keeps: a load belongs to a request that waits for it",
        "report keeps: a save belongs to a request that is held for it",
        "report keeps: a transfer touches what its request owns",
    }


def test_a_counterexample_to_induction_is_a_small_state() -> None:
    obligation = next(r.obligation for r in proof_of("skip").having("refuted") if "touches" in r.obligation.name)
    example = counterexample(proof_of("skip").model, obligation)
    assert example is not None and example.move is not None
    assert state_lines(example.instance, example.before) == [
        "A is held; owns block 1; its load runs; its save runs on block 1; the scheduler waits for its load and save"
    ]
    assert state_lines(example.instance, example.after) == [
        "A is gone; its load was reported; its save runs on block 1"
    ]
    assert {variable.name: element.name for variable, element in example.witness.items()} == {
        "e": "save", "x": "A", "c": "1"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "found"),
    [("assert", {"no-use-after-free": 4, "no-crash": 4}), ("skip", {"no-use-after-free": 4}), ("wait_for_all", {})],
)
def test_bounded_model_checking_finds_the_race_in_four_events_and_no_other(policy: str, found: dict[str, int]) -> None:
    instance = SEED.instance(Model(policy_named(policy), EXACTLY_ONCE))
    orders = shortest(instance, {rule: broken(instance, rule) for rule in rules(instance)}, most=5)
    assert {rule: len(order.events) for rule, order in orders.items()} == found
    for order in orders.values():
        assert list(map(str, events_of(order)[:3])) == ["add A", "schedule", "abort A"]


def test_an_unasked_report_that_comes_too_late_frees_what_a_save_reads() -> None:
    theorem = theorem_for("wait_for_all", Contract.parse("unsolicited"))
    assert theorem is not None
    instance = theorem.needed["unasked-in-time"].instance(theorem.without("unasked-in-time"))
    order = shortest(instance, {"it": broken(instance, "no-use-after-free")}, 4)["it"]
    assert list(map(str, events_of(order))) == ["add A", "schedule", "update save:A:unsolicited stop:A"]


_GUARDS = [(action.name, guard.name) for action in MAIN.actions for guard in action.guards]
_SOME_CONJUNCTS = ("a transfer touches what its request owns", "what is awaited runs")
"""A table of spec/proofs.md has each conjunct and what fails without it."""
_FAST_GUARDS = (("take", "the block is free"), ("preempt", "the fence"), ("report", "the transfer runs"))


@pytest.mark.parametrize("name", _SOME_CONJUNCTS)
def test_a_conjunct_of_the_invariant_is_needed(name: str) -> None:
    assert fails_without_conjunct(MAIN, next(part for part in MAIN.invariant if part.name == name)) is not None


@pytest.mark.parametrize(
    ("action", "guard"),
    [pytest.param(*n, marks=[] if n in _FAST_GUARDS else pytest.mark.slow, id=": ".join(n)) for n in _GUARDS],
)
def test_every_guard_is_needed(action: str, guard: str) -> None:
    guarded = next(a for a in MAIN.actions if a.name == action)
    assert fails_without_guard(MAIN, guarded, next(g for g in guarded.guards if g.name == guard)) is not None


def test_unknown_is_not_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([z3.unsat] * 100 + [z3.unknown])
    monkeypatch.setattr(z3.Solver, "check", lambda _: next(answers, z3.unsat))
    monkeypatch.setattr(z3.Solver, "reason_unknown", lambda _: "canceled")
    proof = prove(MAIN)
    assert [(r.verdict, r.why) for r in proof.results if r.verdict != "proved"] == [("unknown", "canceled")]
    assert proof.verdict == "unknown"


def test_a_proof_that_was_ended_proves_nothing() -> None:
    def end(_: object) -> None:
        raise KeyboardInterrupt

    proof = prove(MAIN, listen=end)
    assert (len(proof.results), proof.complete, proof.verdict) == (1, False, "unknown")


def test_a_search_that_z3_gives_up_is_an_error_and_not_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(z3.Solver, "check", lambda _self, *_: z3.unknown)
    monkeypatch.setattr(z3.Solver, "reason_unknown", lambda _: "out of memory")
    instance = SEED.instance(MAIN)
    with pytest.raises(KvraceError, match="z3 gave a search up: out of memory"):
        shortest(instance, {"it": broken(instance, "no-crash")}, 1)


@pytest.mark.parametrize("name", sorted({case.action for case in POSSIBLE}))
def test_an_action_that_never_happens_leaves_something_impossible(name: str) -> None:
    """A relation that gives nothing back and hears no report breaks no safety property: that it can is an obligation too."""
    never = Named("never", FALSE, "planted")
    actions = tuple(replace(a, guards=(*a.guards, never)) if a.name == name else a for a in MAIN.actions)
    solver = Solver()
    of_the_action = (o for o in obligations(changed(MAIN, actions)) if o.actor == name)
    failed = [o for o in of_the_action if solver.discharge(o).verdict != "proved"]
    assert {o.kind for o in failed} == {"possible"}
