"""Slow transfers between the KV-cache blocks of a worker and a store in its memory, and a watch over what the blocks hold.

A transfer touches its blocks from its start until it is reported, so until then they may hold only what the transfers of their own
request have put there. A load fills them with a pattern of its own when it starts, and with what the store has when it ends; a save
changes nothing. Every few milliseconds a thread holds the blocks against that. A block that holds something else belongs to
somebody else by then: the scheduler has freed it too early.
"""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import dataclass, field
from typing import Any

TICK = 0.01
"""Seconds from one look at the blocks to the next."""


@dataclass(frozen=True)
class Order:
    """What the scheduler half tells the worker half: one transfer to start. Blocks are numbers of the block table."""

    request: str
    direction: str
    """``load`` or ``save``."""
    blocks: tuple[int, ...]
    seconds: float
    key: str
    """Under which the store has the blocks, or is to keep them; empty: nothing is brought or kept."""


@dataclass
class Transfer:
    """A transfer that was started and is not reported yet."""

    order: Order
    due: float
    over: bool = False
    corrupted: bool = False


@dataclass
class Held:
    """The transfers of one request, and what each block they touch has to hold."""

    transfers: dict[str, Transfer] = field(default_factory=dict)
    contents: dict[int, Any] = field(default_factory=dict)


class Record:
    """Lines of JSON in a file that both halves of the connector write to, from their two processes."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, event: str, **facts: object) -> None:
        os.write(self._file, (json.dumps({"event": event, **facts}) + "\n").encode())


class Transfers:
    """The worker half. With ``watched`` the patterns are written and the contents held against what they must be."""

    def __init__(self, record: Record, watched: bool) -> None:
        self._record = record
        self._watched = watched
        self._layers: list[Any] = []
        self._store: dict[str, list[Any]] = {}
        self._held: dict[str, Held] = {}
        self._started = 0
        self._lock = threading.Lock()
        self._over = threading.Event()

    def begin_with(self, kv_caches: dict[str, Any]) -> None:
        """Take the tensors of the KV cache, a layer each, with the block as first dimension, and start the thread."""
        self._layers = list(kv_caches.values())
        threading.Thread(target=self._run, name="slow transfers", daemon=True).start()

    def stop(self) -> None:
        self._over.set()

    def start(self, order: Order) -> None:
        with self._lock:
            self._started += 1
            held = self._held.setdefault(order.request, Held())
            held.transfers[order.direction] = Transfer(order, time.monotonic() + order.seconds)
            self._record.write("started", request=order.request, direction=order.direction, blocks=order.blocks)
            if not self._watched:
                return
            if order.direction == "load":
                for layer in self._layers:
                    layer[list(order.blocks)] = -1000.0 - self._started
                self._note(held, order.blocks)
            else:
                self._note(held, tuple(block for block in order.blocks if block not in held.contents))

    def reported(self) -> tuple[set[str], set[str]]:
        """The requests whose save, and those whose load, is over and is reported herewith."""
        done: dict[str, set[str]] = {"save": set(), "load": set()}
        with self._lock:
            for name, held in list(self._held.items()):
                for direction, transfer in list(held.transfers.items()):
                    if transfer.over:
                        self._look_at(held, transfer)
                        del held.transfers[direction]
                        done[direction].add(name)
                        self._record.write("reported", request=name, direction=direction)
                if not held.transfers:
                    del self._held[name]
        return done["save"], done["load"]

    def _run(self) -> None:
        while not self._over.wait(TICK):
            with self._lock:
                for held in self._held.values():
                    for transfer in held.transfers.values():
                        self._look_at(held, transfer)
                        if not transfer.over and time.monotonic() >= transfer.due:
                            self._end(held, transfer)

    def _end(self, held: Held, transfer: Transfer) -> None:
        order = transfer.order
        if order.direction == "load":
            for block, content in zip(order.blocks, self._store[order.key] if order.key else (), strict=False):
                for layer, part in zip(self._layers, content, strict=True):
                    layer[block] = part
            if self._watched:
                self._note(held, order.blocks)
        elif order.key:
            self._store[order.key] = [self._content(block) for block in order.blocks]
        transfer.over = True

    def _look_at(self, held: Held, transfer: Transfer) -> None:
        """Record a transfer of which a block holds what its request did not put there. Once a transfer."""
        if not self._watched or transfer.corrupted:
            return
        blocks = transfer.order.blocks
        changed = [block for block in blocks if not _same(self._content(block), held.contents[block])]
        if changed:
            transfer.corrupted = True
            order = transfer.order
            self._record.write(
                "corrupted", request=order.request, direction=order.direction, blocks=changed, over=transfer.over
            )

    def _note(self, held: Held, blocks: tuple[int, ...]) -> None:
        for block in blocks:
            held.contents[block] = self._content(block)

    def _content(self, block: int) -> list[Any]:
        return [layer[block].clone() for layer in self._layers]


def _same(one: list[Any], other: list[Any]) -> bool:
    return all(bool((mine == yours).all()) for mine, yours in zip(one, other, strict=True))
