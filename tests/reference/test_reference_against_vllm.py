"""The reference scheduler is vLLM's: on every transition of the scopes both answer and look the same, block by block."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pytest

from kvmodel.contract import Contract
from kvmodel.events import Event
from kvmodel.explorer import explore
from kvmodel.lockstep import Lockstep
from kvmodel.port import Capture, ConnectorScript, Identity, Observation, Response
from kvmodel.scope import Scope, both_schedulers, named_scope
from kvrace.reference.subject import ReferenceSubject

pytestmark = pytest.mark.vllm


def comparable(response: Response) -> Response:
    """The order of entries in a step, and the words and place of a crash, are each scheduler's own."""
    step = response.step and response.step._replace(scheduled=tuple(sorted(response.step.scheduled)))
    return response._replace(
        step=step, crash=response.crash and response.crash._replace(error="", location="", source="")
    )


class Pair:
    """Both schedulers as one subject; every difference is an AssertionError. The key is vLLM's."""

    def __init__(self, scope: Scope) -> None:
        from kvrace.vllm.subject import VllmSubject

        self.scope = scope
        self.vllm, self.reference = VllmSubject(scope), ReferenceSubject(scope)
        self.reference_key: Hashable = None

    @property
    def identity(self) -> Identity:
        return Identity("pair", "", "")

    def start(self) -> None:
        self.vllm.start()
        self.reference.start()

    def apply(self, event: Event, script: dict[str, ConnectorScript]) -> Response:
        response = self.vllm.apply(event, script)
        assert comparable(self.reference.apply(event, script)) == comparable(response)
        return response

    def observe(self) -> Observation:
        seen = self.vllm.observe()
        mine = self.reference.observe()
        # Tables have other names, and counters are each scheduler's own; but who is named in some table must agree.
        assert mine._replace(tables=(), negative=()) == seen._replace(tables=(), negative=())
        assert _named(mine) == _named(seen)
        return seen

    def capture(self, names: dict[int, int]) -> Capture:
        vllm, reference = self.vllm.capture(names), self.reference.capture(names)
        self.reference_key = reference.fingerprint
        return vllm._replace(snapshot=(vllm.snapshot, reference.snapshot))

    def notes(self, exhausted: bool) -> tuple[str, ...]:
        return ()

    def restore(self, snapshot: Any) -> None:
        self.vllm.restore(snapshot[0])
        self.reference.restore(snapshot[1])


def _named(seen: Observation) -> set[str]:
    return {name for _, names in seen.tables for name in names}


def walk(scope: Scope, contract: str) -> int:
    """Explore the pair by vLLM's key, and return how many transitions were compared.

    The reference scheduler remembers nothing that vLLM does not: where world and vLLM's key are equal, so is its key.
    """
    pair = Pair(scope)
    lockstep = Lockstep(pair, Contract.parse(contract))
    start = lockstep.initial()
    keys = {start.key: pair.reference_key}
    compared = 0
    for edge in explore(lockstep, start):
        compared += 1
        if not edge.state.crashed:
            assert keys.setdefault(edge.state.key, pair.reference_key) == pair.reference_key
    return compared


@pytest.mark.parametrize("contract", ["exactly-once", "duplicate,unsolicited", "unclaimed", "lossy"])
@pytest.mark.parametrize("scope", both_schedulers(Scope(("load_save",))), ids=str)
def test_one_request_under_every_contract(scope: Scope, contract: str) -> None:
    assert walk(scope, contract) > 60


def test_preemption_and_prefix_sharing() -> None:
    assert walk(Scope(("local", "load"), "async", blocks=4, block_size=2, output_tokens=3), "exactly-once") > 1000
    assert walk(Scope(("load", "save"), prefix_sharing=True), "exactly-once") > 1000


@pytest.mark.slow
@pytest.mark.parametrize("name", ["small", "pressure", "prefix", "stops"])
def test_the_named_scopes(name: str) -> None:
    for scope in named_scope(name):
        assert walk(scope, "exactly-once"), str(scope)
