"""The whole relation for one completion policy, one connector contract and one way of naming requests."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from kvmodel.contract import FURTHER, Contract
from kvmodel.errors import KvraceError
from kvmodel.relation.connector import connector_actions
from kvmodel.relation.lifecycle import add, ends
from kvmodel.relation.policies import Policy
from kvmodel.relation.reports import reclaim
from kvmodel.relation.safety import LOADS_ONCE, UNASKED_IN_TIME, UNIQUE_IDS, invariant, properties
from kvmodel.relation.scheduling import scheduling_actions
from kvmodel.relation.terms import Action, Named, forall
from kvmodel.relation.vocabulary import name_of, x, y


@dataclass(frozen=True)
class Model:
    """``assumed``: names of :data:`~kvmodel.relation.safety.ASSUMPTIONS`."""

    policy: Policy
    contract: Contract
    assumed: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Raises KvraceError for a contract that the relation does not know."""
        unknown = sorted(self.contract.names & FURTHER.keys())
        if unknown:
            raise KvraceError(
                f"the relation does not know contract `{unknown[0]}`; only orders played on a scheduler do"
            )

    @cached_property
    def actions(self) -> tuple[Action, ...]:
        return (
            add(),
            *ends(self.contract, self.policy),
            *scheduling_actions(self.contract, LOADS_ONCE in self.assumed),
            *((reclaim(),) if self.policy.reclaims else ()),
            *connector_actions(self.policy, self.contract, UNASKED_IN_TIME in self.assumed),
        )

    @cached_property
    def properties(self) -> tuple[Named, ...]:
        return properties(self.contract)

    @cached_property
    def invariant(self) -> tuple[Named, ...]:
        return invariant(self.policy, self.contract, self.assumed)

    @cached_property
    def axioms(self) -> tuple[Named, ...]:
        """What is true of that which never changes."""
        same = name_of.of(x).is_(name_of.of(y)) >> x.is_(y)
        return (Named("every request has an id of its own", forall(x, y, same)),) if UNIQUE_IDS in self.assumed else ()
