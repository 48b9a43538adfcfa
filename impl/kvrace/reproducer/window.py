"""A sliding window in the generated file: a second group of blocks, whose tables have the null block in place of what left it."""

from __future__ import annotations

from collections.abc import Sequence

from kvmodel.scope import Scope
from kvrace.reproducer.order import Order
from kvrace.reproducer.piece import Piece, piece

_REAL_BLOCKS = piece(
    '''
    def real_blocks(tables, places=slice(None)):
        """The blocks in these places of all tables. In place of one that left the window is 0."""
        return [block for table in tables for block in table[places] if block]
    '''
)


def with_real_blocks(pieces: Sequence[Piece]) -> list[Piece]:
    """The helper comes before the first piece that calls it."""
    first = next((at for at, found in enumerate(pieces) if "real_blocks(" in found.code), None)
    return list(pieces) if first is None else [*pieces[:first], _REAL_BLOCKS, *pieces[first:]]


def owned(order: Order, manager: str, name: str) -> str:
    """The expression for all blocks that a request owns. ``manager`` and ``name`` are expressions."""
    tables = f"{manager}.get_block_ids({name})"
    return f"real_blocks({tables})" if order.scope.window else f"{tables}[0]"


def spec_lines(scope: Scope) -> list[str]:
    """What describes the second group, after ``spec`` that of the first."""
    if not scope.window:
        return []
    return [
        "    window_spec = SlidingWindowSpec(",
        "        block_size=BLOCK_SIZE,",
        "        num_kv_heads=1,",
        "        head_size=1,",
        "        dtype=torch.float32,",
        "        sliding_window=WINDOW,",
        "    )",
    ]


def group_lines(scope: Scope) -> list[str]:
    """An argument of ``KVCacheConfig``."""
    if not scope.window:
        return ['            kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)],']
    return [
        "            kv_cache_groups=[",
        '                KVCacheGroupSpec(["layer"], spec),',
        '                KVCacheGroupSpec(["window"], window_spec),',
        "            ],",
    ]
