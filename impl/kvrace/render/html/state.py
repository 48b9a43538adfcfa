"""The full state after one event, in words: what the scheduler shows, and what the environment knows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kvmodel.playback import Frame
from kvmodel.scope import Scope
from kvmodel.world import RequestState, Step, Transfer


class Fact(NamedTuple):
    """One line of the state. ``changed``: the event before it has changed it."""

    name: str
    values: tuple[str, ...]
    changed: bool


def facts_of(frame: Frame, before: Frame | None, scope: Scope) -> tuple[Fact, ...]:
    """Every fact of a state, always the same ones in the same order, so that two states can be compared by eye."""
    then = dict(_facts(before, scope)) if before else {}
    return tuple(
        Fact(name, values, before is not None and then[name] != values) for name, values in _facts(frame, scope)
    )


def _facts(frame: Frame, scope: Scope) -> Iterator[tuple[str, tuple[str, ...]]]:
    seen, world = frame.observation, frame.world
    yield "client sees", tuple(_client(n, r) for n, r in zip(scope.names, world.requests, strict=True))
    yield "phases", tuple(f"{name}: {phase}" for name, phase in seen.phases)
    yield "queues", tuple(f"{name}: {', '.join(queue)}" for name, queue in seen.queues)
    yield "owned", tuple(f"{name}: {_blocks(blocks)}" for name, blocks in seen.owned)
    yield "held back", (_blocks(seen.held_back),) if seen.held_back else ()
    yield "free, next first", _free(seen.free, seen.free_count)
    counts = [f"{block}×{count}" for block, count in enumerate(seen.references) if count is not None]
    yield "references", (" ".join(counts),)
    yield "cached", (_blocks(sorted(seen.cached)),) if seen.cached else ()
    yield "transfers", tuple(map(_transfer, world.transfers))
    if scope.lifecycle:
        yield "transfers of earlier requests", tuple(map(_transfer, world.earlier))
        yield "paused", (f"pause {world.paused}",) if world.paused else ()
    yield "steps in flight", tuple(map(_step, world.steps))
    in_step = ("not looked at while a step is in flight",)
    yield "tables", in_step if world.steps else tuple(f"{table}: {', '.join(names)}" for table, names in seen.tables)
    yield "below zero", seen.negative
    yield "has_requests()", (str(seen.pending),)
    crash = frame.response.crash
    yield "crash", (crash.error, f"at {crash.location}", crash.source) if crash else ()


def _client(name: str, request: RequestState) -> str:
    words = [request.stage.name.lower()]
    if request.abort_sent:
        words.append("abort sent")
    if not request.claims:
        words.append("its save is not claimed")
    return f"{name}: {', '.join(words)}"


def _free(blocks: Sequence[int], counter: int) -> tuple[str, ...]:
    shown = ", ".join(map(str, blocks)) or "none"
    return (shown,) if counter == len(blocks) else (shown, f"the pool's counter says {counter}")


def _transfer(transfer: Transfer) -> str:
    words = ["over, not reported" if transfer.over else "running"]
    if not transfer.claimed:
        words.append("hidden from the scheduler")
    if transfer.wait:
        words.append(f"no report before {transfer.wait} more {'update' if transfer.wait == 1 else 'updates'}")
    return f"{transfer.direction} of {transfer.request} in {_blocks(transfer.blocks)}: {', '.join(words)}"


def _step(step: Step) -> str:
    work = [
        f"{access.request} in {_blocks(access.blocks)}"
        + (f", writes {_blocks(access.written)}" if access.written else "")
        + (", samples a token" if access.request in step.samples else "")
        for access in step.accesses
    ]
    return "; ".join(work) or "nothing is scheduled in it"


def _blocks(blocks: Sequence[int]) -> str:
    return f"block{'s' if len(blocks) > 1 else ''} {', '.join(map(str, blocks))}" if blocks else "no block"
