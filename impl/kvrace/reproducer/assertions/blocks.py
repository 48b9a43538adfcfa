"""``no-use-after-free`` and ``no-premature-use``: who touches a block while somebody else has it."""

from __future__ import annotations

from kvmodel.errors import KvraceError
from kvmodel.events import Update
from kvrace.reproducer.assertions.assertion import Assertion
from kvrace.reproducer.assertions.helpers import BLOCKS_IN, FREE_BLOCKS, last_step
from kvrace.reproducer.assertions.touched import step_arguments, used_blocks, written_blocks
from kvrace.reproducer.order import Order
from kvrace.reproducer.piece import Piece, piece
from kvrace.reproducer.text import statement
from kvrace.reproducer.window import owned

_LEFT_ALONE = piece(
    '''
    def assert_no_free_block_is_in_use(scheduler, connector):
        """What is in the pool may be given away at once, so no transfer may still touch it."""
        free = free_blocks(scheduler)
        for (kind, name), blocks in connector.running.items():
            freed = [block for block in blocks if block in free]
            assert not freed, f"blocks {freed} are free while the {kind} of {name} runs"
    '''
)


def in_the_pool(order: Order, name: str) -> Assertion:
    return Assertion(("assert_no_free_block_is_in_use(scheduler, connector)",), (FREE_BLOCKS, _LEFT_ALONE))


def _not_given_away(order: Order) -> Piece:
    return Piece(
        f'''def assert_no_block_in_use_is_given_away(scheduler, connector):
    """A load's blocks belong to its request alone; a save's may be shared, but not be taken."""
    manager = scheduler.kv_cache_manager
    owned = {{name: {owned(order, "manager", "name")} for name in PROMPTS}}
    held_back = set(blocks_in(list(vars(scheduler).values())))
    for (kind, name), blocks in connector.running.items():
        kept = held_back.union(owned[name]) if kind == "save" else set()
        for other, table in owned.items():
            lost = [block for block in blocks if block in table and block not in kept]
            assert other == name or not lost, (
                f"blocks {{lost}} are given to {{other}} while the {{kind}} of {{name}} still runs"
            )'''
    )


def given_away(order: Order, name: str) -> Assertion:
    return Assertion(
        ("assert_no_block_in_use_is_given_away(scheduler, connector)",), (BLOCKS_IN, _not_given_away(order))
    )


_NOT_WRITTEN = piece(
    '''
    def assert_no_transfer_is_overwritten(connector, written):
        """A step may read what another request's transfer touches, but not write there."""
        for (kind, name), blocks in connector.running.items():
            for other, targets in written.items():
                hit = [block for block in targets if block in blocks]
                assert other == name or not hit, (
                    f"a step writes blocks {hit} for {other} while the {kind} of {name} runs there"
                )
    '''
)


def step_writes(order: Order, name: str) -> Assertion:
    asked = step_arguments(order, last_step(order))
    after = statement("assert_no_transfer_is_overwritten(", ["connector", f"written_blocks({asked})"])
    return Assertion(tuple(after), (*written_blocks(order), _NOT_WRITTEN))


def _one_owner(order: Order) -> Piece:
    return Piece(
        f'''def assert_written_blocks_have_one_owner(scheduler, written):
    """Without a prefix cache no two requests share a block."""
    for name, targets in written.items():
        for other in PROMPTS.keys() - {{name}}:
            table = {owned(order, "scheduler.kv_cache_manager", "other")}
            hit = [block for block in targets if block in table]
            assert not hit, (
                f"a step writes blocks {{hit}} for {{name}}, and {{other}} owns them too"
            )'''
    )


def two_owners(order: Order, name: str) -> Assertion:
    asked = step_arguments(order, last_step(order))
    after = statement("assert_written_blocks_have_one_owner(", ["scheduler", f"written_blocks({asked})"])
    return Assertion(tuple(after), (*written_blocks(order), _one_owner(order)))


_OWN_BLOCKS = piece(
    '''
    def assert_a_step_has_its_blocks(used):
        """What a step reads or writes for a request has to belong to it: 0 is no block of its own."""
        for name, blocks in used.items():
            assert 0 not in blocks, f"a step works on a block that {name} has lost"
    '''
)


