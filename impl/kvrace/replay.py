"""Play a recorded order again, on the same scheduler or another one, and say what became of its finding."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kvmodel.errors import KvraceError, shortened
from kvmodel.events import Event
from kvmodel.impossible import impossible
from kvmodel.lockstep import Lockstep
from kvmodel.playback import Frame, Refused
from kvmodel.port import Identity, Subject
from kvmodel.properties import Finding
from kvmodel.rest import repeats_for_ever
from kvmodel.scope import Scope
from kvrace.places import line_behind, play_recording
from kvrace.subjects import SubjectChoice
from kvrace.trace import NO_FINDING, RecordedTrace
from kvrace.trace_states import JUDGED, states_json
from kvrace.watchdog import ending, watched

Outcome = Literal[
    "still failing", "fixed", "fails differently", "newly failing", "still holds", "nothing yet", "diverged"
]
EXIT_CODES: dict[Outcome, int] = {
    "still failing": 1,
    "fixed": 0,
    "fails differently": 1,
    "newly failing": 1,
    "still holds": 0,
    "nothing yet": 3,
    "diverged": 3,
}
"""``nothing yet`` is 3 as everything that was not played to its end: a prefix without a violation says nothing of the rest."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The outcome of one replay. ``finding`` is what the order breaks now; ``location`` is the line of
    the scheduler's code behind that, ``refused`` the event that was not allowed.

    ``played`` has every frame; ``frames`` end with the state that shows the finding. ``events`` are those that were to be played,
    a part of the recorded ones with ``until``. ``departs`` is the number of the first event after which the state is not the
    recorded one. ``spec`` and ``policy`` say what it was played on.
    """

    recorded: RecordedTrace
    spec: str
    policy: str | None
    identity: Identity
    outcome: Outcome
    events: tuple[Event, ...]
    played: tuple[Frame, ...]
    frames: tuple[Frame, ...]
    finding: Finding | None
    location: str | None
    refused: Refused | None
    departs: int | None

    @property
    def whole(self) -> bool:
        """Whether every recorded event was played."""
        return len(self.played) == len(self.recorded.events) + 1

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.outcome]


def prefix(recorded: RecordedTrace, until: int | None) -> tuple[Event, ...]:
    """The events to play. Raises KvraceError when there are not as many, or when no scheduler can play them in this order."""
    if until is not None and not 1 <= until <= len(recorded.events):
        raise KvraceError(f"--until {shortened(until)}: {recorded.path} has the events 1 to {len(recorded.events)}")
    events = recorded.events[:until]
    found = impossible(recorded.scope, recorded.contract, events)
    if found is not None:
        place, why = found
        raise KvraceError(
            f"{recorded.path}: event {place + 1} '{events[place]}': {why}; no scheduler can play this order"
        )
    return events


def check_scheduling(scope: Scope, choice: SubjectChoice) -> None:
    """Raises KvraceError when the subject does not play the scheduling that the order was recorded under."""
    if scope.scheduling not in choice.schedulings:
        raise KvraceError(
            f"the order is for the {scope.scheduling} scheduler, and {choice.spec} plays {choice.schedulings[0]} scheduling only"
        )


def replay(recorded: RecordedTrace, choice: SubjectChoice, call_seconds: float, until: int | None = None) -> Replay:
    """Play the order, or its first ``until`` events, on a fresh scheduler. Raises KvraceError when that cannot be done at all."""
    events = prefix(recorded, until)
    scope = recorded.scope
    check_scheduling(scope, choice)
    whole = len(events) == len(recorded.events)
    with watched(ending(choice.make, call_seconds)(scope), call_seconds) as subject:
        frames, responses, refused = play_recording(subject, recorded.contract, events)
        loops = whole and refused is None and _loops(subject, recorded)
    outcome, shown = _judge(recorded, subject.identity, frames, refused, loops, whole)
    last = len(frames) if shown is None else shown[0] + 1
    finding = shown[1] if shown else None
    return Replay(
        recorded,
        choice.spec,
        choice.policy,
        subject.identity,
        outcome,
        events,
        tuple(frames),
        tuple(frames[:last]),
        finding,
        line_behind(finding, loops, responses[:last]) if finding else None,
        refused,
        _departs(recorded, frames[:last]),
    )


def _judge(
    recorded: RecordedTrace,
    identity: Identity,
    frames: Sequence[Frame],
    refused: Refused | None,
    loops: bool,
    whole: bool,
) -> tuple[Outcome, tuple[int, Finding] | None]:
    if loops:
        finding = Finding(recorded.property, recorded.message, recorded.blame, recorded.shape)
        return "still failing", (len(frames) - 1, finding)
    found = [(index, finding) for index, frame in enumerate(frames) for finding in frame.findings]
    for index, finding in found:
        if _same(recorded, finding) or (index == len(recorded.events) and _same_crash(recorded, identity, finding)):
            return "still failing", (index, finding)
    nothing_expected = recorded.property == NO_FINDING
    if found:
        return "newly failing" if nothing_expected else "fails differently", found[0]
    if refused:
        return "diverged", None
    if not whole:
        return "nothing yet", None
    return "still holds" if nothing_expected else "fixed", None


def _same(recorded: RecordedTrace, finding: Finding) -> bool:
    """The same finding, even if another release has the same source line at another place."""
    if (finding.property, finding.blame) != (recorded.property, recorded.blame):
        return False
    return finding.shape == recorded.shape or (
        finding.property == "no-crash" and without_lines(finding.message) == without_lines(recorded.message)
    )


def _same_crash(recorded: RecordedTrace, identity: Identity, finding: Finding) -> bool:
    """A crash at the recorded last event, on a scheduler that shares no source with the recorded one: places in it tell nothing."""
    crashes = recorded.property == finding.property == "no-crash" and recorded.blame == finding.blame
    return crashes and recorded.identity.name not in ("", identity.name)


def without_lines(message: str) -> str:
    """The message without line numbers of source files, which change from release to release."""
    return re.sub(r":\d+ in ", " in ", message)


def _loops(subject: Subject, recorded: RecordedTrace) -> bool:
    walk = Lockstep(subject, recorded.contract)
    return recorded.loop is not None and repeats_for_ever(walk, recorded.events, recorded.loop)


def _departs(recorded: RecordedTrace, frames: Sequence[Frame]) -> int | None:
    for index, (then, now) in enumerate(zip(recorded.states, states_json(frames, recorded.scope), strict=False)):
        if any(then.get(name) != value for name, value in now.items() if name not in ("#meta", *JUDGED)):
            return index
    return None
