"""``handover``: does ``request_finished`` name the blocks that hold the KV of its request?"""

from __future__ import annotations

from kvmodel.events import Update
from kvrace.reproducer.assertions.assertion import Assertion
from kvrace.reproducer.order import Order
from kvrace.reproducer.piece import Piece, piece
from kvrace.reproducer.text import quoted, statement

_AS_COUNTED = "    return table, -(-(request.num_computed_tokens - coming) // BLOCK_SIZE)"
_WITHOUT_REJECTED = """    tokens = request.num_computed_tokens - coming - rejected
    # Drafts beyond the last token of the request are cut off, and that one has no KV.
    tokens = min(tokens, request.num_prompt_tokens + request.max_tokens - 1)
    return table, -(-tokens // BLOCK_SIZE)"""


def _blocks_with_kv(order: Order) -> Piece:
    drafts = order.scope.drafts > 0
    return Piece(
        f'''def blocks_with_kv(scheduler, connector, name, *in_flight{", rejected=0" if drafts else ""}):
    """The blocks of a request, and how many of them are full of KV for certain: what a running
    load brings, and what steps in flight compute, does not count."""
    request = scheduler.requests.get(name)
    table = list(scheduler.kv_cache_manager.get_block_ids(name)[0])
    if request is None or ("load", name) in connector.running:
        return table, 0
    coming = sum(step.num_scheduled_tokens.get(name, 0) for step in in_flight)
{_WITHOUT_REJECTED if drafts else _AS_COUNTED}'''
    )


_PLACES_WITH_KV = piece(
    '''
    def places_with_kv(scheduler, connector, name, *in_flight, rejected=0):
        """The tables of a request, and their places in the window that are full of KV for certain: what
        a running load brings, and what steps in flight compute, does not count."""
        request = scheduler.requests.get(name)
        tables = [list(table) for table in scheduler.kv_cache_manager.get_block_ids(name)]
        if request is None or ("load", name) in connector.running:
            return tables, range(0)
        coming = sum(step.num_scheduled_tokens.get(name, 0) for step in in_flight)
        tokens = max(0, request.num_computed_tokens - coming - rejected)
        # Drafts beyond the last token of the request are cut off, and that one has no KV.
        tokens = min(tokens, request.num_prompt_tokens + request.max_tokens - 1)
        first = max(0, tokens - WINDOW + 1) // BLOCK_SIZE
        return tables, range(first, -(-tokens // BLOCK_SIZE))


    def names_kv(named, tables, places):
        """Whether the blocks named are the request's, and enough for its KV. Where a block has left the
        window is 0."""
        blocks, window = named or ([], [])
        kept = [window[place] for place in places if place < len(window)]
        right = blocks == tables[0][: len(blocks)] and len(blocks) >= places.stop
        return right and all(kept) and kept == tables[1][places.start : places.stop]
    '''
)


def _known_before(order: Order, name: str) -> tuple[list[str], list[str]]:
    """Statements before the last event, and arguments: the steps whose tokens do not count yet. In a window, and with drafts, the
    step whose output the last event processes counts as far as it is not rejected."""
    last = order.calls[-1]
    if not (isinstance(last.event, Update) and (order.scope.window or order.scope.drafts)):
        return [], _steps(order.in_flight_before)
    later = _steps(order.in_flight_before[1:])
    if not order.scope.drafts:
        return [], later
    verified = f"len(step_{last.step}.scheduled_spec_decode_tokens.get({quoted(name)}, ()))"
    accepted = dict(last.event.drafts).get(name, 0)
    rejected = f"max(0, {verified} - {accepted})" if accepted else verified
    return [f"rejected = {rejected}"], [*later, "rejected=rejected"]


def _steps(numbers: tuple[int, ...]) -> list[str]:
    return [f"step_{number}" for number in numbers]


def wrong_handover(order: Order, name: str) -> Assertion:
    known, steps = _known_before(order, name)
    asked = ["scheduler", "connector", quoted(name), *steps]
    watched = frozenset({"handed_over"})
    if order.scope.window:
        before = (
            *known,
            *statement("tables, places = places_with_kv(", asked),
            "connector.handed_over.clear()",
        )
        after = (
            f"named = connector.handed_over.get({quoted(name)})",
            "assert named is None or names_kv(named, tables, places), (",
            f'    f"request_finished({name}) named {{named}}, and its KV is in {{places}} of {{tables}}"',
            ")",
        )
        return Assertion(after, (_PLACES_WITH_KV,), before, watched)
    before = (
        *known,
        *statement("table, needed = blocks_with_kv(", asked),
        "connector.handed_over.clear()",
    )
    after = (
        f"named = connector.handed_over.get({quoted(name)}, table)",
        "assert named == table[: len(named)] and len(named) >= needed, (",
        f'    f"request_finished({name}) named {{named}}, and its KV is in {{table[:needed]}}"',
        ")",
    )
    return Assertion(after, (_blocks_with_kv(order),), before, watched)
