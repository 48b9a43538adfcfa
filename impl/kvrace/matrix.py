"""Remedies against contracts: what each proposed remedy breaks, and the shortest order that shows it. Computes; prints nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kvmodel.contract import EXACTLY_ONCE, Contract
from kvmodel.properties import PROPERTY_NAMES
from kvmodel.scope import Scope
from kvrace.check import Limits, check
from kvrace.result import CheckResult, Progress, Verdict, Violation
from kvrace.subjects import DEFAULT_POLICY, SubjectChoice, choose_subject
from kvrace.unaffected import Comparison, compare
from kvrace.watchdog import ending
from kvrace.workers import spread


class Place(NamedTuple):
    """A remedy, by the name of its completion policy, under a contract."""

    remedy: str
    contract: str


class Exploration(NamedTuple):
    """One piece of work: a remedy under a contract, in one scope. Without a contract: the remedy beside the stock scheduler, on the
    orders without an abort."""

    remedy: str
    contract: str | None
    scope: Scope

    def __str__(self) -> str:
        what = f"under {self.contract}" if self.contract is not None else "beside the stock scheduler"
        return f"{self.remedy} {what}, {self.scope.scheduling}"


class MatrixProgress(NamedTuple):
    """How far a matrix is: explorations that are done, and what is at work."""

    done: int
    planned: int
    states: int
    seconds: float
    at_work: str


@dataclass(frozen=True, slots=True)
class PlanCheck:
    """One line of the test plan that started this project, for one remedy. ``means`` says what it is computed from, ``rules`` are
    the properties it looks at."""

    name: str
    rules: tuple[str, ...]
    means: str
    verdict: Verdict
    violation: Violation | None = None
    events: tuple[str, ...] = ()
    """An order on which the remedy does something else than the stock scheduler."""


@dataclass(frozen=True, slots=True)
class SharedOrder:
    """A shortest order that breaks a property in one cell or in several. ``violation`` is that of the first of them."""

    violation: Violation
    places: tuple[Place, ...]


PLAN: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (
        "abort + finished_sending no longer crashes",
        ("no-crash",),
        f"no-crash holds over every order under {EXACTLY_ONCE}",
    ),
    (
        "nothing leaks, nothing is freed twice",
        ("no-leak", "no-double-free"),
        f"no-leak and no-double-free hold over every order under {EXACTLY_ONCE}",
    ),
)
UNAFFECTED: tuple[str, tuple[str, ...], str] = (
    "normal transfer is unaffected",
    (),
    f"on every order without an abort, under {EXACTLY_ONCE}, it does and shows exactly what the stock scheduler does and shows, "
    "and no property is broken",
)


@dataclass(frozen=True, slots=True)
class Matrix:
    """Every cell that was finished. ``results`` has one result for each place of which at least one case was explored, and
    ``compared`` the comparison of each remedy with the stock scheduler. ``stopped`` says why the run ended before its end."""

    subject: str
    scope_name: str
    scopes: tuple[Scope, ...]
    remedies: tuple[str, ...]
    contracts: tuple[str, ...]
    results: Mapping[Place, CheckResult]
    compared: Mapping[str, tuple[Comparison, ...]]
    seconds: float
    stopped: str | None = None
    properties: tuple[str, ...] = field(default=PROPERTY_NAMES)

    @property
    def places(self) -> list[Place]:
        return [Place(remedy, contract) for contract in self.contracts for remedy in self.remedies]

    @property
    def missing(self) -> list[Place]:
        """The places that were not exhausted: of them, only what is violated is known."""
        return [place for place in self.places if place not in self.results or not self.results[place].complete]

    @property
    def complete(self) -> bool:
        return not self.missing and all(check.verdict != "incomplete" for r in self.remedies for check in self.plan(r))

    @property
    def notes(self) -> tuple[str, ...]:
        """What the schedulers have to say beside the verdicts, none of it twice."""
        told = [result.notes for result in self.results.values()]
        told += [comparison.notes for compared in self.compared.values() for comparison in compared]
        return tuple(dict.fromkeys(note for notes in told for note in notes))

    @property
    def exit_code(self) -> int:
        """0 when every cell is known, whatever it says; 3 when some are not."""
        return 0 if self.complete else 3

    @property
    def states(self) -> int:
        return sum(result.states for result in self.results.values())

    @property
    def transitions(self) -> int:
        return sum(result.transitions for result in self.results.values())

    def verdict(self, place: Place, name: str) -> Verdict:
        return self.results[place].verdicts[name] if place in self.results else "incomplete"

    def shortest(self, place: Place, name: str) -> tuple[Violation, ...]:
        """A shortest order of a cell for each blame, the scheduler's first."""
        found: dict[str, Violation] = {}
        for violation in self.results[place].violations if place in self.results else ():
            known = found.get(violation.blame)
            if violation.property == name and (known is None or length(violation) < length(known)):
                found[violation.blame] = violation
        return tuple(sorted(found.values(), key=lambda violation: violation.blame != "scheduler"))

    def violated(self, place: Place) -> tuple[str, ...]:
        return tuple(name for name in self.properties if self.verdict(place, name) == "violated")

    @property
    def orders(self) -> tuple[SharedOrder, ...]:
        """The shortest orders of all cells, none of them twice, property by property and the shortest first."""
        shared: dict[tuple[str, str, tuple[str, ...]], tuple[Violation, list[Place]]] = {}
        for place in self.places:
            for name in self.properties:
                for violation in self.shortest(place, name):
                    key = (name, violation.blame, violation.events)
                    shared.setdefault(key, (violation, []))[1].append(place)
        rank = {name: number for number, name in enumerate(self.properties)}
        found = [SharedOrder(violation, tuple(places)) for violation, places in shared.values()]
        return tuple(sorted(found, key=lambda one: (rank[one.violation.property], length(one.violation))))

    def plan(self, remedy: str) -> tuple[PlanCheck, ...]:
        """The test plan for one remedy; nothing where the contract it speaks of was not asked for."""
        place = Place(remedy, EXACTLY_ONCE)
        if EXACTLY_ONCE not in self.contracts:
            return ()
        checks = []
        for name, rules, means in PLAN:
            found = [violation for rule in rules for violation in self.shortest(place, rule)]
            verdicts = [self.verdict(place, rule) for rule in rules]
            checks.append(PlanCheck(name, rules, means, worst(verdicts), min(found, key=length, default=None)))
        return (*checks, self._unaffected(remedy))

    def _unaffected(self, remedy: str) -> PlanCheck:
        compared = self.compared.get(remedy, ())
        differing = [comparison.events for comparison in compared if comparison.events]
        if differing:
            return PlanCheck(*UNAFFECTED, "violated", events=min(differing, key=len))
        all_of_it = len(compared) == len(self.scopes) and all(comparison.complete for comparison in compared)
        return PlanCheck(*UNAFFECTED, "holds" if all_of_it else "incomplete")


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """Violated if any is; incomplete is never a pass."""
    order: tuple[Verdict, ...] = ("violated", "incomplete")
    for verdict in order:
        if verdict in verdicts:
            return verdict
    return "holds"


