"""The one result object. The terminal, the JSON, the trace files and every later report render it; none computes."""

from __future__ import annotations

import builtins
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Literal

from kvmodel.conformance.divergence import Divergence
from kvmodel.contract import Contract
from kvmodel.playback import Frame
from kvmodel.port import Identity
from kvmodel.scope import Scope
from kvrace.stategraph import StateGraph

Verdict = Literal["holds", "violated", "incomplete"]
EXIT_CODES: dict[Verdict, int] = {"holds": 0, "violated": 1, "incomplete": 3}
"""0 everything holds over the whole scope, 1 something is violated, 3 a limit was reached first (2 is a usage error)."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is; emitted about ten times a second and at the end of each case."""

    case: int
    cases: int
    scope: Scope
    states: int
    transitions: int
    frontier: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Violation:
    """One finding with a shortest order that shows it, replayed on a fresh scheduler before it is reported.

    ``frames[0]`` is the initial state; ``blocks`` are those the last event broke. With ``loop_start``, the frames from that
    index on repeat for ever (``no-stuck``). ``location`` is ``file:line in function``: the line of the scheduler's code that
    raised, that freed or gave out a broken block, or else the entry point that answered last.
    """

    property: str
    blame: str
    shape: str
    message: str
    location: str | None
    scope: Scope
    identity: Identity
    contract: Contract
    frames: tuple[Frame, ...]
    blocks: tuple[int, ...] = ()
    loop_start: int | None = None

    @builtins.property
    def signature(self) -> tuple[str, str, str]:
        return (self.property, self.blame, self.shape)

    @builtins.property
    def events(self) -> tuple[str, ...]:
        """The order, one line of text an event."""
        return tuple(str(frame.event) for frame in self.frames[1:])


@dataclass(frozen=True, slots=True)
class FoundDivergence:
    """One kind of divergence from the relation, with a shortest order that shows it, replayed on a fresh scheduler.

    ``times`` counts the transitions that show it. ``unexplained`` are those among them that break no property and begin in a state
    that breaks none; where there are some, the order shows one of them.
    """

    divergence: Divergence
    times: int
    unexplained: int
    scope: Scope
    identity: Identity
    contract: Contract
    frames: tuple[Frame, ...]

    @property
    def events(self) -> tuple[str, ...]:
        """The order, one line of text an event."""
        return tuple(str(frame.event) for frame in self.frames[1:])


@dataclass(frozen=True, slots=True)
class Conformance:
    """What the relation with the completion policy ``policy`` says of the transitions. Those that are not ``judged`` come after a
    transfer was lost: what a scheduler still waits for cannot be seen then."""

    policy: str
    judged: int
    not_judged: int
    divergences: tuple[FoundDivergence, ...]

    @property
    def unexplained(self) -> int:
        """How many transitions diverge, break no property, and begin in a state that breaks none."""
        return sum(found.unexplained for found in self.divergences)

    @property
    def excused(self) -> int:
        """How many diverge and break a property, or begin in a state that is broken already."""
        return sum(found.times - found.unexplained for found in self.divergences)


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One scope on one scheduler class, which is defined at ``location`` (``file:line in class``).

    ``stopped`` says why an incomplete exploration ended; ``reached`` counts the transitions that show each milestone
    (:mod:`kvmodel.milestones`). ``graph`` is what was explored, where it is small enough to draw. ``conformance`` is None where
    nobody asked for it.
    """

    scope: Scope
    identity: Identity
    location: str
    states: int
    transitions: int
    calls: int
    seconds: float
    stopped: str | None
    verdicts: dict[str, Verdict]
    violations: tuple[Violation, ...]
    reached: dict[str, int]
    graph: StateGraph | None
    conformance: Conformance | None = None

    @property
    def complete(self) -> bool:
        return self.stopped is None


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Everything one ``kvrace check`` found. ``planned`` has one scope for each case; when a limit was reached, the last of them
    were not run. ``stopped`` says why the run ended before its end, or else why the first case that was cut short was."""

    scope_name: str
    contract: Contract
    properties: tuple[str, ...]
    cases: tuple[CaseResult, ...]
    planned: tuple[Scope, ...]
    seconds: float
    stopped: str | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def cases_planned(self) -> int:
        return len(self.planned)

    @property
    def not_run(self) -> tuple[Scope, ...]:
        """The cases that a limit left no time for: about them nothing is known."""
        return self.planned[len(self.cases) :]

    @property
    def stopped_in(self) -> int:
        """The number, from 1, of the case that ``stopped`` speaks of."""
        numbers = (number for number, case in enumerate(self.cases, 1) if case.stopped == self.stopped)
        return next(numbers, max(1, len(self.cases)))

    @property
    def complete(self) -> bool:
        return (
            self.stopped is None and len(self.cases) == self.cases_planned and all(case.complete for case in self.cases)
        )

    @property
    def states(self) -> int:
        return sum(case.states for case in self.cases)

    @property
    def transitions(self) -> int:
        return sum(case.transitions for case in self.cases)

    @property
    def calls(self) -> int:
        return sum(case.calls for case in self.cases)

    @property
    def reached(self) -> dict[str, int]:
        """How many transitions show each milestone, over all cases."""
        total: Counter[str] = Counter()
        for case in self.cases:
            total.update(case.reached)
        return dict(total)

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """Per property over all cases: violated if any case violates it, holds only if every case was exhausted."""
        return {name: self._combined([case.verdicts[name] for case in self.cases]) for name in self.properties}

    def _combined(self, verdicts: list[Verdict]) -> Verdict:
        if "violated" in verdicts:
            return "violated"
        return "holds" if self.complete and "incomplete" not in verdicts else "incomplete"

    @property
    def verdict(self) -> Verdict:
        """Over everything that was asked for. A divergence that no broken property explains is a violation as well."""
        if self.conformance is not None and self.conformance.unexplained:
            return "violated"
        return self._combined(list(self.verdicts.values()))

    @property
    def conformance(self) -> Conformance | None:
        """Over all cases, with the shortest order to each divergence; one that no broken property explains comes first."""
        parts = [case.conformance for case in self.cases if case.conformance is not None]
        if not parts:
            return None
        best: dict[tuple[str, str, str], FoundDivergence] = {}
        for found in (found for part in parts for found in part.divergences):
            known = best.get(found.divergence.signature, found)
            first = min(known, found, key=lambda one: (not one.unexplained, len(one.frames)))
            if known is not found:
                first = replace(
                    first, times=known.times + found.times, unexplained=known.unexplained + found.unexplained
                )
            best[found.divergence.signature] = first
        return Conformance(
            parts[0].policy,
            sum(part.judged for part in parts),
            sum(part.not_judged for part in parts),
            tuple(sorted(best.values(), key=lambda one: (not one.unexplained, len(one.frames)))),
        )

    @property
    def violations(self) -> tuple[Violation, ...]:
        """Of each distinct finding the shortest order over all cases, in the order of the properties."""
        best: dict[tuple[str, str, str], Violation] = {}
        for case in self.cases:
            for violation in case.violations:
                known = best.get(violation.signature)
                if known is None or len(violation.frames) < len(known.frames):
                    best[violation.signature] = violation
        rank = {name: index for index, name in enumerate(self.properties)}
        return tuple(sorted(best.values(), key=lambda v: (rank[v.property], len(v.frames), v.blame, v.shape)))

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.verdict]
