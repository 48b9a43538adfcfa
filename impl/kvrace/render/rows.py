"""One order of events as rows: for each event what client, scheduler and connector did, and what each block shows then.

The words of every picture of an order are made here, once; the terminal, the page and the diagram only lay them out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from kvmodel.events import (
    Abort,
    AbortAll,
    Add,
    AddAgain,
    FailedPart,
    Lose,
    Pause,
    Report,
    ReportKind,
    Reset,
    Resume,
    Schedule,
    TransferEnds,
    Update,
)
from kvmodel.playback import Frame
from kvmodel.port import ResetAnswer

_HOW: dict[ReportKind, str] = {
    "due": "done",
    "duplicate": "done again",
    "unsolicited": "done (unasked)",
    "late": "done (too early)",
    "expired": "time is up",
    "earlier": "done (the earlier)",
}
Place = Literal["free", "kept", "owned"]
Touch = Literal["load", "save", "step"]
TOUCH_SIGNS: dict[Touch, str] = {"load": "↓", "save": "↑", "step": "•"}
CACHED_SIGN = "≡"
SPOILED_SIGN = "!"
CELL_MEANINGS = {
    "×": "A×1: owner and reference count",
    "kept": "kept: held back until a dispatched step is over",
    "↓": "↓A: the load of A writes here",
    "↑": "↑A: the save of A reads here",
    "@": "A@2: the part of rank 2",
    "•": "•A: a dispatched step works here for A",
    "≡": "≡: offered by the prefix cache",
    SPOILED_SIGN: f"{SPOILED_SIGN}: holds something else than it should, since a load failed",
}
_FAILED: dict[FailedPart, str] = {
    "all": "{} invalid",
    "first": "{} invalid (first block)",
    "last": "{} invalid (last block)",
    "id": "{} failed",
}
"""How the connector's lane says that the load of a request failed."""
LANE_MEANINGS = {
    "keeps": "keeps A: A is over, its blocks are held",
    "drops": "drops A: A is forgotten, its blocks are free",
    "hidden": "hidden: request_finished said False",
}


@dataclass(frozen=True, slots=True)
class Broken:
    """What a swim-lane shows as broken: blocks in the last line, or else one of the lanes there, or else the loop."""

    blocks: frozenset[int]
    lane: str

    @classmethod
    def of(cls, property_name: str, blocks: Iterable[int], loop_start: int | None = None) -> Broken:
        """``blocks`` are those the finding names. A crash, a stuck request or a loop is no block's fault."""
        if loop_start is not None:
            return cls(frozenset(), "")
        return cls(frozenset(blocks), "connector" if property_name == "handover" else "scheduler")


@dataclass(frozen=True, slots=True)
class Row:
    """One line: the texts of the three lanes, and of each block that has a column."""

    number: str
    client: str
    scheduler: str
    connector: str
    cells: dict[int, str]
    last: bool


@dataclass(frozen=True, slots=True)
class BlockState:
    """One block after one event; ``str`` is the text of its cell. ``kept``: held back until a dispatched step is over.

    ``owners`` may be nobody although the block is in no other place: that is how a leak looks. ``twice``: it is in the pool more
    than once. ``touches``: the running transfers and dispatched steps that use it, each with its request.
    """

    place: Place
    owners: tuple[str, ...]
    references: int
    twice: bool
    cached: bool
    touches: tuple[tuple[Touch, str], ...]
    spoiled: bool = False

    @property
    def holder(self) -> str:
        """Where the block is, and how often it is referenced: ``free``, ``A×1``, ``kept×1``."""
        count = f"×{self.references}"
        if self.place == "free":
            return "free" + (count if self.references else "") + (" twice" if self.twice else "")
        return ("kept" if self.place == "kept" else "+".join(self.owners) or "none") + count

    def __str__(self) -> str:
        touches = "".join(TOUCH_SIGNS[kind] + name for kind, name in self.touches)
        signs = (CACHED_SIGN if self.cached else "") + (SPOILED_SIGN if self.spoiled else "")
        return self.holder + signs + (f" {touches}" if touches else "")


def at_rank(name: str, rank: int) -> str:
    """A request's name, and whose part of its transfer is meant: ``A@2``."""
    return f"{name}@{rank}" if rank else name


def rows_of(frames: Sequence[Frame], loop_start: int | None = None) -> list[Row]:
    """One row for each event of a playback. The events after ``loop_start`` repeat for ever, and their numbers say so."""
    return [_row(frames, index, loop_start) for index in range(1, len(frames))]


