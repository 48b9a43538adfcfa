"""Copies of state: what is put back is what was there, and keys tell exactly the states apart that differ."""

from __future__ import annotations

import itertools
from collections import OrderedDict, defaultdict, deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmodel.lockstep import digest
from kvmodel.port import UnknownSubject
from kvrace.capture import StateWalk
from kvrace.capture_rules import CaptureRules


class Record:
    """Attributes that come and go, as a subclass of a scheduler may have them."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class Slotted:
    __slots__ = ("first", "second")


RULES = CaptureRules(trusted_modules=(__name__,))


def _key(walk: StateWalk, root: Any) -> Any:
    return digest(walk.capture(root, {}).fingerprint)


VALUES = (None, 0, 1, [], [0], [1], {}, {0: 1}, (), ([],), set(), {1}, "", deque(), deque([1]))


def test_keys_are_equal_for_equal_states_only_whatever_was_seen_before() -> None:
    """All pairs of values in two attributes, in two orders of history: the key is a function of the state, one to one."""
    pairs = list(itertools.product(VALUES, repeat=2))
    for order in (pairs, pairs[::-1]):
        walk = StateWalk(RULES)
        keys: dict[Any, Any] = {}
        for first, second in order:
            key = _key(walk, Record(first=first, second=second))
            shown = (repr(first), repr(second))
            assert keys.setdefault(key, shown) == shown
    forward, backward = StateWalk(RULES), StateWalk(RULES)
    a = [_key(forward, Record(first=f, second=s)) for f, s in pairs]
    b = [_key(backward, Record(first=f, second=s)) for f, s in pairs[::-1]]
    assert a == b[::-1]


def test_an_object_met_twice_differs_from_two_equal_objects() -> None:
    walk = StateWalk(RULES)
    for make in (list, dict, set, deque, lambda: [1], lambda: Record(x=1)):
        shared = make()
        assert _key(walk, Record(first=shared, second=shared)) != _key(walk, Record(first=make(), second=make()))


@pytest.mark.parametrize("make", [list, dict, set, deque])
def test_which_of_several_empty_containers_are_one_makes_a_difference(make: Any) -> None:
    """Two of three are one in each, so counting tells nothing: one is gone when the first attribute goes, the other stays."""
    one, other = make(), make()
    keys = [_key(StateWalk(RULES), Record(first=a, second=b, third=c))
            for a, b, c in ((one, one, other), (one, other, other), (one, other, one), (one, one, one))]  # fmt: skip
    assert len(set(keys)) == 4


def test_slots_that_are_not_set_are_told_apart_and_put_back() -> None:
    walk = StateWalk(RULES)
    value = Slotted()
    value.second = 1
    copy = walk.capture(value, {})
    other = Slotted()
    other.first = 1
    assert _key(walk, other) != digest(copy.fingerprint)
    value.first, value.second = 5, 6
    walk.restore(copy.snapshot)
    assert value.second == 1 and not hasattr(value, "first")


plain = st.none() | st.booleans() | st.integers(-2, 2) | st.text(max_size=2)
nested = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.integers(0, 3), inner, max_size=3)
        | st.lists(inner, max_size=3).map(deque)
        | st.dictionaries(st.text(max_size=1), inner, max_size=2).map(OrderedDict)
        | st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(lambda found: Record(**found))
        | st.dictionaries(st.integers(0, 3), inner, max_size=2).map(lambda found: defaultdict(list, found))
        | st.sets(st.integers(0, 5), max_size=3)
    ),
    max_leaves=12,
)


def _scramble(value: Any, depth: int = 0) -> None:
    """Change everything mutable that can be reached."""
    if isinstance(value, Record):
        value = value.__dict__
    if isinstance(value, dict):
        for item in list(value.values()):
            _scramble(item, depth + 1)
        value.clear()
        value["scrambled"] = []
    elif isinstance(value, list | deque):
        for item in list(value):
            _scramble(item, depth + 1)
        value.append([object])
    elif isinstance(value, set):
        value.clear()
        value.add(99)


@given(nested)
def test_whatever_is_done_to_the_state_is_undone(state: Any) -> None:
    walk = StateWalk(RULES)
    root = Record(state=state)
    copy = walk.capture(root, {}, kept="kept")
    for _ in range(2):
        _scramble(root)
        assert walk.restore(copy.snapshot) == "kept"
        assert _key(walk, root) == digest(copy.fingerprint)


@pytest.mark.parametrize("value", [iter([]), (x for x in ()), zip()], ids=["iterator", "generator", "zip"])
def test_state_that_cannot_be_put_back_is_refused(value: Any) -> None:
    with pytest.raises(UnknownSubject, match="cannot copy Record.value: it is a"):
        _key(StateWalk(RULES), Record(value=value))
