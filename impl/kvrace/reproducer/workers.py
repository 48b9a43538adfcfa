"""The generated stand-in for the workers: what comes back for a step."""

from __future__ import annotations

from kvrace.reproducer.drafts import proposing_pieces, sampled_piece
from kvrace.reproducer.failures import output_arguments
from kvrace.reproducer.order import Order
from kvrace.reproducer.piece import Piece, piece
from kvrace.reproducer.ranks import rank_output
from kvrace.reproducer.text import WIDTH, enclosed

_SORTED_IDS = piece(
    '''
    class SortedIds(set):
        """Read in the order of the names, whatever the hash seed."""

        def __iter__(self):
            return iter(sorted(super().__iter__()))
    '''
)

_COMPUTES_ALL = piece(
    '''
    def computes_all(scheduler, step, name):
        """Whether the step reaches the last token of a request, so that one is sampled."""
        cached = step.scheduled_cached_reqs
        before = dict(zip(cached.req_ids, cached.num_computed_tokens))
        before |= {new.req_id: new.num_computed_tokens for new in step.scheduled_new_reqs}
        computed = before[name] + step.num_scheduled_tokens[name]
        request = scheduler.requests.get(name)
        return request is not None and computed >= request.num_tokens
    '''
)


def workers_pieces(order: Order, reports_all: bool) -> list[Piece]:
    """``reports_all``: the assertion lets every running transfer be reported."""
    chunked = bool(order.scope.token_budget)
    two = order.two_of_a_kind or (reports_all and len(order.requests) > 1)
    ids = "SortedIds" if two else "set"
    stops = order.stops
    sampled = f"[{'STOP_TOKEN if name in stopped else TOKEN' if stops else 'TOKEN'}]"
    if order.accepts:
        sampled = f"sampled_tokens(step, name, accepted{', stopped' if stops else ''})"
    tokens = f"{sampled} if computes_all(scheduler, step, name) else []" if chunked else sampled
    extra = [*(["accepted=()"] if order.accepts else []), *(["stopped=()"] if stops else [])]
    helpers = [*([_SORTED_IDS] if two else []), *([_COMPUTES_ALL] if chunked else [])]
    helpers += [*([sampled_piece(order)] if order.accepts else []), *proposing_pieces(order, reports_all)]
    needed = ("vllm.v1.outputs:KVConnectorOutput", "vllm.v1.outputs:ModelRunnerOutput")
    if order.scope.ranks > 1:
        return [*helpers, Piece("\n".join(rank_output(order, _sampled(tokens, sampled), extra, ids)), needed)]
    more, told = output_arguments(order)
    signature = ["scheduler", "step"] if order.takes_scheduler else ["step"]
    lines = [
        *enclosed("def model_output(", [*signature, "finished_recving=()", "finished_sending=()", *more, *extra], "):"),
        '    """The sampled tokens, and what the connector reports."""',
        "    names = list(step.num_scheduled_tokens)",
        "    return ModelRunnerOutput(",
        "        req_ids=names,",
        "        req_id_to_index={name: index for index, name in enumerate(names)},",
        *_sampled(tokens, sampled),
        "        kv_connector_output=KVConnectorOutput(",
        f"            finished_recving={ids}(finished_recving),",
        f"            finished_sending={ids}(finished_sending),",
        *told,
        "        ),",
        "    )",
    ]
    return [*helpers, Piece("\n".join(lines), needed)]


def _sampled(tokens: str, sampled: str) -> list[str]:
    """The sampled tokens on as many lines as they need."""
    line = f"        sampled_token_ids=[{tokens} for name in names],"
    if len(line) <= WIDTH:
        return [line]
    inner = [f"            {tokens} for name in names"]
    if len(inner[0]) > WIDTH:
        inner = [
            f"            {sampled}",
            "            if computes_all(scheduler, step, name)",
            "            else []",
            "            for name in names",
        ]
    return ["        sampled_token_ids=[", *inner, "        ],"]
