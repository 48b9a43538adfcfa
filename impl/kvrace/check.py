"""The main job: exhaust scopes on a subject and collect a result. Emits progress; prints nothing."""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

from kvmodel.contract import Contract
from kvmodel.errors import KvraceError
from kvmodel.events import Event
from kvmodel.explorer import Edge
from kvmodel.fairness import Alone, traps
from kvmodel.lockstep import Lockstep, Node
from kvmodel.milestones import MILESTONE_NAMES
from kvmodel.playback import play
from kvmodel.port import Subject
from kvmodel.progress import at_rest, left_alone, unreported
from kvmodel.properties import PROPERTY_NAMES, Finding, blame_of
from kvmodel.rest import never_at_rest_finding, repeats_for_ever
from kvmodel.scope import Scope
from kvrace.determinism import not_the_same_twice
from kvrace.divergences import Divergences
from kvrace.exploration import Bounded, Orders
from kvrace.places import line_behind, play_recording
from kvrace.result import CaseResult, CheckResult, Progress, Verdict, Violation
from kvrace.stategraph import GraphRecorder
from kvrace.watchdog import watched

MakeSubject = Callable[[Scope], Subject]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a run. ``deadline`` is a time.monotonic() value; a call is a hang after ``call_seconds``."""

    deadline: float | None = None
    max_states: int | None = None
    call_seconds: float = 10.0

    @classmethod
    def of(
        cls,
        time_limit: float | None,
        max_states: int | None,
        call_timeout: float,
        named: Callable[[str], str] = lambda name: name,
    ) -> Limits:
        """Limits from now on, in seconds. Raises KvraceError for a number that is none; ``named`` is what the user calls it."""
        if time_limit is not None and not 0 < time_limit < float("inf"):
            raise KvraceError(f"{named('time_limit')} {time_limit:g}: must be more than 0 seconds")
        if max_states is not None and max_states < 1:
            raise KvraceError(f"{named('max_states')} {max_states}: must be 1 or more")
        if not 0 < call_timeout < float("inf"):
            raise KvraceError(f"{named('call_timeout')} {call_timeout:g}: must be more than 0 seconds")
        return cls(None if time_limit is None else time.monotonic() + time_limit, max_states, call_timeout)


@contextmanager
def rare_garbage_collection() -> Iterator[None]:
    """Collect garbage a hundred times less often: an exploration holds many objects, and next to none in cycles."""
    before = gc.get_threshold()
    gc.set_threshold(100_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


class _Found(NamedTuple):
    """A finding, a shortest order to it, and for ``no-stuck`` the events that then repeat for ever."""

    finding: Finding
    order: list[Event]
    loop: list[Event]


class _Graph:
    """The explored graph, as little of it as the verdicts need. ``alone`` are the transitions in which nobody interferes."""

    def __init__(self) -> None:
        self.orders: Orders[Hashable] = Orders()
        self.alone: list[Alone[Event]] = []
        self.resting = bytearray()
        self.blames: list[str] = []
        self.crashes = 0
        self.reached: Counter[str] = Counter()
        self.found: dict[tuple[str, str, str], _Found] = {}
        self.recorder = GraphRecorder()


class CaseRun:
    """The exploration of one scope, from the first state to its result."""

    def __init__(
        self,
        subject: Subject,
        contract: Contract,
        properties: Sequence[str],
        limits: Limits,
        conformance: str | None = None,
    ) -> None:
        """``subject`` has to be under a watchdog where a call may hang (:func:`kvrace.watchdog.watched`). ``conformance`` is the
        completion policy of the relation that every transition is held against."""
        self.subject, self.contract, self.limits = subject, contract, limits
        self.properties = tuple(properties)
        self.divergences = None if conformance is None else Divergences(subject, contract, conformance)
        self.lockstep = Lockstep(subject, contract, conformance=self.divergences.judge if self.divergences else None)
        self.graph = _Graph()
        self.bounded = Bounded(limits.deadline, limits.max_states)
        self.stopped: str | None = None
        self.started = time.monotonic()

    def run(self, report: Callable[[int, int, int], None]) -> CaseResult:
        """Explore until the scope is exhausted, a limit is reached, or the user interrupts."""
        with rare_garbage_collection():
            try:
                self._explore(report)
            except KeyboardInterrupt:
                self.stopped = "interrupted"
            calls = self.lockstep.calls
            self._replay_samples()
            if "no-stuck" in self.properties:
                self._judge_progress()
            violations = tuple(self._confirm(found) for found in self._needed())
            conformance = self.divergences.confirmed() if self.divergences else None
        return CaseResult(
            self.subject.scope,
            self.subject.identity,
            self.subject.location,
            self.bounded.states,
            self.bounded.transitions,
            calls,
            time.monotonic() - self.started,
            self.stopped or self._cut_short(),
            self._verdicts(),
            violations,
            {name: self.graph.reached[name] for name in MILESTONE_NAMES},
            self.graph.recorder.graph(),
            conformance,
        )

    def _explore(self, report: Callable[[int, int, int], None]) -> None:
        start = self.lockstep.initial()
        self._know(0, None, start)
        for edge in self.bounded.edges(self.lockstep, start, report):
            self._take(edge)
        self.stopped = self.bounded.stopped

    def _take(self, edge: Edge[Node, Event]) -> None:
        graph, node = self.graph, edge.state
        graph.reached.update(node.milestones)
        if edge.new:
            self._know(edge.source, edge.label, node)
        if not graph.resting[edge.source] and left_alone(edge.label):
            waiting = unreported(edge.before.world, self.subject.scope, edge.label)
            graph.alone.append(Alone(edge.source, edge.label, edge.target, waiting))
        findings = [finding for finding in node.findings if finding.property in self.properties]
        for finding in findings:
            if finding.signature not in graph.found:
                graph.found[finding.signature] = _Found(finding, [*graph.orders.to(edge.source), edge.label], [])
        if self.divergences is not None:
            self.divergences.note(node, lambda: [*graph.orders.to(edge.source), edge.label])
        graph.recorder.edge(edge.source, edge.target, edge.label, edge.new, findings)

    def _know(self, source: int, event: Event | None, node: Node) -> None:
        graph = self.graph
        graph.orders.add(source, event, node.key, sample=not node.crashed)
        graph.blames.append(blame_of(node.world))
        if node.crashed:
            graph.crashes += 1
            graph.resting.append(False)
            graph.recorder.state(source, "crash")
            return
        resting = at_rest(node.world, node.observation)
        graph.resting.append(resting)
        graph.recorder.state(None if event is None else source, "resting" if resting else "ordinary")

    def _judge_progress(self) -> None:
        """``no-stuck`` on the graph: of the traps, the nearest one of each blame."""
        graph = self.graph
        for trap in sorted(traps(graph.alone, graph.resting), key=lambda trap: trap.nearest):
            blame = graph.blames[trap.nearest]
            order = graph.orders.to(trap.nearest)
            frames, _ = play(self.subject, self.contract, order)
            last = frames[-1]
            finding = never_at_rest_finding(self.subject.scope, last.world, last.observation, blame)
            if finding.signature in graph.found:
                continue
            loop = trap.loop()
            graph.found[finding.signature] = _Found(finding, order, [step.label for step in loop])
            for step in loop:
                graph.recorder.mark(step.source, step.label, finding)

    def _replay_samples(self) -> None:
        """Play the orders to some states on fresh schedulers, and raise KvraceError when one leads elsewhere.

        That a violation is replayed says nothing of a scope where everything holds; this shows there as well that copies are
        exact and that the subject keeps no state out of their sight.
        """
        again = self.lockstep.again()
        for state, key in self.graph.orders.samples.items():
            node = again.initial()
            order = self.graph.orders.to(state)
            for event in order:
                node = again.successor(node, event)
            if node.key != key:
                raise not_the_same_twice(self.subject, "the same order led to another state", order)

    def _needed(self) -> list[_Found]:
        """The findings without those that blame the connector for what also happens when it breaks no rule."""
        found = self.graph.found
        return [
            f
            for (rule, blame, shape), f in found.items()
            if blame == "scheduler" or (rule, "scheduler", shape) not in found
        ]

    def _confirm(self, found: _Found) -> Violation:
        """Replay the order on a fresh scheduler, without snapshots. Raises KvraceError when it does not show the finding."""
        finding = found.finding
        frames, responses, refused = play_recording(self.subject, self.contract, [*found.order, *found.loop])
        shown = refused is None and (
            repeats_for_ever(self.lockstep.again(), [*found.order, *found.loop], len(found.order))
            if found.loop
            else any(f.signature == finding.signature for f in frames[-1].findings)
        )
        if not shown:
            raise not_the_same_twice(self.subject, f"'{finding.message}' did not come again", found.order)
        return Violation(
            finding.property,
            finding.blame,
            finding.shape,
            finding.message,
            line_behind(finding, bool(found.loop), responses),
            self.subject.scope,
            self.subject.identity,
            self.contract,
            tuple(frames),
            finding.blocks,
            len(found.order) if found.loop else None,
        )

    def _cut_short(self) -> str | None:
        """Crashes that no property in force reports leave the scope unexhausted for those that are."""
        reporting = {"no-crash", "no-stuck"} & set(self.properties)
        if self.graph.crashes and not any(rule in reporting for rule, _, _ in self.graph.found):
            many = f"{self.graph.crashes} state{'s' if self.graph.crashes > 1 else ''}"
            return f"{many} ended in a crash or a hang"
        return None

    def _verdicts(self) -> dict[str, Verdict]:
        broken = {found.finding.property for found in self.graph.found.values()}
        clean: Verdict = "incomplete" if self.stopped or self._cut_short() else "holds"
        return {name: "violated" if name in broken else clean for name in self.properties}


def check(
    make_subject: MakeSubject,
    scopes: Sequence[Scope],
    contract: Contract,
    *,
    scope_name: str = "flags",
    properties: Sequence[str] = PROPERTY_NAMES,
    limits: Limits = Limits(),  # noqa: B008 - immutable
    listen: Callable[[Progress], None] = lambda _: None,
    conformance: str | None = None,
) -> CheckResult:
    """Exhaust every scope, one after the other; with ``conformance`` every transition is also held against the relation with this
    completion policy. Raises KvraceError when a subject cannot be made or is not deterministic."""
    if not scopes:
        raise KvraceError("there is nothing to check: no scope was given")
    started = time.monotonic()
    cases: list[CaseResult] = []
    notes: dict[str, None] = {}
    stopped = None
    try:
        for number, scope in enumerate(scopes):
            case_limits = limits
            if limits.max_states is not None:
                case_limits = replace(limits, max_states=limits.max_states - sum(case.states for case in cases))

            def report(states: int, transitions: int, frontier: int, case: int = number, scope: Scope = scope) -> None:
                listen(Progress(case, len(scopes), scope, states, transitions, frontier, time.monotonic() - started))

            with watched(make_subject(scope), limits.call_seconds) as subject:
                case_run = CaseRun(subject, contract, properties, case_limits, conformance)
                cases.append(case_run.run(report))
                notes.update(dict.fromkeys(subject.notes(cases[-1].complete)))
            if case_run.stopped:  # a case that crashes cut short says nothing of the next one
                stopped = case_run.stopped
                break
    except KeyboardInterrupt:  # between two explorations; one that is interrupted gives what it found so far
        stopped = "interrupted"
    stopped = stopped or next((case.stopped for case in cases if case.stopped), None)
    seconds = time.monotonic() - started
    return CheckResult(
        scope_name, contract, tuple(properties), tuple(cases), tuple(scopes), seconds, stopped, tuple(notes)
    )
