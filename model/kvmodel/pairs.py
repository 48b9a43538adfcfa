"""Two schedulers in lockstep: the same events, the same world, and the question where they part.

The world follows the first scheduler. As long as both answer alike it is the world of the second as well, and a pair whose two do
not is not gone on from. Neither is, unless everything is asked for, one in which the first breaks a property: what the second
should do there nobody can say by looking at the first, so the transition is *excused* and the second is not even asked.

Pairs are merged when both schedulers' states are. That is sound although one of them may be compared up to a renaming of blocks
and the other by exact ids. Names are given by where blocks stand, and both look the same where that is read, so they have the same
names; where the places of blocks held back are not alike, how the names correspond is part of the key. So with one of them by
exact ids the names, and with them the ids of the other, are exact too.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from kvmodel.differences import Difference, differences
from kvmodel.events import Event
from kvmodel.lockstep import Lockstep, Node, canonical_names

PairKey = tuple[Hashable, ...]
ENDED: PairKey = ("ended",)
"""The key of every pair that is not gone on from."""


class Pair:
    """One state of both. ``second`` is None where it was not asked: the first broke a property."""

    __slots__ = ("differences", "ended", "first", "key", "second")

    def __init__(self, first: Node, second: Node | None, found: tuple[Difference, ...]) -> None:
        self.first, self.second = first, second
        self.differences = found
        self.ended = second is None or bool(found) or first.crashed
        self.key: PairKey = ENDED if second is None or self.ended else (first.key, second.key, _names(first, second))

    @property
    def hung(self) -> bool:
        return self.first.hung or (self.second is not None and self.second.hung)

    @property
    def excused(self) -> bool:
        return self.second is None


def _names(first: Node, second: Node) -> tuple[int, ...] | None:
    """How the names of blocks in the one key correspond to those in the other; None where they are the same."""
    if first.observation.held_back == second.observation.held_back:
        return None  # what else names are given by is equal in every pair that is gone on from
    others = canonical_names(second.observation)
    return tuple(others[block] for block in canonical_names(first.observation))


class Pairs:
    """A :class:`~kvmodel.explorer.System` of two. With ``strict`` nothing is excused: the second has to do what the first does
    also where that breaks a property, and after it."""

    def __init__(self, first: Lockstep, second: Lockstep, *, strict: bool = False) -> None:
        self.first, self.second, self.strict = first, second, strict

    def initial(self) -> Pair:
        first, second = self.first.initial(), self.second.initial()
        self._leave()
        return Pair(first, second, differences(first, second))

    def again(self) -> Pairs:
        """Another walk from the start; its keys can be compared with those of this one."""
        return Pairs(self.first.again(), self.second.again(), strict=self.strict)

    @property
    def calls(self) -> int:
        """Calls into both schedulers."""
        return self.first.calls + self.second.calls

    def labels(self, pair: Pair) -> Sequence[Event]:
        return () if pair.ended else self.first.labels(pair.first)

    def successor(self, pair: Pair, event: Event) -> Pair:
        """Play ``event`` on both. Raises SubjectHang and UnknownSubject as the subjects do."""
        assert pair.second is not None
        first = self.first.successor(pair.first, event)
        if first.findings and not self.strict:
            self._leave()
            return Pair(first, None, ())
        second = self.second.successor(pair.second, event)
        self._leave()
        return Pair(first, second, differences(first, second))

    def _leave(self) -> None:
        """What both keep in classes that they share is now as the one that played last has left it."""
        self.first.leave()
        self.second.leave()

    def key(self, pair: Pair) -> Hashable:
        return pair.key
