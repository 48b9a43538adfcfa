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
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from hypothesis.strategies import SearchStrategy

from kvmodel.contract import Contract
from kvmodel.errors import KvraceError
from kvmodel.named_scopes import named_scope
from kvmodel.port import Subject
from kvmodel.profiles import PROFILES
from kvmodel.properties import chosen_properties
from kvmodel.relation.policies import policy_named
from kvmodel.scope import Scope
from kvmodel.stateful import Broken, TransferMachine
from kvmodel.strategies import scopes
from kvrace.check import Limits, check
from kvrace.files import TraceFolder
from kvrace.places import line_behind, play_recording
from kvrace.render import terminal
from kvrace.render.output import plain
from kvrace.render.swimlane import Legend
from kvrace.result import CheckResult, Violation
from kvrace.subjects import BUILT_IN, SubjectChoice, choose_class, choose_subject
from kvrace.trace import write_trace
from kvrace.watchdog import ending, watched

__all__ = ["Checked", "SchedulerMachine", "VerdictError", "check_scheduler", "scopes"]

PROFILE_VARIABLE = "KVRACE_PROFILE"
"""The environment variable that chooses how long random orders go on; pytest's option ``--kvrace-profile`` sets it."""
TRACES_VARIABLE = "KVRACE_TRACE_DIR"
"""The environment variable that names the folder for orders; pytest's option ``--kvrace-trace-dir`` sets it."""
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
    scheduler: type | str
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
        """Every property that was checked, and conformance if it was, holds over the whole scope. Raises VerdictError, with the
        report and trace files."""
        __tracebackhide__ = True
        if self.verdict != "holds":
            raise self._error("")

    def assert_violated(self, *properties: str) -> None:
        """Exactly these properties are violated, and the scope is exhausted. Raises VerdictError."""
        __tracebackhide__ = True
        chosen_properties(properties or None)
        violated = {name for name, verdict in self.result.verdicts.items() if verdict == "violated"}
        if violated != set(properties) or not self.result.complete:
            wanted = ", ".join(properties) or "nothing"
            raise self._error(f"asserted: violated are {wanted}, over the whole scope\n")

    def report(self) -> str:
        """The report of ``kvrace check``, in plain text. Writes the trace files that it names."""
        return self._report(self._traces())

    def _report(self, traces: dict[Violation, Path]) -> str:
        identities = list(dict.fromkeys(case.identity for case in self.result.cases))
        shown = terminal.report(self.result, identities, traces, _replay_command(self.choice, self.scheduler), _WIDTH)
        return plain(shown, _WIDTH)

    def _traces(self) -> dict[Violation, Path]:
        return {found: _write(found, self.choice, self.trace_dir) for found in self.result.violations}

    def _error(self, head: str) -> VerdictError:
        traces, replay = self._traces(), _replay_command(self.choice, self.scheduler)
        summary = [_summary(found, replay.line(path)) for found, path in traces.items()]
        if self.result.conformance is not None:
            found = (one for one in self.result.conformance.divergences if one.unexplained)
            summary += [f"conformance: {one.divergence.words}" for one in found]
        if not summary:
            summary = [f"incomplete: {self.result.stopped or 'not every case was exhausted'}"]
        return VerdictError(head + self._report(traces), summary)


def check_scheduler(
    scheduler: type | str = "vllm",
    *,
    scope: str | Scope | Sequence[Scope] = "small",
    contract: str | Contract = "exactly-once",
    properties: str | Sequence[str] | None = None,
    conformance: str | None = None,
    time_limit: float | None = None,
    max_states: int | None = None,
    call_timeout: float = 10.0,
    trace_dir: str | Path | None = None,
) -> Checked:
    """Exhaust a scope on a scheduler, as ``kvrace check`` does.

    ``scheduler``: a subclass of vLLM's Scheduler, or what ``--subject`` takes (``vllm``, ``reference``, ``module:Class``).
    ``scope``: a name, or scopes of one's own; a class plays those for its kind, sync or async. ``properties``: all without it.
    ``conformance``: the policy of the specification that every step is held against, as for ``--conformance``; a divergence that
    no broken property explains is a violation. Times are in seconds. ``trace_dir``: by default what ``KVRACE_TRACE_DIR`` says,
    else ``kvrace-traces`` in the current folder.
    Raises KvraceError for what cannot be checked.
    """
    named = [properties] if isinstance(properties, str) else properties
    wanted = chosen_properties(None if named is None else list(named))
    limits = Limits.of(time_limit, max_states, call_timeout)
    asked = _scopes(scope)
    choice = _choice(scheduler)
    cases = choice.cases(asked, None)
    result = check(
        ending(choice.make, call_timeout),
        cases,
        _contract(contract),
        scope_name=scope if isinstance(scope, str) else "flags",
        properties=wanted,
        limits=limits,
        conformance=None if conformance is None else policy_named(conformance).name,
    )
    return Checked(result, choice, scheduler, _folder(trace_dir))


