"""What a finding becomes in the generated file: helpers, what to note on the way, and lines around the last event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvrace.reproducer.order import Order
from kvrace.reproducer.piece import Piece


@dataclass(frozen=True, slots=True)
class Assertion:
    """``after`` are the lines that fail where the fault is; ``before`` come just before the last event. Both are not indented.

    ``watched`` names what the calls and the connector write down on the way. With ``reports_all`` the lines let every running
    transfer be reported. ``whole_order`` is False where the events from the loop on are left to a helper.
    """

    after: tuple[str, ...]
    pieces: tuple[Piece, ...] = ()
    before: tuple[str, ...] = ()
    watched: frozenset[str] = frozenset()
    reports_all: bool = False
    whole_order: bool = True


Translate = Callable[[Order, str], Assertion]
"""From an order and a request's name (empty where a finding names none) to the assertion."""
