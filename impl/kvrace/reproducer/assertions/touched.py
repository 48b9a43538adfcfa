"""The generated helpers that say what a step reads and writes, with one table of blocks for a request or with two."""

from __future__ import annotations

from kvrace.reproducer.drafts import may_be_rejected, rejectable_pieces
from kvrace.reproducer.order import Order
from kvrace.reproducer.piece import Piece, piece

_USED = piece(
    '''
    def used_blocks(scheduler, step):
        """The blocks that a step reads and writes for each request. To be asked right after schedule()."""
        used = {}
        for name in step.num_scheduled_tokens:
            num_blocks = -(-scheduler.requests[name].num_computed_tokens // BLOCK_SIZE)
            used[name] = scheduler.kv_cache_manager.get_block_ids(name)[0][:num_blocks]
        return used
    '''
)

_WRITTEN = piece(
    '''
    def written_blocks(scheduler, step):
        """The blocks into which a step writes KV, by request. To be asked right after schedule()."""
        written = {}
        for name, num_tokens in step.num_scheduled_tokens.items():
            end = scheduler.requests[name].num_computed_tokens
            table = scheduler.kv_cache_manager.get_block_ids(name)[0]
            written[name] = table[(end - num_tokens) // BLOCK_SIZE : -(-end // BLOCK_SIZE)]
        return written
    '''
)


def _by_request(order: Order) -> list[str]:
    """The beginning of a loop over the requests of a step, with the tokens that it computes for each."""
    rejected = " - num_rejectable(step, name, *in_flight)" if may_be_rejected(order) else ""
    return [
        "    for name, num_tokens in step.num_scheduled_tokens.items():",
        "        end = scheduler.requests[name].num_computed_tokens",
        f"        start = end - num_tokens{rejected}",
    ]


def _parameters(order: Order) -> str:
    return "scheduler, step, *in_flight" if may_be_rejected(order) else "scheduler, step"


def used_blocks(order: Order) -> tuple[Piece, ...]:
    if not order.scope.window:
        return (_USED,)
    lines = [
        f"def used_blocks({_parameters(order)}):",
        '    """The blocks that a step reads and writes for each request: all of one table, and of the other',
        "    those in the window, 0 where there is none any more. To be asked right after schedule().",
        '    """',
        "    used = {}",
        *_by_request(order),
        "        first, last = max(0, start - WINDOW + 1) // BLOCK_SIZE, -(-end // BLOCK_SIZE)",
        "        table, window = scheduler.kv_cache_manager.get_block_ids(name)",
        "        used[name] = table[:last] + window[first:last]",
        "    return used",
    ]
    return (*rejectable_pieces(order), Piece("\n".join(lines)))


def written_blocks(order: Order) -> tuple[Piece, ...]:
    if not (order.scope.window or may_be_rejected(order)):
        return (_WRITTEN,)
    both = order.scope.window > 0
    lines = [
        f"def written_blocks({_parameters(order)}):",
        '    """The blocks into which a step writes KV, by request. To be asked right after schedule()."""',
        "    written = {}",
        *_by_request(order),
        "        places = slice(start // BLOCK_SIZE, -(-end // BLOCK_SIZE))",
        "        tables = scheduler.kv_cache_manager.get_block_ids(name)",
        f"        written[name] = {'real_blocks(tables, places)' if both else 'tables[0][places]'}",
        "    return written",
    ]
    return (*rejectable_pieces(order), Piece("\n".join(lines)))


def step_arguments(order: Order, step: int) -> str:
    """Arguments of these helpers for the step with this number: the scheduler, the step, and what is in flight before it."""
    flying = order.flying_before(step) if may_be_rejected(order) else ()
    return ", ".join(["scheduler", f"step_{step}", *(f"step_{number}" for number in flying)])
