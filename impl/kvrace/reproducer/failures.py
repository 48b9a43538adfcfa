"""Loads that fail or are part of a step, in the generated file: connector, calls, and the assertions of ``no-premature-use``."""

from __future__ import annotations

from kvmodel.events import FailedPart, Update
from kvmodel.scope import Scope
from kvrace.reproducer.assertions.assertion import Assertion
from kvrace.reproducer.assertions.helpers import last_step
from kvrace.reproducer.assertions.touched import step_arguments, used_blocks, written_blocks
from kvrace.reproducer.order import Call, Order
from kvrace.reproducer.piece import Piece, piece
from kvrace.reproducer.text import enclosed, quoted, statement, string_set

_PLACES: dict[FailedPart, str] = {"first": ", slice(1)", "last": ", slice(-1, None)", "all": "", "id": ""}
_WORDS: dict[FailedPart, str] = {
    "first": "the first block of the load of {}",
    "last": "the last block of the load of {}",
    "all": "the blocks of the load of {}",
    "id": "the load of {}",
}


def constant_lines(order: Order) -> list[str]:
    if not order.loads_in_step:
        return []
    return [
        "# These loads are part of the step that first runs the request.",
        *enclosed("LOADS_IN_STEP = {", string_set(order.loads_in_step), "}"),
    ]


def policy_lines(scope: Scope) -> list[str]:
    """An argument of ``KVTransferConfig``."""
    return [f'            kv_load_failure_policy="{scope.load_failures}",'] if scope.load_failures else []


def start_lines(order: Order) -> list[str]:
    if not order.failures:
        return []
    return [
        "        self.targets = {}  # the blocks of each load",
        "        self.failed = set()  # blocks whose load has failed, and which nobody has computed since",
    ]


def run_lines(order: Order, runs: str) -> list[str]:
    """The lines that begin a load. ``runs`` is the one that notes a transfer of its own."""
    lines = ["            self.targets[name] = blocks.get_block_ids()[0][first:last]"] if order.failures else []
    if not order.loads_in_step:
        return [*lines, f"            {runs}"]
    return [*lines, "            if name not in LOADS_IN_STEP:", f"                {runs}"]


def method_lines(order: Order) -> list[list[str]]:
    if not order.failures:
        return []
    return [
        [
            "    def fails(self, name, part=slice(None)):",
            '        """These blocks of a load have failed: their ids. It writes them no more."""',
            "        lost = self.targets[name][part]",
            "        self.failed.update(lost)",
            '        if ("load", name) in self.running:',
            '            left = [block for block in self.running["load", name] if block not in lost]',
            '            self.running["load", name] = left',
            "        return lost",
        ]
    ]


def failure_words(event: Update) -> list[str]:
    """What the output says of failed loads, as the end of a sentence."""
    told = [_WORDS[failure.part].format(failure.request) for failure in event.failures]
    return [f"says that {' and '.join(told)} failed"] if told else []


def failure_lines(event: Update) -> list[str]:
    """Statements before the call: a failure by id names no blocks."""
    return [f"connector.fails({quoted(failure.request)})" for failure in event.failures if failure.part == "id"]


def failure_arguments(event: Update) -> list[str]:
    """Arguments of ``model_output``."""
    blocks = [f"*connector.fails({quoted(f.request)}{_PLACES[f.part]})" for f in event.failures if f.part != "id"]
    names = [quoted(failure.request) for failure in event.failures if failure.part == "id"]
    whole = blocks[0][1:] if len(blocks) == 1 else f"[{', '.join(blocks)}]"
    return [
        *([f"invalid_block_ids={whole}"] if blocks else []),
        *([f"failed_recving=[{', '.join(names)}]"] if names else []),
    ]


def output_arguments(order: Order) -> tuple[list[str], list[str]]:
    """More parameters of ``model_output``, and what becomes of them."""
    if not order.failures:
        return [], []
    names = ["failed_recving"] if order.scope.failed_ids else ["invalid_block_ids"]
    return [f"{name}=()" for name in names], [f"            {name}=set({name})," for name in names]


def mended_lines(order: Order, call: Call) -> list[str]:
    """After a schedule: what the step computes is right again. The last step is for the assertion."""
    if call.number < order.failed_from or call is order.calls[-1]:
        return []
    return [f"connector.failed.difference_update(*written_blocks(scheduler, step_{call.step}).values())"]


def mending_pieces(order: Order) -> list[Piece]:
    return [*written_blocks(order)] if any(mended_lines(order, call) for call in order.schedules) else []


_NOT_OFFERED = piece(
    '''
    def assert_no_failed_block_is_offered(scheduler, connector):
        """What failed to load, and no request owns to compute it again, may not stay in the prefix cache."""
        blocks = scheduler.kv_cache_manager.block_pool.blocks
        offered = [b for b in sorted(connector.failed) if blocks[b].block_hash is not None and not blocks[b].ref_cnt]
        assert not offered, f"the prefix cache offers blocks {offered}, whose load has failed"
    '''
)


def failed_offered(order: Order, name: str) -> Assertion:
    return Assertion(("assert_no_failed_block_is_offered(scheduler, connector)",), (_NOT_OFFERED,))


_NOT_READ = piece(
    '''
    def assert_no_step_reads_a_failed_block(connector, used, written):
        """A block whose load has failed may only be used by a step in which it is computed."""
        computed = {block for blocks in written.values() for block in blocks}
        for name, blocks in used.items():
            bad = [block for block in blocks if block in connector.failed - computed]
            assert not bad, f"a step computes with blocks {bad} of {name}, whose load has failed"
    '''
)


def failed_read(order: Order, name: str) -> Assertion:
    asked = step_arguments(order, last_step(order))
    sets = [f"used_blocks({asked})", f"written_blocks({asked})"]
    after = statement("assert_no_step_reads_a_failed_block(", ["connector", *sets])
    return Assertion(tuple(after), (*used_blocks(order), *written_blocks(order), _NOT_READ))


def failed_delivered(order: Order, name: str) -> Assertion:
    after = (
        "items = [item for batch in outputs.values() for item in batch.outputs]",
        "told = [item.request_id for item in items if item.new_token_ids]",
        f'assert {quoted(name)} not in told, "{name} gets a token of a step that ran without its KV"',
    )
    return Assertion(after, watched=frozenset({"output"}))
