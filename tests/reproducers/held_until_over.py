"""Schedulers without the fault: the blocks of a request that is over are held until every transfer is reported.

A stand-in for a remedy, used to show that reproducers pass where the fault is gone. Needs vLLM alone.
"""

from dataclasses import replace

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.request import RequestStatus


class _Ledger:
    """Which transfers are still to be reported, for each request that is over and still has blocks."""

    def __init__(self, *args, **kwargs):
        self.pending = {}
        super().__init__(*args, **kwargs)

    def _free_request(self, request, delay_free_blocks=False):
        # The scheduler says here, and only here, whether it waits for a load.
        self.pending[request.request_id] = {"load"} if delay_free_blocks else set()
        answer = super()._free_request(request, delay_free_blocks)
        if not self.pending[request.request_id]:
            del self.pending[request.request_id]
        return answer

    def _connector_finished(self, request):
        claimed, parameters = super()._connector_finished(request)
        if claimed:
            self.pending[request.request_id].add("save")
        return claimed, parameters

    def _update_from_kv_xfer_finished(self, kv_connector_output):
        received = kv_connector_output.finished_recving or ()
        sent = kv_connector_output.finished_sending or ()
        waiting = {name for name in received if self._waits_for_its_load(name)}
        freed = [name for name in received if self._is_last(name, "load")]
        freed += [name for name in sent if self._is_last(name, "save")]
        rest = replace(kv_connector_output, finished_recving=waiting, finished_sending=set())
        super()._update_from_kv_xfer_finished(rest)
        for name in freed:
            self._free_blocks(self.requests[name])

    def _waits_for_its_load(self, name):
        request = self.requests.get(name)
        return request is not None and request.status == RequestStatus.WAITING_FOR_REMOTE_KVS

    def _is_last(self, name, kind):
        """Strike out a transfer. Whether it was known, and the last that its request was held for."""
        transfers = self.pending.get(name, set())
        if kind not in transfers:
            return False
        transfers.remove(kind)
        if not transfers:
            del self.pending[name]
        return not transfers


class HeldUntilOver(_Ledger, Scheduler):
    pass


class HeldUntilOverAsync(_Ledger, AsyncScheduler):
    pass
