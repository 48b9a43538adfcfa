"""Hypothesis stateful testing: random orders in scopes that are too large to exhaust.

The events, the guards and the properties are those of the explorer; only who chooses the next event is another. Hypothesis
leaves out some of the rules in each run (swarm testing), and each run reports transfers at once, evenly or late, so that rare
states are reached: a transfer that outlives its request needs many steps without a report. What fails is kept in Hypothesis'
example database, and is made short by :mod:`kvmodel.reduce`.
"""

from __future__ import annotations

import sys
import unittest
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import ClassVar, NamedTuple, get_args

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from hypothesis.strategies import SearchStrategy

from kvmodel.allowed import fit_one_output, other_than_updates, possible_reports, refusal, stoppable, update_allowed
from kvmodel.contract import Contract
from kvmodel.coverage import Coverage
from kvmodel.drafts import outcomes
from kvmodel.errors import KvraceError
from kvmodel.events import (
    Abort,
    Add,
    Event,
    Lose,
    Report,
    Schedule,
    TransferEnds,
    Update,
)
from kvmodel.failures import possible_failures, sets_of_failures
from kvmodel.life import LifeEvent
from kvmodel.lockstep import Lockstep, Node
from kvmodel.playback import Frame, frame_of
from kvmodel.port import Subject
from kvmodel.profiles import profile
from kvmodel.properties import PROPERTY_NAMES, Finding, chosen_properties
from kvmodel.reduce import reduce
from kvmodel.rest import leave_alone, never_at_rest_finding
from kvmodel.scope import Scope
from kvmodel.strategies import scopes

REPORTING = ("evenly", "late", "at once")
"""Of the reports that could come with an output, one in two comes, one in four, or all. Each run keeps to one of these."""
LIFE: tuple[type[Event], ...] = get_args(LifeEvent)
"""What the engine and its clients do beside requests and steps."""
_NUMBER = st.integers(0, 63)
_BITS_MAX = 16
_BITS = st.integers(0, (1 << _BITS_MAX) - 1)


class Broken(NamedTuple):
    """A property that a random order breaks, with everything needed to play it again. ``loop_start`` as in a violation."""

    finding: Finding
    subject: Subject
    contract: Contract
    frames: tuple[Frame, ...]
    loop_start: int | None = None

    def __str__(self) -> str:
        head = f"{self.finding.property} ({self.finding.blame}): {self.finding.message}"
        bound = f"{self.subject.identity} · {self.subject.scope} · contract {self.contract}"
        return "\n".join([head, bound, *(f"  {frame.event}" for frame in self.frames[1:])])


class PropertyBroken(AssertionError):
    """A state machine has broken a property. ``broken`` is the order that shows it."""

    def __init__(self, broken: Broken) -> None:
        super().__init__(str(broken))
        self.broken = broken


def _first(error: Flaky) -> object:
    """What it was that failed once."""
    failures = [found for found in getattr(error, "exceptions", ()) if isinstance(found, PropertyBroken)]
    return failures[0] if failures else error


def _event(*kinds: type[Event]) -> SearchStrategy[Event]:
    """One of the allowed events of these kinds in the state the machine is in; there is one, since a precondition asks."""
    return st.builds(_pick, st.runner(), st.just(kinds), _NUMBER)


def _pick(machine: TransferMachine, kinds: tuple[type[Event], ...], number: int) -> Event:
    events = machine.allowed(*kinds)
    return events[number % len(events)]


def _update() -> SearchStrategy[Update]:
    """An update with some of the possible reports, as many as suits how the run reports, and some of the possible failures."""
    return st.builds(_some_reports, st.runner(), _BITS, _BITS, _BITS)


def _some_reports(machine: TransferMachine, one: int, other: int, stopping: int) -> Update:
    chosen = {"late": one & other, "evenly": one, "at once": ~0}[machine.reporting]
    world, scope = machine.node.world, machine.scope
    reports: list[Report] = []
    for place, report in enumerate(possible_reports(world, scope, machine.contract)):
        if chosen >> place % _BITS_MAX & 1 and fit_one_output((*reports, report)):
            reports.append(report)
    stops = [name for place, name in enumerate(stoppable(world, scope)) if stopping >> place % _BITS_MAX & 1]
    came = tuple(sorted(reports))
    ways = list(sets_of_failures(possible_failures(world, scope), came))
    accepted = outcomes(world, scope)
    return Update(came, tuple(sorted(stops)), ways[other % len(ways)], accepted[stopping % len(accepted)])


