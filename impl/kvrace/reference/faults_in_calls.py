"""Schedulers with one planted fault each: reports, wake-ups, notices, and the calls to and from the connector."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kvmodel.port import DispatchedStep, ScheduledRequest
from kvrace.reference.faults import FaultyScheduler
from kvrace.reference.request import Request, Status

# Reports of the connector, and the end of a load.


class FirstReportFrees(FaultyScheduler, fault="free-at-first-report"):
    """the first of two reports that are waited for frees the blocks"""

    def take_reports(self, loads: Iterable[str], saves: Iterable[str]) -> None:
        for request_id in (*loads, *saves):
            request = self.requests.get(request_id)
            if request is not None and len(request.awaited) > 1:
                request.awaited = {"load"} if request_id in loads else {"save"}
        super().take_reports(loads, saves)


class SwapReports(FaultyScheduler, fault="swap-reports"):
    """reports of loads are taken for reports of saves and the other way round"""

    def take_reports(self, loads: Iterable[str], saves: Iterable[str]) -> None:
        super().take_reports(saves, loads)


class OneReportOnly(FaultyScheduler, fault="one-report-only"):
    """of several reports in one output only the first is processed"""

    def take_reports(self, loads: Iterable[str], saves: Iterable[str]) -> None:
        loads, saves = list(loads), list(saves)
        super().take_reports(loads[:1], [] if loads else saves[:1])


class NeverWake(FaultyScheduler, fault="never-wake"):
    """a request that waits for its load is never looked at again"""

    def load_runs(self, request: Request) -> bool:
        return request.status is Status.WAITING_FOR_REMOTE_KVS


class WakeTooEarly(FaultyScheduler, fault="wake-too-early"):
    """a request runs in the step after its load began, whether the load is over or not"""

    def schedule_waiting(self, scheduled: list[ScheduledRequest]) -> None:
        self.loaded.update(
            request.request_id for request in self.holding if request.status is Status.WAITING_FOR_REMOTE_KVS
        )
        super().schedule_waiting(scheduled)


class OfferLoading(FaultyScheduler, fault="offer-loading-blocks"):
    """the prefix cache offers the blocks of a load from its start"""

    def start_load(self, request: Request, start: int, end: int) -> None:
        super().start_load(request, start, end)
        self.tables.offer(request, end)


class OfferAborted(FaultyScheduler, fault="offer-aborted-load"):
    """an abort lets the prefix cache offer what a load has not brought yet"""

    def finish(self, request: Request, load_runs: bool) -> None:
        if load_runs:
            self.tables.offer(request, request.num_computed_tokens)
        super().finish(request, load_runs)


# The hand-over at the end of a request.


class WrongBlocks(FaultyScheduler, fault="handover-wrong-blocks"):
    """request_finished names the blocks in reverse order"""

    def blocks_to_hand_over(self, request: Request) -> tuple[int, ...]:
        return super().blocks_to_hand_over(request)[::-1]


class TooFewBlocks(FaultyScheduler, fault="handover-too-few-blocks"):
    """request_finished leaves out the last block when it is not full"""

    def blocks_to_hand_over(self, request: Request) -> tuple[int, ...]:
        return self.tables.ids(request)[: request.num_computed_tokens // self.tables.block_size]


class FinishedTwice(FaultyScheduler, fault="request-finished-twice"):
    """request_finished is called a second time when the held blocks are freed"""

    def release(self, request: Request) -> None:
        if request.request_id not in self.finished_ids:
            self.connector.request_finished(request.request_id, self.blocks_to_hand_over(request))
        super().release(request)


class NeverFinished(FaultyScheduler, fault="request-finished-never"):
    """request_finished is not called for a request that was aborted before it ran"""

    def finish(self, request: Request, load_runs: bool) -> None:
        if request.num_computed_tokens:
            super().finish(request, load_runs)
        else:
            self.finished_ids.add(request.request_id)
            self.release(request)


class FinishedEarly(FaultyScheduler, fault="request-finished-early"):
    """request_finished is called for a request that is only preempted"""

    def preempt(self, request: Request) -> None:
        self.connector.request_finished(request.request_id, self.blocks_to_hand_over(request))
        super().preempt(request)


# Notices to clients and workers.


class TwoNotices(FaultyScheduler, fault="two-notices"):
    """a client whose held blocks are freed is told once more that its request is over"""

    def update(
        self, step: DispatchedStep, tokens: Mapping[str, int], loads: Iterable[str], saves: Iterable[str]
    ) -> list[str]:
        held = {name for name, request in self.requests.items() if request.status.finished}
        notices = super().update(step, tokens, loads, saves)
        return notices + sorted(held - self.requests.keys())


class NoNotice(FaultyScheduler, fault="no-notice"):
    """a client whose blocks are held is not told that its request is over"""

    def update(
        self, step: DispatchedStep, tokens: Mapping[str, int], loads: Iterable[str], saves: Iterable[str]
    ) -> list[str]:
        notices = super().update(step, tokens, loads, saves)
        return [name for name in notices if name not in self.requests]


class DismissTwice(FaultyScheduler, fault="dismiss-twice"):
    """the workers are told twice that a request is over"""

    def after_schedule(self, step: DispatchedStep) -> None:
        again = self.finished_ids & self.requests.keys()
        super().after_schedule(step)
        self.finished_ids = again


class DismissNever(FaultyScheduler, fault="dismiss-never"):
    """the workers are not told of a request whose blocks are held that it is over"""

    def finish(self, request: Request, load_runs: bool) -> None:
        super().finish(request, load_runs)
        if request.awaited:
            self.finished_ids.discard(request.request_id)


# Aborts, and when the engine may sleep.


class AbortForgotten(FaultyScheduler, fault="abort-of-waiting-forgotten"):
    """an abort of a request that waits to be admitted is forgotten"""

    def abort(self, request_id: str) -> None:
        if all(request.request_id != request_id for request in self.waiting):
            super().abort(request_id)


class AbortHeld(FaultyScheduler, fault="abort-of-held-repeats-end"):
    """an abort of a request that is over and held ends it once more"""

    def abort(self, request_id: str) -> None:
        request = self.requests.get(request_id)
        if request is not None and request.awaited:
            self.finish(request, load_runs="load" in request.awaited)
        else:
            super().abort(request_id)


class AbortLeavesQueue(FaultyScheduler, fault="abort-leaves-queue-entry"):
    """an aborted request stays among those that wait for a load"""

    def abort(self, request_id: str) -> None:
        waits = [request for request in self.holding if request.request_id == request_id]
        super().abort(request_id)
        self.holding.extend(waits)

    def schedule_waiting(self, scheduled: list[ScheduledRequest]) -> None:
        left = [request for request in self.holding if request.status.finished]
        self.holding = [request for request in self.holding if request not in left]
        super().schedule_waiting(scheduled)
        self.holding.extend(left)


class IdleWithLoad(FaultyScheduler, fault="idle-with-load"):
    """the engine sleeps while the only live requests wait for loads"""

    def has_requests(self) -> bool:
        return bool(self.finished_ids or len(self.requests) > len(self.holding))


class IdleWithHeld(FaultyScheduler, fault="idle-with-held-blocks"):
    """the engine sleeps although reports that free blocks are still to come"""

    def has_requests(self) -> bool:
        return bool(self.waiting or self.holding or self.running or self.finished_ids)


class NeverIdle(FaultyScheduler, fault="never-idle"):
    """the engine never sleeps again after a request was preempted"""

    woken = False

    def preempt(self, request: Request) -> None:
        super().preempt(request)
        self.woken = True

    def has_requests(self) -> bool:
        return self.woken or super().has_requests()


class RaiseOnRareOrder(FaultyScheduler, fault="raise-on-rare-order"):
    """an abort of a preempted request raises while another request is held"""

    def abort(self, request_id: str) -> None:
        request = self.requests.get(request_id)
        held = any(other.awaited for other in self.requests.values())
        if held and request is not None and request.status is Status.PREEMPTED:
            raise RuntimeError("a preempted request was aborted")
        super().abort(request_id)
