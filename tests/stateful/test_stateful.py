"""Random orders find what the explorer finds, from nothing, and stay silent where everything holds."""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from unittest import SkipTest

import pytest
from hypothesis import Phase, settings
from hypothesis.strategies import SearchStrategy

from kvmodel.contract import Contract
from kvmodel.coverage import Coverage
from kvmodel.errors import KvraceError
from kvmodel.milestones import MILESTONE_NAMES
from kvmodel.profiles import PROFILES, profile
from kvmodel.properties import PROPERTY_NAMES
from kvmodel.scope import LATER_FIELDS, Scope, both_schedulers
from kvmodel.stateful import Broken, PropertyBroken, state_machine
from kvmodel.strategies import scopes
from kvrace.check import check
from kvrace.reference.mutants import MUTANTS
from kvrace.reference.subject import ReferenceSubject
from kvrace.vllm.mutants import vllm_mutants
from tests.stateful.helpers import FROM_NOTHING, REFERENCE_SCOPES, STEPS, fixed, reference, vllm

TO_THE_CRASH = ["add A", "schedule", "abort A", "update load:A save:A"]
TO_THE_USE_AFTER_FREE = (
    ["add A", "schedule", "abort A", "update load:A"],
    ["add A", "schedule", "abort A", "update save:A"],
)


def broken_by(make, where: SearchStrategy[Scope] | Scope, *properties: str, contract: str = "exactly-once") -> Broken:
    """The first order that breaks one of ``properties``, made short."""
    machine = state_machine(make, where, Contract.parse(contract), properties or PROPERTY_NAMES)
    with pytest.raises(PropertyBroken) as raised:
        machine.run(FROM_NOTHING)
    return raised.value.broken


def order(broken: Broken) -> list[str]:
    return [str(frame.event) for frame in broken.frames[1:]]


@pytest.mark.vllm
def test_the_crash_is_found_from_nothing_and_shrinks_to_four_events() -> None:
    broken = broken_by(vllm, scopes(), "no-crash")
    assert order(broken) == TO_THE_CRASH
    assert broken.subject.scope == Scope(("load_save",), output_tokens=1)
    assert "_update_from_kv_xfer_finished" in broken.finding.message


@pytest.mark.vllm
def test_the_use_after_free_is_found_from_nothing_and_shrinks_to_four_events() -> None:
    broken = broken_by(vllm, scopes(), "no-use-after-free")
    assert order(broken) in TO_THE_USE_AFTER_FREE
    assert broken.subject.scope.requests == ("load_save",)


@pytest.mark.slow
def test_the_same_on_the_reference_scheduler_with_both_wrong_policies() -> None:
    assert order(broken_by(partial(reference, "assert"), REFERENCE_SCOPES, "no-crash")) == TO_THE_CRASH
    assert order(broken_by(partial(reference, "skip"), REFERENCE_SCOPES, "no-use-after-free")) in TO_THE_USE_AFTER_FREE


