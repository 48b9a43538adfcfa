"""Exact sizes of finite instances of the relation: any change of an action, or of what a scope adds, shows here first."""

from __future__ import annotations

import pytest
from relation_instances import instance

from kvmodel.relation.exhaust import exhaust
from kvmodel.relation.policies import POLICIES

ALIKE = {"tolerate": "skip", "wait_for_both": "wait_for_all"}
"""Policies that differ only in reports that no connector sends which keeps its rules."""
COUNTS: dict[tuple[tuple[str, ...], str, int], dict[str, tuple[int, int]]] = {
    (("local",), "sync", 1): {"assert": (33, 77)},
    (("local",), "async", 1): {"assert": (122, 334)},
    (("load",), "sync", 1): {"assert": (93, 213), "reclaim": (102, 231)},
    (("save",), "async", 1): {"assert": (150, 399), "reclaim": (170, 450)},
    (("load_save",), "sync", 1): {
        "assert": (113, 241), "skip_sends": (113, 243), "skip": (113, 245), "not_while_loading": (107, 233),
        "wait_for_all": (110, 240), "reclaim": (125, 272),
    },
    (("load_save",), "async", 1): {
        "assert": (416, 1090), "skip_sends": (416, 1094), "skip": (416, 1098), "not_while_loading": (402, 1066),
        "wait_for_all": (409, 1084), "reclaim": (477, 1262),
    },
    (("load_save", "local"), "sync", 2): {
        "assert": (3218, 11285), "skip_sends": (3218, 11464), "skip": (3258, 11763), "not_while_loading": (2679, 9800),
        "wait_for_all": (2757, 10081), "reclaim": (3984, 14502),
    },
}  # fmt: skip
"""States and transitions by requests, scheduler and blocks, under each policy; one that is not named has those of `assert`."""
LARGER: dict[tuple[tuple[str, ...], str, int], dict[str, tuple[int, int]]] = {
    (("load_save",), "sync", 2): {"assert": (320, 724), "skip": (320, 736), "wait_for_all": (311, 721)},
    (("load", "save"), "sync", 2): {"assert": (2856, 10271), "wait_for_all": (2856, 10271), "reclaim": (4298, 14903)},
}
"""The same for some policies."""

FREED, CRASHED, READ, TOLD = "no-use-after-free", "no-crash", "no-premature-use", "finish-once"
_RACE = {
    "assert": {FREED: 7, CRASHED: 8}, "skip_sends": {FREED: 7, CRASHED: 8}, "skip": {FREED: 7},
    "not_while_loading": {TOLD: 5}, "wait_for_all": {}, "reclaim": {FREED: 7},
}  # fmt: skip
BROKEN: dict[tuple[str, ...], dict[str, dict[str, int]]] = {
    ("load",): {"not_while_loading": {TOLD: 5}, "reclaim": {FREED: 9}},
    ("save",): {"reclaim": {FREED: 10}},
    ("load", "save"): {"reclaim": {FREED: 9, READ: 14}},
    ("load_save",): _RACE,
    ("load_save", "local"): {name: found | ({READ: 14} if FREED in found else {}) for name, found in _RACE.items()},
}
"""The moves of a shortest order to each property that is broken under a policy. Elsewhere none is."""


@pytest.mark.parametrize(
    ("requests", "scheduling", "blocks", "policy"),
    [
        *((*key, policy) for key in COUNTS for policy in POLICIES),
        *((*key, policy) for key, figures in LARGER.items() for policy in figures),
    ],
)
def test_states_transitions_and_verdicts_are_the_pinned_ones(
    requests: tuple[str, ...], scheduling: str, blocks: int, policy: str
) -> None:
    found = exhaust(instance(policy, requests, scheduling, blocks))
    figures = (COUNTS | LARGER)[requests, scheduling, blocks]
    like = ALIKE.get(policy, policy)
    assert (found.states, found.transitions) == figures.get(like, figures["assert"])
    assert {name: len(order) for name, order in found.broken.items()} == BROKEN.get(requests, {}).get(like, {})
    assert found.complete


def test_a_limit_ends_the_search_and_says_so() -> None:
    found = exhaust(instance("assert", ("load_save",), "sync", 1), max_states=50)
    assert (found.states, found.complete) == (50, False)
