"""``no-double-free``, ``no-leak`` and ``conservation``: does the pool's bookkeeping add up?"""

from __future__ import annotations

from kvrace.reproducer.assertions.assertion import Assertion, Translate
from kvrace.reproducer.assertions.helpers import BLOCKS_IN, FREE_BLOCKS, run_to_the_end
from kvrace.reproducer.order import Order
from kvrace.reproducer.piece import piece
from kvrace.reproducer.text import quoted

_POOL_ADDS_UP = piece(
    '''
    def assert_pool_adds_up(scheduler):
        """Each block is in the pool once, or referenced, and never both."""
        pool = scheduler.kv_cache_manager.block_pool
        free = free_blocks(scheduler)
        assert len(set(free)) == len(free), f"the pool holds a block twice: {free}"
        for block in pool.blocks:
            if block.is_null:
                continue
            pooled = block.block_id in free
            assert block.ref_cnt >= 0 and (block.ref_cnt == 0) == pooled, (
                f"block {block.block_id} has {block.ref_cnt} references; in the pool: {pooled}"
            )
        assert pool.get_num_free_blocks() == len(free), "the pool counts its blocks wrongly"
    '''
)


def double_free(order: Order, name: str) -> Assertion:
    return Assertion(("assert_pool_adds_up(scheduler)",), (FREE_BLOCKS, _POOL_ADDS_UP))


_RUN = ("# Let everything come to its end, and clean up.", "for _ in run_to_the_end(scheduler, connector):", "    pass")

_ALL_BACK = piece(
    """
    def assert_every_block_came_back(scheduler):
        blocks = scheduler.kv_cache_manager.block_pool.blocks
        kept = [block.block_id for block in blocks if not block.is_null and block.ref_cnt]
        assert not kept, f"everything is over, and blocks {kept} did not come back"
    """
)


def blocks_leak(order: Order, name: str) -> Assertion:
    after = (*_RUN, "assert_every_block_came_back(scheduler)")
    return Assertion(after, (run_to_the_end(order), _ALL_BACK), reports_all=True)


_FORGOTTEN = piece(
    '''
    def names_in(value):
        """Everything by which a request may be named in containers, however nested."""
        yield value if isinstance(value, str) else getattr(value, "request_id", None)
        if isinstance(value, dict):
            yield from names_in([*value, *value.values()])
        elif isinstance(value, (list, tuple, set, frozenset, deque)):
            for item in value:
                yield from names_in(item)


    def assert_request_is_forgotten(scheduler, name):
        """No table of the scheduler or its managers may keep a request that is over."""
        manager = scheduler.kv_cache_manager
        managers = [manager, manager.block_pool, scheduler.encoder_cache_manager]
        for owner in [scheduler, *managers, *manager.coordinator.single_type_managers]:
            for table, value in vars(owner).items():
                # This one holds the requests of the newest step until the next.
                if table != "prev_step_scheduled_req_ids":
                    names = set(names_in(value))
                    assert name not in names, f"{name} is over, and still in {table}"
    ''',
    "collections:deque",
)


def entry_leaks(order: Order, name: str) -> Assertion:
    after = (*_RUN, f"assert_request_is_forgotten(scheduler, {quoted(name)})")
    return Assertion(after, (run_to_the_end(order), _FORGOTTEN), reports_all=True)


_NOTHING_AWAITED = piece(
    '''
    def assert_no_report_is_awaited(aggregator, name):
        """Of a request that is over no rank has a report to send."""
        for table, value in vars(aggregator).items():
            awaited = isinstance(value, dict) and name in value
            assert not awaited, f"{name} is over, and still in {table}"
    '''
)


def count_leaks(order: Order, name: str) -> Assertion:
    after = (*_RUN, f"assert_no_report_is_awaited(connector.aggregator, {quoted(name)})")
    return Assertion(after, (run_to_the_end(order), _NOTHING_AWAITED), reports_all=True)


_OWNERS = piece(
    '''
    def assert_references_have_owners(scheduler):
        """A block is referenced by the requests that own it, and where it waits to be freed later."""
        manager = scheduler.kv_cache_manager
        tables = [m.req_to_blocks for m in manager.coordinator.single_type_managers]
        owners = Counter(blocks_in([*tables, *vars(scheduler).values()]))
        for block in manager.block_pool.blocks:
            number = owners[block.block_id]
            assert block.is_null or block.ref_cnt == number, (
                f"block {block.block_id} has {block.ref_cnt} references and {number} owners"
            )
    ''',
    "collections:Counter",
)


def references(order: Order, name: str) -> Assertion:
    return Assertion(("assert_references_have_owners(scheduler)",), (BLOCKS_IN, _OWNERS))


COUNTERS = ("num_computed_tokens", "num_in_flight_tokens", "num_output_placeholders", "num_stale_output_tokens")


def negative(counter: str) -> Translate:
    """One of ``COUNTERS`` of a request is below zero."""

    def translate(order: Order, name: str) -> Assertion:
        after = (
            f"request = scheduler.requests.get({quoted(name)})",
            f"value = request.{counter} if request else 0",
            f'assert value >= 0, f"{counter} is {{value}}"',
        )
        return Assertion(after)

    return translate
