"""Which release brought a finding, and which took it away: by halves where that is right, else release by release."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kvrace.releasematrix import CellMaker, Finding, ReleaseMatrix, release_matrix


@dataclass(frozen=True, slots=True)
class Probe:
    """A release that was looked at. ``has`` is None where it could not be explored; ``kept`` where its result was there already."""

    release: str
    has: bool | None
    kept: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class Bisection:
    """``brought`` is the first release with the finding, ``gone`` the first one after it without; None where it was in the oldest
    release, or is still in the newest. ``before`` is the last release without it that was looked at."""

    finding: Finding
    releases: tuple[str, ...]
    probes: tuple[Probe, ...]
    monotone: bool
    complete: bool

    @property
    def having(self) -> dict[str, bool]:
        return {probe.release: probe.has for probe in self.probes if probe.has is not None}

    @property
    def first(self) -> str:
        return next(release for release in self.releases if self.having.get(release))

    @property
    def last(self) -> str:
        return next(release for release in reversed(self.releases) if self.having.get(release))

    @property
    def before(self) -> str | None:
        """The last release before it that was looked at."""
        older = self.releases[: self.releases.index(self.first)]
        return next((release for release in reversed(older) if release in self.having), None)

    @property
    def gone(self) -> str | None:
        """The first release after it that was looked at."""
        newer = self.releases[self.releases.index(self.last) + 1 :]
        return next((release for release in newer if release in self.having), None)

    @property
    def exit_code(self) -> int:
        return 0 if self.complete else 3


class _Search:
    """The probes so far. A release has the finding if it has it under the contract under which it is known."""

    def __init__(
        self,
        maker: CellMaker,
        finding: Finding,
        known: ReleaseMatrix,
        listen: Callable[[str], None],
        tell: Callable[[Bisection], None],
    ) -> None:
        self.maker, self.finding, self.releases = maker, finding, known.releases
        self.contract = finding.contracts[0]
        self.listen, self.tell = listen, tell
        self.kept = {release: cell for (release, contract), cell in known.cells.items() if contract == self.contract}
        self.probes: dict[str, Probe] = {}

    def look(self, release: str) -> bool | None:
        if release in self.probes:
            return self.probes[release].has
        cell, why = self.kept.get(release), ""
        kept = cell is not None
        if cell is None:
            made = release_matrix(self.maker, [release], [self.contract], listen=self.listen)
            if made.stopped == "interrupted":
                raise KeyboardInterrupt
            cell, why = made.cells.get((release, self.contract)), made.failed.get(release, "")
        has = None if cell is None else any(one.signature == self.finding.signature for one in cell.findings)
        self.probes[release] = Probe(release, has, kept, why)
        self.tell(self.result(True, True))
        return has

    def edge(self, there: int, end: int) -> None:
        """By halves between a release that has it and an end of the list. One that cannot be explored is left out."""
        step = 1 if end else -1
        left = list(self.releases[there::step])
        while len(left) > 1:
            middle = len(left) // 2 if self.probes.get(left[-1]) else len(left) - 1  # the end of the list first
            has = self.look(left[middle])
            if has is None:
                left = [release for release in left if release != left[middle]]
            elif has:
                left = left[middle:]
            elif middle == 1:
                return
            else:
                left = left[: middle + 1]

    def result(self, monotone: bool, complete: bool) -> Bisection:
        return Bisection(self.finding, self.releases, tuple(self.probes.values()), monotone, complete)


def monotone(releases: Sequence[str], having: Mapping[str, bool]) -> bool:
    """Whether it came at most once and went at most once, as far as is known."""
    known = [having[release] for release in releases if release in having]
    changes = sum(one != other for one, other in zip(known, known[1:], strict=False))
    return changes <= 1 or (changes == 2 and not known[0])


def bisect(
    maker: CellMaker,
    finding: Finding,
    known: ReleaseMatrix,
    *,
    every: bool = False,
    listen: Callable[[str], None] = lambda _: None,
    tell: Callable[[Bisection], None] = lambda _: None,
) -> Bisection:
    """Look for both ends of a finding among the releases of ``known``, which has it. ``tell`` hears of each probe. Raises
    KvraceError as :func:`kvrace.releasematrix.release_matrix` does."""
    search = _Search(maker, finding, known, listen, tell)
    releases = search.releases
    complete = True
    try:
        having = {
            release: any(one.signature == finding.signature for one in cell.findings)
            for release, cell in search.kept.items()
        }
        if every or not monotone(releases, having):
            for release in releases:
                search.look(release)
        else:
            for known_one, end in ((finding.first, 0), (finding.last, len(releases) - 1)):
                search.look(known_one)
                search.edge(releases.index(known_one), end)
    except KeyboardInterrupt:
        complete = False
    found = {probe.release: probe.has for probe in search.probes.values() if probe.has is not None}
    known_now = {**having, **found}
    whole = complete and all(probe.has is not None for probe in search.probes.values())
    return search.result(monotone(releases, known_now), whole)
