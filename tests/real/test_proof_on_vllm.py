"""What refutes a policy, played on the real scheduler that has it."""

from __future__ import annotations

import pytest

from kvmodel.contract import Contract
from kvmodel.relation.model import Model
from kvmodel.relation.policies import policy_named
from kvrace.prove import state
from kvrace.subjects import choose_subject

pytestmark = [pytest.mark.slow, pytest.mark.vllm]


@pytest.mark.parametrize(
    ("policy", "subject", "broken"),
    [
        ("assert", "vllm", {"no-use-after-free", "no-crash"}),
        ("skip", "skip", {"no-use-after-free"}),
    ],
)
def test_the_orders_are_confirmed_and_as_short_as_the_explorers(policy: str, subject: str, broken: set[str]) -> None:
    model = Model(policy_named(policy), Contract())
    statement = state(model, None, lambda: choose_subject(subject, None))
    assert {order.rule for order in statement.orders} == broken
    for order in statement.orders:
        assert order.violation is not None, order.why
        assert order.violation.identity.name == "vllm"
        assert order.explorer == len(order.events) == len(order.violation.events) == 4
    assert len(statement.attempts) == 3
    for attempt in statement.attempts:
        assert attempt.reached is not None and attempt.breaks, "every counterexample to induction is a finding"
