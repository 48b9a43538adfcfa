"""What one event changed, as a few lines of text: the observations beneath the events of a text form.

Each line is ``what: words``. A line is there only for what changed, so that a reader sees what the event did, and so that a small
change of a scheduler is a small difference between two texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvmodel.playback import Frame
from kvmodel.world import Step, Transfer
from kvrace.render.rows import Row, rows_of
from kvrace.shapes import recordable

NOTHING = "nothing changes"
LONGEST = 1200
"""Characters in a line; longer ones are cut."""


def observations(frames: Sequence[Frame]) -> list[tuple[str, ...]]:
    """The lines beneath each event of a playback, in its order."""
    rows = rows_of(frames)
    cells: dict[int, str] = rows_of([frames[0], frames[0]])[0].cells  # before any event
    beneath = []
    for before, frame, row in zip(frames, frames[1:], rows, strict=False):
        lines = [*_did(frame, row), *_shows(before, frame), *_blocks(cells, row), *_broken(frame)]
        beneath.append(tuple(recordable(line, LONGEST) for line in lines) or (NOTHING,))
        cells = row.cells
    return beneath


def _did(frame: Frame, row: Row) -> list[str]:
    """What the event made client, scheduler and connector do, beyond what its own line says."""
    event = str(frame.event)
    lanes = (("client", row.client), ("scheduler", row.scheduler), ("connector", row.connector))
    return [f"{lane}: {text}" for lane, text in lanes if text and text != event and text != event.split(maxsplit=1)[0]]


def _shows(before: Frame, frame: Frame) -> list[str]:
    then, now = _state(before), _state(frame)
    return [f"{name}: {', '.join(words) or 'none'}" for name, words in now.items() if words != then[name]]


def _state(frame: Frame) -> dict[str, list[str]]:
    seen, world = frame.observation, frame.world
    return {
        "phases": [f"{name} {phase}" for name, phase in seen.phases],
        "free": [_numbers(seen.free)] if seen.free else [],
        "held back": [_numbers(seen.held_back)] if seen.held_back else [],
        "running": [_transfer(transfer) for transfer in world.transfers],
        "of earlier requests": [_transfer(transfer) for transfer in world.earlier],
        "paused": [world.paused] if world.paused else [],
        "in flight": [_step(step) for step in world.steps],
        "engine": ["busy" if seen.pending else "idle"],
    }


def _numbers(blocks: Iterable[int]) -> str:
    return " ".join(map(str, blocks))


def _transfer(transfer: Transfer) -> str:
    words = [transfer.direction, transfer.request, "on", _numbers(transfer.blocks)]
    return " ".join([*words, *([] if transfer.claimed else ["(hidden)"]), *(["(over)"] if transfer.over else [])])


def _step(step: Step) -> str:
    return "+".join(access.request for access in step.accesses) or "an empty step"


def _blocks(then: dict[int, str], row: Row) -> list[str]:
    return [f"block {block}: {cell}" for block, cell in row.cells.items() if cell != then.get(block)]


def _broken(frame: Frame) -> list[str]:
    return [f"broken: {finding.property} ({finding.blame}): {finding.message}" for finding in frame.findings]
