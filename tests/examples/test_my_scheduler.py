"""How a vLLM maintainer tests a change to the scheduler: every order of a small scope, then random orders of larger ones.

``SkipsWhatItDoesNotKnow`` is the often proposed remedy for the crash, and these tests say what it mends and what it does not.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

vllm = pytest.importorskip("vllm")
from vllm.v1.core.sched.scheduler import Scheduler  # noqa: E402
from vllm.v1.outputs import KVConnectorOutput  # noqa: E402

from kvrace.testing import SchedulerMachine, check_scheduler  # noqa: E402

pytestmark = pytest.mark.vllm


class SkipsWhatItDoesNotKnow(Scheduler):
    def _update_from_kv_xfer_finished(self, kv_connector_output):
        for name in ("finished_recving", "finished_sending"):
            for request_id in getattr(kv_connector_output, name) or ():
                if request_id in self.requests:
                    one = replace(KVConnectorOutput(), **{name: {request_id}})
                    super()._update_from_kv_xfer_finished(one)


def test_it_holds_where_load_and_save_of_a_request_are_never_pending_together() -> None:
    check_scheduler(SkipsWhatItDoesNotKnow, scope="seed", contract="single").assert_holds()


def test_skipping_trades_the_crash_for_silent_corruption() -> None:
    checked = check_scheduler(SkipsWhatItDoesNotKnow, scope="seed")
    checked.assert_violated("no-use-after-free", "no-stuck")
    assert checked.verdicts["no-crash"] == "holds"


class RandomOrders(SchedulerMachine):
    """Up to six requests, shared prefixes, chunked prefill, priorities: too much to exhaust."""

    scheduler = SkipsWhatItDoesNotKnow
    contract = "single"


TestRandomOrders = RandomOrders.TestCase
