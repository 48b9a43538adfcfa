"""What was found in one release under one contract, kept in a file, so that a run that was ended goes on where it was.

A file is written whole or not at all, and its name says what it depends on: the release's own code, kvrace's, the contract and the
scopes. With any of these another one, it is another file.
"""

from __future__ import annotations

import builtins
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import kvmodel
import kvrace
from kvmodel.errors import KvraceError
from kvmodel.events import parse_event
from kvmodel.properties import PROPERTY_NAMES
from kvmodel.scope import Scope
from kvrace.files import write_atomically
from kvrace.result import Verdict
from kvrace.signature import Signature, place_of, shape_of

FORMAT, VERSION = "kvrace-release-cell", 1
_NOT_OF_A_VERDICT = ("cli", "render")
"""Folders of kvrace's own code that no verdict depends on."""
_DECIDING = "vllm/v1"
"""The folder of a release that has what is explored."""


@dataclass(frozen=True, slots=True)
class CellFinding:
    """A shortest order that breaks a property. ``code`` is the text of the line at ``location``; ``scope`` the case it was found
    in; ``trace`` the file beside the cell's that replays it."""

    property: str
    blame: str
    message: str
    location: str | None
    code: str
    scheduling: str
    scope: dict[str, Any]
    events: tuple[str, ...]
    loop: int | None
    trace: str

    @builtins.property
    def signature(self) -> Signature:
        scope = Scope.from_dict(self.scope)
        place = place_of(self.location)
        shape = shape_of(scope.requests, scope.names, self.events[: self.loop])
        return Signature(self.property, place[2] if place else "", self.code, shape)

    @builtins.property
    def length(self) -> int:
        """Events of the order, those of a loop not counted."""
        return len(self.events) if self.loop is None else self.loop


@dataclass(frozen=True, slots=True)
class Explored:
    """One way of scheduling, exhausted."""

    scheduler: str
    states: int
    transitions: int
    verdicts: dict[str, Verdict]


@dataclass(frozen=True, slots=True)
class Cell:
    """A release under a contract. ``explored`` has what the release has of sync and async."""

    release: str
    contract: str
    explored: dict[str, Explored]
    findings: tuple[CellFinding, ...]


def cell_path(folder: Path, release: str, contract: str, determined_by: str) -> Path:
    return folder / f"{release}-{contract.replace(',', '+')}-{determined_by}.json"


def determined_by(package: Path, contract: str, scopes: Sequence[Scope]) -> str:
    """A digest of everything that a cell depends on. ``package`` is the folder that a release is imported from."""
    deciding = _digest(sorted((package / _DECIDING).rglob("*.py")))
    named = [kvrace.__version__, _own_code(), deciding, contract, *(json.dumps(scope.as_dict()) for scope in scopes)]
    return hashlib.sha256("\n".join(named).encode()).hexdigest()[:12]


@cache
def _own_code() -> str:
    roots = [Path(folder) for package in (kvmodel, kvrace) for folder in package.__path__]
    files = [
        file
        for root in roots
        for file in sorted(root.rglob("*.py"))
        if file.relative_to(root).parts[0] not in _NOT_OF_A_VERDICT
    ]
    return _digest(files)


def _digest(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.name}\0".encode() + file.read_bytes())
    return digest.hexdigest()


def write_cell(path: Path, cell: Cell) -> None:
    """Raises KvraceError where it cannot be written."""
    data = {"format": FORMAT, "version": VERSION, **asdict(cell)}
    write_atomically(path, json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def read_cell(path: Path, release: str, contract: str) -> Cell | None:
    """The cell of that file, or None where there is none, or none that can be relied on: then it is explored again."""
    try:
        data = json.loads(path.read_bytes())
        cell = _cell(data)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, KvraceError):
        return None
    named = (data.get("format"), data.get("version"), cell.release, cell.contract)
    return cell if named == (FORMAT, VERSION, release, contract) else None


def _cell(data: Mapping[str, Any]) -> Cell:
    """Raises one of many errors for what is no cell."""
    explored = {
        _text(name): Explored(
            _text(one["scheduler"]),
            int(one["states"]),
            int(one["transitions"]),
            {name: _verdict(one["verdicts"][name]) for name in PROPERTY_NAMES},
        )
        for name, one in data["explored"].items()
    }
    return Cell(
        _text(data["release"]), _text(data["contract"]), explored, tuple(_finding(one) for one in data["findings"])
    )


def _finding(one: Mapping[str, Any]) -> CellFinding:
    for event in one["events"]:
        parse_event(event)
    Scope.from_dict(one["scope"])
    return CellFinding(
        _text(one["property"]),
        _text(one["blame"]),
        _text(one["message"]),
        None if one["location"] is None else _text(one["location"]),
        _text(one["code"]),
        _text(one["scheduling"]),
        dict(one["scope"]),
        tuple(map(_text, one["events"])),
        None if one["loop"] is None else int(one["loop"]),
        _text(one["trace"]),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _verdict(value: object) -> Verdict:
    known: dict[object, Verdict] = {"holds": "holds", "violated": "violated"}
    return known[value]
