"""For tests of schedulers: check a class in a scope and assert the verdict, or play random orders on it.

A test of a scheduler of one's own is ten lines::

    from vllm.v1.core.sched.scheduler import Scheduler
    from kvrace.testing import SchedulerMachine, check_scheduler

    class MyScheduler(Scheduler): ...

    def test_every_order_of_two_requests():
        check_scheduler(MyScheduler, scope="small").assert_holds()

    class RandomOrders(SchedulerMachine):
        scheduler = MyScheduler

    TestRandomOrders = RandomOrders.TestCase

A verdict that was not reached is never a pass: :meth:`Checked.assert_holds` fails for it.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from hypothesis.strategies import SearchStrategy

from kvmodel.contract import Contract
from kvmodel.errors import KvraceError, quoted
from kvmodel.port import Subject
from kvmodel.profiles import PROFILES
from kvmodel.properties import PROPERTY_NAMES
from kvmodel.scope import Scope, named_scope
from kvmodel.stateful import Broken, TransferMachine
from kvmodel.strategies import scopes
from kvrace.check import Limits, check
from kvrace.files import TraceFolder
from kvrace.places import line_behind, play_recording
from kvrace.render import terminal
from kvrace.render.output import plain
from kvrace.render.swimlane import Legend
from kvrace.result import CheckResult, Violation
from kvrace.subjects import SubjectChoice, choose_class, choose_subject
from kvrace.trace import write_trace
from kvrace.watchdog import ending, watched

__all__ = ["Checked", "SchedulerMachine", "VerdictError", "check_scheduler", "scopes"]

PROFILE_VARIABLE = "KVRACE_PROFILE"
"""The environment variable that chooses how long random orders go on; pytest's option ``--kvrace-profile`` sets it."""
TRACE_FOLDER = "kvrace-traces"
_WIDTH = 100


class VerdictError(AssertionError):
    """A verdict is not the one a test asserts. ``summary`` has one line for each finding, with the command that replays it."""

    def __init__(self, text: str, summary: Sequence[str]) -> None:
        super().__init__(text)
        self.summary = tuple(summary)


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of :func:`check_scheduler`, its trace files, and assertions about it."""

    result: CheckResult
    choice: SubjectChoice
    trace_dir: Path

    @property
    def verdict(self) -> str:
        """``holds``, ``violated`` or ``incomplete``."""
        return self.result.verdict

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict of each property."""
        return dict(self.result.verdicts)

    def assert_holds(self) -> None:
        """Every property that was checked holds over the whole scope. Raises VerdictError, with the report and trace files."""
        __tracebackhide__ = True
        if self.verdict != "holds":
            raise self._error("")

    def assert_violated(self, *properties: str) -> None:
        """Exactly these properties are violated, and the scope is exhausted. Raises VerdictError."""
        __tracebackhide__ = True
        for name in properties:
            if name not in PROPERTY_NAMES:
                raise KvraceError(f"unknown property {quoted(name)}: use one of {', '.join(PROPERTY_NAMES)}")
        violated = {name for name, verdict in self.result.verdicts.items() if verdict == "violated"}
        if violated != set(properties) or not self.result.complete:
            wanted = ", ".join(properties) or "nothing"
            raise self._error(f"asserted: violated are {wanted}, over the whole scope\n")

    def report(self) -> str:
        """The report of ``kvrace check``, in plain text. Writes the trace files that it names."""
        return self._report(self._traces())

    def _report(self, traces: dict[Violation, Path]) -> str:
        identities = list(dict.fromkeys(case.identity for case in self.result.cases))
        shown = terminal.report(self.result, identities, traces, _replay_command(self.choice), _WIDTH)
        return plain(shown, _WIDTH)

    def _traces(self) -> dict[Violation, Path]:
        return {found: _write(found, self.choice, self.trace_dir) for found in self.result.violations}

    def _error(self, head: str) -> VerdictError:
        traces, replay = self._traces(), _replay_command(self.choice)
        summary = [_summary(found, replay.line(path)) for found, path in traces.items()]
        if not summary:
            summary = [f"incomplete: {self.result.stopped or 'not every case was exhausted'}"]
        return VerdictError(head + self._report(traces), summary)


def check_scheduler(
    scheduler: type | str = "vllm",
    *,
    scope: str | Scope | Sequence[Scope] = "small",
    contract: str | Contract = "exactly-once",
    properties: Sequence[str] = PROPERTY_NAMES,
    time_limit: float | None = None,
    max_states: int | None = None,
    call_timeout: float = 10.0,
    trace_dir: str | Path = TRACE_FOLDER,
) -> Checked:
    """Exhaust a scope on a scheduler, as ``kvrace check`` does.

    ``scheduler``: a subclass of vLLM's Scheduler, or what ``--subject`` takes (``vllm``, ``reference``, ``module:Class``).
    ``scope``: a name, or scopes of one's own; a class plays those for its kind, sync or async. Times are in seconds. Raises
    KvraceError for what cannot be checked.
    """
    choice = _choice(scheduler)
    cases = choice.cases(_scopes(scope), None)
    if not cases:
        raise KvraceError(f"{choice.spec} plays {choice.schedulings[0]} scheduling only, and no scope is for that")
    unknown = [name for name in properties if name not in PROPERTY_NAMES]
    if unknown:
        raise KvraceError(f"unknown property {quoted(unknown[0])}: use one of {', '.join(PROPERTY_NAMES)}")
    deadline = None if time_limit is None else time.monotonic() + time_limit
    result = check(
        ending(choice.make, call_timeout),
        cases,
        _contract(contract),
        scope_name=scope if isinstance(scope, str) else "flags",
        properties=properties,
        limits=Limits(deadline, max_states, call_timeout),
    )
    return Checked(result, choice, Path(trace_dir).absolute())


