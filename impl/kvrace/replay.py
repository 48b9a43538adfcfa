"""Play a recorded order again, on the same scheduler or another one, and say what became of its finding."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kvmodel.errors import KvraceError
from kvmodel.lockstep import Lockstep
from kvmodel.playback import Frame, Refused, play
from kvmodel.port import Identity, Subject
from kvmodel.progress import at_rest, next_if_left_alone
from kvmodel.properties import Finding
from kvrace.subjects import SubjectChoice
from kvrace.trace import RecordedTrace
from kvrace.trace_states import JUDGED, states_json
from kvrace.watchdog import ending, watched

Outcome = Literal["still failing", "fixed", "fails differently", "diverged"]
EXIT_CODES: dict[Outcome, int] = {"still failing": 1, "fixed": 0, "fails differently": 1, "diverged": 3}


@dataclass(frozen=True, slots=True)
class Replay:
    """The outcome of one replay. ``finding`` is what the order breaks now; ``refused`` is the event that was not allowed.

    ``frames`` end with the state that shows the finding. ``departs`` is the number of the first event after which the state is
    not the recorded one.
    """

    recorded: RecordedTrace
    identity: Identity
    outcome: Outcome
    frames: tuple[Frame, ...]
    finding: Finding | None
    refused: Refused | None
    departs: int | None

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.outcome]


def replay(recorded: RecordedTrace, choice: SubjectChoice, call_seconds: float) -> Replay:
    """Play the order on a fresh scheduler. Raises KvraceError when the subject cannot play it at all."""
    scope = recorded.scope
    if scope.scheduling not in choice.schedulings:
        raise KvraceError(
            f"the order is for the {scope.scheduling} scheduler, and {choice.spec} plays {choice.schedulings[0]} scheduling only"
        )
    with watched(ending(choice.make, call_seconds)(scope), call_seconds) as subject:
        frames, refused = play(subject, recorded.contract, recorded.events)
        loops = refused is None and recorded.loop is not None and _loops(subject, recorded, recorded.loop)
    outcome, shown = _judge(recorded, frames, refused, loops)
    last = len(frames) if shown is None else shown[0] + 1
    return Replay(
        recorded,
        subject.identity,
        outcome,
        tuple(frames[:last]),
        shown[1] if shown else None,
        refused if outcome == "diverged" else None,
        _departs(recorded, frames[:last]),
    )


def _judge(
    recorded: RecordedTrace, frames: Sequence[Frame], refused: Refused | None, loops: bool
) -> tuple[Outcome, tuple[int, Finding] | None]:
    if loops:
        finding = Finding(recorded.property, recorded.message, recorded.blame, recorded.shape)
        return "still failing", (len(frames) - 1, finding)
    found = [(index, finding) for index, frame in enumerate(frames) for finding in frame.findings]
    for index, finding in found:
        if _same(recorded, finding):
            return "still failing", (index, finding)
    if found:
        return "fails differently", found[0]
    return ("diverged", None) if refused else ("fixed", None)


def _same(recorded: RecordedTrace, finding: Finding) -> bool:
    """The same finding, even if another release has the same source line at another place."""
    if (finding.property, finding.blame) != (recorded.property, recorded.blame):
        return False
    return finding.shape == recorded.shape or (
        finding.property == "no-crash" and _without_lines(finding.message) == _without_lines(recorded.message)
    )


def _without_lines(message: str) -> str:
    return re.sub(r":\d+ in ", " in ", message)


def _loops(subject: Subject, recorded: RecordedTrace, loop: int) -> bool:
    """The events from ``loop`` on are what happens when nobody interferes, and lead back to exactly the same state."""
    walk = Lockstep(subject, recorded.contract)
    node = walk.initial()
    start = node
    for index, event in enumerate(recorded.events):
        if index == loop:
            start = node
        if index >= loop:
            alone = next_if_left_alone(node.world, subject.scope, recorded.contract, node.observation)
            if event != alone or at_rest(node.world, node.observation):
                return False
        node = walk.successor(node, event)
        if node.crashed:
            return False
    return node.key == start.key


def _departs(recorded: RecordedTrace, frames: Sequence[Frame]) -> int | None:
    for index, (then, now) in enumerate(zip(recorded.states, states_json(frames), strict=False)):
        if any(then.get(name) != value for name, value in now.items() if name not in ("#meta", *JUDGED)):
            return index
    return None
