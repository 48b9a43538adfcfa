"""The real vLLM scheduler behind the port: any class from ``vllm.v1.core.sched``, or a subclass of one, unmodified."""

from __future__ import annotations

import os
import traceback
from collections import deque
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from kvmodel.errors import KvraceError
from kvmodel.events import Abort, Add, Event, Report, Schedule, Update
from kvmodel.life import LifeEvent
from kvmodel.port import (
    Capture,
    ConnectorScript,
    Crash,
    DispatchedStep,
    Identity,
    Observation,
    ResetAnswer,
    Response,
    ScheduledRequest,
    SubjectHang,
    UnknownSubject,
)
from kvmodel.scope import Scope
from kvrace.capture import StateWalk
from kvrace.patch.active import applied_patch, patch_notes
from kvrace.places import answer_recording
from kvrace.vllm.api import Api, load_api
from kvrace.vllm.differences import common_prefix, preempted, resumed
from kvrace.vllm.engine import propose_drafts
from kvrace.vllm.environment import make_config
from kvrace.vllm.failures import check_failures_known, put_failures
from kvrace.vllm.life import ENTRY_POINTS, check_life, life_rules, play_life
from kvrace.vllm.moves import moves_of, places_of
from kvrace.vllm.observation import observe
from kvrace.vllm.ranks import aggregated, aggregator_class, counts_left, make_aggregator
from kvrace.vllm.state import capture_rules, compared_like_stock, foreign_classes

_TOKEN, _STOP_TOKEN = 5, 99
_ENTRY_POINTS: dict[type, str] = {
    Add: "add_request",
    Abort: "finish_requests",
    Schedule: "schedule",
    Update: "update_from_output",
    **ENTRY_POINTS,
}


class HarnessError(KvraceError):
    """kvrace itself raised while the scheduler was running. A fault of ours, never a verdict."""


_PRISTINE: dict[type, Any] = {}
"""The state of subclasses themselves before kvrace made a scheduler of them."""


class SortedIds(set[str]):
    """A set whose order of iteration does not depend on the hash seed: the connector's reports, in the order of their ids."""

    def __iter__(self) -> Any:
        return iter(sorted(super().__iter__()))


