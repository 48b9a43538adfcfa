"""How fast random orders cover (state, event) pairs, beside the explorer on the same scope. All from one process and one run."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

from hypothesis import settings

from kvmodel.contract import Contract
from kvmodel.coverage import Coverage
from kvmodel.port import Subject
from kvmodel.profiles import PROFILES
from kvmodel.scope import Scope
from kvmodel.stateful import state_machine
from kvmodel.strategies import scopes
from kvrace.check import check
from kvrace.vllm.subject import VllmSubject

SCOPE = Scope(("load", "save"), "async")
_RUNS = 200


@cache
def _subject(scope: Scope) -> Subject:
    return VllmSubject(scope)


def cover() -> dict[str, Any]:
    """Distinct pairs a second: by the explorer, by random orders in its scope, and by random orders in mixed scopes.

    Under the contract ``single``, where nothing is violated and no run ends early.
    """
    contract = Contract.parse("single")
    check(_subject, [SCOPE], contract)  # the first run fills caches
    explored = check(_subject, [SCOPE], contract)
    figures: dict[str, Any] = {
        "explorer_pairs": explored.transitions,
        "explorer_pairs_per_second": explored.transitions / explored.seconds,
    }
    for name, where in (("same_scope", SCOPE), ("mixed_scopes", scopes())):
        seen = Coverage()
        started = time.perf_counter()
        state_machine(_subject, where, contract, coverage=seen).run(settings(PROFILES["ci"], max_examples=_RUNS))
        seconds = time.perf_counter() - started
        figures |= {
            f"random_{name}_steps": seen.steps,
            f"random_{name}_pairs": seen.pairs,
            f"random_{name}_pairs_per_second": seen.pairs / seconds,
            f"random_{name}_steps_per_second": seen.steps / seconds,
            f"random_{name}_never_reached": list(seen.missing),
        }
    return figures
