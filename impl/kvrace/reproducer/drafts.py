"""Speculative decoding in the generated file: drafts are asked for, verified, accepted and rejected, and nobody computes any."""

from __future__ import annotations

from kvmodel.events import Update
from kvmodel.scope import Scope
from kvrace.reproducer.order import Order
from kvrace.reproducer.piece import Piece, piece
from kvrace.reproducer.text import quoted


def config_lines(scope: Scope) -> list[str]:
    """Set in a finished configuration. Drafts that come from the request's own tokens need no model."""
    if not scope.drafts:
        return []
    return [
        "    config.speculative_config = SpeculativeConfig(",
        '        method="ngram",',
        "        num_speculative_tokens=NUM_DRAFTS,",
        "        prompt_lookup_max=1,",
        "        prompt_lookup_min=1,",
        "        target_model_config=config.model_config,",
        "        target_parallel_config=config.parallel_config,",
        "    )",
    ]


def sampled_piece(order: Order) -> Piece:
    """The tokens of one request in an output that accepts drafts."""
    extra, token = (", stopped", "STOP_TOKEN if name in stopped else TOKEN") if order.stops else ("", "TOKEN")
    lines = [
        f"def sampled_tokens(step, name, accepted{extra}):",
        '    """The accepted drafts, no more than the step verifies, and one token after them."""',
        "    most = len(step.scheduled_spec_decode_tokens.get(name, ()))",
        "    drafts = min(dict(accepted).get(name, 0), most)",
        f"    return [TOKEN] * drafts + [{token}]",
    ]
    return Piece("\n".join(lines))


def accepted_words(event: Update) -> list[str]:
    """What the output says of drafts, as the end of a sentence."""
    told = [f"{count} draft{'s' if count > 1 else ''} of {name}" for name, count in event.drafts]
    return [f"accepts {' and '.join(told)}"] if told else []


def accepted_items(event: Update) -> list[str]:
    """The items of a dict: how many drafts of which request the output accepts."""
    return [f"{quoted(name)}: {count}" for name, count in event.drafts]


_PROPOSE = "scheduler.update_draft_token_ids(next_drafts(output))"
_NEXT_DRAFTS = piece(
    '''
    def next_drafts(output):
        """What the workers draft for the next step, where they sampled a token."""
        sampled = zip(output.req_ids, output.sampled_token_ids)
        names = [name for name, tokens in sampled if tokens]
        return DraftTokenIds(names, [[TOKEN] * NUM_DRAFTS for _ in names])
    ''',
    "vllm.v1.outputs:DraftTokenIds",
)


def proposing(order: Order) -> list[str]:
    """Statements after an output was processed. Only a synchronous scheduler is told of drafts: the other one plans for them."""
    return [_PROPOSE] if order.scope.drafts and order.scope.scheduling == "sync" else []


def proposing_pieces(order: Order, reports_all: bool) -> list[Piece]:
    """``reports_all``: the assertion processes outputs of its own."""
    return [_NEXT_DRAFTS] if proposing(order) and (order.updates or reports_all) else []


_REJECTABLE = piece(
    '''
    def num_rejectable(step, name, *in_flight):
        """How many tokens before the step are drafts that steps in flight before it verify."""
        count = 0
        for newer, older in pairwise([step, *reversed(in_flight)]):
            anew = {new.req_id for new in newer.scheduled_new_reqs}
            if name in anew | set(newer.scheduled_cached_reqs.resumed_req_ids):
                break
            count += len(older.scheduled_spec_decode_tokens.get(name, ()))
        return count
    ''',
    "itertools:pairwise",
)


def may_be_rejected(order: Order) -> bool:
    """Whether a step may begin earlier than it is announced: drafts of steps in flight before it may be rejected."""
    return order.scope.drafts > 0 and order.scope.steps_in_flight > 1


def rejectable_pieces(order: Order) -> tuple[Piece, ...]:
    return (_REJECTABLE,) if may_be_rejected(order) else ()
