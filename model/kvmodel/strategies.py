"""Hypothesis strategies: scopes that are too large to exhaust."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from kvmodel.errors import KvraceError
from kvmodel.scope import BASIC_KINDS, SCHEDULINGS, Scheduling, Scope

Value = TypeVar("Value")

MOST_REQUESTS = 16
"""More would not fit into the largest pool."""
_WORDS = ("a", "b", "ab", "ba", "aba", "abb")
"""Few letters, so that prompts often begin alike."""


def scopes(
    *,
    most_requests: int = 6,
    kinds: tuple[str, ...] = BASIC_KINDS,
    schedulings: tuple[Scheduling, ...] = SCHEDULINGS,
    token_budgets: bool = True,
    priorities: bool = True,
) -> SearchStrategy[Scope]:
    """Scopes of 1 to ``most_requests`` requests: mixed prompts, prefix cache on and off, pools from roomy to just large enough
    for the largest request, chunked prefill by a small token budget, priorities, stop tokens, one and two steps in flight.

    The reference scheduler has no token budget and no priorities: leave them out for it. Raises KvraceError when
    ``most_requests`` is not from 1 to 16.
    """
    if not 1 <= most_requests <= MOST_REQUESTS:
        raise KvraceError(f"most_requests: {most_requests} is outside 1 to {MOST_REQUESTS}")
    return _scopes(most_requests, kinds, schedulings, token_budgets, priorities)


@st.composite
def _scopes(
    draw: DrawFn,
    most_requests: int,
    kinds: tuple[str, ...],
    schedulings: tuple[Scheduling, ...],
    token_budgets: bool,
    priorities: bool,
) -> Scope:
    count = draw(st.integers(1, most_requests))

    def each(values: SearchStrategy[Value]) -> tuple[Value, ...]:
        return tuple(draw(st.lists(values, min_size=count, max_size=count)))

    roomy = Scope(
        requests=each(st.sampled_from(kinds)),
        scheduling=draw(st.sampled_from(schedulings)),
        block_size=draw(st.sampled_from([4, 2, 1])),
        prompts=each(st.sampled_from(_WORDS)),
        output_tokens=draw(st.integers(1, 5)),
        prefix_sharing=draw(st.booleans()),
        early_stop=draw(st.booleans()),
        separate_ends=draw(st.booleans()),
        token_budget=draw(st.integers(0, 6)) if token_budgets else 0,
        priorities=each(st.integers(0, 2)) if priorities and draw(st.booleans()) else (),
    )
    largest = max(roomy.blocks_needed(index) for index in range(count))
    fewer = draw(st.integers(0, 100))
    return replace(roomy, blocks=max(largest, roomy.blocks - roomy.blocks * fewer // 100))
