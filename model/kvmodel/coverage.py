"""What random runs have seen: how many steps, and how many distinct (state, event) pairs and situations among them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from kvmodel.events import Event
from kvmodel.milestones import MILESTONE_NAMES
from kvmodel.scope import Scope


class Coverage:
    """Counts over many runs. A pair that is seen again counts once, so pairs can be compared with an explorer's transitions.

    ``reached`` counts the steps that show each milestone (:mod:`kvmodel.milestones`).
    """

    def __init__(self) -> None:
        self.runs = 0
        self.steps = 0
        self.reached: Counter[str] = Counter()
        self._pairs: set[int] = set()

    @property
    def pairs(self) -> int:
        """Distinct pairs of a state and an event that was played there."""
        return len(self._pairs)

    @property
    def missing(self) -> tuple[str, ...]:
        """The milestones that no step has shown: about them a silent run says nothing."""
        return tuple(name for name in MILESTONE_NAMES if not self.reached[name])

    def begin(self) -> None:
        """A run begins with a fresh scheduler."""
        self.runs += 1

    def step(self, scope: Scope, state: Hashable, event: Event, milestones: tuple[str, ...]) -> None:
        """``event`` was played in the state with the key ``state`` and has shown ``milestones``."""
        self.steps += 1
        self._pairs.add(hash((scope, state, event)))
        self.reached.update(milestones)
