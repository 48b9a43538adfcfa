"""Publicly proposed remedies as subclasses of vLLM's schedulers: ``--subject skip``, or by class,
``--subject kvrace.vllm.remedies:SkipsUnknown``.

Each is written from the description of its proposal (spec/fixes.md) and changes as little as makes it. What it does with a report
is said by the completion policy of the same name (:mod:`kvmodel.relation.policies`), and conformance holds the two together.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.request import RequestStatus

from kvmodel.scope import Scheduling
from kvrace.capture_rules import LIKE_STOCK
from kvrace.vllm.fixed import FixedAsyncScheduler, FixedScheduler

PATIENCE = 1
"""How many calls of ``schedule()`` the remedy ``reclaim`` waits for a report. A deadline in seconds would have no end."""


def _like_stock(kind: type) -> type:
    """None of these classes keeps block ids, looks into steps in flight, or decides by an order."""
    setattr(kind, LIKE_STOCK, True)
    return kind


@_like_stock
class _OneByOne:
    """Takes the reports of an output one at a time. Whether vLLM hears of one is for the remedy to say."""

    def _update_from_kv_xfer_finished(self, kv_connector_output: Any) -> None:
        connector = self.connector  # type: ignore[has-type]
        if connector is not None:
            connector.update_connector_output(kv_connector_output)  # may add reports of its own
        self.connector = None  # it was told of all reports at once
        try:
            for name in sorted(kv_connector_output.finished_recving or ()):
                if self._takes("load", name):
                    self._hear(replace(kv_connector_output, finished_recving={name}, finished_sending=set()))
            for name in sorted(kv_connector_output.finished_sending or ()):
                if self._takes("save", name):
                    self._hear(replace(kv_connector_output, finished_recving=set(), finished_sending={name}))
        finally:
            self.connector = connector

    def _hear(self, report: Any) -> None:
        super()._update_from_kv_xfer_finished(report)  # type: ignore[misc]

    def _takes(self, transfer: str, name: str) -> bool:
        raise NotImplementedError


@_like_stock
class _SkipsUnknownSends(_OneByOne):
    def _takes(self, transfer: str, name: str) -> bool:
        return transfer == "load" or name in self.requests  # type: ignore[attr-defined]


@_like_stock
class _SkipsUnknown(_OneByOne):
    def _takes(self, transfer: str, name: str) -> bool:
        return name in self.requests  # type: ignore[attr-defined]


@_like_stock
class _Tolerates(_OneByOne):
    def _takes(self, transfer: str, name: str) -> bool:
        request = self.requests.get(name)  # type: ignore[attr-defined]
        if request is None:
            return False
        waits = transfer == "load" and request.status == RequestStatus.WAITING_FOR_REMOTE_KVS
        return bool(waits or request.is_finished())


@_like_stock
class _AsksNotWhileLoading:
    def _free_request(self, request: Any, delay_free_blocks: bool = False) -> Any:
        connector = self.connector  # type: ignore[has-type]
        if delay_free_blocks:  # a load is still to be reported
            self.connector = None
        try:
            return super()._free_request(request, delay_free_blocks)  # type: ignore[misc]
        finally:
            self.connector = connector


@_like_stock
class _WaitsForBoth(_OneByOne):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.pending_loads: set[str] = set()
        self.pending_saves: set[str] = set()
        super().__init__(*args, **kwargs)

    def _free_request(self, request: Any, delay_free_blocks: bool = False) -> Any:
        if delay_free_blocks:
            self.pending_loads.add(request.request_id)
        return super()._free_request(request, delay_free_blocks)  # type: ignore[misc]

    def _connector_finished(self, request: Any) -> Any:
        claimed, parameters = super()._connector_finished(request)  # type: ignore[misc]
        if claimed:
            self.pending_saves.add(request.request_id)
        return claimed, parameters

    def _takes(self, transfer: str, name: str) -> bool:
        """The first of two reports is struck out. All others go to vLLM, which frees the blocks or stops."""
        self.pending_loads.discard(name) if transfer == "load" else self.pending_saves.discard(name)
        return name not in self.pending_loads and name not in self.pending_saves


@_like_stock
class _Reclaims(_SkipsUnknown):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.held_for: dict[str, int] = {}
        super().__init__(*args, **kwargs)

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        for name, request in sorted(self.requests.items()):  # type: ignore[attr-defined]
            if request.is_finished():
                self.held_for[name] = self.held_for.get(name, 0) + 1
                if self.held_for[name] > PATIENCE:
                    self._free_blocks(request)
        return super().schedule(*args, **kwargs)  # type: ignore[misc]

    def _free_blocks(self, request: Any) -> None:
        self.held_for.pop(request.request_id, None)
        super()._free_blocks(request)  # type: ignore[misc]


@_like_stock
class SkipsUnknownSends(_SkipsUnknownSends, Scheduler):
    """A report of a save for an unknown request is passed over: what this project started from."""


@_like_stock
class SkipsUnknownSendsAsync(_SkipsUnknownSends, AsyncScheduler):
    """The same for async scheduling."""


@_like_stock
class SkipsUnknown(_SkipsUnknown, Scheduler):
    """Any report for an unknown request is passed over: the remedy that is proposed most often."""


@_like_stock
class SkipsUnknownAsync(_SkipsUnknown, AsyncScheduler):
    """The same for async scheduling."""


@_like_stock
class Tolerates(_Tolerates, Scheduler):
    """A report is passed over unless its request waits for it or is over."""


@_like_stock
class ToleratesAsync(_Tolerates, AsyncScheduler):
    """The same for async scheduling."""


@_like_stock
class AsksNotWhileLoading(_AsksNotWhileLoading, Scheduler):
    """The connector is not told of a request that ends while its load runs, so it starts no save."""


@_like_stock
class AsksNotWhileLoadingAsync(_AsksNotWhileLoading, AsyncScheduler):
    """The same for async scheduling."""


@_like_stock
class WaitsForBoth(_WaitsForBoth, Scheduler):
    """The blocks stay until the load and the save that were pending are reported; vLLM's assertions stay."""


@_like_stock
class WaitsForBothAsync(_WaitsForBoth, AsyncScheduler):
    """The same for async scheduling."""


@_like_stock
class Reclaims(_Reclaims, Scheduler):
    """Blocks that are held for a report are freed after a time, and the report is then passed over."""


@_like_stock
class ReclaimsAsync(_Reclaims, AsyncScheduler):
    """The same for async scheduling."""


class Remedy(NamedTuple):
    """The classes of a remedy."""

    sync: type
    overlapping: type

    def scheduler(self, scheduling: Scheduling) -> type:
        return self.overlapping if scheduling == "async" else self.sync


REMEDIES: dict[str, Remedy] = {
    "assert": Remedy(Scheduler, AsyncScheduler),
    "skip_sends": Remedy(SkipsUnknownSends, SkipsUnknownSendsAsync),
    "skip": Remedy(SkipsUnknown, SkipsUnknownAsync),
    "tolerate": Remedy(Tolerates, ToleratesAsync),
    "not_while_loading": Remedy(AsksNotWhileLoading, AsksNotWhileLoadingAsync),
    "wait_for_both": Remedy(WaitsForBoth, WaitsForBothAsync),
    "wait_for_all": Remedy(FixedScheduler, FixedAsyncScheduler),
    "reclaim": Remedy(Reclaims, ReclaimsAsync),
}
"""By the name of the completion policy; ``assert`` is the stock scheduler, ``wait_for_all`` kvrace's own drop-in."""
