"""How a connector author finds out what a connector may do with the scheduler of this vLLM.

The connector's discipline is the contract: may load and save of a request overlap, may a report be lost or come twice? What holds
under the contract is safe to do; what does not is shown by the shortest order.
"""

from __future__ import annotations

import pytest

from kvrace.testing import SchedulerMachine, scopes

pytestmark = pytest.mark.vllm


@pytest.mark.kvrace(contract="single", scope="seed")
def test_a_connector_that_saves_only_what_it_does_not_load_is_safe(kvrace_check) -> None:
    kvrace_check().assert_holds()


@pytest.mark.kvrace(contract="single,lossy", scope="seed", trace_dir="build/examples")
def test_a_report_that_never_comes_keeps_the_blocks_for_ever(kvrace_check) -> None:
    kvrace_check().assert_violated("no-leak", "no-stuck")


class ManySaves(SchedulerMachine):
    """A connector that only saves, under every mix of prompts, budgets and priorities."""

    scopes = scopes(kinds=("save", "local"), most_requests=4)


TestManySaves = ManySaves.TestCase
