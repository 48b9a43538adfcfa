"""Exact sizes of finite instances of the relation: any change of an action, or of what a scope adds, shows here first."""

from __future__ import annotations

import pytest
from relation_instances import instance

from kvmodel.relation.exhaust import exhaust
from kvmodel.relation.policies import POLICIES

COUNTS: dict[tuple[tuple[str, ...], str, int], tuple[tuple[int, int], ...]] = {
    (("local",), "sync", 1): ((33, 77), (33, 77), (33, 77)),
    (("local",), "async", 1): ((122, 334), (122, 334), (122, 334)),
    (("load",), "sync", 1): ((93, 213), (93, 213), (93, 213)),
    (("save",), "async", 1): ((150, 399), (150, 399), (150, 399)),
    (("load_save",), "sync", 1): ((113, 241), (113, 245), (110, 240)),
    (("load_save",), "sync", 2): ((320, 724), (320, 736), (311, 721)),
    (("load_save",), "async", 1): ((416, 1090), (416, 1098), (409, 1084)),
    (("load", "save"), "sync", 2): ((2856, 10271), (2856, 10271), (2856, 10271)),
    (("load_save", "local"), "sync", 2): ((3218, 11285), (3258, 11763), (2757, 10081)),
}
"""States and transitions under each of the policies, by requests, scheduler and blocks."""

FREED, CRASHED, READ = "no-use-after-free", "no-crash", "no-premature-use"
BROKEN: dict[tuple[str, ...], tuple[dict[str, int], ...]] = {
    ("load_save",): ({FREED: 7, CRASHED: 8}, {FREED: 7}, {}),
    ("load_save", "local"): ({FREED: 7, CRASHED: 8, READ: 14}, {FREED: 7, READ: 14}, {}),
}
"""The moves of a shortest order to each property that is broken under each of the policies. Elsewhere none is."""


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("requests", "scheduling", "blocks"), COUNTS)
def test_states_transitions_and_verdicts_are_the_pinned_ones(
    requests: tuple[str, ...], scheduling: str, blocks: int, policy: str
) -> None:
    found = exhaust(instance(policy, requests, scheduling, blocks))
    place = list(POLICIES).index(policy)
    assert (found.states, found.transitions) == COUNTS[requests, scheduling, blocks][place]
    assert {name: len(order) for name, order in found.broken.items()} == BROKEN.get(requests, ({}, {}, {}))[place]
    assert found.complete


def test_a_limit_ends_the_search_and_says_so() -> None:
    found = exhaust(instance("assert", ("load_save",), "sync", 1), max_states=50)
    assert (found.states, found.complete) == (50, False)
