"""Releases against contracts: which property each release breaks, by which shortest order, and how long each finding was there.

A release is explored in a process of its own, which keeps every cell that it has finished in a file (:mod:`kvrace.cells`). What is
shown is read from those files, so a run that was ended in whatever way goes on where it was. Computes; prints nothing.
"""

from __future__ import annotations

import linecache
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kvmodel.contract import Contract
from kvmodel.errors import KvraceError
from kvmodel.properties import PROPERTY_NAMES
from kvmodel.scope import SCHEDULINGS, Scope
from kvrace.cells import Cell, CellFinding, Explored, cell_path, determined_by, read_cell, write_cell
from kvrace.check import Limits, check
from kvrace.installed import installed_vllm
from kvrace.lab.store import folder_there, install
from kvrace.lab.use import PREFIX
from kvrace.result import CheckResult, Progress, Verdict, Violation
from kvrace.signature import Signature, place_of
from kvrace.subjects import choose_subject
from kvrace.trace import write_trace
from kvrace.watchdog import ending
from kvrace.workers import apart

TRACES = "traces"
"""The folder below that of the cells which the orders are in."""


class Wanted(NamedTuple):
    """One piece of work: the contracts of a release that no cell is kept of, each with the file it goes to."""

    release: str
    cells: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return self.release


class Where(NamedTuple):
    """One column of a cell: a release under a contract, with one way of scheduling."""

    release: str
    contract: str
    scheduling: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding with everything it was found in. ``first`` and ``last`` are releases; ``without`` are those between them that were
    explored under one of its contracts and do not have it."""

    signature: Signature
    found: Mapping[Where, CellFinding]
    releases: tuple[str, ...]
    without: tuple[str, ...]

    @property
    def id(self) -> str:
        return self.signature.id

    @property
    def first(self) -> str:
        return self.releases[0]

    @property
    def last(self) -> str:
        return self.releases[-1]

    @property
    def contracts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(where.contract for where in self.found))

    @property
    def shortest(self) -> CellFinding:
        """Of the newest release that has it the shortest order."""
        newest = [found for where, found in self.found.items() if where.release == self.last]
        return min(newest, key=lambda one: one.length)


@dataclass(frozen=True, slots=True)
class ReleaseMatrix:
    """Every cell that is known. ``failed`` says of a release why it could not be explored; ``explored`` counts what was done now,
    and not kept from before. ``stopped`` says why the run ended before its end."""

    releases: tuple[str, ...]
    contracts: tuple[str, ...]
    scope_name: str
    scopes: tuple[Scope, ...]
    cells: Mapping[tuple[str, str], Cell]
    failed: Mapping[str, str]
    explored: int
    seconds: float
    stopped: str | None = None
    properties: tuple[str, ...] = field(default=PROPERTY_NAMES)

    @property
    def missing(self) -> list[tuple[str, str]]:
        """Releases and contracts of which nothing is known."""
        wanted = [(release, contract) for release in self.releases for contract in self.contracts]
        return [place for place in wanted if place not in self.cells]

    @property
    def complete(self) -> bool:
        return not self.missing

    @property
    def exit_code(self) -> int:
        """0 when every cell is known, whatever it says; 3 when some are not."""
        return 0 if self.complete else 3

    @property
    def states(self) -> int:
        return sum(one.states for cell in self.cells.values() for one in cell.explored.values())

    @property
    def schedulings(self) -> tuple[str, ...]:
        played = {scope.scheduling for scope in self.scopes}
        return tuple(name for name in SCHEDULINGS if name in played)

    def verdict(self, where: Where, name: str) -> Verdict | None:
        """None where nothing is known, or the release has no such scheduling."""
        cell = self.cells.get((where.release, where.contract))
        explored = cell.explored.get(where.scheduling) if cell else None
        return explored.verdicts[name] if explored else None

    def shortest(self, where: Where, name: str) -> CellFinding | None:
        """The shortest order that breaks the property there, the scheduler's before the connector's."""
        cell = self.cells.get((where.release, where.contract))
        broken = (
            [one for one in cell.findings if (one.property, one.scheduling) == (name, where.scheduling)] if cell else []
        )
        return min(broken, key=lambda one: (one.blame != "scheduler", one.length), default=None)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Each distinct finding: those of the newest releases first, and then by property and length."""
        together: dict[Signature, dict[Where, CellFinding]] = {}
        for release, contract in ((r, c) for r in self.releases for c in self.contracts):
            cell = self.cells.get((release, contract))
            for one in cell.findings if cell else ():
                where = Where(release, contract, one.scheduling)
                together.setdefault(one.signature, {}).setdefault(where, one)
        found = [self._finding(signature, places) for signature, places in together.items()]
        rank = {name: number for number, name in enumerate(self.properties)}
        order = {release: number for number, release in enumerate(self.releases)}
        return tuple(
            sorted(found, key=lambda one: (-order[one.last], rank[one.signature.property], one.shortest.length, one.id))
        )

    def _finding(self, signature: Signature, found: Mapping[Where, CellFinding]) -> Finding:
        having = {where.release for where in found}
        contracts = {where.contract for where in found}
        releases = tuple(release for release in self.releases if release in having)
        between = self.releases[self.releases.index(releases[0]) : self.releases.index(releases[-1])]
        looked = {release for release, contract in self.cells if contract in contracts}
        return Finding(signature, found, releases, tuple(r for r in between if r in looked and r not in having))