def length(violation: Violation) -> int:
    """Events of an order, those of a loop not counted."""
    return len(violation.events) if violation.loop_start is None else violation.loop_start


def subject_of(subject: str, remedy: str) -> tuple[str, str | None]:
    """What ``--subject`` and ``--policy`` take for a remedy on vLLM or on the reference scheduler."""
    if subject == "reference":
        return "reference", remedy
    return ("vllm" if remedy == DEFAULT_POLICY else remedy), None


def _choice(subject: str, remedy: str) -> SubjectChoice:
    return choose_subject(*subject_of(subject, remedy))


@dataclass(frozen=True, slots=True)
class Explorer:
    """Does the work of a matrix, in this process or in another one: a deadline is the same moment in all of them. ``limits`` are
    those of one exploration."""

    subject: str
    scope_name: str
    limits: Limits = Limits()

    def __call__(self, wanted: Exploration, listen: Callable[[Progress], None]) -> CheckResult | Comparison:
        limits = self.limits
        make = ending(_choice(self.subject, wanted.remedy).make, limits.call_seconds)
        if wanted.contract is None:
            stock = ending(_choice(self.subject, DEFAULT_POLICY).make, limits.call_seconds)
            return compare(stock, make, wanted.scope, limits, listen)
        contract = Contract.parse(wanted.contract)
        result = check(make, [wanted.scope], contract, scope_name=self.scope_name, limits=limits, listen=listen)
        return replace(result, cases=tuple(replace(case, graph=None) for case in result.cases))


def explorations(remedies: Sequence[str], contracts: Sequence[str], scopes: Sequence[Scope]) -> list[Exploration]:
    """All the work there is, contract by contract."""
    kinds = [*contracts, *([None] if EXACTLY_ONCE in contracts else [])]
    return [Exploration(remedy, contract, scope) for contract in kinds for remedy in remedies for scope in scopes]


def matrix(
    explorer: Explorer,
    remedies: Sequence[str],
    contracts: Sequence[str],
    scopes: Sequence[Scope],
    *,
    jobs: int = 1,
    listen: Callable[[MatrixProgress], None] = lambda _: None,
) -> Matrix:
    """Explore every remedy under every contract, ``jobs`` explorations at a time. A KeyboardInterrupt from ``listen`` ends it and
    keeps what was finished; so does the deadline of its limits. Raises KvraceError as :func:`kvrace.check.check` does."""
    started = time.monotonic()
    work = explorations(remedies, contracts, scopes)
    done: dict[Exploration, CheckResult | Comparison] = {}
    stopped = None
    deadline = explorer.limits.deadline

    def late() -> bool:
        return deadline is not None and time.monotonic() > deadline

    def tell(at_work: str) -> None:
        states = sum(result.states for result in done.values())
        listen(MatrixProgress(len(done), len(work), states, time.monotonic() - started, at_work))

    try:
        for wanted, result in spread(explorer, work, jobs, tell, late):
            done[wanted] = result
            if result.stopped == "interrupted":
                raise KeyboardInterrupt
        if len(done) < len(work):
            stopped = "time limit"
    except KeyboardInterrupt:
        stopped = "interrupted"
    stopped = stopped or next((one.stopped for one in done.values() if one.stopped), None)
    results: dict[Place, CheckResult] = {}
    compared: dict[str, tuple[Comparison, ...]] = {}
    for wanted in work:  # in their order, however they were finished
        found = done.get(wanted)
        if isinstance(found, Comparison):
            compared[wanted.remedy] = (*compared.get(wanted.remedy, ()), found)
        elif found is not None and wanted.contract is not None:
            place = Place(wanted.remedy, wanted.contract)
            results[place] = _joined(results.get(place), found, tuple(scopes))
    seconds = time.monotonic() - started
    return Matrix(
        explorer.subject, explorer.scope_name, tuple(scopes), tuple(remedies), tuple(contracts), results, compared, seconds, stopped
    )  # fmt: skip


def _joined(known: CheckResult | None, more: CheckResult, scopes: tuple[Scope, ...]) -> CheckResult:
    """The results of single cases as one result over all of them."""
    if known is None:
        return replace(more, planned=scopes)
    return replace(
        known,
        cases=(*known.cases, *more.cases),
        seconds=known.seconds + more.seconds,
        stopped=known.stopped or more.stopped,
        notes=tuple(dict.fromkeys((*known.notes, *more.notes))),
    )
