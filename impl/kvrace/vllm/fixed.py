"""A drop-in scheduler for ``vllm serve --scheduler-cls``: blocks stay until every transfer of their request is over.

Runs inside vLLM, so it imports vLLM and the standard library alone.

vLLM 0.16.0 to 0.33.0 remembers *that* a finished request is held for a transfer, and not for which: the first report frees its blocks
under the other transfer, and the second one meets ``assert req_id in self.requests`` and ends the engine. The schedulers here keep a
ledger of the transfers that are still to be reported. The last of them frees the blocks; a report that nobody waits for is counted,
logged once for its request, and changes nothing.
"""

from __future__ import annotations

import logging
import os
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from vllm import __version__ as vllm_version
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.request import RequestStatus

VERIFIED_RELEASES = ("0.32.0", "0.33.0")
"""The releases in which every order of the scopes `small`, `pressure`, `prefix`, `chunked` and `priority` was played."""
ANY_RELEASE = "KVRACE_FIXED_ANY_RELEASE"
"""Set to 1, this environment variable lets other releases be used at one's own risk."""

logger = logging.getLogger("vllm.kvrace")


class UnverifiedRelease(RuntimeError):
    """The drop-in was not verified against this release of vLLM."""


class HoldsUntilReported:
    """Mixed into a vLLM scheduler. ``misreports`` counts reports that nobody waited for, by what they were."""

    kvrace_left_out = ("misreports",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if vllm_version not in VERIFIED_RELEASES and os.environ.get(ANY_RELEASE) != "1":
            raise UnverifiedRelease(
                f"kvrace's scheduler was verified against vLLM {' and '.join(VERIFIED_RELEASES)}, and this is {vllm_version}. "
                f"Check this release with 'kvrace check --subject kvrace.vllm.fixed:FixedScheduler', then set {ANY_RELEASE}=1"
            )
        self.awaited: dict[str, set[str]] = {}
        self.resubmitted: dict[str, deque[Any]] = {}
        self.misreports: Counter[str] = Counter()
        super().__init__(*args, **kwargs)

    # A request ends: note which transfers its blocks stay for.

    def _free_request(self, request: Any, delay_free_blocks: bool = False) -> Any:
        name = request.request_id
        # The scheduler says here, and only here, whether a load of the request is still to be reported.
        self.awaited[name] = {"load"} if delay_free_blocks else set()
        answer = super()._free_request(request, delay_free_blocks)  # type: ignore[misc]
        if not self.awaited.get(name, True):
            del self.awaited[name]
        return answer

    def _connector_finished(self, request: Any) -> Any:
        claimed, parameters = super()._connector_finished(request)  # type: ignore[misc]
        if claimed:
            self.awaited[request.request_id].add("save")
        return claimed, parameters

    # A transfer is reported.

    def _update_from_kv_xfer_finished(self, kv_connector_output: Any) -> None:
        connector = self.connector  # type: ignore[has-type]
        if connector is not None:
            connector.update_connector_output(kv_connector_output)  # may add reports of its own
        woken, freed = set(), set()
        for name in sorted(kv_connector_output.finished_recving or ()):
            if self._waits_for_its_load(name):
                woken.add(name)
            elif self._was_last(name, "load"):
                freed.add(name)
        for name in sorted(kv_connector_output.finished_sending or ()):
            if self._was_last(name, "save"):
                freed.add(name)
        # vLLM does the rest: it frees the blocks of every request it takes for sent. The connector was told already.
        self.connector = None
        try:
            due = replace(kv_connector_output, finished_recving=woken, finished_sending=freed)
            super()._update_from_kv_xfer_finished(due)  # type: ignore[misc]
        finally:
            self.connector = connector

    def _waits_for_its_load(self, name: str) -> bool:
        request = self.requests.get(name)  # type: ignore[attr-defined]
        return request is not None and request.status == RequestStatus.WAITING_FOR_REMOTE_KVS

    def _was_last(self, name: str, transfer: str) -> bool:
        """Strike the transfer out. Whether it was awaited, and no other is awaited for the same request."""
        awaited = self.awaited.get(name, set())
        if transfer not in awaited:
            self._misreported(name, transfer)
            return False
        awaited.remove(transfer)
        if not awaited:
            del self.awaited[name]
        return not awaited

    def _misreported(self, name: str, transfer: str) -> None:
        state = "is not known" if name not in self.requests else "does not wait for it"  # type: ignore[attr-defined]
        self.misreports[f"{transfer}, request {state}"] += 1
        logger.warning(
            "The KV connector reports a finished %s of request %s, which %s: ignored. It reports twice, late, or what it never claimed.",
            transfer,
            name,
            state,
        )

    # An id that is used again while its blocks are held.

    def add_request(self, request: Any) -> None:
        """A request whose id belongs to one that is over and held waits until that one is forgotten."""
        held = self.requests.get(request.request_id)  # type: ignore[attr-defined]
        if held is not None and held.is_finished():
            self.resubmitted.setdefault(request.request_id, deque()).append(request)
            return
        super().add_request(request)  # type: ignore[misc]

    def _free_blocks(self, request: Any) -> None:
        super()._free_blocks(request)  # type: ignore[misc]
        waiting = self.resubmitted.pop(request.request_id, None)
        if waiting:
            super().add_request(waiting.popleft())  # type: ignore[misc]
            if waiting:
                self.resubmitted[request.request_id] = waiting

    def finish_requests(self, request_ids: str | Iterable[str] | None, finished_status: Any) -> Any:
        names = (
            self.resubmitted.keys()
            if request_ids is None
            else ([request_ids] if isinstance(request_ids, str) else request_ids)
        )
        for name in list(names):
            self.resubmitted.pop(name, None)
        return super().finish_requests(request_ids, finished_status)  # type: ignore[misc]


class FixedScheduler(HoldsUntilReported, Scheduler):
    """vLLM's ``Scheduler`` that holds blocks until every transfer of their request is reported."""


class FixedAsyncScheduler(HoldsUntilReported, AsyncScheduler):
    """vLLM's ``AsyncScheduler`` that holds blocks until every transfer of their request is reported."""