@dataclass(frozen=True, slots=True)
class CellMaker:
    """Explores a release, in the process it is called in, and keeps its cells. Gives None, or why nothing can be said of it."""

    folder: Path
    scope_name: str
    scopes: tuple[Scope, ...]
    limits: Limits = Limits()

    def __call__(self, wanted: Wanted, listen: Callable[[Progress], None]) -> str | None:
        choice = choose_subject(f"{PREFIX}{wanted.release}", None)
        make = ending(choice.make, self.limits.call_seconds)
        cut = []
        for contract, file in wanted.cells:
            results: dict[str, CheckResult] = {}
            for scheduling in choice.schedulings:
                cases = [scope for scope in self.scopes if scope.scheduling == scheduling]
                if cases:
                    results[scheduling] = check(
                        make,
                        cases,
                        Contract.parse(contract),
                        scope_name=self.scope_name,
                        limits=self.limits,
                        listen=listen,
                    )
            if all(result.complete for result in results.values()):
                write_cell(Path(file), self._cell(wanted.release, contract, results))
            else:
                cut.append(contract)
        return f"not exhausted under {', '.join(cut)}: a limit was reached" if cut else None

    def _cell(self, release: str, contract: str, results: Mapping[str, CheckResult]) -> Cell:
        explored, findings = {}, []
        root = installed_vllm().folder.parent
        for scheduling, result in results.items():
            scheduler = result.cases[0].identity.scheduler
            explored[scheduling] = Explored(scheduler, result.states, result.transitions, result.verdicts)
            findings += [self._finding(release, violation, root) for violation in result.violations]
        return Cell(release, contract, explored, tuple(findings))

    def _finding(self, release: str, violation: Violation, root: Path) -> CellFinding:
        trace = write_trace(violation, f"{PREFIX}{release}", None, self.folder / TRACES)
        return CellFinding(
            violation.property,
            violation.blame,
            violation.message,
            violation.location,
            _code(violation.location, root),
            violation.scope.scheduling,
            violation.scope.as_dict(),
            violation.events,
            violation.loop_start,
            f"{TRACES}/{trace.name}",
        )


def _code(location: str | None, root: Path) -> str:
    """The text of the line at a location, without what is around it."""
    place = place_of(location)
    return " ".join(linecache.getline(str(root / place[0]), place[1]).split()) if place else ""


def release_matrix(
    maker: CellMaker,
    releases: Sequence[str],
    contracts: Sequence[str],
    *,
    fresh: bool = False,
    jobs: int = 1,
    listen: Callable[[str], None] = lambda _: None,
) -> ReleaseMatrix:
    """Explore what no cell is kept of, ``jobs`` releases at a time; with ``fresh``, everything. A KeyboardInterrupt from ``listen``
    ends it and keeps what was finished. Raises KvraceError where the folder cannot be written."""
    started = time.monotonic()
    failed: dict[str, str] = {}
    files: dict[tuple[str, str], Path] = {}
    stopped = None
    done = 0
    try:
        for release in releases:
            listen(f"looking for vLLM {release}")
            files.update(_files(maker, release, contracts, failed))
        work = _work(files, fresh)
        deadline = maker.limits.deadline

        def tell(at_work: str) -> None:
            listen(f"{done}/{len(work)} releases  {time.monotonic() - started:,.0f} s  {at_work}")

        def late() -> bool:
            return deadline is not None and time.monotonic() > deadline

        for wanted, why in apart(maker, work, jobs, tell, late, lambda _, message: message):
            done += 1
            if why:
                failed[wanted.release] = why
        if done < len(work):
            stopped = "time limit"
    except KeyboardInterrupt:
        stopped = "interrupted"
    cells = {place: cell for place, file in files.items() if (cell := read_cell(file, *place)) is not None}
    return ReleaseMatrix(
        tuple(releases), tuple(contracts), maker.scope_name, maker.scopes, cells, failed, done, time.monotonic() - started, stopped
    )  # fmt: skip


def _files(
    maker: CellMaker, release: str, contracts: Iterable[str], failed: dict[str, str]
) -> dict[tuple[str, str], Path]:
    """The file of each cell of a release, which is fetched if it is not there."""
    try:
        package = _package(release) or install(release).folders[0]
    except KvraceError as error:
        failed[release] = str(error)
        return {}
    return {
        (release, contract): cell_path(maker.folder, release, contract, determined_by(package, contract, maker.scopes))
        for contract in contracts
    }


def _package(release: str) -> Path | None:
    """The folder that a release is imported from, if it is there: in the environment, or in the lab."""
    with suppress(KvraceError):
        here = installed_vllm()
        if here.version.partition("+")[0] == release:
            return here.folder.parent
    return folder_there(release)


def _work(files: Mapping[tuple[str, str], Path], fresh: bool) -> list[Wanted]:
    left: dict[str, list[tuple[str, str]]] = {}
    for (release, contract), file in files.items():
        if fresh:
            file.unlink(missing_ok=True)
        if read_cell(file, release, contract) is None:
            left.setdefault(release, []).append((contract, str(file)))
    return [Wanted(release, tuple(cells)) for release, cells in left.items()]


def kept_matrix(maker: CellMaker, releases: Sequence[str], contracts: Sequence[str]) -> ReleaseMatrix:
    """What is kept already of releases that are there. Nothing is explored, and nothing fetched."""
    cells = {}
    for release in releases:
        package = _package(release)
        for contract in contracts if package is not None else ():
            assert package is not None
            file = cell_path(maker.folder, release, contract, determined_by(package, contract, maker.scopes))
            if (cell := read_cell(file, release, contract)) is not None:
                cells[release, contract] = cell
    return ReleaseMatrix(
        tuple(releases), tuple(contracts), maker.scope_name, maker.scopes, cells, failed={}, explored=0, seconds=0.0
    )
