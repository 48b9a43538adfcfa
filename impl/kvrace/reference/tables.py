"""Block tables: which blocks, in which order, hold the KV of each request (vLLM ``KVCacheManager``, one attention type)."""

from __future__ import annotations

from collections.abc import Sequence

from kvrace.reference.pool import Block, BlockPool, Content
from kvrace.reference.request import Request


class BlockTables:
    """The table of each request that owns blocks, and how tables grow, are shared, and end."""

    def __init__(self, pool: BlockPool, block_size: int, prefix_sharing: bool) -> None:
        self.pool = pool
        self.block_size = block_size
        self.prefix_sharing = prefix_sharing
        self.blocks_of: dict[str, list[Block]] = {}

    def blocks_for(self, tokens: int) -> int:
        """How many blocks hold ``tokens`` tokens."""
        return -(-tokens // self.block_size)

    def ids(self, request: Request) -> tuple[int, ...]:
        return tuple(block.block_id for block in self.blocks_of.get(request.request_id, ()))

    def find_shared(self, request: Request) -> list[Block]:
        """The blocks the prefix cache offers for the request, from its first block on without a gap.

        At least one token is always left to compute: sampling needs the output of the last one.
        """
        shared: list[Block] = []
        if not self.prefix_sharing:
            return shared
        for index in range((request.num_tokens - 1) // self.block_size):
            block = self.pool.find(self._content(request, index))
            if block is None:
                break
            shared.append(block)
        return shared

    def missing(self, request: Request, tokens: int, shared: Sequence[Block] = ()) -> int:
        """How many free blocks it takes until the request has room for ``tokens`` tokens.

        A shared block without an owner is counted, since taking it leaves one free block fewer.
        """
        has = len(self.blocks_of.get(request.request_id, ())) + len(shared)
        return max(0, self.blocks_for(tokens) - has) + sum(block.references == 0 for block in shared)

    def grow(self, request: Request, tokens: int, shared: Sequence[Block] = ()) -> list[Block]:
        """Make room for ``tokens`` tokens; ``shared`` come first in an empty table. Returns the blocks taken from the pool."""
        table = self.blocks_of.setdefault(request.request_id, [])
        for block in shared:
            self.pool.share(block)
        table.extend(shared)
        request.num_cached_blocks += len(shared)
        taken = self.pool.take(max(0, self.blocks_for(tokens) - len(table)))
        table.extend(taken)
        return taken

    def offer(self, request: Request, tokens: int) -> None:
        """Let the prefix cache offer the blocks that are full after ``tokens`` tokens."""
        if not self.prefix_sharing:
            return
        table = self.blocks_of[request.request_id]
        full = tokens // self.block_size
        for index in range(request.num_cached_blocks, full):
            self.pool.offer(table[index], self._content(request, index))
        request.num_cached_blocks = max(request.num_cached_blocks, full)

    def end(self, request: Request) -> list[Block]:
        """Forget the table and return its blocks, which still count the request as an owner."""
        request.num_cached_blocks = 0
        return self.blocks_of.pop(request.request_id, [])

    def _content(self, request: Request, index: int) -> Content:
        return tuple(request.tokens[: (index + 1) * self.block_size])
