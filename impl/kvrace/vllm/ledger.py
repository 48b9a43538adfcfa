"""The ledger of the drop-in scheduler: for which transfers the blocks of each finished request stay. Standard library only."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Iterator
from typing import Literal, NamedTuple

Transfer = Literal["load", "save"]
Situation = Literal["unknown", "live", "held", "early", "late"]

MEANINGS: dict[Situation, str] = {
    "unknown": "no request of this id is known: it is reported twice, or the scheduler was never told of the transfer",
    "live": "the request is not over and does not wait for it: it is reported twice, or was never claimed",
    "held": "the blocks of the request are not held for it: it is reported twice, or was never claimed",
    "early": "it was reported before request_finished claimed it, so another report has to follow",
    "late": "its blocks were freed before, after KVRACE_FIXED_RECLAIM_AFTER seconds",
}
"""What a report means that nobody waits for, by what is known of its request."""
logger = logging.getLogger("vllm.kvrace")
"""vLLM's handlers and levels apply to it."""
_REMEMBERED = 4096
"""Of how many requests it is remembered that something was logged, or that they were reclaimed. A broken connector must not fill
the memory."""
_LINES_A_MINUTE = 20
"""Of misreports: a connector that misreports every request must not fill the log either."""


class TransferLedger:
    """``awaited``: request id -> the transfers that are not reported. ``since``: when each hold began, in seconds of a clock that
    the caller reads. ``late``: the transfers of reclaimed requests, whose reports may still come."""

    kvrace_left_out = ("since",)

    def __init__(self) -> None:
        self.awaited: dict[str, set[Transfer]] = {}
        self.since: dict[str, float] = {}
        self.late: OrderedDict[str, set[Transfer]] = OrderedDict()

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

    def reclaim(self, request_id: str) -> None:
        """The hold is over without its reports."""
        self.late.setdefault(request_id, set()).update(self.awaited[request_id])
        if len(self.late) > _REMEMBERED:
            self.late.popitem(last=False)
        self.forget(request_id)

    def strike_late(self, request_id: str, transfer: Transfer) -> bool:
        """Strike out a transfer of a reclaimed request. False when none is awaited there."""
        awaited = self.late.get(request_id, set())
        if transfer not in awaited:
            return False
        awaited.remove(transfer)
        if not awaited:
            del self.late[request_id]
        return True

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
        self._minute, self._lines = 0.0, 0

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
        if self._may_log():
            logger.warning(
                "The KV connector reports the %s of request %s as finished, and %s. Ignored: no block is freed. "
                "Further ones of this request are counted and not logged (%d ignored in all).",
                misreport.transfer,
                request_id,
                MEANINGS[misreport.situation],
                self.total,
            )

    def _may_log(self) -> bool:
        now = time.monotonic()
        if now - self._minute >= 60:
            self._minute, self._lines = now, 0
        self._lines += 1
        if self._lines == _LINES_A_MINUTE + 1:
            logger.warning(
                "More reports of the KV connector are ignored than are logged: at most %d a minute.", _LINES_A_MINUTE
            )
        return self._lines <= _LINES_A_MINUTE
