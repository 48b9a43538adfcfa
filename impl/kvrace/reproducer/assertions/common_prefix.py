"""``no-use-after-free`` for what a step is told that all its requests have in common."""

from __future__ import annotations

from kvrace.reproducer.assertions.assertion import Assertion
from kvrace.reproducer.assertions.helpers import last_step
from kvrace.reproducer.order import Order
from kvrace.reproducer.piece import piece

_COMMON = piece(
    '''
    def assert_common_prefix_is_common(scheduler, step):
        """The workers read these blocks once for all requests of the step, as far as all have computed them."""
        new, cached = step.scheduled_new_reqs, step.scheduled_cached_reqs
        computed = [request.num_computed_tokens for request in new] + list(cached.num_computed_tokens)
        said = (step.num_common_prefix_blocks or [0])[0]  # releases without cascade attention say nothing
        read = min(said, min(computed) // BLOCK_SIZE)
        manager = scheduler.kv_cache_manager
        tables = {name: manager.get_block_ids(name)[0][:read] for name in step.num_scheduled_tokens}
        assert len({tuple(blocks) for blocks in tables.values()}) == 1, (
            f"the first {read} blocks are said to be common, and are {tables}"
        )
    '''
)


def not_common(order: Order, name: str) -> Assertion:
    return Assertion((f"assert_common_prefix_is_common(scheduler, step_{last_step(order)})",), (_COMMON,))
