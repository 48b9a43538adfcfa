"""What makes two findings the same one, in whatever release they are: the property, the line of the code, and what was done."""

from __future__ import annotations

import builtins
import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_PLACE = re.compile(r"(?P<file>.*):(?P<line>\d+) in (?P<function>.*)")
_STEPS = ("schedule", "update")
"""What the engine does by itself. How many of them an order needs differs with the way of scheduling, and says nothing of it."""


class Signature(NamedTuple):
    """``function`` and ``code`` are where the scheduler decided what broke the rule: names and text, since numbers of lines change
    from release to release. ``shape`` is the order without the steps in which nothing was reported."""

    property: str
    function: str
    code: str
    shape: str

    @builtins.property
    def id(self) -> str:
        """A short name that is the same wherever the finding is."""
        return "f" + hashlib.sha256("\0".join(self).encode("utf-8", "surrogateescape")).hexdigest()[:6]


def place_of(location: str | None) -> tuple[str, int, str] | None:
    """File, line and function of a location, or None where there is none."""
    match = _PLACE.fullmatch(location or "")
    return (match["file"], int(match["line"]), match["function"]) if match else None


def shape_of(kinds: Sequence[str], names: Sequence[str], events: Iterable[str]) -> str:
    """The kinds of the requests that take part, and what is done with them, in its order."""
    done = [event for event in events if event not in _STEPS]
    taking = [f"{name} {kind}" for name, kind in zip(names, kinds, strict=False) if f"add {name}" in done]
    return "; ".join([", ".join(taking), *done])
