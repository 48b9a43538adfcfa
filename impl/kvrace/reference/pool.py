"""The block pool: who owns how much of which block, which block is given out next, and what the prefix cache offers.

The rules are those of vLLM ``BlockPool`` 0.32.0 for one attention type.
"""

from __future__ import annotations

from collections.abc import Iterable

Content = tuple[int, ...]
"""What a full block stands for in the prefix cache: every token from the start of the prompt to the end of the block."""


class Block:
    """One KV-cache block. ``references`` counts its owners; ``content`` is set while the prefix cache offers the block."""

    __slots__ = ("block_id", "content", "references")

    def __init__(self, block_id: int) -> None:
        self.block_id = block_id
        self.references = 0
        self.content: Content | None = None


class BlockPool:
    """All blocks. Block 0 is the null block: it is never given out and its count is never kept.

    ``free`` holds the blocks without an owner in the order in which they will be given out. ``free_count`` is kept beside it, as
    vLLM keeps ``num_free_blocks`` beside its linked list, so that the two can be compared.
    """

    def __init__(self, usable_blocks: int) -> None:
        self.blocks = [Block(block_id) for block_id in range(usable_blocks + 1)]
        self.free = self.blocks[1:]
        self.free_count = usable_blocks
        self.cache: dict[Content, list[Block]] = {}

    def take(self, count: int) -> list[Block]:
        """Give out the next ``count`` blocks. Raises ValueError when the pool has fewer; callers ask ``free_count`` before."""
        if count > self.free_count:
            raise ValueError(f"{count} blocks were asked for and {self.free_count} are free")
        taken, self.free = self.free[:count], self.free[count:]
        self.free_count -= count
        for block in taken:
            self.evict(block)
            block.references += 1
        return taken

    def share(self, block: Block) -> None:
        """One more owner for a block the prefix cache offers; a block without an owner leaves the free list."""
        if block.references == 0:
            self.free.remove(block)
            self.free_count -= 1
        block.references += 1

    def give_back(self, blocks: Iterable[Block]) -> None:
        """One owner fewer for each block. Of the blocks that lose their last owner the first one is given out first.

        Blocks that the prefix cache offers go to the end of the free list, so that they are offered for long; all others go to
        its front (vLLM ``BlockPool.free_blocks``).
        """
        first: list[Block] = []
        last: list[Block] = []
        for block in blocks:
            block.references -= 1
            if block.references == 0:
                (first if block.content is None else last).append(block)
        self.free = first + self.free + last
        self.free_count += len(first) + len(last)

    def offer(self, block: Block, content: Content) -> None:
        """Let the prefix cache offer the block. The same content may be in more than one block."""
        block.content = content
        self.cache.setdefault(content, []).append(block)

    def evict(self, block: Block) -> None:
        """Stop offering the block."""
        if block.content is None:
            return
        holders = self.cache[block.content]
        holders.remove(block)
        if not holders:
            del self.cache[block.content]
        block.content = None

    def find(self, content: Content) -> Block | None:
        """The block that has been offered with this content for the longest time."""
        holders = self.cache.get(content)
        return holders[0] if holders else None
