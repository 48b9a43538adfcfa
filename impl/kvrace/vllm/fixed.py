"""A drop-in scheduler for ``vllm serve --scheduler-cls``: blocks stay until every KV transfer of their request is over.

Runs inside vLLM, so it imports vLLM and the standard library alone.

vLLM 0.16.0 to 0.33.0 knows *that* a finished request is held, and not for which transfers: the first report frees its blocks
under the other transfer, and the second one meets ``assert req_id in self.requests`` and ends the engine
(vllm/v1/core/sched/scheduler.py, ``_update_from_kv_xfer_finished``; vLLM issue #46240). The schedulers here keep a ledger of the
transfers that are still to be reported. The last of them frees the blocks; a report that nobody waits for is counted, logged
once for its request, and changes nothing.
"""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from vllm import __version__ as vllm_version
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.interface import PauseState
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.request import RequestStatus

from kvrace.verified import VERIFIED_RELEASES, is_verified
from kvrace.vllm.ledger import Misreport, Misreports, Situation, Transfer, TransferLedger, logger

ANY_RELEASE = "KVRACE_FIXED_ANY_RELEASE"
"""Set to 1, this environment variable lets other releases be used, at one's own risk."""
RECLAIM_AFTER = "KVRACE_FIXED_RECLAIM_AFTER"
"""Seconds after which held blocks are freed although a report is missing. Unset, they are held for ever: a transfer that was not
reported may still touch them."""
LOOK_EVERY = 60.0
"""Seconds between two log lines of totals while blocks are held."""
LONG = 600.0
"""Seconds from which on a hold is a warning. Minutes may be meant: NIXL keeps blocks for a client's next turn for 480 s."""


class CannotServe(RuntimeError):
    """The drop-in refuses to start: a release it was not verified against, or a configuration that it is not for."""


def _refuse_unverified_release() -> None:
    if not is_verified(vllm_version) and os.environ.get(ANY_RELEASE) != "1":
        raise CannotServe(
            f"kvrace's scheduler was verified against vLLM {' and '.join(VERIFIED_RELEASES)}, and this is {vllm_version}. Run "
            f"'kvrace check --subject fixed' with this vLLM; if every property holds, set {ANY_RELEASE}=1 to use it all the same"
        )


def _reclaim_after() -> float | None:
    given = os.environ.get(RECLAIM_AFTER)
    if not given:
        return None
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise CannotServe(f"{RECLAIM_AFTER}={given!r}: give a number of seconds, more than 0, or leave it unset")
    return seconds