class VllmSubject:
    """One scheduler class in one scope. ``scheduler_class`` defaults to vLLM's own for the scope's scheduling.

    Files of a subclass are shown relative to ``folder`` if they lie below it.
    """

    def __init__(
        self,
        scope: Scope,
        scheduler_class: type | None = None,
        folder: str | None = None,
        aggregator: type | None = None,
    ) -> None:
        self.scope = scope
        self.records = False
        self._api: Api = load_api()
        check_failures_known(self._api, scope)
        check_life(scope, self._api)
        self._class = scheduler_class or self._api.scheduler_class(scope.scheduling)
        self._config = make_config(scope)
        self._walk = StateWalk(life_rules(capture_rules(self._api, self._class), self._api, scope))
        self._foreign = foreign_classes(self._class)
        self._like_stock = compared_like_stock(self._class)
        self._shown = partial(_shown, folders=(self._api.folder, folder))
        self._places = places_of(self._class, self._shown)
        self._requests = {name: self._api.request_maker(scope, index) for index, name in enumerate(scope.names)}
        self._aggregator_class = (aggregator or aggregator_class()) if scope.ranks > 1 else None
        self.aggregator: Any = None
        self._steps: deque[tuple[Any, tuple[str, ...]]] = deque()
        self._pending = False
        self._delivered: tuple[str, ...] = ()
        self.scheduler: Any = None

    @property
    def identity(self) -> Identity:
        stock = self._class is self._api.scheduler_class(self.scope.scheduling)
        name = self._class.__name__ if stock else f"{self._class.__module__}:{self._class.__qualname__}"
        return Identity("vllm", self._api.version, _printable(name), applied_patch())

    @property
    def location(self) -> str:
        return self._places.definition("schedule")

    def start(self) -> None:
        """A fresh scheduler. Raises KvraceError when a subclass cannot be constructed."""
        if self._foreign:
            self._refresh_classes()
        try:
            self.scheduler = self._api.make_scheduler(self._class, self._config, self.scope)
            if self._aggregator_class is not None:
                self.aggregator = make_aggregator(self._aggregator_class, self.scheduler.connector, self.scope)
            self._pending = bool(self.scheduler.has_requests())
        except (Exception, SystemExit) as error:
            raise KvraceError(
                f"constructing {self._class.__name__} failed: {_text(error)}{self._place(error)}"
            ) from error
        self._steps.clear()

    def _refresh_classes(self) -> None:
        """What a subclass keeps in its class outlives its schedulers: put back what was there before the first of them."""
        if self._class not in _PRISTINE:
            _PRISTINE[self._class] = self._walk.capture((), {}, classes=self._foreign).snapshot
        self._walk.restore(_PRISTINE[self._class])

    def apply(self, event: Event, script: dict[str, ConnectorScript]) -> Response:
        if not self.records:
            return self._play(event, script)
        moves = moves_of(self.scheduler, self._places)
        return answer_recording(lambda: self._play(event, script), moves, self._places, _ENTRY_POINTS[type(event)])

    def _play(self, event: Event, script: dict[str, ConnectorScript]) -> Response:
        connector = self.scheduler.connector
        connector.begin(script)
        step: DispatchedStep | None = None
        notices: tuple[str, ...] = ()
        self._delivered = ()
        crash: Crash | None = None
        reset: ResetAnswer | None = None
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
                case _ if isinstance(event, LifeEvent):
                    again = self._requests
                    reset = play_life(self.scheduler, event, self._api, lambda name: again[name](), self._crash)
            self._pending = bool(self.scheduler.has_requests())
        except (KeyboardInterrupt, UnknownSubject):
            raise
        except BaseException as error:  # also SystemExit: a scheduler that leaves takes the engine with it
            crash = self._crash(error)
        told = (tuple(connector.loads), tuple(connector.handovers), notices, crash)
        return Response(step, *told, reset=reset, delivered=self._delivered)

    def _schedule(self) -> DispatchedStep:
        running = list(self.scheduler.running)
        output = self.scheduler.schedule()
        if not isinstance(output, self._api.scheduler_output):
            raise _WrongAnswer("schedule", output, "SchedulerOutput", self._places.entry("schedule"))
        counts, drafts = output.num_scheduled_tokens, output.scheduled_spec_decode_tokens
        requests = self.scheduler.requests
        entries = []
        for new in output.scheduled_new_reqs:
            entries.append((new.req_id, new.block_ids, True, new.num_computed_tokens))
        cached = output.scheduled_cached_reqs
        for index, name in enumerate(cached.req_ids):
            again = resumed(cached, index)
            entries.append((name, cached.new_block_ids[index], again, cached.num_computed_tokens[index]))
        scheduled = []
        for name, block_ids, replaces, before in entries:
            computed = before + counts[name]
            blocks, *other = map(tuple, block_ids or ((),))
            samples_token = computed >= requests[name].num_tokens
            window = other[0] if other else ()
            count = len(drafts.get(name, ()))
            scheduled.append(ScheduledRequest(name, blocks, replaces, before, computed, samples_token, window, count))
        samples = tuple(entry.request for entry in scheduled if entry.samples)
        self._steps.append((output, samples))
        out_of_batch = tuple(sorted(preempted(output, running)))
        common = common_prefix(output) if self.scope.cascade else 0
        return DispatchedStep(tuple(scheduled), out_of_batch, tuple(sorted(output.finished_req_ids)), common)

    def _update(self, event: Update) -> tuple[str, ...]:
        output, samples = self._steps.popleft()
        accepted = dict(event.drafts)
        tokens = {
            name: [*[_TOKEN] * accepted.get(name, 0), _STOP_TOKEN if name in event.stops else _TOKEN]
            for name in samples
        }

        def of_rank(reports: Iterable[Report]) -> Any:
            sending = SortedIds(report.request for report in reports if report.direction == "save")
            receiving = SortedIds(report.request for report in reports if report.direction == "load")
            return self._api.runner_output(list(output.num_scheduled_tokens), tokens, sending, receiving)

        if self.aggregator is None:
            answer = of_rank(event.reports)
        else:
            answer = aggregated(self.aggregator, self.scope, event.reports, of_rank)
        if event.failures:
            put_failures(answer.kv_connector_output, event.failures, self.scheduler.connector.script)
        outputs = self.scheduler.update_from_output(output, answer)
        if not isinstance(outputs, dict):
            place = self._places.entry("update_from_output")
            raise _WrongAnswer("update_from_output", outputs, "dict of EngineCoreOutputs", place)
        if self.scope.drafts:
            propose_drafts(self.scheduler, samples, self.scope.drafts)
        items = [item for batch in outputs.values() for item in batch.outputs]
        if self.scope.load_failures:
            self._delivered = tuple(sorted(item.request_id for item in items if item.new_token_ids))
        return tuple(sorted(item.request_id for item in items if item.finish_reason is not None))

    def observe(self) -> Observation:
        stock = self._api.stock_attributes[self._api.scheduler] if self._foreign else None
        seen = observe(self.scheduler, self.scope.names, len(self._steps), self._pending, stock)
        if self.aggregator is None or self._steps:
            return seen
        return seen._replace(tables=(*seen.tables, *counts_left(self.aggregator, self.scope.names)))

    def capture(self, names: dict[int, int]) -> Capture:
        scheduler, walk = self.scheduler, self._walk
        walk.context["processed"] = getattr(scheduler, "processed_step_seq", 0)
        walk.context["step"] = getattr(scheduler, "current_step", 0)
        in_flight = tuple((tuple(output.num_scheduled_tokens.items()), samples) for output, samples in self._steps)
        # A subclass may keep state in its class, and may look into steps in flight unless it says that it does not.
        outputs = [] if self._like_stock else [output for output, _ in self._steps]
        root = (scheduler, outputs) if self.aggregator is None else (scheduler, outputs, self.aggregator)
        return walk.capture(root, names, in_flight, tuple(self._steps), classes=self._foreign)

    def restore(self, snapshot: Any) -> None:
        self._steps = deque(self._walk.restore(snapshot))

    def notes(self, exhausted: bool) -> tuple[str, ...]:
        like_stock = self._foreign and self._like_stock
        word = [f"compared like vLLM's own, at the word of its classes: {self._class.__name__}"] if like_stock else []
        return (*word, *self._walk.notes(exhausted), *patch_notes())

    def _crash(self, error: BaseException) -> Crash:
        """Where the scheduler's code raised. Raises HarnessError when it was kvrace's own code that did."""
        hang = isinstance(error, SubjectHang)
        if isinstance(error, _WrongAnswer):
            return Crash(str(error), error.location, "")
        frames = list(traceback.extract_tb(error.__traceback__))
        ours = [frame for frame in frames if _is_ours(frame.filename)]
        if frames[-1] in ours and not hang and not self._foreign:
            frame = frames[-1]
            raise HarnessError(
                f"kvrace failed in {frame.filename}:{frame.lineno}: {_text(error)}; please report this"
            ) from error
        frame = next((frame for frame in reversed(frames) if frame not in ours), frames[-1])
        text = str(error) if hang else _text(error)
        location = f"{self._shown(frame.filename)}:{frame.lineno} in {frame.name}"
        return Crash(text, location, _printable(frame.line or ""), hang=hang)

    def _place(self, error: BaseException) -> str:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if not _is_ours(f.filename)]
        return f" ({self._shown(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""


class _WrongAnswer(Exception):
    """An entry point gave something its caller, EngineCore, cannot go on with."""

    def __init__(self, method: str, answer: object, wanted: str, location: str) -> None:
        super().__init__(f"{method} returned {type(answer).__name__} instead of a {wanted}")
        self.location = location


_OWN_FOLDER = str(Path(__file__).resolve().parents[1])


def _is_ours(filename: str) -> bool:
    return filename.startswith(_OWN_FOLDER)


def _text(error: BaseException) -> str:
    """The type and the first line of an exception, whatever its ``__str__`` does."""
    try:
        lines = str(error).strip().splitlines()
    except Exception:
        lines = []
    name = type(error).__name__
    return f"{name} ({_printable(lines[0][:200])})" if lines else name


def _printable(text: str) -> str:
    """What a terminal would obey, or no encoding can write, as Python would write it in a string."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


def _shown(filename: str, folders: tuple[str | None, ...]) -> str:
    """The file as its maintainer names it: from the package folder on, or below one of ``folders``, else as it is."""
    head, mark, tail = filename.rpartition("/site-packages/")
    if mark:
        return tail
    below = next((folder for folder in folders if folder and filename.startswith(folder + os.sep)), None)
    return os.path.relpath(filename, below) if below else filename
