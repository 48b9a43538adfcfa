"""Events of the engine's and the client's life: when each may come, and what it does to the world.

Sources of the rules: vLLM ``EngineCore``. It takes calls from outside (abort of everything at a shutdown or a pause,
``reset_prefix_cache``, ``pause_scheduler``) where it takes new requests: never while it waits for a step, so at most
``steps_in_flight - 1`` are in flight. Only the aborts of single requests are let in there.

An id that is in use again: releases before 0.14.1 take the ids of clients as they are; later ones add something of their own,
unless they are told not to or are driven in-process. A transfer belongs to one request, and a report names only an id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

from kvmodel.events import (
    DIRECTIONS,
    AbortAll,
    AddAgain,
    Event,
    Pause,
    Report,
    Reset,
    Resume,
    Schedule,
)
from kvmodel.port import ConnectorScript, ResetAnswer
from kvmodel.scope import Scope
from kvmodel.world import RequestState, Stage, Transfer, World

LifeEvent = AddAgain | AbortAll | Reset | Pause | Resume
_BUSY = "the engine waits for a step, and takes only aborts"


def takes_calls(world: World, scope: Scope) -> bool:
    """Whether the engine is where it takes calls from outside."""
    return len(world.steps) < scope.steps_in_flight


def life_events(world: World, scope: Scope) -> Iterator[LifeEvent]:
    """The events of the engine's and the client's life that are allowed."""
    allowed = set(scope.lifecycle)
    if not allowed or not takes_calls(world, scope):
        return
    if "abort_all" in allowed and any(request.stage == Stage.LIVE for request in world.requests):
        yield AbortAll()
    if "reset" in allowed:
        yield Reset()
    if "reset_running" in allowed:
        yield Reset(running=True)
    if "pause" in allowed:
        yield from [Resume()] if world.paused else [Pause("new"), Pause("all")]
    if "reuse" in allowed:
        yield from (AddAgain(name) for name in _free_again(world, scope))


def _free_again(world: World, scope: Scope) -> list[str]:
    """The ids whose request is over for its client, who may use them again, once."""
    return [
        name
        for name, request in zip(scope.names, world.requests, strict=True)
        if request.stage == Stage.OVER and name not in world.again and not _told_early(world, name)
    ]


def _told_early(world: World, name: str) -> bool:
    """Whether a transfer was reported although it runs: its end is told apart from that of another only while the id is one."""
    return any(t.told and t.request == name for t in world.transfers)


def life_refusal(world: World, scope: Scope, event: Event) -> str | None:
    """Why an event of the engine's or the client's life is not allowed; None for events of other kinds."""
    words = {AbortAll: "abort_all", AddAgain: "reuse", Pause: "pause", Resume: "pause", Reset: "reset"}
    word = "reset_running" if event == Reset(running=True) else words.get(type(event))
    if word is None:
        return None
    if word not in scope.lifecycle:
        return f"the scope has no {word.replace('_', ' ')}"
    if not takes_calls(world, scope):
        return _BUSY
    match event:
        case AbortAll():
            return "no request is left to abort"
        case Pause():
            return "the engine is paused already"
        case Resume():
            return "the engine is not paused"
        case AddAgain(name) if name in world.again:
            return f"{name} was used again already"
    return f"the client of {getattr(event, 'request', '')} was not told that it is over"


def schedules(world: World, scope: Scope) -> list[Schedule]:
    """A schedule with each choice of answers to the lookups that it may ask for, the plain one first."""
    names = _looked_up(world, scope)
    subsets = [chosen for size in range(len(names) + 1) for chosen in combinations(names, size)]
    return [Schedule(later, no) for later in subsets for no in subsets if not set(later).intersection(no)]


def _looked_up(world: World, scope: Scope) -> list[str]:
    """The requests whose load the connector may be asked for."""
    if "lookup" not in scope.lifecycle:
        return []
    return [
        name
        for index, (name, request) in enumerate(zip(scope.names, world.requests, strict=True))
        if scope.loads(index) and request.stage == Stage.LIVE and not request.load_started
    ]


def answers(script: dict[str, ConnectorScript], event: Event) -> dict[str, ConnectorScript]:
    """The script of a schedule in which the connector cannot say of some loads, or says that there are none."""
    if not isinstance(event, Schedule) or not (event.later or event.missing):
        return script
    changed = {name: script[name]._replace(load_tokens=None) for name in event.later}
    changed |= {name: script[name]._replace(load_tokens=0) for name in event.missing}
    return {**script, **changed}


def earlier_reports(world: World, scope: Scope) -> list[Report]:
    """The reports that may come of transfers for the earlier request of an id."""
    running = {(t.direction, t.request) for t in world.earlier if t.wait == 0}
    return [Report(d, name, "earlier") for name in scope.names for d in DIRECTIONS if (d, name) in running]


def without(transfers: Iterable[Transfer], report: Report) -> list[Transfer]:
    """The transfers but for the one that is reported."""
    return [t for t in transfers if (t.request, t.direction) != (report.request, report.direction)]


def used_again(old: RequestState) -> RequestState:
    """The new request under the id of ``old``. The workers may still get a notice that ``old`` is over: it is none of the new."""
    return RequestState(Stage.LIVE, old.claims, dismissals=-1 if old.dismissals == 0 else 0)


def after_reset(requests: list[RequestState], names: tuple[str, ...], answer: ResetAnswer) -> list[RequestState]:
    """What a preempted request had computed counts no longer; its workers hear of that with the next step."""
    return [
        request._replace(table=(), window_table=(), computed=0) if name in answer.preempted else request
        for name, request in zip(names, requests, strict=True)
    ]