class _TestCase:
    """``TestCase`` of a machine: what unittest and pytest collect. Runs it as :meth:`TransferMachine.run` does."""

    def __get__(self, _machine: object, owner: type[TransferMachine]) -> type[unittest.TestCase]:
        class TestCase(unittest.TestCase):
            def runTest(self) -> None:
                __tracebackhide__ = True
                owner.run()

        TestCase.__qualname__, TestCase.__module__ = f"{owner.__qualname__}.TestCase", owner.__module__
        return TestCase


class TransferMachine(RuleBasedStateMachine):
    """World and subject under random events. Subclass it and say what is tested:

    ``open_subject``: makes the subject for a scope, as a context manager that is left when it is needed no more; ``scopes``: one
    scope, several, or a strategy for the scope of each run (None: :func:`kvmodel.strategies.scopes`); ``contract``, ``properties``:
    as for a check; ``coverage``: counts what all runs have seen; ``profile``: how long to go on (None: ``dev``;
    :data:`kvmodel.profiles.PROFILES`). Rules and invariants may be added: ``self.node`` is the state, ``self.play`` plays an
    event.
    """

    contract: ClassVar[Contract] = Contract()
    properties: ClassVar[tuple[str, ...]] = PROPERTY_NAMES
    scopes: ClassVar[SearchStrategy[Scope] | Scope | Sequence[Scope] | None] = None
    coverage: ClassVar[Coverage | None] = None
    profile: ClassVar[str | None] = None
    TestCase = _TestCase()  # type: ignore[assignment]

    scope: Scope
    reporting: str
    node: Node

    @classmethod
    def open_subject(cls, scope: Scope) -> AbstractContextManager[Subject]:
        """The subject to test. To be overridden."""
        raise NotImplementedError

    @classmethod
    def default_profile(cls) -> str:
        """The profile of a machine that has none of its own."""
        return "dev"

    @classmethod
    def scopes_to_draw(cls) -> SearchStrategy[Scope]:
        """Where each run takes its scope from."""
        if cls.scopes is None:
            return scopes()
        if isinstance(cls.scopes, SearchStrategy):
            return cls.scopes
        return st.sampled_from([cls.scopes] if isinstance(cls.scopes, Scope) else cls.scopes)

    @classmethod
    def failure(cls, broken: Broken) -> AssertionError:
        """What :meth:`run` raises for an order that has been made short. May be overridden."""
        return PropertyBroken(broken)

    @classmethod
    def run(cls, how_long: settings | None = None) -> None:
        """Run as a test: raises what :meth:`failure` gives for the first property that breaks, shown by a short order."""
        __tracebackhide__ = True  # of a failing test only the order is of interest
        chosen_properties(cls.properties or ("",))
        settings_in_force = how_long or profile(cls.profile or cls.default_profile())
        try:
            run_state_machine_as_test(cls, settings=settings_in_force)
        except PropertyBroken as error:
            with ExitStack() as opened:
                failure = cls.failure(cls._shortened(error.broken, opened))
        except Flaky as error:  # Hypothesis plays what failed once more
            failure = AssertionError(f"the subject does not behave the same twice: {_first(error)}")
        else:
            return
        raise failure

    @classmethod
    def _shortened(cls, broken: Broken, opened: ExitStack) -> Broken:
        """Subjects that are made for it stay open as long as ``opened``."""
        events = [frame.event for frame in broken.frames if frame.event is not None]

        def make(scope: Scope) -> Subject:
            return opened.enter_context(cls.open_subject(scope))

        short = reduce(make, broken.contract, make(broken.subject.scope), events, broken.finding)
        if short is None:
            raise AssertionError(f"the subject does not behave the same twice: {broken}")
        return Broken(short.finding, short.subject, broken.contract, short.frames, short.loop_start)

    def __init__(self) -> None:
        super().__init__()
        self._opened = ExitStack()
        self._begun = False
        self._before = sys.exc_info()[1]

    @initialize(
        scope=st.runner().flatmap(lambda machine: machine.scopes_to_draw()), reporting=st.sampled_from(REPORTING)
    )
    def begin(self, scope: Scope, reporting: str) -> None:
        self.scope, self.reporting = scope, reporting
        self.subject = self._opened.enter_context(self.open_subject(scope))
        self._lockstep = Lockstep(self.subject, self.contract)
        self._fresh_scheduler()
        self._begun = True

    def _fresh_scheduler(self) -> None:
        if self.coverage is not None:
            self.coverage.begin()
        self._frames: list[Frame] = []
        self._reach(None, self._lockstep.initial())

    def _reach(self, event: Event | None, node: Node) -> None:
        """Take ``node`` for the present state, and judge it. Raises PropertyBroken."""
        if self.coverage is not None and event is not None:
            self.coverage.step(self.scope, self.node.key, event, node.milestones)
        self.node = node
        self._frames.append(frame_of(event, node))
        for finding in node.findings:
            if finding.property in self.properties:
                self._fail(finding)
        pending = node.observation.pending
        self._others = [] if node.crashed else other_than_updates(node.world, self.scope, self.contract, pending)
        self._may_update = not node.crashed and update_allowed(node.world, self.scope, pending)

    def allowed(self, *kinds: type[Event]) -> list[Event]:
        """The events of these kinds that are allowed now, in the order of the model. Updates are never listed."""
        return [event for event in self._others if isinstance(event, kinds)]

    @precondition(lambda self: self.allowed(Add))
    @rule(event=_event(Add))
    def add(self, event: Event) -> None:
        self.play(event)

    @precondition(lambda self: self.allowed(Abort))
    @rule(event=_event(Abort))
    def abort(self, event: Event) -> None:
        self.play(event)

    @precondition(lambda self: self.allowed(Schedule))
    @rule(event=_event(Schedule))
    def schedule(self, event: Event) -> None:
        self.play(event)

    @precondition(lambda self: self.allowed(*LIFE))
    @rule(event=_event(*LIFE))
    def life(self, event: Event) -> None:
        self.play(event)

    @precondition(lambda self: self.allowed(TransferEnds, Lose))
    @rule(event=_event(TransferEnds, Lose))
    def transfer(self, event: Event) -> None:
        self.play(event)

    @precondition(lambda self: self._may_update)
    @rule(event=_update())
    def update(self, event: Update) -> None:
        self.play(event)

    @precondition(lambda self: not self._others and not self._may_update)
    @rule()
    def start_again(self) -> None:
        """Nothing is left to happen: the rest of the run goes to a fresh scheduler."""
        self._leave_alone()
        self._fresh_scheduler()

    def play(self, event: Event) -> None:
        """Play one event and judge it. Raises PropertyBroken, and KvraceError for an event that is not allowed here."""
        state = (self.node.world, self.scope, self.contract, self.node.observation.pending)
        guard = "the scheduler has crashed" if self.node.crashed else refusal(*state, event)
        if guard is not None:
            raise KvraceError(f"'{event}' is not allowed here: {guard}")
        self._reach(event, self._lockstep.successor(self.node, event))

    def teardown(self) -> None:
        try:
            if self._begun and sys.exc_info()[1] is self._before:  # not on the way out of a run that has failed
                self._leave_alone()
        finally:
            self._opened.close()

    def _leave_alone(self) -> None:
        """``no-stuck``: the engine must come to rest when nobody interferes."""
        before = len(self._frames) - 1
        steps, loop = leave_alone(self._lockstep, self.node)
        for event, node in steps:
            self._reach(event, node)
        if loop is not None and "no-stuck" in self.properties:
            self._fail(never_at_rest_finding(self.scope, self.node.world, self.node.observation), before + loop)

    def _fail(self, finding: Finding, loop_start: int | None = None) -> None:
        raise PropertyBroken(Broken(finding, self.subject, self.contract, tuple(self._frames), loop_start))


def state_machine(
    make_subject: Callable[[Scope], Subject],
    where: SearchStrategy[Scope] | Scope,
    contract: Contract = Contract(),  # noqa: B008 - immutable
    properties: tuple[str, ...] = PROPERTY_NAMES,
    coverage: Coverage | None = None,
) -> type[TransferMachine]:
    """A machine for the subjects that ``make_subject`` makes, in one scope or in scopes drawn from a strategy."""

    class Machine(TransferMachine):
        @classmethod
        def open_subject(cls, scope: Scope) -> AbstractContextManager[Subject]:
            return nullcontext(make_subject(scope))

    Machine.scopes = where
    Machine.contract, Machine.properties, Machine.coverage = contract, properties, coverage
    return Machine
