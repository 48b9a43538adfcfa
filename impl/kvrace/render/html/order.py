"""One finding as the page shows it: its shortest order as lanes, as a grid of blocks over time, and state by state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kvmodel.playback import Frame
from kvmodel.scope import Scope
from kvrace.render.html.state import Fact, facts_of
from kvrace.render.rows import CACHED_SIGN, TOUCH_SIGNS, BlockState, Broken, Row, Touch, block_states, rows_of
from kvrace.render.swimlane import Legend, block_numbers
from kvrace.render.terminal import ReplayCommand, blame_words, order_length
from kvrace.result import Violation

_ALL_SHOWN = 8
"""A pool of up to so many blocks is shown whole; of a larger one, the blocks that are free throughout are left out."""
_TOUCHES: dict[Touch, str] = {"load": "load {} writes", "save": "save {} reads", "step": "step for {}"}


@dataclass(frozen=True, slots=True)
class Cell:
    """A block after an event. ``look`` says which tint it gets; ``badges`` are a sign and the words for it."""

    look: str
    text: str
    badges: tuple[tuple[str, str], ...]
    broken: bool


@dataclass(frozen=True, slots=True)
class Moment:
    """The state after one event; number 0 is the start, which has no event and no row in the lanes."""

    number: int
    event: str
    repeats: bool
    row: Row | None
    cells: dict[int, Cell]
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class Order:
    """Everything the page shows of one finding. ``broken`` says what its last moment breaks."""

    number: int
    violation: Violation
    length: str
    blame: str
    broken: Broken
    moments: tuple[Moment, ...]
    blocks: tuple[int, ...]
    hidden: str
    legend: tuple[str, ...]
    command: str | None

    @property
    def last(self) -> int:
        return len(self.moments) - 1


def order_of(number: int, violation: Violation, trace: Path | None, replay: ReplayCommand) -> Order:
    """Lay out one finding. Without a trace file there is nothing to replay."""
    frames, loop = violation.frames, violation.loop_start
    broken = Broken.of(violation.property, violation.blocks, loop)
    rows = rows_of(frames, loop)
    blocks, idle = _shown(rows, broken)
    legend = Legend()
    legend.learn(rows, blocks, broken)
    return Order(
        number,
        violation,
        order_length(violation),
        blame_words(violation),
        broken,
        _moments(frames, rows, broken, violation.scope, loop),
        blocks,
        f"not shown: {block_numbers(idle)}, free throughout" if idle else "",
        tuple(legend.parts()),
        None if trace is None else replay.line(trace),
    )


def _shown(rows: Sequence[Row], broken: Broken) -> tuple[tuple[int, ...], list[int]]:
    blocks = tuple(rows[0].cells)
    if len(blocks) <= _ALL_SHOWN:
        return blocks, []
    idle = [b for b in blocks if b not in broken.blocks and all(row.cells[b] == "free" for row in rows)]
    return tuple(block for block in blocks if block not in idle), idle


def _moments(
    frames: Sequence[Frame], rows: Sequence[Row], broken: Broken, scope: Scope, loop: int | None
) -> tuple[Moment, ...]:
    moments: list[Moment] = []
    for number, (frame, row) in enumerate(zip(frames, [None, *rows], strict=True)):
        marked = broken.blocks if number == len(frames) - 1 else frozenset()
        moments.append(
            Moment(
                number,
                "start" if frame.event is None else str(frame.event),
                loop is not None and number > loop,
                row,
                {b: _cell(state, scope, b in marked) for b, state in block_states(frame).items()},
                facts_of(frame, frames[number - 1] if number else None, scope),
            )
        )
    return tuple(moments)


def _cell(state: BlockState, scope: Scope, broken: bool) -> Cell:
    badges = [(TOUCH_SIGNS[kind], _TOUCHES[kind].format(name)) for kind, name in state.touches]
    if state.cached:
        badges.insert(0, (CACHED_SIGN, "cached"))
    if state.place == "kept":
        badges.insert(0, ("‖", "held back"))
    return Cell(_look(state, scope), state.holder, tuple(badges), broken)


def _look(state: BlockState, scope: Scope) -> str:
    if state.place != "owned":
        return state.place
    if len(state.owners) != 1:
        return "shared" if state.owners else "nobody"
    return f"owner-{scope.names.index(state.owners[0])}" if state.owners[0] in scope.names else "shared"
