"""What a dispatched step reads and writes, and what a request's KV is in, with one table of blocks or with two.

A layer with a sliding window attends to its last tokens only. Such layers have a block table of their own, and the scheduler puts
the null block there in place of a block that has left the window; the workers are not told, and read no longer what was there.

A step that verifies drafts is dispatched before it is known which drafts of the steps before it were accepted. It may begin
earlier than was announced, by as many tokens as those steps have drafts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kvmodel.port import Handover, ScheduledRequest
from kvmodel.scope import Scope
from kvmodel.world import Access, RequestState, Step


def first_in_window(tokens: int, scope: Scope) -> int:
    """The first place of the window's table that the token after so many tokens attends to."""
    return max(0, tokens - scope.window + 1) // scope.block_size


def _places(tokens: int, scope: Scope) -> int:
    """How many blocks hold so many tokens."""
    return -(-tokens // scope.block_size)


def _may_be_rejected(entry: ScheduledRequest, steps: Sequence[Step]) -> int:
    """How many of the tokens before ``entry`` are drafts in flight. Steps from before a preemption began at a later token."""
    drafts, start = 0, entry.start
    for step in () if entry.replaces else reversed(steps):
        began = next((access.start for access in step.accesses if access.request == entry.request), start)
        if began >= start:
            break
        drafts += dict(step.drafts).get(entry.request, 0)
        start = began
    return drafts


def dispatched(
    request: RequestState, entry: ScheduledRequest, steps: Sequence[Step], scope: Scope
) -> tuple[RequestState, Access]:
    """The request as the workers know it after a step with ``entry``, and what the step touches for it. ``steps`` are those in
    flight before it."""
    kept, kept_window = ((), ()) if entry.replaces else (request.table, request.window_table)
    table, window = kept + entry.new_blocks, kept_window + entry.window_blocks
    start = entry.start - (_may_be_rejected(entry, steps) if scope.drafts else 0)
    touched = table[: _places(entry.computed, scope)]
    written = touched[start // scope.block_size :]
    if scope.window:
        in_use = window[: _places(entry.computed, scope)]
        touched += in_use[first_in_window(start, scope) :]
        written += in_use[start // scope.block_size :]
    told = request._replace(table=table, window_table=window, computed=entry.computed, known=True)
    return told, Access(entry.request, touched, written, start)


def holding_kv(request: RequestState, tokens: int, scope: Scope) -> tuple[int, ...]:
    """The blocks that hold the KV of so many tokens, those in the window after the others."""
    last = _places(tokens, scope)
    in_window = request.window_table[first_in_window(tokens, scope) : last] if scope.window else ()
    return request.table[:last] + in_window


def names_kv(handover: Handover, request: RequestState, tokens: int, scope: Scope) -> bool:
    """Whether the blocks named are those that the workers know, and hold the KV of so many tokens."""
    last = _places(tokens, scope)
    right = handover.blocks == request.table[: len(handover.blocks)] and len(handover.blocks) >= last
    if not scope.window:
        return right
    first = first_in_window(tokens, scope)
    return right and handover.window[first:last] == request.window_table[first:last]


def given_up(
    accesses: Iterable[Access], owned: Iterable[tuple[str, tuple[int, ...]]]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The blocks that a step works on for a request that does not own them any more."""
    tables = dict(owned)
    for access in accesses:
        lost = tuple(block for block in access.blocks if block not in tables.get(access.request, ()))
        if lost:
            yield access.request, lost
