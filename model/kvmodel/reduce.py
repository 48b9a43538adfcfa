"""Make a failing order short: fewer events, fewer requests, a plainer scope, and still the same finding.

Hypothesis shrinks the choices it made, and an event that goes takes the meaning of all later choices with it. Here the events
themselves are taken out, and what is then no longer allowed is passed over, so that every attempt is an order that can be played.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from kvmodel.allowed import refusal
from kvmodel.contract import Contract
from kvmodel.errors import KvraceError
from kvmodel.events import AbortAll, Add, Event, Pause, Reset, Resume, Schedule, Update
from kvmodel.lockstep import Lockstep, Node
from kvmodel.playback import Frame, frame_of
from kvmodel.port import Subject
from kvmodel.properties import Finding
from kvmodel.rest import leave_alone, never_at_rest_finding
from kvmodel.scope import SWITCHES, Scope

ATTEMPTS_MAX = 3_000
"""Orders that are played at most; a shortest order of a few events needs some hundred."""
_PLAINLY = (
    "scheduling", "block_size", "prompt_blocks", "token_budget", "priorities", "max_requests", "load_failures", *SWITCHES,
)  # fmt: skip
_PLAINER_KINDS = {
    "local": (),
    "load": ("local",),
    "save": ("local",),
    "load_save": ("local", "load", "save"),
    "sync_load": ("local",),
    "sync_load_save": ("local", "sync_load", "save"),
}


class Reduced(NamedTuple):
    """An order from which nothing can be taken any more, the subject it was played on, and the finding its last frame shows.

    ``events`` are what has to be played; of a loop, what happens by itself then is in ``frames`` as well, and those from
    ``loop_start`` on repeat for ever, as in a violation.
    """

    subject: Subject
    events: tuple[Event, ...]
    frames: tuple[Frame, ...]
    finding: Finding
    loop_start: int | None = None


class _Reducer:
    def __init__(
        self, make_subject: Callable[[Scope], Subject], contract: Contract, signature: tuple[str, str, str]
    ) -> None:
        self.make_subject, self.contract, self.signature = make_subject, contract, signature
        self.attempts = 0

    def attempt(self, subject: Subject, events: Sequence[Event]) -> Reduced | None:
        """Play what is allowed of ``events`` until the finding shows, then leave the engine alone; None when it never shows."""
        self.attempts += 1
        walk = Lockstep(subject, self.contract)
        node = walk.initial()
        frames = [frame_of(None, node)]
        for event in events:
            if node.crashed:
                return None
            if refusal(node.world, subject.scope, self.contract, node.observation.pending, event) is not None:
                continue
            node = walk.successor(node, event)
            frames.append(frame_of(event, node))
            for finding in node.findings:
                if self._same(finding):
                    return Reduced(subject, _order(frames), tuple(frames), finding)
        return self._loop(subject, walk, node, frames)

    def _loop(self, subject: Subject, walk: Lockstep, node: Node, frames: list[Frame]) -> Reduced | None:
        """A loop shows only when the order is over."""
        if not self._same(never_at_rest_finding(walk.scope, node.world, node.observation)):
            return None
        steps, loop = leave_alone(walk, node)
        if loop is None:
            return None
        alone = [frame_of(event, reached) for event, reached in steps]
        last = steps[-1][1]
        finding = never_at_rest_finding(walk.scope, last.world, last.observation)
        return Reduced(subject, _order(frames), (*frames, *alone), finding, len(frames) - 1 + loop)

    def _same(self, finding: Finding) -> bool:
        """Also without what blamed the connector: from then on it has to stay the scheduler's."""
        rule, blame, shape = finding.signature
        same = (rule, shape) == (self.signature[0], self.signature[2]) and blame in ("scheduler", self.signature[1])
        if same:
            self.signature = finding.signature
        return same

    def shorter(self, best: Reduced) -> Reduced:
        """Take out events, first many at a time, then one by one; then reports and stops out of updates."""
        size = max(1, len(best.events) // 2)
        while size and self.attempts < ATTEMPTS_MAX:
            start = 0
            while start < len(best.events) and self.attempts < ATTEMPTS_MAX:
                found = self.attempt(best.subject, [*best.events[:start], *best.events[start + size :]])
                if found:
                    best = found
                else:
                    start += size
            size //= 2
        for index in range(len(best.events)):
            for plainer in _plainer_events(best.events[index] if index < len(best.events) else None):
                events = best.events
                best = self.attempt(best.subject, [*events[:index], plainer, *events[index + 1 :]]) or best
        return best

    def plainer(self, best: Reduced) -> Reduced | None:
        """The same finding in the first plainer scope that shows it; None when there is none."""
        for scope, rename in _plainer_scopes(best.subject.scope):
            if self.attempts >= ATTEMPTS_MAX:
                return None
            events = [event for event in map(rename, best.events) if event is not None]
            try:
                subject = self.make_subject(scope)
            except KvraceError:  # a scope that this subject cannot play
                continue
            if found := self.attempt(subject, events):
                return found
        return None


def _order(frames: Sequence[Frame]) -> tuple[Event, ...]:
    return tuple(frame.event for frame in frames if frame.event is not None)


def _plainer_events(event: Event | None) -> Iterator[Event]:
    """The event with one report or stop less, or without what only a weaker contract allows."""
    if isinstance(event, Add) and not event.claims:
        yield Add(event.request)
    if isinstance(event, Update):
        for report in event.reports:
            yield replace(event, reports=tuple(other for other in event.reports if other != report))
        for name in event.stops:
            yield replace(event, stops=tuple(other for other in event.stops if other != name))
        for accepted in event.drafts:
            yield replace(event, drafts=tuple(other for other in event.drafts if other != accepted))
        for failure in event.failures:
            yield replace(event, failures=tuple(other for other in event.failures if other != failure))

    if isinstance(event, Schedule) and (event.later or event.missing):
        yield Schedule()


def _same(event: Event) -> Event | None:
    return event


def _plainer_scopes(scope: Scope) -> Iterator[tuple[Scope, Callable[[Event], Event | None]]]:
    """Scopes with one thing less, each with what becomes of the events in it."""
    for index in range(len(scope.requests) if len(scope.requests) > 1 else 0):
        fields = {
            name: value[:index] + value[index + 1 :]
            for name in ("requests", "prompts", "priorities")
            if (value := getattr(scope, name))
        }
        yield from _made(scope, fields, _without(scope.names, index))
    plain = Scope(("local",))
    changes: list[dict[str, Any]] = [
        {name: getattr(plain, name)} for name in _PLAINLY if getattr(scope, name) != getattr(plain, name)
    ]
    if scope.prompts:
        changes.append({"prompts": ()})
        changes += [{"prompts": _with(scope.prompts, i, w[:-1])} for i, w in enumerate(scope.prompts) if len(w) > 1]
    changes += [
        {"requests": _with(scope.requests, i, kind)}
        for i, given in enumerate(scope.requests)
        for kind in _PLAINER_KINDS[given]
    ]
    changes += [{"lifecycle": tuple(w for w in scope.lifecycle if w != word)} for word in scope.lifecycle]
    for value in range(1, scope.output_tokens):
        changes.append({"output_tokens": value})
    changes.append({"blocks": 0})
    for change in changes:
        yield from _made(scope, change, _same)


def _made(
    scope: Scope, fields: dict[str, Any], rename: Callable[[Event], Event | None]
) -> Iterator[tuple[Scope, Callable[[Event], Event | None]]]:
    """The scope with other fields, if that makes one, and if it is another one."""
    try:
        made = replace(scope, **fields)
    except KvraceError:
        return
    if made != scope:
        yield made, rename


def _with(values: tuple[str, ...], index: int, value: str) -> tuple[str, ...]:
    return (*values[:index], value, *values[index + 1 :])


def _without(names: Sequence[str], index: int) -> Callable[[Event], Event | None]:
    """What becomes of an event when request number ``index`` is gone and those after it move up."""
    new = {name: names[place - (place > index)] for place, name in enumerate(names) if place != index}

    def rename(event: Event) -> Event | None:
        if isinstance(event, Update):
            reports = [replace(r, request=new[r.request]) for r in event.reports if r.request in new]
            failures = [replace(f, request=new[f.request]) for f in event.failures if f.request in new]
            stops = [new[name] for name in event.stops if name in new]
            drafts = [(new[name], count) for name, count in event.drafts if name in new]
            return Update(tuple(sorted(reports)), tuple(sorted(stops)), tuple(sorted(failures)), tuple(sorted(drafts)))
        if isinstance(event, Schedule):
            later = [new[name] for name in event.later if name in new]
            return Schedule(tuple(sorted(later)), tuple(sorted(new[name] for name in event.missing if name in new)))
        if isinstance(event, AbortAll | Reset | Pause | Resume):
            return event
        return replace(event, request=new[event.request]) if event.request in new else None

    return rename


def reduce(
    make_subject: Callable[[Scope], Subject],
    contract: Contract,
    subject: Subject,
    events: Sequence[Event],
    finding: Finding,
) -> Reduced | None:
    """The shortest order, in the plainest scope, that is found by taking things away from ``events`` and still shows ``finding``.

    None when ``events`` do not show it on ``subject`` at all: the subject does not behave the same twice.
    """
    reducer = _Reducer(make_subject, contract, finding.signature)
    best = reducer.attempt(subject, events)
    while best is not None and reducer.attempts < ATTEMPTS_MAX:
        shorter = reducer.shorter(best)
        plainer = reducer.plainer(shorter)
        if plainer is None and len(shorter.events) == len(best.events):
            return shorter
        best = plainer or shorter
    return best