def silent(make, where: SearchStrategy[Scope] | Scope, steps: int, contract: str = "exactly-once") -> Coverage:
    """Play at least ``steps`` events, and fail at the first that breaks anything. In one scope a run goes on with a fresh
    scheduler when all is over; runs that begin with another scope each are shorter."""
    seen = Coverage()
    machine = state_machine(make, where, Contract.parse(contract), coverage=seen)
    machine.run(settings(PROFILES["ci"], max_examples=steps // (25 if isinstance(where, Scope) else 8)))
    assert seen.steps >= steps
    return seen


@pytest.mark.slow
def test_silence_on_a_scope_that_the_explorer_has_exhausted() -> None:
    """Random orders meet no state that the explorer has not, and here it has shown that everything holds."""
    scope = Scope(("load_save", "local"))
    make = partial(reference, "wait_for_all")
    explored = check(make, [scope], Contract())
    assert explored.verdict == "holds"
    seen = silent(make, scope, 2_000)
    assert 0 < seen.pairs <= explored.transitions


@pytest.mark.slow
@pytest.mark.vllm
def test_ten_thousand_steps_on_vllm_where_the_explorer_says_that_everything_holds() -> None:
    for scope in both_schedulers(Scope(("load", "save"))):
        explored = check(vllm, [scope], Contract())
        assert explored.verdict == "holds"
        seen = silent(vllm, scope, STEPS // 2)
        assert seen.pairs <= explored.transitions


@pytest.mark.slow
def test_ten_thousand_steps_in_scopes_beyond_exhaustion_are_silent_and_reach_every_situation() -> None:
    seen = silent(partial(reference, "wait_for_all"), REFERENCE_SCOPES, STEPS)
    assert seen.missing == ()


@pytest.mark.slow
@pytest.mark.vllm
def test_ten_thousand_steps_on_vllm_with_every_vocabulary_are_silent_under_the_contract_single() -> None:
    """Under ``single`` the explorer finds nothing in any named scope. What that contract rules out is all that is not reached."""
    seen = silent(vllm, scopes(), STEPS, "single")
    assert seen.missing == ("load-and-save",)


@pytest.mark.slow
@pytest.mark.vllm
def test_ten_thousand_steps_on_the_drop_in_with_every_vocabulary_are_silent_and_see_everything() -> None:
    """Also where reports come twice and unasked."""
    assert silent(fixed, scopes(), STEPS, "duplicate,unsolicited").missing == ()


HANGS = {"preempt-hang"}
"""A call that never comes back has a test of its own, under the watchdog."""


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [m for m in MUTANTS if m.name not in HANGS], ids=lambda mutant: mutant.name)
def test_planted_faults_are_found_in_the_scope_meant_for_them(mutant) -> None:
    """The machine is no weaker an oracle than the explorer: what the explorer kills, enough random orders kill as well."""
    machine = state_machine(mutant.make_subject, mutant.scope, mutant.contract, (mutant.property,))
    with pytest.raises(PropertyBroken):
        machine.run(FROM_NOTHING)


def test_a_loop_is_found_and_shrinks_to_what_leads_to_it() -> None:
    def never_wakes(scope: Scope) -> ReferenceSubject:
        return ReferenceSubject(scope, "wait_for_all", "never-wake")

    broken = broken_by(never_wakes, REFERENCE_SCOPES, "no-stuck")
    assert broken.loop_start is not None
    assert order(broken)[:3] == ["add A", "schedule", "update load:A"]
    assert broken.subject.scope.requests == ("load",)


def test_a_failing_order_is_remembered_and_tried_first() -> None:
    """The example database of the profile ``dev``."""
    from hypothesis.database import InMemoryExampleDatabase

    how_long = settings(FROM_NOTHING, derandomize=False, database=InMemoryExampleDatabase())
    machine = state_machine(partial(reference, "skip"), REFERENCE_SCOPES, properties=("no-use-after-free",))
    only_remembered = settings(how_long, phases=(Phase.reuse,))
    with pytest.raises(SkipTest):  # there is nothing yet
        machine.run(only_remembered)
    with pytest.raises(PropertyBroken):
        machine.run(how_long)
    with pytest.raises(PropertyBroken):
        machine.run(only_remembered)


def test_what_does_not_fail_twice_is_no_finding() -> None:
    """A subject that breaks a property once and never again is not deterministic, and no verdict is given on it."""
    calls = 0

    class Once(ReferenceSubject):
        def observe(self):
            nonlocal calls
            calls += 1
            seen = super().observe()
            return seen._replace(free_count=99) if calls == 30 else seen

    with pytest.raises(AssertionError, match="does not behave the same twice: no-double-free"):
        state_machine(Once, REFERENCE_SCOPES).run(FROM_NOTHING)


def test_profiles_get_longer_and_unknown_ones_are_refused() -> None:
    steps = [PROFILES[name].max_examples * PROFILES[name].stateful_step_count for name in ("dev", "ci", "nightly")]
    assert steps == sorted(steps)
    assert profile("ci").derandomize
    assert not profile("nightly").derandomize
    with pytest.raises(KvraceError, match="unknown profile 'fast'"):
        profile("fast")


@pytest.mark.parametrize("wide", [False, True], ids=["the older fields", "all fields"])
def test_scopes_cover_the_whole_vocabulary(wide: bool) -> None:
    """Every field of a scope takes more than one value, and every value is one that makes sense."""
    from hypothesis import given

    met: dict[str, set] = {}

    @settings(max_examples=300, derandomize=True, database=None)
    @given(scopes(wide=wide))
    def look(scope: Scope) -> None:
        for field in fields(scope):
            met.setdefault(field.name, set()).add(str(getattr(scope, field.name)))

    look()
    constant = {name for name, values in met.items() if len(values) == 1}
    assert constant == {
        "prompt_blocks",
        "engine_order",
        *(("failed_ids", "ranks_reporting", "oversized") if wide else LATER_FIELDS),
    }
    assert MILESTONE_NAMES


@pytest.mark.slow
@pytest.mark.vllm
@pytest.mark.parametrize("name", ["preempts-nobody", "stays-paused", "hears-one-rank"])
def test_planted_faults_of_the_wide_vocabulary_are_found_from_nothing(name: str) -> None:
    mutant = next(mutant for mutant in vllm_mutants() if mutant.name == name)
    assert broken_by(mutant.make_subject, scopes(most_requests=3, wide=True), mutant.property).frames


@pytest.mark.slow
@pytest.mark.vllm
def test_wide_scopes_can_all_be_played() -> None:
    """Whatever is drawn goes together. Only a leak would end the runs, and there is none."""
    seen = Coverage()
    machine = state_machine(vllm, scopes(most_requests=4, wide=True), Contract.parse("single"), ("no-leak",), seen)
    machine.run(settings(PROFILES["ci"], max_examples=60))
    assert seen.steps > 400


def test_a_number_of_requests_that_fits_no_pool_is_refused() -> None:
    with pytest.raises(KvraceError, match="most_requests: 17 is outside 1 to 16"):
        scopes(most_requests=17)
