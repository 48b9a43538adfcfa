"""The statements: for which policy, contract and assumptions the safety properties hold for any number of everything.

Of each policy and contract the strongest statement is listed: the fewest assumptions. That an assumption is needed is shown by an
order that breaks a property without it, in the instance that stands beside the assumption.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kvmodel.contract import Contract
from kvmodel.relation.finite import FiniteInstance
from kvmodel.relation.model import Model
from kvmodel.relation.policies import policy_named
from kvmodel.relation.safety import LOADS_ONCE, UNASKED_IN_TIME, UNIQUE_IDS
from kvmodel.relation.scoped import scoped
from kvmodel.scope import Scope

WHY: dict[str, str] = {
    UNIQUE_IDS: "a report names its request by id: where an id lives again, a report of its first life that comes late, again or "
    "unasked is, to the scheduler, the one that its second life waits for",
    UNASKED_IN_TIME: "a report that nobody asked for, if it is taken after its request has ended with a save of its own, is to the "
    "scheduler the report of that save; vLLM takes the reports of an output after its tokens",
    LOADS_ONCE: "a report that comes again for the first load of a request is, to the scheduler, the report of its second load",
}
"""Why an assumption is needed, in words. That no other policy could do without is argued here, not proved."""


@dataclass(frozen=True, slots=True)
class Search:
    """A finite instance in which orders are looked for, and how many events long. ``ids`` names the requests if not by themselves;
    ``loads_again`` lets one load more than once, ``failures`` lets loads fail."""

    scope: Scope
    ids: tuple[str, ...] = ()
    loads_again: bool = False
    failures: bool = False
    most: int = 6

    def instance(self, model: Model) -> FiniteInstance:
        """With one block for each request: the relation knows no sizes, so that is enough to hold, to share and to lose one."""
        blocks = len(self.scope.requests)
        return scoped(
            model, self.scope, blocks=blocks, failures=self.failures, loads_again=self.loads_again, ids=self.ids
        )

    @property
    def playable(self) -> bool:
        """A scope has no id that is used again, no second load and no load that fails: such an order can be played no scheduler
        yet."""
        return not (self.ids or self.loads_again or self.failures)

    def __str__(self) -> str:
        extra = [f"ids {','.join(self.ids)}"] * bool(self.ids) + ["a request may load again"] * self.loads_again
        extra += ["loads may fail"] * self.failures
        return " · ".join([",".join(self.scope.requests), self.scope.scheduling, *extra])


SEED = Search(Scope(("load_save",)))


def _again(kind: str) -> Search:
    """Two requests, one after the other, with one id."""
    return Search(Scope((kind, kind)), ids=("A", "A"))


@dataclass(frozen=True, slots=True)
class Theorem:
    """``needed``: for each assumption where to find an order that breaks a property without it."""

    policy: str
    contract: str
    needed: Mapping[str, Search] = field(default_factory=dict)
    remark: str = ""

    @property
    def assumed(self) -> frozenset[str]:
        return frozenset(self.needed)

    @property
    def model(self) -> Model:
        return self.without(None)

    def without(self, assumption: str | None) -> Model:
        """The model that lacks one of the assumptions."""
        return Model(policy_named(self.policy), Contract.parse(self.contract), self.assumed - {assumption})


_TOLD = "of the transfers that the scheduler was told of: of others no scheduler can know"
_UNASKED = {UNIQUE_IDS: _again("save"), UNASKED_IN_TIME: Search(Scope(("save",), early_stop=True))}
_LATE = {UNIQUE_IDS: _again("save"), LOADS_ONCE: Search(Scope(("load",)), loads_again=True)}
THEOREMS: tuple[Theorem, ...] = (
    Theorem("wait_for_all", "exactly-once"),
    Theorem("wait_for_all", "single"),
    Theorem(
        "wait_for_all", "lossy", remark="without no-leak and no-stuck, which a lost report breaks in any scheduler"
    ),
    Theorem("wait_for_all", "unclaimed", {UNIQUE_IDS: _again("save")}, _TOLD),
    Theorem("wait_for_all", "unsolicited", _UNASKED),
    Theorem("wait_for_all", "duplicate", _LATE),
    Theorem(
        "wait_for_all",
        "unclaimed,duplicate,unsolicited,lossy",
        {**_LATE, **_UNASKED},
        f"{_TOLD}; without no-leak and no-stuck",
    ),
    Theorem("wait_for_both", "exactly-once"),
    Theorem("skip", "single"),
    Theorem("skip", "single,lossy", remark="without no-leak and no-stuck"),
    Theorem("skip", "single,unclaimed", {UNIQUE_IDS: _again("save")}, _TOLD),
    Theorem("assert", "single"),
    Theorem("assert", "single,lossy", remark="without no-leak and no-stuck"),
)


def theorem_for(policy: str, contract: Contract) -> Theorem | None:
    """The statement of the list for them."""
    return next((t for t in THEOREMS if t.policy == policy and Contract.parse(t.contract) == contract), None)


def searches(model: Model) -> tuple[Search, ...]:
    """Where an order that breaks something is looked for when a model has no proof: the smallest instance first."""
    found = [SEED]
    if model.contract.unsolicited and UNASKED_IN_TIME not in model.assumed:
        found.append(Search(Scope(("save",), early_stop=True)))
    if UNIQUE_IDS not in model.assumed:
        found += [_again("save"), _again("load_save")]
    if LOADS_ONCE not in model.assumed:
        found.append(Search(Scope(("load",)), loads_again=True))
    return tuple(found)
