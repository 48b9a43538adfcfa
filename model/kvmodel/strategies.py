"""Hypothesis strategies: scopes that are too large to exhaust."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from kvmodel.errors import KvraceError
from kvmodel.scope import (
    BASIC_KINDS,
    FAILURE_POLICIES,
    KINDS_IN_STEP,
    LIFECYCLE,
    MOST_LOOKUPS,
    SCHEDULINGS,
    STEPS_IN_FLIGHT,
    Scheduling,
    Scope,
)

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
    wide: bool = False,
) -> SearchStrategy[Scope]:
    """Scopes of 1 to ``most_requests`` requests: mixed prompts, prefix cache on and off, pools from roomy to just large enough
    for the largest request, chunked prefill by a small token budget, priorities, stop tokens, one and two steps in flight.

    ``wide`` adds what not every release of vLLM knows, and what orders are about that are known to fail in some: either loads
    that fail or are part of a step, or else several ranks, a sliding window, drafts and the events of the engine's and the client's
    life; beside both, three steps in flight, loads of a part of a prompt, second loads, and fewer requests that run at a time.

    The reference scheduler has no token budget and no priorities: leave them out for it. Raises KvraceError when
    ``most_requests`` is not from 1 to 16.
    """
    if not 1 <= most_requests <= MOST_REQUESTS:
        raise KvraceError(f"most_requests: {most_requests} is outside 1 to {MOST_REQUESTS}")
    return _scopes(most_requests, kinds, schedulings, token_budgets, priorities, wide)


@st.composite
def _scopes(
    draw: DrawFn,
    most_requests: int,
    kinds: tuple[str, ...],
    schedulings: tuple[Scheduling, ...],
    token_budgets: bool,
    priorities: bool,
    wide: bool,
) -> Scope:
    count = draw(st.integers(1, most_requests))
    scheduling = draw(st.sampled_from(schedulings))
    prefix_sharing = draw(st.booleans())
    more = draw(_more_of(scheduling, count, prefix_sharing)) if wide else {}

    def each(values: SearchStrategy[Value]) -> tuple[Value, ...]:
        return tuple(draw(st.lists(values, min_size=count, max_size=count)))

    roomy = Scope(
        requests=each(st.sampled_from(_kinds(kinds, more))),
        scheduling=scheduling,
        block_size=draw(st.sampled_from([4, 2, 1])),
        prompts=each(st.sampled_from(_WORDS)),
        output_tokens=draw(st.integers(1, 5)),
        prefix_sharing=prefix_sharing,
        early_stop=draw(st.booleans()),
        separate_ends=draw(st.booleans()) and "reuse" not in more.get("lifecycle", ()),
        token_budget=draw(st.integers(0, 6)) if token_budgets else 0,
        priorities=each(st.integers(0, 2)) if priorities and draw(st.booleans()) else (),
        **more,
    )
    largest = max(roomy.blocks_needed(index) for index in range(count))
    fewer = draw(st.integers(0, 100))
    return replace(roomy, blocks=max(largest, roomy.blocks - roomy.blocks * fewer // 100))


def _kinds(kinds: tuple[str, ...], more: dict[str, Any]) -> tuple[str, ...]:
    """Loads inside a step go where loads fail."""
    return (*kinds, *KINDS_IN_STEP) if "load_failures" in more else kinds


@st.composite
def _more_of(draw: DrawFn, scheduling: Scheduling, count: int, prefix_sharing: bool) -> dict[str, Any]:
    """Fields of a wide scope. A scope leaves out failing loads or all that does not go with them. No request is larger than the
    pool: in every release it waits for ever, and nothing else would be found."""
    more: dict[str, Any] = {"loads_again": draw(st.booleans())}
    if draw(st.booleans()):
        more["steps"] = STEPS_IN_FLIGHT[scheduling] + 1
    if draw(st.booleans()):
        more["load_blocks"] = 1
    if count > 1 and draw(st.booleans()):
        more["max_requests"] = draw(st.integers(1, count - 1))
    if draw(st.booleans()):
        return {**more, "load_failures": draw(st.sampled_from(FAILURE_POLICIES))}
    if draw(st.booleans()):
        more["ranks"] = draw(st.integers(2, 3))
    if draw(st.booleans()):
        more["window"] = draw(st.integers(1, 8))
    elif prefix_sharing:
        more["cascade"] = draw(st.booleans())
    if draw(st.booleans()):
        more["drafts"] = draw(st.integers(1, 2))
    words = draw(st.sets(st.sampled_from(list(LIFECYCLE)), max_size=3))
    excluded = {*(["reuse"] if "ranks" in more else []), *(["lookup"] if count > MOST_LOOKUPS else [])}
    return {**more, "lifecycle": tuple(sorted(words - excluded))}
