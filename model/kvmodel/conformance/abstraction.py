"""What a scheduler shows and what the world knows, as a state of the relation.

Requests have their letters, blocks the scheduler's own numbers, and steps their place among those in flight.
"""

from __future__ import annotations

from typing import NamedTuple

from kvmodel.port import Observation
from kvmodel.relation.ground import Layout
from kvmodel.relation.terms import Symbol
from kvmodel.relation.vocabulary import (
    BLOCK,
    arrived,
    awaited,
    cached,
    claimed,
    computed,
    filled,
    free,
    held_back,
    owns,
    phase,
    reported,
    spoiled,
    stage,
    touches,
    transfer,
    unasked,
    uses,
)
from kvmodel.scope import Scope
from kvmodel.world import RequestState, Stage, World

Key = tuple[str | int, ...]
"""A cell that holds: the symbol, its arguments (blocks as numbers), and for a function its value."""

PHASES = {"RUNNING": "running", "WAITING_FOR_REMOTE_KVS": "loading", "HELD": "held"}
"""The phase of a status; every other status of a request that is not over means that it waits."""


class Reading(NamedTuple):
    """How a part of the relational state is read off, and why it is not compared after an event (empty: it is)."""

    symbol: Symbol
    read: str
    not_compared: str = ""


READINGS: tuple[Reading, ...] = (
    Reading(phase, "the status of the request, if `Scheduler.requests` has it; else whether it ever came"),
    Reading(owns, "the request's block table"),
    Reading(
        computed,
        "the place of the block in its owner's table, against the tokens that the workers were told to compute or load; for a "
        "request that is held: its transfers and the steps in flight use the block",
        "for a request that is held: its tokens are counted no longer",
    ),
    Reading(free, "the free list of the pool"),
    Reading(held_back, "`deferred_frees`, and whatever else of the scheduler holds blocks"),
    Reading(cached, "the blocks that have a hash in the prefix cache"),
    Reading(arrived, "the request is loading, and its load does not run any more"),
    Reading(awaited, "the request is held, and a transfer of it runs that the scheduler was told of"),
    Reading(stage, "the steps that were dispatched and not processed"),
    Reading(uses, "what those steps read and write, as they were announced to the workers"),
    Reading(filled, "taken for true, except where a load runs", "nobody can see what is in a block"),
    Reading(transfer, "the transfers that were not reported"),
    Reading(touches, "their blocks, as the connector was told"),
    Reading(spoiled, "never: loads do not fail in any scope", "it is always false"),
    Reading(
        reported,
        "under contract `duplicate`: the transfers that may be reported once more",
        "the connector repeats a report once, the relation may do it for ever",
    ),
    Reading(claimed, "a save began, and the connector has said so"),
    Reading(unasked, "never: such a report is sent and processed with one output"),
)  # fmt: skip
"""Every part of the relational state."""

NEVER_COMPARED = frozenset({filled, spoiled, reported})


class Abstraction:
    """States of the relation for what is observed in one scope."""

    def __init__(self, scope: Scope, layout: Layout) -> None:
        self.scope = scope
        self._bits: dict[Key, int] = {}
        self._computed: dict[str, int] = dict.fromkeys(scope.names, 0)
        self._always = 0
        for (symbol, elements), (shift, width) in layout.places.items():
            key: Key = (symbol.name, *(int(e.name) if e.sort == BLOCK else e.name for e in elements))
            whole = ((1 << width) - 1) << shift
            if symbol.result is None:
                self._bits[key] = whole
            else:
                for element in layout.universe.of(symbol.result):
                    self._bits[*key, element.name] = layout.number(element) << shift
            if symbol is computed:
                self._computed[elements[0].name] |= whole
            elif symbol not in NEVER_COMPARED:
                self._always |= whole
        self._filled = sum(bits for key, bits in self._bits.items() if key[0] == filled.name)

    def compared(self, seen: Observation) -> int:
        """The bits of the cells that are compared in a state that shows itself as ``seen``."""
        held = {name for name, shown in seen.phases if PHASES.get(shown) == "held"}
        return self._always | sum(bits for name, bits in self._computed.items() if name not in held)

    def state(self, world: World, seen: Observation, first_step: int = 1) -> int:
        """The state of the relation. The oldest step in flight is step number ``first_step``."""
        bits = self._bits.get
        keys: list[Key] = []
        phases, owned = dict(seen.phases), dict(seen.owned)
        running = {(t.direction, t.request): t for t in world.transfers}
        for name, request in zip(self.scope.names, world.requests, strict=True):
            where = phase_of(request, phases.get(name))
            table = owned.get(name, ())
            keys.append((phase.name, name, where))
            keys += [(owns.name, name, block) for block in table]
            counted = table[: self.blocks_of(request.computed)] if where != "held" else self._used(world, name, table)
            keys += [(computed.name, name, block) for block in counted]
            if where == "loading" and ("load", name) not in running:
                keys.append((arrived.name, name))
            if request.save_started and request.claims:
                keys.append((claimed.name, name))
            keys += [(reported.name, direction, name) for direction in request.repeatable]
        state = self._filled
        for (direction, name), running_transfer in running.items():
            keys.append((transfer.name, direction, name))
            keys += [(touches.name, direction, name, block) for block in running_transfer.blocks]
            if running_transfer.claimed and phases.get(name) == "HELD":
                keys.append((awaited.name, direction, name))
            if direction == "load":
                for block in running_transfer.blocks:
                    state &= ~bits((filled.name, block), 0)
        keys += [(free.name, block) for block in seen.free]
        keys += [(held_back.name, block) for block in seen.held_back]
        keys += [(cached.name, block) for block in seen.cached]
        for number, step in enumerate(world.steps, start=first_step):
            keys.append((stage.name, str(number), "in_flight"))
            keys += [(uses.name, str(number), a.request, block) for a in step.accesses for block in a.blocks]
        for key in keys:
            state |= bits(key, 0)  # a number that is no block of the pool (the null block) has no cell
        return state

    @staticmethod
    def _used(world: World, name: str, table: tuple[int, ...]) -> list[int]:
        """The blocks of a request that one of its transfers or of its steps in flight uses."""
        used = {block for t in world.transfers if t.request == name for block in t.blocks}
        used.update(block for step in world.steps for a in step.accesses if a.request == name for block in a.blocks)
        return [block for block in table if block in used]

    def knows(self, block: int) -> bool:
        """Whether it is a block of the pool; the null block, which a table may have in places that nobody reads, is none."""
        return 1 <= block <= self.scope.blocks

    def blocks_of(self, tokens: int) -> int:
        """How many blocks hold ``tokens`` tokens."""
        return -(-tokens // self.scope.block_size)


def phase_of(request: RequestState, status: str | None) -> str:
    """The phase of a request, from what the scheduler shows of it (None: nothing)."""
    if status is not None:
        return PHASES.get(status, "waiting")
    return "absent" if request.stage == Stage.ABSENT else "gone"
