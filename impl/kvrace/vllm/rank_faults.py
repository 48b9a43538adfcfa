"""Named faults planted into vLLM's aggregator of the ranks' reports, one at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvmodel.scope import Scope


def _told(outputs: list[Any], field: str) -> set[str]:
    """The ids that any rank reports."""
    return {name for output in outputs for name in getattr(output.kv_connector_output, field) or ()}


def _passes_the_first_report(base: type) -> type:
    class Mutated(base):
        def aggregate(self, outputs: list[Any], output_rank: int = 0) -> Any:
            sent, received = _told(outputs, "finished_sending"), _told(outputs, "finished_recving")
            output = super().aggregate(outputs, output_rank)
            output.kv_connector_output.finished_sending = sent or None
            output.kv_connector_output.finished_recving = received or None
            return output

    return Mutated


def _hears_one_rank(base: type) -> type:
    class Mutated(base):
        def aggregate(self, outputs: list[Any], output_rank: int = 0) -> Any:
            for output in outputs[1:]:
                output.kv_connector_output = None
            return super().aggregate(outputs, output_rank)

    return Mutated


def _waits_for_every_rank(base: type) -> type:
    class Mutated(base):
        def aggregate(self, outputs: list[Any], output_rank: int = 0) -> Any:
            self._expected_finished_count = len(outputs)
            return super().aggregate(outputs, output_rank)

    return Mutated


def _keeps_counts(base: type) -> type:
    class Mutated(base):
        def aggregate(self, outputs: list[Any], output_rank: int = 0) -> Any:
            sent = _told(outputs, "finished_sending")
            output = super().aggregate(outputs, output_rank)
            # As if the entry stayed at zero; the next request of that id would never be complete.
            self._send_remaining_count |= dict.fromkeys(sent - self._send_remaining_count.keys(), 0)
            return output

    return Mutated


_TWO = Scope(("save",), ranks=2)
_ONE_OF_TWO = Scope(("save",), ranks=2, ranks_reporting=1)

RANK_FAULTS: dict[str, tuple[Callable[[type], type], str, str, Scope]] = {
    "passes-the-first-report": (
        _passes_the_first_report,
        "a transfer is announced when its first rank is through (vLLM #21048)",
        "no-use-after-free",
        _TWO,
    ),
    "hears-one-rank": (
        _hears_one_rank,
        "what other ranks report is dropped (vLLM #28768)",
        "no-stuck",
        _TWO,
    ),
    "waits-for-every-rank": (
        _waits_for_every_rank,
        "a report of every rank is waited for where fewer come (vLLM #23917)",
        "no-stuck",
        _ONE_OF_TWO,
    ),
    "keeps-counts": (
        _keeps_counts,
        "the aggregator never forgets a request that was reported",
        "no-leak",
        _TWO,
    ),
}
"""name -> (how the aggregator's class is changed, what that breaks, the property meant to catch it, where to look)."""
