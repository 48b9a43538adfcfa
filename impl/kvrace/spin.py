"""Spin explores an instance of the relation, from its Promela text, and its figures are held against kvrace's own."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kvmodel.errors import KvraceError
from kvmodel.relation.exhaust import Exhausted, exhaust
from kvmodel.relation.finite import FiniteInstance, Move
from kvmodel.relation.promela import COMPILER_FLAGS, EVERY_ERROR, SPIN_FLAGS, UNJUDGED, promela, property_named

NEEDED = ("spin", "gcc")
"""Programs; Debian's packages have the same names, and gcc needs libc6-dev as well."""
_COUNT = re.compile(r"^\s*(\d+) states, (stored|matched)$", re.MULTILINE)
_BROKEN = re.compile(r"^pan:\d+: assertion violated (\w+) \(at depth (\d+)\)$", re.MULTILINE)
_INCOMPLETE = "Search not completed"


@dataclass(frozen=True, slots=True)
class Explored:
    """What an explorer says of an instance. ``broken``: each broken property, and the fewest moves to a state in which it is
    broken, or in which a move can be made that breaks it."""

    states: int
    transitions: int
    broken: dict[str, int]


def missing() -> list[str]:
    """The programs that are needed and not there."""
    return [name for name in NEEDED if shutil.which(name) is None]


def explored_by_spin(text: str) -> Explored:
    """Run Spin on a text of :func:`~kvmodel.relation.promela.promela`. Raises KvraceError: Spin or gcc is not there or fails, or
    the memory that Spin allows itself (1 GB) is not enough."""
    if missing():
        raise KvraceError(f"{' and '.join(missing())} not found; on Debian: apt install spin gcc libc6-dev")
    with tempfile.TemporaryDirectory(prefix="kvrace-spin-") as name:
        folder = Path(name)
        (folder / "model.pml").write_text(text)
        _run(folder, "spin", *SPIN_FLAGS, "model.pml")
        _run(folder, "gcc", "-w", *COMPILER_FLAGS, "-o", "pan", "pan.c")
        return _read(_run(folder, "./pan", EVERY_ERROR))


def _run(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines() or ["nothing"]
        raise KvraceError(f"{command[0]} failed with exit status {done.returncode}: {said[0]}")
    return done.stdout


def _read(report: str) -> Explored:
    counts = {what: int(number) for number, what in _COUNT.findall(report)}
    if _INCOMPLETE in report or counts.keys() != {"stored", "matched"}:
        raise KvraceError("Spin did not complete its search; take fewer requests or blocks")
    broken: dict[str, int] = {}
    for name, depth in _BROKEN.findall(report):
        broken.setdefault(property_named(name), int(depth))
    return Explored(counts["stored"], counts["matched"] - UNJUDGED, broken)


def explored_by_kvrace(instance: FiniteInstance) -> Explored:
    """The same of :func:`~kvmodel.relation.exhaust.exhaust`."""
    found = exhaust(instance)
    return Explored(found.states, found.transitions, _depths(instance, found))


def _depths(instance: FiniteInstance, found: Exhausted) -> dict[str, int]:
    return {name: _depth(instance, name, order) for name, order in found.broken.items()}


def _depth(instance: FiniteInstance, name: str, order: Sequence[Move]) -> int:
    """The last move of an order either leads to a broken state, or it is what breaks the property."""
    state = instance.start
    for move in order:
        state = move.apply(state)
    reached = any(rule.name == name and not holds(state) for rule, holds in instance.judges)
    return len(order) if reached else len(order) - 1


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two explorers and one instance."""

    kvrace: Explored
    spin: Explored

    @property
    def agree(self) -> bool:
        return self.kvrace == self.spin


def compare(instance: FiniteInstance) -> Comparison:
    """Explore an instance twice. Raises KvraceError as :func:`explored_by_spin` does."""
    return Comparison(spin=explored_by_spin(promela(instance, "")), kvrace=explored_by_kvrace(instance))
