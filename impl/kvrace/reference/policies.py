"""Completion policies: what the scheduler does with a report that a transfer is over.

This is the disputed point. The policies differ only in what they do with a request that has ended and with its reports;
:mod:`kvmodel.relation.policies` says what each means.
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

    asks_while_loading = True
    """Whether the connector is told of a request that ends while its load runs."""

    def held(self, request: Request, awaited: set[Direction]) -> None:
        """The request has ended and its blocks stay: ``awaited`` transfers still run. vLLM does not note which."""

    def load_reported(self, scheduler: ReferenceScheduler, request_id: str) -> None:
        """Raises AssertionError for a request that is unknown, or that neither waits for a load nor is over."""
        if request_id not in scheduler.requests:
            raise AssertionError("a load of an unknown request is reported")
        request = scheduler.requests[request_id]
        if request.status is Status.WAITING_FOR_REMOTE_KVS:
            scheduler.loaded.add(request_id)
        elif self.frees(request, "load"):
            scheduler.release(request)

    def save_reported(self, scheduler: ReferenceScheduler, request_id: str) -> None:
        """Raises AssertionError for a request that is unknown or not over."""
        if request_id not in scheduler.requests:
            raise AssertionError("a save of an unknown request is reported")
        request = scheduler.requests[request_id]
        if self.frees(request, "save"):
            scheduler.release(request)

    def frees(self, request: Request, direction: Direction) -> bool:
        """A transfer of a known request that does not wait for it is reported: whether its blocks are freed. To free those of a
        request that is not over raises AssertionError."""
        return True

    def before_schedule(self, scheduler: ReferenceScheduler) -> None:
        """A step is about to be scheduled. vLLM holds blocks for as long as it takes."""


class SkipSendsPolicy(AssertPolicy):
    """The remedy that this project started from."""

    def save_reported(self, scheduler: ReferenceScheduler, request_id: str) -> None:
        if request_id in scheduler.requests:
            super().save_reported(scheduler, request_id)


class SkipPolicy(SkipSendsPolicy):
    """The remedy that is often proposed. The crash is gone; the blocks are still free under the transfer that is not over."""

    def load_reported(self, scheduler: ReferenceScheduler, request_id: str) -> None:
        if request_id in scheduler.requests:
            super().load_reported(scheduler, request_id)


class ToleratePolicy(SkipPolicy):
    """The same, and no report frees the blocks of a request that is not over."""

    def frees(self, request: Request, direction: Direction) -> bool:
        return request.status.finished


class NotWhileLoadingPolicy(AssertPolicy):
    """No save can start while a load runs: the connector does not hear that the request is over."""

    asks_while_loading = False


class WaitForBothPolicy(AssertPolicy):
    """The last report that is waited for frees the blocks."""

    def held(self, request: Request, awaited: set[Direction]) -> None:
        request.awaited = awaited

    def frees(self, request: Request, direction: Direction) -> bool:
        request.awaited.discard(direction)
        return not request.awaited


class WaitForAllPolicy(WaitForBothPolicy, SkipPolicy):
    """The remedy that works. A report that nobody waits for changes nothing."""

    def frees(self, request: Request, direction: Direction) -> bool:
        return direction in request.awaited and super().frees(request, direction)


class ReclaimPolicy(SkipPolicy):
    """Blocks are held for no more than ``PATIENCE`` steps."""

    def before_schedule(self, scheduler: ReferenceScheduler) -> None:
        for request in list(scheduler.requests.values()):
            if request.status.finished:
                request.held_for += 1
                if request.held_for > PATIENCE:
                    scheduler.release(request)


PATIENCE = 1
"""How many steps policy ``reclaim`` waits for a report."""

POLICIES: dict[str, type[AssertPolicy]] = {
    "assert": AssertPolicy,
    "skip_sends": SkipSendsPolicy,
    "skip": SkipPolicy,
    "tolerate": ToleratePolicy,
    "not_while_loading": NotWhileLoadingPolicy,
    "wait_for_both": WaitForBothPolicy,
    "wait_for_all": WaitForAllPolicy,
    "reclaim": ReclaimPolicy,
}
"""The completion policies by name."""


def make_policy(name: str) -> AssertPolicy:
    """Raises KvraceError for a name that is not in ``POLICIES``."""
    if name not in POLICIES:
        raise KvraceError(f"unknown policy {quoted(name)}: use one of {', '.join(POLICIES)}")
    return POLICIES[name]()