class SchedulerMachine(TransferMachine):
    """Random orders on a scheduler: a Hypothesis state machine to subclass.

    ``scheduler``: as for :func:`check_scheduler`; ``scopes``: a strategy, or one Scope (default: mixed ones of up to six
    requests, :func:`scopes`); ``contract``, ``properties``, ``coverage``: as in :class:`kvmodel.stateful.TransferMachine`;
    ``profile``: ``dev``, ``ci`` or ``nightly``, by default what ``KVRACE_PROFILE`` says, or ``ci`` where ``CI`` is set.

    ``TestCase`` is for unittest and pytest; ``run()`` runs it inside a test function. What breaks a property is shortened, written
    as a trace file, and raised as VerdictError.
    """

    scheduler: ClassVar[type | str] = "vllm"
    trace_dir: ClassVar[str] = TRACE_FOLDER
    call_timeout: ClassVar[float] = 10.0

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.contract = _contract(cls.contract)
        if "profile" not in vars(cls):
            cls.profile = chosen_profile()

    @classmethod
    def scopes_to_draw(cls) -> SearchStrategy[Scope]:
        if cls.scopes is not None:
            return super().scopes_to_draw()
        choice = _choice(cls.scheduler)
        real = choice.spec != "reference"
        return scopes(schedulings=choice.schedulings, token_budgets=real, priorities=real)

    @classmethod
    @contextmanager
    def open_subject(cls, scope: Scope) -> Iterator[Subject]:
        choice = _choice(cls.scheduler)
        if scope.scheduling not in choice.schedulings:
            only = choice.schedulings[0]
            raise KvraceError(f"{choice.spec} plays {only} scheduling only; use scopes(schedulings=('{only}',))")
        with watched(_subject(cls.scheduler, scope), cls.call_timeout) as subject:
            yield subject

    @classmethod
    def failure(cls, broken: Broken) -> AssertionError:
        choice = _choice(cls.scheduler)
        violation = _violation(broken)
        trace = _write(violation, choice, Path(cls.trace_dir).absolute())
        replay = _replay_command(choice)
        shown = terminal.finding(violation, "", trace, replay, _WIDTH, Legend())
        head = f"a random order breaks {violation.property}, and was made short:\n\n"
        return VerdictError(head + plain(shown, _WIDTH), [_summary(violation, replay.line(trace))])


def chosen_profile() -> str:
    """The profile that the environment chooses. Raises KvraceError for an unknown one."""
    name = os.environ.get(PROFILE_VARIABLE) or ("ci" if os.environ.get("CI") else "dev")
    if name not in PROFILES:
        raise KvraceError(f"{PROFILE_VARIABLE}={name}: use one of {', '.join(PROFILES)}")
    return name


@cache
def _choice(scheduler: type | str) -> SubjectChoice:
    return choose_subject(scheduler, None) if isinstance(scheduler, str) else choose_class(scheduler)


@cache
def _subject(scheduler: type | str, scope: Scope) -> Subject:
    """Made once for each scope: a random run begins with a fresh scheduler anyway."""
    return _choice(scheduler).make(scope)


def _contract(contract: str | Contract) -> Contract:
    return Contract.parse(contract) if isinstance(contract, str) else contract


def _scopes(scope: str | Scope | Sequence[Scope]) -> Sequence[Scope]:
    if isinstance(scope, str):
        return named_scope(scope)
    return [scope] if isinstance(scope, Scope) else scope


def _replay_command(choice: SubjectChoice) -> terminal.ReplayCommand:
    stock = choice.spec in ("vllm", "reference")
    return terminal.ReplayCommand(option="" if stock else f"--subject {shlex.quote(choice.spec)}")


def _write(violation: Violation, choice: SubjectChoice, folder: Path) -> Path:
    """Write the trace; the path is relative to the current folder where it lies below it."""
    path = write_trace(violation, choice.spec, choice.policy, TraceFolder(folder).path)
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _summary(violation: Violation, replay: str) -> str:
    return f"{violation.property} ({violation.blame}): {violation.message}\n  {replay}"


def _violation(broken: Broken) -> Violation:
    """The order as a violation. It is played once more, to find the line of code behind it."""
    finding, subject = broken.finding, broken.subject
    events = [frame.event for frame in broken.frames if frame.event is not None]
    _, responses, _ = play_recording(subject, broken.contract, events)
    return Violation(
        finding.property,
        finding.blame,
        finding.shape,
        finding.message,
        line_behind(finding, broken.loop_start is not None, responses),
        subject.scope,
        subject.identity,
        broken.contract,
        broken.frames,
        finding.blocks,
        broken.loop_start,
    )
