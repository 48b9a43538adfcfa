"""The ledger of the drop-in scheduler: for which transfers the blocks of each finished request stay. Standard library only."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterator
from typing import Literal, NamedTuple

Transfer = Literal["load", "save"]
Situation = Literal["unknown", "live", "held", "early"]

MEANINGS: dict[Situation, str] = {
    "unknown": "no request of this id is known: it is reported twice, or the scheduler was never told of the transfer",
    "live": "the request is not over and does not wait for it: it is reported twice, or was never claimed",
    "held": "the blocks of the request are not held for it: it is reported twice, or was never claimed",
    "early": "it was reported before request_finished claimed it, so another report has to follow",
}
"""What a report means that nobody waits for, by what is known of its request."""
logger = logging.getLogger("vllm.kvrace")
"""vLLM's handlers and levels apply to it."""
_REMEMBERED = 4096
"""Of how many requests it is remembered that something was logged. A broken connector must not fill the memory."""


class TransferLedger:
    """``awaited``: request id -> the transfers that are not reported. ``since``: when each hold began, in seconds of a clock that
    the caller reads."""

    kvrace_left_out = ("since",)

    def __init__(self) -> None:
        self.awaited: dict[str, set[Transfer]] = {}
        self.since: dict[str, float] = {}

    def hold(self, request_id: str, transfers: set[Transfer], now: float) -> None:
        self.awaited[request_id] = transfers
        self.since[request_id] = now

    def holds(self, request_id: str) -> bool:
        return request_id in self.awaited

    def awaits(self, request_id: str, transfer: Transfer) -> bool:
        return transfer in self.awaited.get(request_id, ())

    def reported(self, request_id: str, transfer: Transfer) -> bool:
        """Strike an awaited transfer out. True when the hold is over with it."""
        self.awaited[request_id].remove(transfer)
        if not self.awaited[request_id]:
            self.forget(request_id)
            return True
        return False

    def forget(self, request_id: str) -> None:
        del self.awaited[request_id], self.since[request_id]

    def older_than(self, seconds: float, now: float) -> Iterator[str]:
        """The requests that have been held so long, the longest first: a dict keeps the order in which holds began."""
        for request_id, since in self.since.items():
            if now - since < seconds:
                return
            yield request_id


class Misreport(NamedTuple):
    """A report that nobody waited for."""

    transfer: Transfer
    situation: Situation


class Misreports:
    """Counts the reports that nobody waited for, and logs the first one of each request."""

    def __init__(self) -> None:
        self.counts: dict[Misreport, int] = {}
        self._logged: OrderedDict[int, None] = OrderedDict()  # hashes, which are shorter than ids

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def note(self, request_id: str, misreport: Misreport) -> None:
        self.counts[misreport] = self.counts.get(misreport, 0) + 1
        if hash(request_id) in self._logged:
            return
        self._logged[hash(request_id)] = None
        if len(self._logged) > _REMEMBERED:
            self._logged.popitem(last=False)
        logger.warning(
            "The KV connector reports the %s of request %s as finished, and %s. Ignored: no block is freed. "
            "Further ones of this request are counted and not logged (%d ignored in all).",
            misreport.transfer,
            request_id,
            MEANINGS[misreport.situation],
            self.total,
        )
