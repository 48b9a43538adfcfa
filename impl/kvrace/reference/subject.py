"""The reference scheduler behind the port."""

from __future__ import annotations

import traceback
from collections import deque
from typing import Any

from kvmodel.events import Abort, AbortAll, Add, Event, Schedule, Update
from kvmodel.port import (
    Capture,
    ConnectorScript,
    Crash,
    DispatchedStep,
    Identity,
    Observation,
    Response,
    ScheduledRequest,
    SubjectHang,
    UnknownSubject,
)
from kvmodel.scope import Scope
from kvrace import __version__
from kvrace.capture import StateWalk
from kvrace.places import answer_recording
from kvrace.reference.connector import ScriptedConnector
from kvrace.reference.moves import moves_of, places_of, shown
from kvrace.reference.observation import observe
from kvrace.reference.policies import make_policy
from kvrace.reference.request import Request
from kvrace.reference.scheduler import ReferenceScheduler
from kvrace.reference.state import capture_rules

_TOKEN, _STOP_TOKEN = 5, 99
_ENTRY_POINTS: dict[type, str] = {
    Add: "add_request",
    Abort: "abort",
    AbortAll: "abort_all",
    Schedule: "schedule",
    Update: "update",
}


class ReferenceSubject:
    """The reference scheduler in one scope, with the completion policy ``policy``.

    ``mutant`` names a planted fault of :data:`kvrace.reference.faults.FAULTS`. Raises KvraceError for an unknown policy or
    fault, and UnknownSubject for a scope it cannot play.
    """

    def __init__(self, scope: Scope, policy: str = "assert", mutant: str | None = None) -> None:
        if scope.token_budget or scope.priorities or scope.window or scope.drafts:
            raise UnknownSubject(
                "the reference scheduler has no token budget, no priorities, one group of blocks and no drafts; such a scope is "
                "for vLLM (--subject vllm)"
            )
        if scope.max_requests or set(scope.lifecycle) - {"abort_all"}:
            raise UnknownSubject(
                "of the engine's life the reference scheduler knows abort_all only; such a scope is for vLLM (--subject vllm)"
            )
        if scope.cascade:
            raise UnknownSubject(
                "the reference scheduler tells no step what its requests have in common: leave out cascade"
            )
        if scope.ranks > 1:
            raise UnknownSubject("the reference scheduler has one rank; several ranks are for vLLM (--subject vllm)")
        if scope.load_failures or any(map(scope.loads_in_step, range(len(scope.requests)))):
            raise UnknownSubject(
                "the reference scheduler has no load failures and no synchronous loads; such a scope is for vLLM (--subject vllm)"
            )
        self.scope = scope
        self.records = False
        self._policy_name, self._mutant = policy, mutant
        self._policy = make_policy(policy)
        self._class: type[ReferenceScheduler] = ReferenceScheduler
        if mutant is not None:
            from kvrace.reference.faults import fault

            self._class = fault(mutant)
        self._places = places_of(self._class, type(self._policy))
        self._walk = StateWalk(capture_rules())
        self._connector = ScriptedConnector(scope.block_size)
        self._steps: deque[DispatchedStep] = deque()
        self.scheduler: ReferenceScheduler

    @property
    def identity(self) -> Identity:
        name = "AsyncScheduler" if self.scope.scheduling == "async" else "Scheduler"
        fault = f" mutant {self._mutant}" if self._mutant else ""
        return Identity("reference", __version__, f"{name} policy {self._policy_name}{fault}")

    @property
    def location(self) -> str:
        return self._places.definition("schedule")

    def start(self) -> None:
        scope = self.scope
        self.scheduler = self._class(
            self._connector,
            self._policy,
            usable_blocks=scope.blocks,
            block_size=scope.block_size,
            prefix_sharing=scope.prefix_sharing,
            overlapping=scope.steps_in_flight > 1,
        )
        self._steps.clear()

    def apply(self, event: Event, script: dict[str, ConnectorScript]) -> Response:
        if not self.records:
            return self._play(event, script)
        moves = moves_of(self.scheduler, self._places)
        return answer_recording(lambda: self._play(event, script), moves, self._places, _ENTRY_POINTS[type(event)])

    def _play(self, event: Event, script: dict[str, ConnectorScript]) -> Response:
        connector = self._connector
        connector.begin(script)
        step: DispatchedStep | None = None
        notices: tuple[str, ...] = ()
        crash: Crash | None = None
        try:
            match event:
                case Add(name):
                    self.scheduler.add_request(self._request(name))
                case Abort(name):
                    self.scheduler.abort(name)
                case AbortAll():
                    self.scheduler.abort_all()
                case Schedule():
                    step = self._announced(self.scheduler.schedule())
                case Update():
                    notices = self._update(event)
        except SubjectHang as hang:
            crash = _crash(hang, str(hang))
        except Exception as error:
            crash = _crash(error, f"{type(error).__name__} ({error})")
        return Response(step, tuple(connector.loads), tuple(connector.handovers), notices, crash)

    def _announced(self, step: DispatchedStep) -> DispatchedStep:
        """The step as ``SchedulerOutput`` tells workers of it: requests that are new to them come first."""
        self._steps.append(step)
        requests = self.scheduler.requests

        def is_known(entry: ScheduledRequest) -> bool:
            return not entry.replaces or requests[entry.request].was_preempted

        return step._replace(scheduled=tuple(sorted(step.scheduled, key=is_known)))

    def _request(self, name: str) -> Request:
        prompt = self.scope.prompt(self.scope.names.index(name))
        return Request(name, prompt, self.scope.output_tokens, _STOP_TOKEN)

    def _update(self, event: Update) -> tuple[str, ...]:
        step = self._steps.popleft()
        tokens = {
            entry.request: _STOP_TOKEN if entry.request in event.stops else _TOKEN
            for entry in step.scheduled
            if entry.samples
        }
        loads = [report.request for report in event.reports if report.direction == "load"]
        saves = [report.request for report in event.reports if report.direction == "save"]
        return tuple(sorted(self.scheduler.update(step, tokens, loads, saves)))

    def observe(self) -> Observation:
        return observe(self.scheduler, self.scope.names, len(self._steps))

    def capture(self, names: dict[int, int]) -> Capture:
        self._walk.context["processed"] = self.scheduler.processed_steps
        in_flight = tuple(tuple((entry.request, entry.samples) for entry in step.scheduled) for step in self._steps)
        return self._walk.capture(self.scheduler, names, in_flight, tuple(self._steps))

    def notes(self, exhausted: bool) -> tuple[str, ...]:
        return self._walk.notes(exhausted)

    def restore(self, snapshot: Any) -> None:
        self._steps = deque(self._walk.restore(snapshot))


def _crash(error: BaseException, text: str) -> Crash:
    """Where the scheduler's code raised, or, for a hang, where it was when it was stopped."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/kvrace/reference/" in frame.filename]
    frame = frames[-1]
    location = f"{shown(frame.filename)}:{frame.lineno} in {frame.name}"
    return Crash(text, location, frame.line or "", hang=isinstance(error, SubjectHang))
