"""One order of the relation on a real scheduler, and the explorer's orders beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kvmodel.contract import Contract
from kvmodel.events import Event
from kvmodel.impossible import impossible
from kvmodel.properties import PROPERTY_NAMES
from kvmodel.scope import Scope
from kvrace.check import Limits, check
from kvrace.places import line_behind, play_recording
from kvrace.result import Violation
from kvrace.subjects import SubjectChoice
from kvrace.watchdog import ending, watched

_CALL_SECONDS = 10.0


class Played(NamedTuple):
    """What the order broke; ``why`` it was not played to its end."""

    violations: tuple[Violation, ...]
    why: str = ""


def play_order(choice: SubjectChoice, scope: Scope, contract: Contract, events: Sequence[Event]) -> Played:
    """Play the events on a fresh scheduler, as far as they can be. Every violation ends with the event that shows it."""
    if scope.scheduling not in choice.schedulings:
        return Played((), f"{choice.spec} does not play {scope.scheduling} scheduling")
    found = impossible(scope, contract, events)
    if found is not None:
        return Played((), f"event {found[0] + 1} '{events[found[0]]}': {found[1]}")
    with watched(ending(choice.make, _CALL_SECONDS)(scope), _CALL_SECONDS) as subject:
        frames, responses, refused = play_recording(subject, contract, events)
        violations = tuple(
            Violation(
                finding.property,
                finding.blame,
                finding.shape,
                finding.message,
                line_behind(finding, False, responses[: last + 1]),
                scope,
                subject.identity,
                contract,
                tuple(frames[: last + 1]),
                finding.blocks,
            )
            for last, frame in enumerate(frames)
            for finding in frame.findings
        )
    if refused is not None and not violations:
        return Played((), f"event {refused.place + 1} '{refused.event}': {refused.guard}")
    return Played(violations)


def shortest_explored(
    choice: SubjectChoice, scope: Scope, contract: Contract, alive: Callable[[], None] = lambda: None
) -> dict[str, int]:
    """For each property that the explorer finds broken in the scope, the events of its shortest order."""
    make = ending(choice.make, _CALL_SECONDS)
    limits = Limits(call_seconds=_CALL_SECONDS)
    result = check(make, [scope], contract, properties=PROPERTY_NAMES, limits=limits, listen=lambda _: alive())
    lengths: dict[str, int] = {}
    for violation in result.violations:
        length = len(violation.events)
        lengths[violation.property] = min(length, lengths.get(violation.property, length))
    return lengths
