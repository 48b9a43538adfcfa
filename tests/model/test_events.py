"""Events read back what they write, and nothing else is an event."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmodel.errors import KvraceError
from kvmodel.events import Abort, Add, Lose, Report, Schedule, TransferEnds, Update, parse_event

names = st.sampled_from("ABCDEFGH")
directions = st.sampled_from(("load", "save"))
reports = st.builds(Report, directions, names, st.sampled_from(("due", "duplicate", "unsolicited")))


def _set_of(values):
    return st.sets(values, max_size=4).map(lambda found: tuple(sorted(found)))


events = st.one_of(
    st.builds(Add, names, st.booleans()),
    st.builds(Abort, names),
    st.builds(Schedule),
    st.builds(TransferEnds, names, directions),
    st.builds(Lose, names, directions),
    st.builds(Update, _set_of(reports), _set_of(names)),
)


@given(events)
def test_every_event_is_read_back(event) -> None:
    assert parse_event(str(event)) == event


@pytest.mark.parametrize(
    "text",
    ["", "add", "add a", "add AB", "add A B", "abort", "schedule A", "ends A", "lose save:A:duplicate", "update A",
     "update load:A load:A", "update load:A:due", "import os", "add A; abort A", "update " + "x" * 10_000],
)  # fmt: skip
def test_anything_else_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(KvraceError) as refusal:
        parse_event(text)
    assert "\n" not in str(refusal.value)


@given(st.text())
def test_any_text_is_an_event_or_refused(text: str) -> None:
    with contextlib.suppress(KvraceError):
        parse_event(text)
