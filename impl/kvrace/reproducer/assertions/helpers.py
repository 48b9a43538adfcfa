"""Generated helpers that more than one kind of finding needs."""

from __future__ import annotations

from kvmodel.errors import KvraceError
from kvmodel.events import Schedule
from kvrace.reproducer.drafts import proposing
from kvrace.reproducer.order import Order
from kvrace.reproducer.piece import Piece, piece

FREE_BLOCKS = piece(
    '''
    def free_blocks(scheduler):
        """Block ids in the pool's free list, in order. A broken list could go on for ever."""
        pool = scheduler.kv_cache_manager.block_pool
        block, ids = pool.free_block_queue.fake_free_list_head.next_free_block, []
        while block.next_free_block is not None and len(ids) <= len(pool.blocks):
            ids.append(block.block_id)
            block = block.next_free_block
        return ids
    '''
)

BLOCKS_IN = piece(
    '''
    def blocks_in(value):
        """The ids of blocks in containers, however nested: where blocks wait to be freed later."""
        if isinstance(value, KVCacheBlock):
            yield value.block_id
        elif isinstance(value, (dict, list, tuple, set, deque)):
            for item in value.values() if isinstance(value, dict) else value:
                yield from blocks_in(item)
    ''',
    "collections:deque",
    "vllm.v1.core.kv_cache_utils:KVCacheBlock",
)

FINAL_NOTICES = piece(
    '''
    def final_notices(outputs):
        """The requests whose clients are told by these outputs that they are over."""
        items = [item for batch in outputs.values() for item in batch.outputs]
        return [item.request_id for item in items if item.finish_reason is not None]
    '''
)


def run_to_the_end(order: Order) -> Piece:
    """For findings that show once everything is over: a scheduler without the fault may need longer to come there."""
    step = "scheduler,\n            step" if order.takes_scheduler else "step"
    told = "yield step, scheduler.update_from_output(step, output)"
    if more := proposing(order):
        told = "\n        ".join(["outputs = scheduler.update_from_output(step, output)", *more, "yield step, outputs"])
    return Piece(
        f'''def run_to_the_end(scheduler, connector):
    """Report every transfer until everything is over, and then make one more step to clean up.
    Like the engine, make none when the scheduler has nothing to do."""
    for _ in range(20):
        if not scheduler.has_requests():
            return
        over = not connector.running and not scheduler.has_unfinished_requests()
        step = scheduler.schedule()
        output = model_output(
            {step},
            finished_recving=connector.over("load", *PROMPTS),
            finished_sending=connector.over("save", *PROMPTS),
        )
        {told}
        if over:
            return'''
    )


def arguments(numbers: tuple[int, ...]) -> str:
    """Steps as further arguments of a call."""
    return "".join(f", step_{number}" for number in numbers)


def last_step(order: Order) -> int:
    """The number of the step that the last event schedules. Raises KvraceError when the last event is another one."""
    last = order.calls[-1]
    if not isinstance(last.event, Schedule):
        raise KvraceError(f"the finding is about a step, and the order ends with '{last.event}'")
    return last.step
