"""The relation that z3 proves about and the one that the explorer runs are the same: on every state and every event, both ways."""

from __future__ import annotations

from dataclasses import replace

import pytest
from relation_agreement import Successors, differences, miscompiled, property_differences, reachable
from relation_instances import instance, name_of, small_instances

from kvmodel.named_scopes import named_scope
from kvmodel.relation.finite import FiniteInstance
from kvmodel.relation.terms import Action, Change

SMALL = [name_of(case) for case in named_scope("small")]
SMALL_SYNC = [name for name in SMALL if name.endswith(" sync")]
QUICK = ["load_save sync", "load,save async"]
ONE_REQUEST = ["load_save sync", "local async"]
DIFFERENT = ("skip_sends", "not_while_loading", "wait_for_all", "reclaim")
"""Policies that differ in kind; the others are made of the same parts: one that passes over reports in one direction and stops at
those in the other, one whose requests end otherwise, one that counts, and one with an action of its own."""


def _differences(found: FiniteInstance) -> list[str]:
    return [*differences(found.actions, found), *property_differences(found.properties, found)]


@pytest.mark.parametrize("name", QUICK)
def test_z3_finds_no_state_in_which_the_two_readings_differ(name: str) -> None:
    assert _differences(small_instances("wait_for_all")[name]) == []


EACH = [(name, policy) for policy in DIFFERENT for name in (SMALL if policy == "wait_for_all" else SMALL_SYNC)]
"""All cases under one policy: the others differ from it in what the cases of one step in flight have too."""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "policy"), EACH)
def test_z3_finds_no_state_in_which_the_two_readings_differ_in_any_small_case(name: str, policy: str) -> None:
    assert _differences(small_instances(policy)[name]) == []


@pytest.mark.parametrize("contract", ["single", "unclaimed,duplicate", "unsolicited,lossy"])
def test_they_agree_under_other_contracts(contract: str) -> None:
    assert _differences(instance("skip", ("load_save",), "sync", 1, contract)) == []


@pytest.mark.parametrize("name", ONE_REQUEST)
def test_what_is_compiled_says_what_its_formula_says_in_every_reachable_state(name: str) -> None:
    found = small_instances("assert")[name]
    assert miscompiled(found, reachable(found)) == []


@pytest.mark.slow
@pytest.mark.parametrize(("name", "policy"), EACH)
def test_what_is_compiled_says_what_its_formula_says_in_any_small_case(name: str, policy: str) -> None:
    found = small_instances(policy)[name]
    assert miscompiled(found, reachable(found)) == []


def _explicit(found: FiniteInstance, state: int) -> set[tuple[str, int]]:
    return {(str(move), move.apply(state)) for move in found.moves if move.enabled(state)}


def test_z3_enumerates_the_moves_that_the_explorer_makes() -> None:
    found = instance("wait_for_all", ("local",), "sync", 1)
    by_z3 = Successors(found.actions, found.layout)
    for state in reachable(found):
        assert by_z3.of(state) == _explicit(found, state)


@pytest.mark.slow
@pytest.mark.parametrize("policy", DIFFERENT)
@pytest.mark.parametrize("name", [name for name in SMALL_SYNC if "," not in name])
def test_z3_enumerates_the_moves_that_the_explorer_makes_for_every_single_request(name: str, policy: str) -> None:
    found = small_instances(policy)[name]
    by_z3 = Successors(found.actions, found.layout)
    for state in reachable(found):
        assert by_z3.of(state) == _explicit(found, state)


# Planted differences: what is compared above can differ, and then it is seen.


@pytest.fixture(scope="module")
def seed() -> FiniteInstance:
    return instance("assert", ("load_save",), "sync", 1)


def _with_moves(found: FiniteInstance) -> list[Action]:
    made = {move.action.name for move in found.moves}
    return [action for action in found.actions if action.name in made]


def test_every_flipped_guard_is_seen(seed: FiniteInstance) -> None:
    for action in _with_moves(seed):
        for place, guard in enumerate(action.guards):
            flipped = replace(guard, formula=~guard.formula)
            guards = (*action.guards[:place], flipped, *action.guards[place + 1 :])
            seen = list(differences((replace(action, guards=guards),), seed))
            assert any(line.startswith(f"{action.name} ") for line in seen), f"{action.name}: {guard.name}"


def _does_nothing(action: Action, change: Change, found: FiniteInstance) -> bool:
    cells = {e.cell[0] for move in found.moves if move.action is action for e in move.effects}
    return change.symbol not in cells


@pytest.mark.slow
def test_every_missing_change_is_seen(seed: FiniteInstance) -> None:
    for action in _with_moves(seed):
        for change in action.changes:
            if _does_nothing(action, change, seed):
                continue
            same = change.symbol.of if change.symbol.result else change.symbol
            unchanged = replace(change, value=same(*change.variables))
            changes = tuple(unchanged if one is change else one for one in action.changes)
            seen = list(differences((replace(action, changes=changes),), seed))
            assert any(line.startswith(f"{action.name} ") and ": change" in line for line in seen), change.symbol.name


def test_every_flipped_check_and_property_is_seen(seed: FiniteInstance) -> None:
    for action in _with_moves(seed):
        for place, check in enumerate(action.checks):
            flipped = replace(check, formula=~check.formula)
            checks = (*action.checks[:place], flipped, *action.checks[place + 1 :])
            seen = list(differences((replace(action, checks=checks),), seed))
            assert any(": check" in line for line in seen), f"{action.name}: {check.name}"
    flipped_rules = tuple(replace(rule, formula=~rule.formula) for rule in seed.properties)
    assert len(list(property_differences(flipped_rules, seed))) == len(seed.properties)


@pytest.mark.parametrize("function", ["enabled", "apply"])
def test_every_miscompiled_move_is_seen(function: str) -> None:
    found = instance("assert", ("load",), "sync", 1)
    states = reachable(found)
    for move in found.moves:
        compiled = getattr(move, function)
        move.__dict__[function] = lambda state, compiled=compiled: compiled(state) ^ 1
        assert [what.split(":")[0] for what in miscompiled(found, states)] == [str(move)]
        move.__dict__[function] = compiled


def test_z3_enumerates_other_moves_of_another_relation() -> None:
    found = instance("assert", ("local",), "sync", 1)

    def without_its_first_guard(action: Action) -> Action:
        return replace(action, guards=action.guards[1:]) if action.name == "build" else action

    by_z3 = Successors(tuple(map(without_its_first_guard, found.actions)), found.layout)
    more = {name for state in reachable(found) for name, _ in by_z3.of(state) - _explicit(found, state)}
    assert more == {"build 1"}