def _row(frames: Sequence[Frame], index: int, loop_start: int | None) -> Row:
    before, frame = frames[index - 1], frames[index]
    number = f"{index}" if loop_start is None or index <= loop_start else f"{index} ↻"
    return Row(
        number,
        _client(frame),
        _scheduler(before, frame),
        _connector(before, frame),
        {block: str(state) for block, state in block_states(frame).items()},
        index == len(frames) - 1,
    )


def _client(frame: Frame) -> str:
    words = []
    match frame.event:
        case Add(name, claims):
            words.append(f"add {name}" if claims else f"add {name} (unclaimed)")
        case Abort() | AbortAll() | AddAgain() | Reset() | Pause() | Resume():
            words.append(str(frame.event))
    words += [f"{name} over" for name in frame.response.notices]
    return ", ".join(words)


def _scheduler(before: Frame, frame: Frame) -> str:
    words = []
    step = frame.response.step
    match frame.event:
        case Schedule() if step and step.scheduled:
            words.append("schedule " + "+".join(entry.request for entry in step.scheduled))
        case Reset():
            words += _reset(frame.response.reset)
        case Schedule():
            words.append("schedule")
        case Update():
            words.append("update")
    if step:
        words += [f"preempts {name}" for name in step.preempted]
    then, now = dict(before.observation.phases), dict(frame.observation.phases)
    words += [f"keeps {name}" for name in now if now[name] == "HELD" and then.get(name) != "HELD"]
    words += [f"drops {name}" for name in then if name not in now]
    if frame.response.crash:
        words.append("hangs" if frame.response.crash.hang else "raises")
    return ", ".join(words)


def _reset(answer: ResetAnswer | None) -> list[str]:
    """What the scheduler did with a reset, and said of it."""
    if answer is None:
        return []
    said = "raises" if answer.refusal else "resets" if answer.done else "refuses"
    return [*(f"preempts {name}" for name in answer.preempted), said]


def _connector(before: Frame, frame: Frame) -> str:
    words = []
    match frame.event:
        case Update(reports, _, failures):
            words += [*_reported(reports), *(_FAILED[failure.part].format(failure.request) for failure in failures)]
        case Schedule(later, missing):
            words += [*(f"load {name} later" for name in later), *(f"no load {name}" for name in missing)]
        case TransferEnds(name, direction, rank):
            words.append(f"{direction} {at_rank(name, rank)} ends")
        case Lose(name, direction, rank):
            words.append(f"{direction} {at_rank(name, rank)} lost")
    return ", ".join([*words, *starts(before, frame)])


def starts(before: Frame, frame: Frame) -> list[str]:
    """The transfers that the event made begin."""
    known = {(t.request, t.direction, t.blocks) for t in before.world.unreported}
    begun = [
        f"{transfer.direction} {transfer.request} starts" + ("" if transfer.claimed else " (hidden)")
        for transfer in frame.world.transfers
        if (transfer.request, transfer.direction, transfer.blocks) not in known and not transfer.failed
    ]
    begun += [f"load {load.request} in the step" for load in frame.response.loads if load.in_step]
    return list(dict.fromkeys(begun))  # all ranks at once


def _reported(reports: Iterable[Report]) -> list[str]:
    return [f"{report.direction} {at_rank(report.request, report.rank)} {_HOW[report.kind]}" for report in reports]


def block_states(frame: Frame) -> dict[int, BlockState]:
    """Every block after one event, by its number; the null block has no state."""
    return {
        b: _block_state(frame, b, count) for b, count in enumerate(frame.observation.references) if count is not None
    }


def _block_state(frame: Frame, block: int, count: int) -> BlockState:
    seen = frame.observation
    place: Place = "free" if block in seen.free else "kept" if block in seen.held_back else "owned"
    owners = tuple(name for name, blocks in seen.owned if block in blocks)
    twice = seen.free.count(block) > 1
    spoiled = block in dict(frame.world.spoiled)
    return BlockState(place, owners, count, twice, block in seen.cached, tuple(_touches(frame, block)), spoiled)


def _touches(frame: Frame, block: int) -> Iterator[tuple[Touch, str]]:
    for transfer in frame.world.unreported:
        if not transfer.over and block in transfer.blocks:
            yield transfer.direction, at_rank(transfer.request, transfer.rank)
    for name in sorted({a.request for step in frame.world.steps for a in step.accesses if block in a.blocks}):
        yield "step", name
