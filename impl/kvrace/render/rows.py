"""One order of events as rows: for each event what client, scheduler and connector did, and what each block shows then.

The words of every picture of an order are made here, once; the terminal, the page and the diagram only lay them out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kvmodel.events import Abort, Add, Lose, Report, Schedule, TransferEnds, Update
from kvmodel.playback import Frame
from kvmodel.world import Transfer

_TOUCH = {"load": "↓", "save": "↑"}
_STEP = "•"
CELL_MEANINGS = {
    "×": "A×1: owner and reference count",
    "kept": "kept: held back until a dispatched step is over",
    "↓": "↓A: the load of A writes here",
    "↑": "↑A: the save of A reads here",
    "•": "•A: a dispatched step works here for A",
    "≡": "≡: offered by the prefix cache",
}
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


def rows_of(frames: Sequence[Frame], loop_start: int | None = None) -> list[Row]:
    """One row for each event of a playback. The events after ``loop_start`` repeat for ever, and their numbers say so."""
    return [_row(frames, index, loop_start) for index in range(1, len(frames))]


def _row(frames: Sequence[Frame], index: int, loop_start: int | None) -> Row:
    before, frame = frames[index - 1], frames[index]
    blocks = [block for block, count in enumerate(frame.observation.references) if count is not None]
    number = f"{index}" if loop_start is None or index <= loop_start else f"{index} ↻"
    return Row(
        number,
        _client(frame),
        _scheduler(before, frame),
        _connector(before, frame),
        {block: _cell(frame, block) for block in blocks},
        index == len(frames) - 1,
    )


def _client(frame: Frame) -> str:
    words = []
    match frame.event:
        case Add(name, claims):
            words.append(f"add {name}" if claims else f"add {name} (unclaimed)")
        case Abort(name):
            words.append(f"abort {name}")
    words += [f"{name} over" for name in frame.response.notices]
    return ", ".join(words)


def _scheduler(before: Frame, frame: Frame) -> str:
    words = []
    step = frame.response.step
    match frame.event:
        case Schedule() if step and step.scheduled:
            words.append("schedule " + "+".join(entry.request for entry in step.scheduled))
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


def _connector(before: Frame, frame: Frame) -> str:
    words = []
    match frame.event:
        case Update(reports):
            words += _reported(reports)
        case TransferEnds(name, direction):
            words.append(f"{direction} {name} ends")
        case Lose(name, direction):
            words.append(f"{direction} {name} lost")
    return ", ".join([*words, *starts(before, frame)])


def starts(before: Frame, frame: Frame) -> list[str]:
    """The transfers that the event made begin."""
    known = {(t.request, t.direction, t.blocks) for t in before.world.transfers}
    return [
        f"{transfer.direction} {transfer.request} starts" + ("" if transfer.claimed else " (hidden)")
        for transfer in frame.world.transfers
        if (transfer.request, transfer.direction, transfer.blocks) not in known
    ]


def _reported(reports: Iterable[Report]) -> list[str]:
    how = {"due": "done", "duplicate": "done again", "unsolicited": "done (unasked)"}
    return [f"{report.direction} {report.request} {how[report.kind]}" for report in reports]


def _cell(frame: Frame, block: int) -> str:
    seen = frame.observation
    owners = [name for name, blocks in seen.owned if block in blocks]
    count = seen.references[block]
    if block in seen.free:
        owner = "free" + (f"×{count}" if count else "") + (" twice" if seen.free.count(block) > 1 else "")
    elif block in seen.held_back:
        owner = f"kept×{count}"
    else:
        owner = f"{'+'.join(owners) or 'none'}×{count}"
    touches = _touches(frame, block)
    return owner + ("≡" if block in seen.cached else "") + (f" {touches}" if touches else "")


def _touches(frame: Frame, block: int) -> str:
    steps = sorted({a.request for step in frame.world.steps for a in step.accesses if block in a.blocks})
    running: list[Transfer] = [t for t in frame.world.transfers if not t.over and block in t.blocks]
    return "".join([*(_TOUCH[t.direction] + t.request for t in running), *(_STEP + name for name in steps)])
