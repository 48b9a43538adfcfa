"""The language of the relation: what must hold before a change, what is grounded, and how formulas are written for people."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvmodel.allowed import possible_reports
from kvmodel.contract import Contract
from kvmodel.events import Report
from kvmodel.relation.finite import compiled
from kvmodel.relation.in_world import may_report, may_save
from kvmodel.relation.model import Model
from kvmodel.relation.policies import POLICIES
from kvmodel.relation.scoped import scoped
from kvmodel.relation.terms import FALSE, TRUE, Change, Implies, after, bind, exists, forall
from kvmodel.relation.text import text
from kvmodel.relation.vocabulary import LOAD, RUNNING, WAITING, b, c, free, owns, phase, r, touches, x, y
from kvmodel.scope import Scope
from kvmodel.world import RequestState, Stage, Transfer, World

MODEL = Model(POLICIES["wait_for_all"], Contract.parse("duplicate,unsolicited,lossy,unclaimed"))
INSTANCE = scoped(MODEL, Scope(("load_save", "load"), "async", prefix_sharing=True), blocks=2, failures=True)
BITS = max(shift + width for shift, width in INSTANCE.layout.places.values())


def _a_state(numbers: int) -> int:
    """The bits as a state: an enumerated cell keeps to the elements there are."""
    layout = INSTANCE.layout
    for cell, (shift, width) in layout.places.items():
        if cell[0].result is not None:
            mask = (1 << width) - 1
            value = (numbers >> shift & mask) % len(layout.universe.of(cell[0].result))
            numbers = numbers & ~(mask << shift) | value << shift
    return numbers


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**BITS - 1).map(_a_state), st.sampled_from(INSTANCE.moves), st.sampled_from(MODEL.invariant))
def test_what_must_hold_before_a_move_is_what_holds_after_it(state, move, conjunct) -> None:
    universe = INSTANCE.layout.universe
    before = compiled(INSTANCE.layout, universe.ground(after(conjunct.formula, move.action.changes), move.values))
    holds = compiled(INSTANCE.layout, universe.ground(conjunct.formula, {}))
    assert before(state) == holds(move.apply(state))


def test_a_parameter_cannot_be_captured_by_a_quantifier() -> None:
    everywhere = Change(free, (c,), owns(r, c))
    with pytest.raises(AssertionError, match="captured"):
        after(forall(r, b, owns(r, b) >> free(b)), (everywhere,))


def test_an_argument_cannot_be_captured_by_a_quantifier() -> None:
    shared = Change(free, (c,), exists(x, owns(x, c)))
    assert after(forall(b, free(b)), (shared,)) == forall(b, exists(x, owns(x, b)))
    loaded = Change(owns, (y, c), exists(x, touches(LOAD, x, c)) & owns(y, c))
    with pytest.raises(AssertionError, match="captured"):
        after(forall(x, c, owns(x, c)), (loaded,))


def test_what_is_always_so_is_left_out() -> None:
    assert (TRUE & free(b)) == free(b)
    assert (free(b) & FALSE) == FALSE
    assert (free(b) | TRUE) == TRUE
    assert ~~free(b) == free(b)
    assert bind(free(b), {b: c}) == free(c)


@pytest.mark.parametrize(
    ("formula", "written"),
    [
        (forall(x, c, owns(x, c) >> ~free(c)), "∀ x, c: owns(x, c) ⇒ ¬free(c)"),
        (phase.of(x).among(WAITING, RUNNING), "phase(x) ∈ {waiting, running}"),
        (~phase.of(x).is_(WAITING), "phase(x) ≠ waiting"),
        (free(b) & (free(c) | owns(r, b)), "free(b) ∧ (free(c) ∨ owns(r, b))"),
        (Implies(free(b), Implies(free(c), TRUE)), "free(b) ⇒ (free(c) ⇒ true)"),
        (~(free(b) & free(c)), "¬(free(b) ∧ free(c))"),
        (exists(x, owns(x, b)) & free(b), "(∃ x: owns(x, b)) ∧ free(b)"),
    ],
)
def test_formulas_are_written_for_people(formula, written) -> None:
    assert text(formula) == written


def _world(**request: object) -> World:
    return World((RequestState(stage=Stage.LIVE, **request),), (), (Transfer("A", "load", (1,), 0, False, True),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("contract", "request_state", "reports"),
    [
        ("exactly-once", {}, ["load:A"]),
        ("single", {}, ["load:A"]),
        ("duplicate", {"repeatable": ("save",)}, ["load:A", "save:A:duplicate"]),
        ("exactly-once", {"repeatable": ("save",)}, ["load:A"]),
        ("unsolicited", {}, ["load:A", "save:A:unsolicited"]),
        ("unsolicited", {"save_started": True}, ["load:A"]),
        ("unsolicited", {"unsolicited_sent": True}, ["load:A"]),
    ],
)
def test_the_environment_reports_what_the_relation_lets_it(contract, request_state, reports) -> None:
    found = possible_reports(_world(**request_state), Scope(("load_save",)), Contract.parse(contract))
    assert list(map(str, found)) == reports
    assert all(isinstance(report, Report) for report in found)


def test_a_contract_says_whether_a_save_may_start() -> None:
    loading, quiet = _world(), _world()._replace(transfers=())
    assert may_save(Contract(), True)(loading, "A", 0, "save")
    assert not may_save(Contract.parse("single"), True)(loading, "A", 0, "save")
    assert may_save(Contract.parse("single"), True)(quiet, "A", 0, "save")
    assert not may_save(Contract(), False)(quiet, "A", 0, "save")
    assert may_save(Contract.parse("unclaimed"), False)(quiet, "A", 0, "save")


def test_nobody_is_reported_before_he_came() -> None:
    nobody = World((RequestState(),))
    assert not may_report("unsolicited")(nobody, "A", 0, "save")
    assert not may_report("due")(nobody, "A", 0, "load")


def test_every_action_and_every_guard_names_its_source() -> None:
    for action in MODEL.actions:
        assert action.meaning and action.source, action.name
        for guard in action.guards:
            assert guard.why, f"{action.name}: {guard.name}"