def given_up(order: Order, name: str) -> Assertion:
    asked = step_arguments(order, last_step(order))
    return Assertion((f"assert_a_step_has_its_blocks(used_blocks({asked}))",), (*used_blocks(order), _OWN_BLOCKS))


_LOADS_APART = piece(
    '''
    def assert_new_loads_are_alone(connector, before):
        """No load may start in blocks that another transfer still touches."""
        started = connector.running.keys() - before.keys()
        for _, name in [transfer for transfer in started if transfer[0] == "load"]:
            for (kind, other), blocks in before.items():
                hit = [block for block in connector.running["load", name] if block in blocks]
                assert not hit, (
                    f"the load of {name} starts in blocks {hit} while the {kind} of {other} runs"
                )
    '''
)


def load_under_transfer(order: Order, name: str) -> Assertion:
    return Assertion(
        ("assert_new_loads_are_alone(connector, running_before)",),
        (_LOADS_APART,),
        before=("running_before = dict(connector.running)",),
    )


_LOADS_AFTER_STEPS = piece(
    '''
    def assert_no_load_meets_a_step(connector, *used_by_steps):
        """A load is not ordered after dispatched steps, so it may not write where one still works."""
        for (kind, name), blocks in connector.running.items():
            for used in used_by_steps:
                for other, table in used.items():
                    hit = [block for block in table if block in blocks]
                    assert kind != "load" or other == name or not hit, (
                        f"the load of {name} writes blocks {hit}, and a step works there for {other}"
                    )
    '''
)


def load_under_step(order: Order, name: str) -> Assertion:
    """Raises KvraceError where an output has come since that says where a step in flight begins: the test would not know."""
    if order.scope.window and order.scope.drafts and order.in_flight:
        first = next(call.number for call in order.schedules if call.step == order.in_flight[0])
        if any(call.number > first and isinstance(call.event, Update) for call in order.calls):
            raise KvraceError(
                "in a window a test without kvrace cannot follow what a step reads once drafts are accepted"
            )
    used = [f"used_{number}" for number in order.in_flight]
    return Assertion(
        tuple(statement("assert_no_load_meets_a_step(", ["connector", *used])),
        (*used_blocks(order), _LOADS_AFTER_STEPS),
        watched=frozenset({"used"}),
    )


_NOT_OFFERED = piece(
    '''
    def assert_no_loading_block_is_offered(scheduler, connector):
        """The prefix cache may only offer blocks whose KV is there."""
        blocks = scheduler.kv_cache_manager.block_pool.blocks
        offered = {block.block_id for block in blocks if block.block_hash is not None}
        for (kind, name), targets in connector.running.items():
            early = sorted(offered.intersection(targets))
            assert kind != "load" or not early, (
                f"the prefix cache offers blocks {early} before the load of {name} is over"
            )
    '''
)


def offered_early(order: Order, name: str) -> Assertion:
    return Assertion(("assert_no_loading_block_is_offered(scheduler, connector)",), (_NOT_OFFERED,))


_NOT_COMPUTED = piece(
    '''
    def assert_no_step_uses_a_loading_block(connector, used):
        """A request may only be computed once its load is over."""
        for name, table in used.items():
            loading = connector.running.get(("load", name), [])
            early = [block for block in loading if block in table]
            assert not early, (
                f"a step computes with blocks {early} before the load of {name} is over"
            )
    '''
)


def computed_early(order: Order, name: str) -> Assertion:
    asked = step_arguments(order, last_step(order))
    after = statement("assert_no_step_uses_a_loading_block(", ["connector", f"used_blocks({asked})"])
    return Assertion(tuple(after), (*used_blocks(order), _NOT_COMPUTED))


_EMPTY_AFTER_RESET = piece(
    '''
    def assert_prefix_cache_is_empty(scheduler):
        """Of a prefix cache that was reset nothing is left."""
        blocks = scheduler.kv_cache_manager.block_pool.blocks
        offered = [block.block_id for block in blocks if block.block_hash is not None]
        assert not offered, f"the prefix cache was reset and still offers blocks {offered}"
    '''
)


def offered_after_reset(order: Order, name: str) -> Assertion:
    after = ("if done:  # it may refuse", "    assert_prefix_cache_is_empty(scheduler)")
    return Assertion(after, (_EMPTY_AFTER_RESET,), watched=frozenset({"reset"}))
