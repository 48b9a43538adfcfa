"""What must be possible: a relation in which nothing is ever given back or reported breaks no safety property and helps nobody.

Each says when an action may happen, with which choices. It is proved with the invariant, like everything else.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvmodel.relation.ownership import live
from kvmodel.relation.terms import Formula, Term, Variable, forall
from kvmodel.relation.vocabulary import (
    BEHIND_STEPS,
    BUILT,
    IN_FLIGHT,
    NOTHING,
    answer,
    any_step,
    arrived,
    awaited,
    b,
    d,
    giving_back,
    held_back,
    q,
    r,
    s,
    stage,
    transfer,
)


@dataclass(frozen=True, slots=True)
class Possible:
    """Whenever ``premise`` holds, the action may happen with these ``choices`` for its parameters."""

    action: str
    name: str
    premise: Formula
    choices: dict[Variable, Term]


POSSIBLE = (
    Possible(
        "abort", "a request that is not over can be aborted", live(r), {answer: NOTHING, giving_back: BEHIND_STEPS}
    ),
    Possible("wake", "a load that was reported can be taken note of", arrived(r), {}),
    Possible(
        "give_back",
        "a block that was held back can go to the pool when no step is in flight",
        held_back(b) & forall(any_step, ~stage.of(any_step).is_(IN_FLIGHT)),
        {},
    ),
    Possible("dispatch", "a step that is built can be dispatched", stage.of(s).is_(BUILT), {}),
    Possible("process", "a step in flight can be processed", stage.of(s).is_(IN_FLIGHT), {}),
    Possible(
        "report",
        "a transfer that is awaited can be reported to the request that waits",
        awaited(d, r) & transfer(d, r),
        {q: r, giving_back: BEHIND_STEPS},
    ),
)
"""For the scheduler, the engine and the connector."""
