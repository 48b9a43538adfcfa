"""The real vLLM scheduler behind the port: any class from ``vllm.v1.core.sched``, or a subclass of one, unmodified."""

from __future__ import annotations

import traceback
from collections import deque
from typing import Any

from kvmodel.errors import KvraceError
from kvmodel.events import Abort, Add, Event, Schedule, Update
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
)
from kvmodel.scope import Scope
from kvrace.capture import StateWalk
from kvrace.vllm.api import Api, load_api
from kvrace.vllm.environment import make_config
from kvrace.vllm.observation import observe
from kvrace.vllm.state import capture_rules

_TOKEN, _STOP_TOKEN = 5, 99


class HarnessError(KvraceError):
    """kvrace itself raised while the scheduler was running. A fault of ours, never a verdict."""


class SortedIds(set[str]):
    """A set whose order of iteration does not depend on the hash seed: the connector's reports, in the order of their ids."""

    def __iter__(self) -> Any:
        return iter(sorted(super().__iter__()))


class VllmSubject:
    """One scheduler class in one scope. ``scheduler_class`` defaults to vLLM's own for the scope's scheduling."""

    def __init__(self, scope: Scope, scheduler_class: type | None = None) -> None:
        self.scope = scope
        self._api: Api = load_api()
        self._class = scheduler_class or self._api.scheduler_class(scope.scheduling)
        self._config = make_config(scope.scheduling == "async", scope.block_size, scope.prefix_sharing)
        self._config.cache_config.num_gpu_blocks = scope.blocks + 1
        self._walk = StateWalk(capture_rules(self._api))
        self._requests = {name: self._api.request_maker(scope, index) for index, name in enumerate(scope.names)}
        self._steps: deque[tuple[Any, tuple[str, ...]]] = deque()
        self._pending = False
        self.scheduler: Any = None

    @property
    def identity(self) -> Identity:
        stock = self._class is self._api.scheduler_class(self.scope.scheduling)
        name = self._class.__name__ if stock else f"{self._class.__module__}:{self._class.__qualname__}"
        return Identity("vllm", self._api.version, name)

    def start(self) -> None:
        self._config.cache_config.num_gpu_blocks = self.scope.blocks + 1
        self.scheduler = self._api.make_scheduler(self._class, self._config, self.scope)
        self._steps.clear()
        self._pending = bool(self.scheduler.has_requests())

    def apply(self, event: Event, script: dict[str, ConnectorScript]) -> Response:
        connector = self.scheduler.connector
        connector.begin(script)
        step: DispatchedStep | None = None
        notices: tuple[str, ...] = ()
        crash: Crash | None = None
        try:
            match event:
                case Add(name):
                    self.scheduler.add_request(self._requests[name]())
                case Abort(name):
                    self.scheduler.finish_requests([name], self._api.aborted)
                case Schedule():
                    step = self._schedule()
                case Update():
                    notices = self._update(event)
            self._pending = bool(self.scheduler.has_requests())
        except SubjectHang as hang:
            crash = _crash(hang, str(hang))
        except Exception as error:
            crash = _crash(error, f"{type(error).__name__}" + (f" ({_first_line(error)})" if str(error) else ""))
        return Response(step, tuple(connector.loads), tuple(connector.handovers), notices, crash)

    def _schedule(self) -> DispatchedStep:
        output = self.scheduler.schedule()
        counts = output.num_scheduled_tokens
        requests = self.scheduler.requests
        entries = []
        for new in output.scheduled_new_reqs:
            entries.append((new.req_id, new.block_ids, True, new.num_computed_tokens))
        cached = output.scheduled_cached_reqs
        for index, name in enumerate(cached.req_ids):
            resumed = name in cached.resumed_req_ids
            entries.append((name, cached.new_block_ids[index], resumed, cached.num_computed_tokens[index]))
        scheduled = []
        for name, block_ids, replaces, before in entries:
            computed = before + counts[name]
            blocks = tuple(block_ids[0]) if block_ids else ()
            samples_token = computed >= requests[name].num_tokens
            scheduled.append(ScheduledRequest(name, blocks, replaces, before, computed, samples_token))
        samples = tuple(entry.request for entry in scheduled if entry.samples)
        self._steps.append((output, samples))
        preempted = tuple(sorted(getattr(output, "preempted_req_ids", None) or ()))
        return DispatchedStep(tuple(scheduled), preempted, tuple(sorted(output.finished_req_ids)))

    def _update(self, event: Update) -> tuple[str, ...]:
        output, samples = self._steps.popleft()
        tokens = {name: [_STOP_TOKEN if name in event.stops else _TOKEN] for name in samples}
        sending = SortedIds(report.request for report in event.reports if report.direction == "save")
        receiving = SortedIds(report.request for report in event.reports if report.direction == "load")
        answer = self._api.runner_output(list(output.num_scheduled_tokens), tokens, sending, receiving)
        outputs = self.scheduler.update_from_output(output, answer)
        return tuple(
            sorted(
                item.request_id
                for batch in outputs.values()
                for item in batch.outputs
                if item.finish_reason is not None
            )
        )

    def observe(self) -> Observation:
        return observe(self.scheduler, self.scope.names, len(self._steps), self._pending)

    def capture(self, names: dict[int, int]) -> Capture:
        scheduler = self.scheduler
        self._walk.context["processed"] = getattr(scheduler, "processed_step_seq", 0)
        self._walk.context["step"] = getattr(scheduler, "current_step", 0)
        in_flight = tuple((tuple(output.num_scheduled_tokens.items()), samples) for output, samples in self._steps)
        return self._walk.capture(scheduler, names, in_flight, tuple(self._steps))

    def notes(self, exhausted: bool) -> tuple[str, ...]:
        return self._walk.notes(exhausted)

    def restore(self, snapshot: Any) -> None:
        self._steps = deque(self._walk.restore(snapshot))


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200]


def _crash(error: BaseException, text: str) -> Crash:
    """Where the scheduler's code raised. Raises HarnessError when the innermost frame is kvrace's own."""
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SubjectHang):
        frames = [f for f in frames if "kvrace" not in f.filename.split("/")] or frames  # type: ignore[assignment]
    frame = frames[-1]
    if frame.filename == __file__ or frame.filename.endswith("kvrace/vllm/connector.py"):
        raise HarnessError(f"kvrace failed in {frame.filename}:{frame.lineno}: {text}; please report this") from error
    location = f"{_short(frame.filename)}:{frame.lineno} in {frame.name}"
    return Crash(text, location, frame.line or "", hang=isinstance(error, SubjectHang))


def _short(filename: str) -> str:
    """The file as a vLLM maintainer names it: from the package folder on."""
    head, mark, tail = filename.rpartition("/site-packages/")
    return tail if mark else filename