class SchedulerMachine(TransferMachine):
    """Random orders on a scheduler: a Hypothesis state machine to subclass.

    ``scheduler``, ``trace_dir``, ``call_timeout``: as for :func:`check_scheduler`; ``scopes``: a strategy, one Scope or several
    (default: mixed ones of up to six requests, :func:`scopes`), changed where needed to what the scheduler can play;
    ``contract``, ``properties``, ``coverage``: as in :class:`kvmodel.stateful.TransferMachine`; ``profile``: ``dev``, ``ci`` or
    ``nightly``, by default what ``KVRACE_PROFILE`` says, or ``ci`` where ``CI`` is set.

    ``TestCase`` is for unittest and pytest; ``run()`` runs it inside a test function. What breaks a property is shortened, written
    as a trace file, and raised as VerdictError.
    """

    scheduler: ClassVar[type | str] = "vllm"
    trace_dir: ClassVar[str | None] = None
    call_timeout: ClassVar[float] = 10.0

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.contract = _contract(cls.contract)

    @classmethod
    def default_profile(cls) -> str:
        return chosen_profile()

    @classmethod
    def scopes_to_draw(cls) -> SearchStrategy[Scope]:
        choice = _choice(cls.scheduler)

        def playable(scope: Scope) -> Scope:
            if scope.scheduling not in choice.schedulings:
                scope = replace(scope, scheduling=choice.schedulings[0])
            return replace(scope, token_budget=0, priorities=()) if choice.spec == "reference" else scope

        return super().scopes_to_draw().map(playable)

    @classmethod
    @contextmanager
    def open_subject(cls, scope: Scope) -> Iterator[Subject]:
        choice = _choice(cls.scheduler)
        if scope.scheduling not in choice.schedulings:
            raise KvraceError(f"{choice.spec} plays {choice.schedulings[0]} scheduling only")
        with watched(choice.make(scope), cls.call_timeout) as subject:
            yield subject

    @classmethod
    def failure(cls, broken: Broken) -> AssertionError:
        choice = _choice(cls.scheduler)
        violation = _violation(broken)
        trace = _write(violation, choice, _folder(cls.trace_dir))
        replay = _replay_command(choice, cls.scheduler)
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


def _folder(trace_dir: str | Path | None) -> Path:
    return Path(trace_dir or os.environ.get(TRACES_VARIABLE) or TRACE_FOLDER).absolute()


def _contract(contract: str | Contract) -> Contract:
    return Contract.parse(contract) if isinstance(contract, str) else contract


def _scopes(scope: str | Scope | Sequence[Scope]) -> Sequence[Scope]:
    if isinstance(scope, str):
        return named_scope(scope)
    return [scope] if isinstance(scope, Scope) else scope


def _replay_command(choice: SubjectChoice, scheduler: type | str) -> terminal.ReplayCommand:
    """The command as it can be pasted in the current folder: a class in a test file is found there only if its folder is named."""
    if isinstance(scheduler, str):
        stock = choice.spec in BUILT_IN
        return terminal.ReplayCommand(option="" if stock else f"--subject {shlex.quote(choice.spec)}")
    if "<locals>" in choice.spec or scheduler.__module__ == "__main__":
        return terminal.ReplayCommand(instead="no command can name this class; define it at the top of a module")
    program = "kvrace"
    file = getattr(sys.modules.get(scheduler.__module__), "__file__", None)
    if file is not None:
        folder = Path(file).absolute().parents[scheduler.__module__.count(".") + (Path(file).name == "__init__.py")]
        if folder != Path.cwd() and "site-packages" not in folder.parts:
            program = f"PYTHONPATH={shlex.quote(os.path.relpath(folder))} kvrace"
    return terminal.ReplayCommand(program, f"--subject {shlex.quote(choice.spec)}")


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
