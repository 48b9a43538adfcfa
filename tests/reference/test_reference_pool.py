"""The block pool and the tables by themselves: order, counts, sharing."""

from __future__ import annotations

import pytest

from kvrace.reference.pool import BlockPool
from kvrace.reference.request import Request, Status
from kvrace.reference.tables import BlockTables


def ids(blocks: object) -> list[int]:
    return [block.block_id for block in blocks]  # type: ignore[attr-defined]


def request(name: str = "A", tokens: int = 5) -> Request:
    return Request(name, list(range(tokens)), 2, 99)


def test_the_null_block_is_never_given_out() -> None:
    pool = BlockPool(3)
    assert ids(pool.take(3)) == [1, 2, 3]
    with pytest.raises(ValueError, match="1 blocks were asked for and 0 are free"):
        pool.take(1)


def test_blocks_nobody_can_share_are_given_out_again_first() -> None:
    pool = BlockPool(4)
    taken = pool.take(2)
    pool.give_back(reversed(taken))
    assert ids(pool.free) == [2, 1, 3, 4]
    assert pool.free_count == 4


def test_offered_blocks_go_to_the_end_of_the_free_list_and_lose_their_content_when_given_out() -> None:
    pool = BlockPool(3)
    first, second = pool.take(2)
    pool.offer(first, (1, 2))
    pool.give_back([second, first])
    assert ids(pool.free) == [2, 3, 1]
    assert pool.find((1, 2)) is first
    pool.take(3)
    assert pool.find((1, 2)) is None
    assert pool.cache == {}


def test_a_shared_block_goes_back_with_its_last_owner() -> None:
    pool = BlockPool(2)
    (block,) = pool.take(1)
    pool.offer(block, (1,))
    pool.share(block)
    pool.give_back([block])
    assert ids(pool.free) == [2]
    pool.give_back([block])
    assert ids(pool.free) == [2, 1]
    pool.share(block)
    assert (block.references, ids(pool.free), pool.free_count) == (1, [2], 1)


def test_of_two_blocks_with_one_content_the_older_one_is_found() -> None:
    pool = BlockPool(2)
    older, newer = pool.take(2)
    pool.offer(older, (1,))
    pool.offer(newer, (1,))
    assert pool.find((1,)) is older
    pool.evict(older)
    assert pool.find((1,)) is newer
    pool.evict(older)
    assert pool.find((1,)) is newer


def test_a_table_grows_by_what_is_missing() -> None:
    tables = BlockTables(BlockPool(4), block_size=4, prefix_sharing=False)
    mine = request()
    assert tables.missing(mine, 5) == 2
    assert ids(tables.grow(mine, 5)) == [1, 2]
    assert tables.missing(mine, 8) == 0
    assert tables.grow(mine, 8) == []
    assert tables.missing(mine, 9) == 1
    assert tables.ids(mine) == (1, 2)
    assert ids(tables.end(mine)) == [1, 2]
    assert tables.end(mine) == []


def test_full_blocks_are_shared_and_the_last_token_is_always_computed() -> None:
    tables = BlockTables(BlockPool(4), block_size=4, prefix_sharing=True)
    one, two = request("A", 8), request("B", 8)
    tables.grow(one, 8)
    tables.offer(one, 8)
    shared = tables.find_shared(two)
    assert ids(shared) == [1]
    assert tables.missing(two, 8, shared) == 1
    tables.pool.give_back(reversed(tables.end(one)))
    assert tables.missing(two, 8, shared) == 2
    assert ids(tables.grow(two, 8, shared)) == [3]
    assert tables.ids(two) == (1, 3)
    assert two.num_cached_blocks == 1


def test_without_prefix_sharing_nothing_is_offered() -> None:
    tables = BlockTables(BlockPool(4), block_size=4, prefix_sharing=False)
    one = request("A", 8)
    tables.grow(one, 8)
    tables.offer(one, 8)
    assert tables.find_shared(request("B", 8)) == []
    assert tables.pool.cache == {}


def test_a_request_ends_at_its_limit_or_at_the_stop_token() -> None:
    capped, stopped = request(), request()
    assert not capped.append(5)
    assert capped.append(5)
    assert capped.status is Status.FINISHED_LENGTH_CAPPED
    assert stopped.append(99)
    assert stopped.status is Status.FINISHED_STOPPED
    assert [status.name for status in Status if not status.finished] == [
        "WAITING",
        "WAITING_FOR_REMOTE_KVS",
        "RUNNING",
        "PREEMPTED",
    ]
