"""The one result object of ``kvrace diff``. The terminal and the JSON render it; neither computes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from kvmodel.contract import Contract
from kvmodel.differences import Difference
from kvmodel.playback import Frame
from kvmodel.port import Identity
from kvmodel.scope import Scope

Sameness = Literal["same", "different", "incomplete"]
EXIT_CODES: dict[Sameness, int] = {"same": 0, "different": 1, "incomplete": 3}
"""0 the same over the whole scope, 1 there is a difference, 3 a limit was reached first (2 is a usage error)."""


@dataclass(frozen=True, slots=True)
class FoundDifference:
    """One kind of difference with a shortest order that shows it, played on two fresh schedulers before it is reported.

    ``kind``: the kind of the last event, and the aspects that are not the same. ``times`` counts the transitions that show it.
    ``frames`` are those of the first scheduler, from the initial state on; ``second`` is what the second one shows in place of the
    last of them.
    """

    kind: tuple[str, ...]
    differences: tuple[Difference, ...]
    times: int
    scope: Scope
    contract: Contract
    identities: tuple[Identity, Identity]
    frames: tuple[Frame, ...]
    second: Frame

    @property
    def events(self) -> tuple[str, ...]:
        """The order, one line of text an event."""
        return tuple(str(frame.event) for frame in self.frames[1:])


@dataclass(frozen=True, slots=True)
class DiffCase:
    """One scope on two scheduler classes. ``states`` are pairs of states. ``compared`` and ``excused`` count transitions, and
    ``broken`` the excused ones by the properties that the first scheduler breaks there: one may break several."""

    scope: Scope
    identities: tuple[Identity, Identity]
    states: int
    compared: int
    excused: int
    broken: dict[str, int]
    calls: int
    seconds: float
    stopped: str | None
    differences: tuple[FoundDifference, ...]

    @property
    def complete(self) -> bool:
        return self.stopped is None


@dataclass(frozen=True, slots=True)
class DiffResult:
    """Everything one ``kvrace diff`` found. ``planned`` has one scope for each case; when a limit was reached, the last of them
    were not run, and ``stopped`` says which limit."""

    scope_name: str
    contract: Contract
    strict: bool
    cases: tuple[DiffCase, ...]
    planned: tuple[Scope, ...]
    seconds: float
    stopped: str | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def complete(self) -> bool:
        return self.stopped is None and len(self.cases) == len(self.planned)

    def _sum(self, read: Callable[[DiffCase], int]) -> int:
        return sum(read(case) for case in self.cases)

    @property
    def states(self) -> int:
        return self._sum(lambda case: case.states)

    @property
    def compared(self) -> int:
        return self._sum(lambda case: case.compared)

    @property
    def excused(self) -> int:
        return self._sum(lambda case: case.excused)

    @property
    def calls(self) -> int:
        return self._sum(lambda case: case.calls)

    @property
    def broken(self) -> dict[str, int]:
        """The excused transitions by the properties that the first scheduler breaks there."""
        total: Counter[str] = Counter()
        for case in self.cases:
            total.update(case.broken)
        return dict(total)

    @property
    def differences(self) -> tuple[FoundDifference, ...]:
        """Of each kind of difference a shortest order over all cases; the shortest first."""
        best: dict[tuple[str, ...], FoundDifference] = {}
        for found in (found for case in self.cases for found in case.differences):
            known = best.get(found.kind)
            if known is None:
                best[found.kind] = found
            else:
                shortest = min(known, found, key=lambda one: len(one.frames))
                best[found.kind] = replace(shortest, times=known.times + found.times)
        return tuple(sorted(best.values(), key=lambda one: (len(one.frames), one.kind)))

    @property
    def verdict(self) -> Sameness:
        if any(case.differences for case in self.cases):
            return "different"
        return "same" if self.complete else "incomplete"

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.verdict]