class HoldsPerTransfer:
    """Mixed into a vLLM scheduler. ``counts`` says how many requests were held and how many were reclaimed, ``misreports`` which
    reports were ignored."""

    # Statistics and clocks, and a set that is emptied before it is looked at.
    kvrace_left_out = ("misreports", "counts", "_look_at", "_claimed_in_this_call")
    kvrace_compared_like_stock = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse_unverified_release()
        self.reclaim_after = _reclaim_after()
        self.ledger = TransferLedger()
        self.resubmitted: dict[str, deque[Any]] = {}
        self.misreports = Misreports()
        self.counts: Counter[str] = Counter()
        self._look_at = 0.0
        self._claimed_in_this_call: set[str] = set()
        super().__init__(*args, **kwargs)
        self._refuse_other_schedulers_work()
        lost = f"freed after {self.reclaim_after:g} s" if self.reclaim_after else "held for ever"
        logger.info("kvrace: blocks stay until every transfer of their request is reported; without a report: %s", lost)

    def _refuse_other_schedulers_work(self) -> None:
        """vLLM asks a custom class neither whether it fits the way of scheduling, nor whether the model needs one of its own."""
        config = self.vllm_config  # type: ignore[attr-defined]
        overlapping = config.scheduler_config.async_scheduling
        if overlapping != isinstance(self, AsyncScheduler):
            raise CannotServe(
                f"asynchronous scheduling is {'on' if overlapping else 'off'} here, so use --scheduler-cls "
                f"kvrace.vllm.fixed.{'FixedAsyncScheduler' if overlapping else 'FixedScheduler'} (vLLM switches it off by itself "
                "for some models, platforms, drafters and executors)"
            )
        if getattr(config, "diffusion_config", None) is not None:
            raise CannotServe("a diffusion model needs vLLM's scheduler for diffusion; leave out --scheduler-cls")

    # A request ends: note which transfers its blocks stay for.

    def _free_request(self, request: Any, delay_free_blocks: bool = False) -> Any:
        # Whether a load is still to be reported is said here and nowhere else; whether a save is, by the connector, in between.
        awaited: set[Transfer] = {"load"} if delay_free_blocks else set()
        self.ledger.hold(request.request_id, awaited, time.monotonic())
        answer = super()._free_request(request, delay_free_blocks)  # type: ignore[misc]
        if awaited:
            self.counts["held"] += 1
        return answer

    def _connector_finished(self, request: Any) -> Any:
        save_runs, parameters = super()._connector_finished(request)  # type: ignore[misc]
        held = self.ledger.awaited[request.request_id]
        if save_runs:
            held.add("save")
            self._claimed_in_this_call.add(request.request_id)
        if not held:
            self.ledger.forget(request.request_id)
        return save_runs, parameters

    # A transfer is reported.

    def update_from_output(self, *args: Any, **kwargs: Any) -> Any:
        self._claimed_in_this_call.clear()
        return super().update_from_output(*args, **kwargs)  # type: ignore[misc]

    def _update_from_kv_xfer_finished(self, kv_connector_output: Any) -> None:
        connector = self.connector  # type: ignore[has-type]
        too_early = self._tell_connector(connector, kv_connector_output)
        loaded = [name for name in kv_connector_output.finished_recving or () if not self._is_late(name, "load")]
        woken = {name for name in loaded if self._waits_for_its_load(name)}
        if woken:
            # What a load that is over means to a live request is vLLM's affair. The connector has had its call already.
            self.connector = None
            try:
                due = replace(kv_connector_output, finished_recving=woken, finished_sending=None)
                super()._update_from_kv_xfer_finished(due)  # type: ignore[misc]
            finally:
                self.connector = connector
        for name in loaded:
            if name not in woken:
                self._reported(name, "load")
        for name in kv_connector_output.finished_sending or ():
            if name in too_early:
                self.misreports.note(name, Misreport("save", "early"))
            elif not self._is_late(name, "save"):
                self._reported(name, "save")

    def _tell_connector(self, connector: Any, kv_connector_output: Any) -> frozenset[str]:
        """The connector may add reports of its own. Returns those of the workers that cannot be of a save that was claimed in
        this very call, since no worker knows of it yet.

        A connector that puts a set of its own in the place of theirs has seen to that itself: MoRIIOConnectorScheduler keeps a
        report that comes before the end of its request.
        """
        sent = kv_connector_output.finished_sending
        by_workers = frozenset(sent or ())
        if connector is not None:
            connector.update_connector_output(kv_connector_output)
        return by_workers & self._claimed_in_this_call if kv_connector_output.finished_sending is sent else frozenset()

    def _is_late(self, name: str, transfer: Transfer) -> bool:
        """Whether this is the report that a hold was reclaimed without. It is not of a request that has the id since."""
        late = self.ledger.strike_late(name, transfer)
        if late:
            self.misreports.note(name, Misreport(transfer, "late"))
        return late

    def _waits_for_its_load(self, name: str) -> bool:
        request = self.requests.get(name)  # type: ignore[attr-defined]
        return request is not None and request.status == RequestStatus.WAITING_FOR_REMOTE_KVS

    def _reported(self, name: str, transfer: Transfer) -> None:
        """Free the blocks of a request with the last report that is awaited, and with no other."""
        request = self.requests.get(name)  # type: ignore[attr-defined]
        if self.ledger.awaits(name, transfer):
            if self.ledger.reported(name, transfer):
                self._free_blocks(request)
        elif request is not None and request.is_finished() and not self.ledger.holds(name):
            # Held for an encoder-cache connector, of which vLLM keeps no account either: it frees.
            self._free_blocks(request)
        else:
            situation: Situation = "unknown" if request is None else "held" if request.is_finished() else "live"
            self.misreports.note(name, Misreport(transfer, situation))

    # Holds that last.

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        if self.ledger.awaited:
            self._look_after_holds(time.monotonic())
        return super().schedule(*args, **kwargs)  # type: ignore[misc]

    def _look_after_holds(self, now: float) -> None:
        if self.reclaim_after is not None:
            for name in list(self.ledger.older_than(self.reclaim_after, now)):
                self._reclaim(name)
        if now < self._look_at:
            return
        self._look_at = now + LOOK_EVERY
        self._log_totals()
        long = list(self.ledger.older_than(LONG, now))
        if long:
            logger.warning(
                "The blocks of %d finished requests have been held for more than %d s: transfers are not reported yet. "
                "The oldest: request %s, %d s, %s.",
                len(long),
                LONG,
                long[0],
                now - self.ledger.since[long[0]],
                " and ".join(sorted(self.ledger.awaited[long[0]])),
            )

    def _reclaim(self, name: str) -> None:
        missing = " and ".join(sorted(self.ledger.awaited[name]))
        logger.warning(
            "The blocks of request %s are freed after %g s without a report of its %s. If that transfer still runs, it now "
            "touches blocks of other requests.",
            name,
            self.reclaim_after,
            missing,
        )
        self.counts["reclaimed"] += 1
        self.ledger.reclaim(name)
        self._free_blocks(self.requests[name])  # type: ignore[attr-defined]

    def shutdown(self) -> None:
        self._log_totals()
        super().shutdown()  # type: ignore[misc]

    def _log_totals(self) -> None:
        logger.info(
            "kvrace: %d requests were held for their transfers, %d are still held, %d were reclaimed; %d reports were ignored",
            self.counts["held"],
            len(self.ledger.awaited),
            self.counts["reclaimed"],
            self.misreports.total,
        )

    # An id that is used again while its blocks are held: the new request waits until the old one is forgotten.

    def add_request(self, request: Any) -> None:
        known = self.requests.get(request.request_id)  # type: ignore[attr-defined]
        # A chunk for a session that is over is not a request of its own: vLLM drops it.
        if known is not None and known.is_finished() and known.streaming_queue is None:
            self.resubmitted.setdefault(request.request_id, deque()).append(request)
            return
        super().add_request(request)  # type: ignore[misc]

    def get_num_unfinished_requests(self) -> int:
        paused = self.pause_state != PauseState.UNPAUSED  # type: ignore[attr-defined]
        waiting = 0 if paused else sum(map(len, self.resubmitted.values()))
        return int(super().get_num_unfinished_requests() + waiting)  # type: ignore[misc]

    def _free_blocks(self, request: Any) -> None:
        super()._free_blocks(request)  # type: ignore[misc]
        if request.request_id in self.resubmitted:
            waiting = self.resubmitted[request.request_id]
            super().add_request(waiting.popleft())  # type: ignore[misc]
            if not waiting:
                del self.resubmitted[request.request_id]

    def finish_requests(self, request_ids: str | Iterable[str] | None, finished_status: Any) -> list[Any]:
        """Those that wait for their id end here: neither the connector nor the workers have heard of them."""
        if request_ids is not None:
            request_ids = [request_ids] if isinstance(request_ids, str) else list(request_ids)
        withdrawn = [
            request
            for name in (list(self.resubmitted) if request_ids is None else request_ids)
            for request in self.resubmitted.pop(name, ())
        ]
        for request in withdrawn:
            request.status = finished_status
            if self.finished_req_ids_dict is not None:  # type: ignore[attr-defined]
                self.finished_req_ids_dict[request.client_index].add(request.request_id)  # type: ignore[attr-defined]
        return [*super().finish_requests(request_ids, finished_status), *withdrawn]  # type: ignore[misc]


class FixedScheduler(HoldsPerTransfer, Scheduler):
    """vLLM's ``Scheduler`` that holds blocks until every transfer of their request is reported."""

    kvrace_compared_like_stock = True


class FixedAsyncScheduler(HoldsPerTransfer, AsyncScheduler):
    """vLLM's ``AsyncScheduler`` that holds blocks until every transfer of their request is reported."""

    kvrace_compared_like_stock = True
