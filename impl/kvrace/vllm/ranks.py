"""Several ranks: the output of each worker, and vLLM's own aggregator between them and the scheduler.

The executor of every release since 0.10 hands the outputs of all workers to one ``KVOutputAggregator``, which counts the reports
of each request and passes on what is complete. It is part of what is checked, and of the state that is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kvmodel.events import Report
from kvmodel.port import UnknownSubject
from kvmodel.scope import Scope

COUNTS = ("_recv_remaining_count", "_send_remaining_count")
"""How many reports of each request are still to come, as every release keeps it."""


def aggregator_class() -> type:
    """Raises UnknownSubject where the release has none, or one that counts elsewhere."""
    try:
        from vllm.distributed.kv_transfer.kv_connector.utils import KVOutputAggregator
    except ImportError as error:
        raise UnknownSubject("this vLLM has no KVOutputAggregator, so it is checked with one rank only") from error
    missing = [name for name in COUNTS if not hasattr(KVOutputAggregator(1), name)]
    if missing:
        raise UnknownSubject(f"the adapter does not know this vLLM: KVOutputAggregator has no {missing[0]}")
    found: type = KVOutputAggregator
    return found


def make_aggregator(kind: type, connector: Any, scope: Scope) -> Any:
    """The aggregator as the release's executor makes it. The connector says how many ranks report (``get_finished_count``)."""
    connector.finished_count = scope.ranks_reporting or None
    from_connector = getattr(kind, "from_connector", None)
    if from_connector is not None:
        return from_connector(connector, scope.ranks)
    # 0.11.0: EngineCore asks the connector and tells the executor. 0.10.2: nobody asks.
    asked = any("get_finished_count" in vars(base) for base in type(connector).__mro__[1:])
    return kind((connector.get_finished_count() if asked else None) or scope.ranks)


def aggregated(
    aggregator: Any, scope: Scope, reports: Iterable[Report], output: Callable[[Iterable[Report]], Any]
) -> Any:
    """What the scheduler is given: the first rank's output, with what the aggregator lets through. ``output`` makes one."""
    by_rank = [[report for report in reports if report.rank == rank] for rank in range(1, scope.ranks + 1)]
    return aggregator.aggregate([output(told) for told in by_rank])


def counts_left(aggregator: Any, names: Iterable[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The requests of which the aggregator still expects reports, as tables of an observation."""
    found = []
    for table in COUNTS:
        left = tuple(name for name in names if name in getattr(aggregator, table))
        if left:
            found.append((f"{type(aggregator).__name__}.{table}", left))
    return tuple(found)
