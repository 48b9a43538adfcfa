"""What an order of events needs: which requests, what the connector does for them, which step an update belongs to."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from kvmodel.contract import Contract
from kvmodel.early import EARLY
from kvmodel.errors import KvraceError
from kvmodel.events import (
    AbortAll,
    Add,
    AddAgain,
    Event,
    Pause,
    Report,
    Reset,
    Resume,
    Schedule,
    TransferEnds,
    Update,
)
from kvmodel.scope import Scope


@dataclass(frozen=True, slots=True)
class Call:
    """One event. ``step`` is the number of the step that a schedule makes or an update processes, else 0."""

    number: int
    event: Event
    step: int


@dataclass(frozen=True, slots=True)
class Order:
    """The events of a trace with their steps numbered. ``in_flight`` are the steps not processed at the end, and
    ``in_flight_before`` those not processed before the last event."""

    scope: Scope
    contract: Contract
    calls: tuple[Call, ...]
    in_flight: tuple[int, ...]
    in_flight_before: tuple[int, ...]

    @classmethod
    def of(cls, scope: Scope, contract: Contract, events: tuple[Event, ...]) -> Order:
        """Raises KvraceError for an order that no scheduler can play."""
        calls: list[Call] = []
        added: set[str] = set()
        again: list[str] = []
        flying: deque[int] = deque()
        before: tuple[int, ...] = ()
        steps = 0
        for number, event in enumerate(events, 1):
            before = tuple(flying)
            step = 0
            match event:
                case Schedule():
                    step = steps = steps + 1
                    flying.append(step)
                    if len(flying) > scope.steps_in_flight:
                        raise KvraceError(f"event {number}: more than {scope.steps_in_flight} steps are in flight")
                case Update():
                    if not flying:
                        raise KvraceError(f"event {number} '{event}': no step is in flight")
                    step = flying.popleft()
                case Add(name) if name in added:
                    raise KvraceError(f"event {number} '{event}': {name} was already added")
                case Add(name):
                    added.add(name)
                case AddAgain(name):
                    again.append(name)
            for name in _requests(event):
                if name not in added:
                    raise KvraceError(f"event {number} '{event}': {name} was not added")
            if len(set(again)) < len(again):
                raise KvraceError(f"event {number} '{event}': {again[-1]} was used again already")
            calls.append(Call(number, event, step))
        if not added <= set(scope.names):
            raise KvraceError(f"the scope has no request {sorted(added - set(scope.names))[0]}")
        return cls(scope, contract, tuple(calls), tuple(flying), before)

    @property
    def requests(self) -> dict[str, int]:
        """The requests that come, with their numbers in the scope."""
        names = {call.event.request for call in self.calls if isinstance(call.event, Add)}
        return {name: index for index, name in enumerate(self.scope.names) if name in names}

    @property
    def loads(self) -> tuple[str, ...]:
        return tuple(name for name, index in self.requests.items() if self.scope.loads(index))

    @property
    def loads_in_step(self) -> tuple[str, ...]:
        return tuple(name for name, index in self.requests.items() if self.scope.loads_in_step(index))

    @property
    def failures(self) -> bool:
        return any(update.failures for update in self.updates)

    @property
    def failed_from(self) -> int:
        """The number of the event from which on a load has failed; after all events where none does."""
        failing = (c.number for c in self.calls if isinstance(c.event, Update) and c.event.failures)
        return next(failing, len(self.calls) + 1)

    @property
    def schedules(self) -> tuple[Call, ...]:
        return tuple(call for call in self.calls if isinstance(call.event, Schedule))

    @property
    def saves(self) -> tuple[str, ...]:
        return tuple(name for name, index in self.requests.items() if self.scope.saves(index))

    @property
    def unclaimed(self) -> tuple[str, ...]:
        return tuple(
            sorted(call.event.request for call in self.calls if isinstance(call.event, Add) and not call.event.claims)
        )

    @property
    def updates(self) -> tuple[Update, ...]:
        return tuple(call.event for call in self.calls if isinstance(call.event, Update))

    @property
    def stops(self) -> bool:
        return any(update.stops for update in self.updates)

    @property
    def accepts(self) -> bool:
        """Whether an output accepts drafts."""
        return any(update.drafts for update in self.updates)

    def flying_before(self, step: int) -> tuple[int, ...]:
        """The steps that are in flight when the step with this number is scheduled."""
        number = next(call.number for call in self.schedules if call.step == step)
        done = {call.step for call in self.calls if call.number < number and isinstance(call.event, Update)}
        return tuple(earlier for earlier in range(1, step) if earlier not in done)

    @property
    def separate_ends(self) -> bool:
        return any(isinstance(call.event, TransferEnds) for call in self.calls)

    @property
    def reuses(self) -> bool:
        return any(isinstance(call.event, AddAgain) for call in self.calls)

    @property
    def lookups(self) -> bool:
        """Whether the connector's answers to lookups change."""
        return any(isinstance(call.event, Schedule) and _asked(call.event) for call in self.calls)

    @property
    def paused(self) -> bool:
        """Whether the engine is paused at the end."""
        pauses = [call.event for call in self.calls if isinstance(call.event, Pause | Resume)]
        return bool(pauses) and isinstance(pauses[-1], Pause)

    @property
    def takes_scheduler(self) -> bool:
        """Whether the generated ``model_output`` looks at the scheduler."""
        return bool(self.scope.token_budget) or self.scope.ranks > 1

    @property
    def early(self) -> bool:
        return any(report.kind in EARLY for update in self.updates for report in update.reports)

    def told_before(self, number: int, report: Report) -> bool:
        """Whether the transfer was reported too early before the event with this number."""
        told = [
            other
            for call in self.calls
            if call.number < number and isinstance(call.event, Update)
            for other in call.event.reports
            if other.kind in EARLY
        ]
        return any(replace(other, kind=report.kind) == report for other in told)

    @property
    def reports_due(self) -> bool:
        return any(report.kind in ("due", "earlier") for update in self.updates for report in update.reports)

    @property
    def two_of_a_kind(self) -> bool:
        """Whether one output names two requests in one set: then the order in which a set is read could matter."""
        return any(_most(update.reports) > 1 for update in self.updates)


def _most(reports: tuple[Report, ...]) -> int:
    loads = sum(report.direction == "load" for report in reports)
    return max(loads, len(reports) - loads)


def _asked(event: Schedule) -> tuple[str, ...]:
    return (*event.later, *event.missing)


def _requests(event: Event) -> tuple[str, ...]:
    match event:
        case AbortAll() | Reset() | Pause() | Resume():
            return ()
        case Schedule():
            return _asked(event)
        case Update(reports, stops, failures, drafts):
            told = (*(report.request for report in reports), *(failure.request for failure in failures))
            return (*told, *stops, *(name for name, _ in drafts))
        case _:
            return (event.request,)
