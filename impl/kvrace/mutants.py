"""Planted faults and the table of who caught them: how we know that each property can fail.

A mutant is a scheduler with one known fault. It says beforehand which property has to catch it and in which scope, and it is
killed only when that very property is violated there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from kvmodel.contract import Contract
from kvmodel.properties import PROPERTY_NAMES
from kvmodel.scope import Scope
from kvrace.check import Limits, MakeSubject, check
from kvrace.result import CheckResult, FoundDivergence, Progress, Verdict, Violation
from kvrace.watchdog import ending

Outcome = Literal["killed", "survived", "undetermined"]

MUTANT_LIMITS = Limits(max_states=20_000, call_seconds=2.0)
"""A fault may make the state space endless, and one of them makes a call endless."""


SPECIFICATION = "wait_for_all"
"""The completion policy that mutants are held against: the one that is right."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted fault. ``property`` is the one meant to catch it; ``breaks`` says in one line what the fault is."""

    name: str
    breaks: str
    property: str
    make_subject: MakeSubject
    scope: Scope
    contract: Contract = field(default_factory=Contract)

    def __post_init__(self) -> None:
        if self.property not in PROPERTY_NAMES:
            raise ValueError(f"mutant {self.name!r}: there is no property {self.property!r}")


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one mutant."""

    mutant: Mutant
    result: CheckResult

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """The verdict of each property. ``incomplete`` means: not violated before a limit was reached."""
        return self.result.verdicts

    @property
    def outcome(self) -> Outcome:
        """``survived`` only if the property holds over the whole scope; ``undetermined`` if a limit or the user came first."""
        outcomes: dict[Verdict, Outcome] = {"violated": "killed", "holds": "survived", "incomplete": "undetermined"}
        return outcomes[self.verdicts[self.mutant.property]]

    @property
    def killed(self) -> bool:
        """Whether the property meant to catch the fault did."""
        return self.outcome == "killed"

    @property
    def interrupted(self) -> bool:
        """Whether the user ended the run of this mutant."""
        return self.result.stopped == "interrupted"

    @property
    def evidence(self) -> Violation | None:
        """The shortest order that breaks the property meant to catch the fault; None when it was not killed."""
        orders = [found for found in self.result.violations if found.property == self.mutant.property]
        return min(orders, key=lambda found: len(found.events), default=None)

    @property
    def shortest(self) -> int | None:
        """Events of that order, those of a loop not counted; None when the mutant was not killed."""
        found = self.evidence
        if found is None:
            return None
        return len(found.events) if found.loop_start is None else found.loop_start

    @property
    def divergence(self) -> FoundDivergence | None:
        """The divergence from the specification that says most: a false guard if there is one, and of those the shortest order."""
        conformance = self.result.conformance
        found = conformance.divergences if conformance else ()
        return min(found, key=lambda one: (one.divergence.kind != "guard", len(one.events)), default=None)

    @property
    def also(self) -> tuple[str, ...]:
        """Other properties that saw the fault."""
        return tuple(
            name for name, verdict in self.verdicts.items() if verdict == "violated" and name != self.mutant.property
        )


def _nobody(_: Progress) -> None:
    """Hears of no progress."""


def _is_specified(scope: Scope) -> bool:
    other = scope.lifecycle or scope.window or scope.drafts or scope.load_failures
    return scope.ranks == 1 and not other and not any(map(scope.loads_in_step, range(len(scope.requests))))


def run_mutant(mutant: Mutant, limits: Limits = MUTANT_LIMITS, progress: Callable[[Progress], None] = _nobody) -> Row:
    """Exhaust the mutant's scope, judge every property, and hold every transition against the specification where that knows the
    scope."""
    make = ending(mutant.make_subject, limits.call_seconds)
    result = check(
        make,
        [mutant.scope],
        mutant.contract,
        scope_name=mutant.name,
        limits=limits,
        listen=progress,
        conformance=SPECIFICATION if _is_specified(mutant.scope) else None,
    )
    return Row(mutant, result)


def kill_table(
    mutants: Sequence[Mutant],
    limits: Limits = MUTANT_LIMITS,
    listen: Callable[[Mutant, float], None] = lambda _mutant, _seconds: None,
    progress: Callable[[Progress], None] = _nobody,
) -> Iterator[Row]:
    """One row for each mutant, as soon as it is known; the last one if it is interrupted. ``listen`` gets each mutant and the
    seconds it took, ``progress`` what :func:`kvrace.check.check` reports."""
    for mutant in mutants:
        started = time.monotonic()
        row = run_mutant(mutant, limits, progress)
        listen(mutant, time.monotonic() - started)
        yield row
        if row.interrupted:
            return
