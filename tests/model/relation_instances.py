"""The finite instances that the tests of the relation share."""

from __future__ import annotations

from functools import cache

from kvmodel.contract import Contract
from kvmodel.named_scopes import named_scope
from kvmodel.relation.finite import FiniteInstance
from kvmodel.relation.model import Model
from kvmodel.relation.policies import POLICIES
from kvmodel.relation.scoped import scoped
from kvmodel.scope import Scope


@cache
def small_instances(policy: str) -> dict[str, FiniteInstance]:
    """An instance for each case of scope ``small``, by its requests and its scheduler.

    The relation knows no sizes, so a case does not say how many blocks its instance has. It gets two for a single request, which
    can then own more than one, and one a request for a pair, whose requests then compete: each may take both.
    """
    return {name_of(case): instance(policy, case.requests, case.scheduling) for case in named_scope("small")}


def name_of(case: Scope) -> str:
    return f"{','.join(case.requests)} {case.scheduling}"


def instance(
    policy: str, requests: tuple[str, ...], scheduling: str, blocks: int = 2, contract: str = "exactly-once"
) -> FiniteInstance:
    model = Model(POLICIES[policy], Contract.parse(contract))
    return scoped(model, Scope(requests, scheduling), blocks=blocks)  # type: ignore[arg-type]
