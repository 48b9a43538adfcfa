"""One transition as the properties look at it, and what a check says of it."""

from __future__ import annotations

from typing import NamedTuple

from kvmodel.events import Event
from kvmodel.port import Observation, Response
from kvmodel.scope import Scope
from kvmodel.world import World


class Transition(NamedTuple):
    """One event played on one state. ``seen_before`` and ``seen`` are the observations around it."""

    scope: Scope
    event: Event
    before: World
    seen_before: Observation
    response: Response
    after: World
    seen: Observation


class Broken(NamedTuple):
    """What is wrong, in words, and with which blocks. ``shape`` tells kinds of the same fault apart (which transfer, which
    source line)."""

    message: str
    shape: str = ""
    blocks: tuple[int, ...] = ()
