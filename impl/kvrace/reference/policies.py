"""Completion policies: what the scheduler does with a report that a transfer is over.

This is the disputed point. The three policies differ only in what they do with the reports of a request that has ended:

``assert``        any report of a finished request frees its blocks; a report for an unknown request stops the engine
``skip``          the same, but a report for an unknown request is passed over
``wait_for_all``  the blocks stay until every transfer that ran when the request ended has been reported
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvmodel.errors import KvraceError, quoted
from kvmodel.events import Direction
from kvrace.reference.request import Request, Status

if TYPE_CHECKING:
    from kvrace.reference.scheduler import ReferenceScheduler


class AssertPolicy:
    """vLLM 0.16.0 to 0.33.0: ``Scheduler._update_from_kv_xfer_finished``."""

    def held(self, request: Request, awaited: set[Direction]) -> None:
        """The request has ended and its blocks stay: ``awaited`` transfers still run. vLLM does not note which."""

    def load_reported(self, scheduler: ReferenceScheduler, request_id: str) -> None:
        """Raises AssertionError for a request that is unknown, or that neither waits for a load nor is over."""
        if request_id not in scheduler.requests:
            raise AssertionError("a load of an unknown request is reported")
        request = scheduler.requests[request_id]
        if request.status is Status.WAITING_FOR_REMOTE_KVS:
            scheduler.loaded.add(request_id)
        else:
            scheduler.release(request)

    def save_reported(self, scheduler: ReferenceScheduler, request_id: str) -> None:
        """Raises AssertionError for a request that is unknown or not over."""
        if request_id not in scheduler.requests:
            raise AssertionError("a save of an unknown request is reported")
        scheduler.release(scheduler.requests[request_id])


class SkipPolicy(AssertPolicy):
    """The remedy that is often proposed. The crash is gone; the blocks are still free under the transfer that is not over."""

    def load_reported(self, scheduler: ReferenceScheduler, request_id: str) -> None:
        if request_id in scheduler.requests:
            super().load_reported(scheduler, request_id)

    def save_reported(self, scheduler: ReferenceScheduler, request_id: str) -> None:
        if request_id in scheduler.requests:
            super().save_reported(scheduler, request_id)


class WaitForAllPolicy(AssertPolicy):
    """The remedy that works. A report that nobody waits for changes nothing."""

    def held(self, request: Request, awaited: set[Direction]) -> None:
        request.awaited = awaited

    def load_reported(self, scheduler: ReferenceScheduler, request_id: str) -> None:
        request = scheduler.requests.get(request_id)
        if request is None:
            return
        if request.status is Status.WAITING_FOR_REMOTE_KVS:
            scheduler.loaded.add(request_id)
        else:
            self.transfer_over(scheduler, request, "load")

    def save_reported(self, scheduler: ReferenceScheduler, request_id: str) -> None:
        request = scheduler.requests.get(request_id)
        if request is not None:
            self.transfer_over(scheduler, request, "save")

    def transfer_over(self, scheduler: ReferenceScheduler, request: Request, direction: Direction) -> None:
        """Free the blocks with the last report that was waited for, and with no other."""
        if direction in request.awaited:
            request.awaited.remove(direction)
            if not request.awaited:
                scheduler.release(request)


POLICIES: dict[str, type[AssertPolicy]] = {
    "assert": AssertPolicy,
    "skip": SkipPolicy,
    "wait_for_all": WaitForAllPolicy,
}
"""The completion policies by name."""


def make_policy(name: str) -> AssertPolicy:
    """Raises KvraceError for a name that is not in ``POLICIES``."""
    if name not in POLICIES:
        raise KvraceError(f"unknown policy {quoted(name)}: use one of {', '.join(POLICIES)}")
    return POLICIES[name]()
