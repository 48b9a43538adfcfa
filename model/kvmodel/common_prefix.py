"""What a step is told that all its requests have in common: so many first blocks, which the workers then read once for all of them.

Source: vLLM ``SchedulerOutput.num_common_prefix_blocks`` and the runner's ``_compute_cascade_attn_prefix_len``, up to 0.31.0; later
releases have no cascade attention. The runner takes the blocks from the table of one request, and no more of them than every
request of the step had computed before it. It also wants long prefixes and many requests, which a scope is too small for: judged
is the count that it starts from.
"""

from __future__ import annotations

from kvmodel.transition import Broken, Transition


def strange_prefix(t: Transition) -> Broken | None:
    """The first blocks that a step reads for all its requests are the first ones of each request's own table."""
    step = t.response.step
    if step is None or not step.common or not step.scheduled:
        return None
    accesses = t.after.steps[-1].accesses
    read = min(step.common, min(access.start for access in accesses) // t.scope.block_size)
    tables = {name: request.table for name, request in zip(t.scope.names, t.after.requests, strict=True)}
    first = accesses[0].request
    for access in accesses[1:]:
        if tables[access.request][:read] != tables[first][:read]:
            strange = tuple(sorted({*tables[first][:read]} - {*tables[access.request][:read]}))
            return Broken(
                f"a step is told that all its requests have {read} first block{'s' if read > 1 else ''} in common, and "
                f"{first} and {access.request} have not",
                "common prefix",
                strange,
            )
    return None
