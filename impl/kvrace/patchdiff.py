"""What a diff changes in the verdicts on a scheduler: it is checked without and with it, each in a process of its own.

``kvrace diff`` with two subjects asks whether both do the same; a patch is there to do something else, so here each finding is
asked for: is it new, gone, or still there? Computes; prints nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from kvmodel.contract import Contract
from kvmodel.port import Identity
from kvmodel.scope import Scheduling, Scope
from kvrace.check import Limits, check
from kvrace.replay import without_lines
from kvrace.result import CheckResult, Progress, Verdict, Violation
from kvrace.subjects import choose_patched
from kvrace.watchdog import ending
from kvrace.workers import apart

Fate = Literal["new", "gone", "still there", "not decided"]
FATES: tuple[Fate, ...] = ("new", "still there", "not decided", "gone")
"""What became of a finding. It is not decided where one side found it, and the other was not exhausted."""


class Compared(NamedTuple):
    """What is checked twice: the subject, the file of the diff, and over what."""

    spec: str
    patch: str
    scope_name: str
    scopes: tuple[Scope, ...]
    scheduler: str | None
    contract: Contract


class Side(NamedTuple):
    """One of the two pieces of work."""

    patched: bool

    def __str__(self) -> str:
        return "with the patch" if self.patched else "as it is"


@dataclass(frozen=True, slots=True)
class Checked:
    """One side. ``identities`` are its schedulers, also those that a limit left no time for."""

    identities: tuple[Identity, ...]
    result: CheckResult


@dataclass(frozen=True, slots=True)
class FindingFate:
    """A finding on one side or on both. Where it is on both, the line of the code may be another one."""

    fate: Fate
    before: Violation | None
    after: Violation | None

    @property
    def violation(self) -> Violation:
        """With the patch if it is there."""
        found = self.after or self.before
        assert found is not None
        return found


@dataclass(frozen=True, slots=True)
class PatchDiff:
    """The two sides of ``kvrace diff --patch``."""

    before: Checked
    after: Checked

    @property
    def complete(self) -> bool:
        return self.before.result.complete and self.after.result.complete

    @property
    def verdicts(self) -> dict[str, tuple[Verdict, Verdict]]:
        """Of each property the verdict without and with the patch."""
        after = self.after.result.verdicts
        return {name: (verdict, after[name]) for name, verdict in self.before.result.verdicts.items()}

    @property
    def findings(self) -> tuple[FindingFate, ...]:
        """Every finding once: the new ones first, and of each fate the shortest order first."""
        found = [self._fate(*pair) for pair in paired(self.before.result.violations, self.after.result.violations)]
        return tuple(sorted(found, key=lambda one: (FATES.index(one.fate), len(one.violation.frames))))

    def _fate(self, before: Violation | None, after: Violation | None) -> FindingFate:
        fate: Fate = "still there"
        if before is None:
            fate = "new" if self.before.result.complete else "not decided"
        elif after is None:
            fate = "gone" if self.after.result.complete else "not decided"
        return FindingFate(fate, before, after)

    def count(self, fate: Fate) -> int:
        return sum(found.fate == fate for found in self.findings)

    @property
    def exit_code(self) -> int:
        """0 nothing new is violated, 1 a finding is new, 3 a limit was reached before that was known."""
        if self.count("new"):
            return 1
        return 0 if self.complete else 3


def paired(before: Iterable[Violation], after: Iterable[Violation]) -> list[tuple[Violation | None, Violation | None]]:
    """The findings of both sides, those that are the same together. Lines of the code move with a patch, so they do not count; of
    several in one place those with the same order go together, and then the shortest ones."""
    left, found = list(after), []
    unmatched: list[Violation] = []
    for one in before:
        same = next((other for other in left if _place(one) == _place(other) and one.events == other.events), None)
        if same is None:
            unmatched.append(one)
        else:
            left.remove(same)
            found.append((one, same))
    pairs: list[tuple[Violation | None, Violation | None]] = [*found]
    for one in unmatched:
        near = min((o for o in left if _place(o) == _place(one)), key=lambda other: len(other.frames), default=None)
        if near is not None:
            left.remove(near)
        pairs.append((one, near))
    return [*pairs, *((None, other) for other in left)]


def _place(violation: Violation) -> tuple[str, str, str]:
    """What two findings have in common that are the same one."""
    return violation.property, violation.blame, without_lines(violation.shape)


@dataclass(frozen=True, slots=True)
class _Checker:
    """Checks one side, in the process it is called in."""

    compared: Compared
    limits: Limits

    def __call__(self, side: Side, listen: Callable[[Progress], None]) -> Checked:
        compared, limits = self.compared, self.limits
        choice = choose_patched(compared.spec, None, compared.patch if side.patched else None)
        make = ending(choice.make, limits.call_seconds)
        cases = choice.cases(compared.scopes, compared.scheduler)
        first: dict[Scheduling, Scope] = {}
        for scope in cases:
            first.setdefault(scope.scheduling, scope)
        identities = tuple(make(scope).identity for scope in first.values())
        result = check(make, cases, compared.contract, scope_name=compared.scope_name, limits=limits, listen=listen)
        plain = tuple(replace(case, graph=None) for case in result.cases)  # a picture is not sent to the other process
        return Checked(identities, replace(result, cases=plain))


def patch_diff(compared: Compared, limits: Limits, tell: Callable[[str], None]) -> PatchDiff:
    """Check both sides. Raises KvraceError as :func:`kvrace.check.check` does, and for a patch that cannot be applied;
    KeyboardInterrupt from ``tell`` ends both."""
    sides = dict(apart(_Checker(compared, limits), [Side(False), Side(True)], os.cpu_count() or 1, tell))
    return PatchDiff(sides[Side(False)], sides[Side(True)])
