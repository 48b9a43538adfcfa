"""Suite files: the tours of one scope, as JSON with one tour a line.

Tours share their beginnings, and events often have the same effect, so a tour says how many events it has in common with the tour
before it, and an event says with a number what happens. As trace files of their own, with a whole state after each event, the
tours of the scope ``small`` would be a thousand times larger.

A suite file may come from anywhere: reading checks sizes, types and values, imports nothing and evaluates nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kvrace
from kvmodel.contract import Contract
from kvmodel.errors import KvraceError, quoted
from kvmodel.events import Event, parse_event
from kvmodel.port import Identity
from kvmodel.scope import Scope
from kvrace.render.observed import LONGEST
from kvrace.shapes import number, sequence, text
from kvrace.suite import CaseTours, Tour
from kvrace.trace import MAX_EVENTS
from kvrace.trace_states import MAX_TEXT

FORMAT, VERSION = "kvrace-suite", 1
SUFFIX = ".suite.json"
_SAYS_SO = re.compile(rf'"format"\s*:\s*"{FORMAT}"'.encode())
MAX_PLAYED = 1_000_000
"""Events in all tours of a file. Beginnings in common make it possible to ask for more in few bytes."""
_NEW_EVENTS = 50_000
"""Events that are written into one file, at about 25 bytes each; a case that has more gets several files."""
_MANY = 1_000_000
_LINES = 200


@dataclass(frozen=True, slots=True)
class SuiteFile:
    """What a suite file says. ``spec`` and ``policy`` say how the subject was made that it was recorded on."""

    path: Path
    kvrace: str
    spec: str
    policy: str | None
    identity: Identity
    suite: str
    scope: Scope
    contract: Contract
    tours: tuple[Tour, ...]

    @property
    def events(self) -> int:
        return sum(len(tour.events) for tour in self.tours)


def is_suite(raw: bytes) -> bool:
    """Whether a file says that it is a suite, of whatever version and however its JSON is laid out."""
    return _SAYS_SO.search(raw) is not None


def suite_texts(case: CaseTours, suite: str, spec: str, policy: str | None) -> list[str]:
    """The files of one case: one, or several if it is large."""
    return [_text(case, tours, suite, spec, policy) for tours in _parts(case.tours)]


def _parts(tours: Sequence[Tour]) -> Iterator[list[Tour]]:
    part: list[Tour] = []
    new = 0
    for tour in tours:
        if new > _NEW_EVENTS:
            yield part
            part, new = [], 0
        new += len(tour.events) - _shared(part[-1], tour) if part else len(tour.events)
        part.append(tour)
    yield part


def _shared(before: Tour, tour: Tour) -> int:
    """How many events two tours begin with in common."""
    pairs = zip(before.events, tour.events, strict=False)
    return next(
        (place for place, (then, now) in enumerate(pairs) if then != now), min(len(before.events), len(tour.events))
    )


def _text(case: CaseTours, tours: Sequence[Tour], suite: str, spec: str, policy: str | None) -> str:
    numbers: dict[tuple[str, ...], int] = {}
    lines = []
    before = Tour((), ())
    for tour in tours:
        shared = _shared(before, tour)
        new = zip(tour.events[shared:], tour.happens[shared:], strict=True)
        lines.append([shared, *([str(event), numbers.setdefault(seen, len(numbers))] for event, seen in new)])
        before = tour
    name, version, scheduler = case.identity[:3]
    head = {
        "format": FORMAT,
        "version": VERSION,
        "kvrace": kvrace.__version__,
        "subject": {"name": name, "version": version, "scheduler": scheduler, "spec": spec, "policy": policy},
        "suite": suite,
        "scope": case.scope.as_dict(),
        "contract": str(case.contract),
    }
    table = json.dumps(head, indent=1, ensure_ascii=False)[:-2]
    return f'{table},\n "happens": [\n{_rows(numbers)}\n ],\n "tours": [\n{_rows(lines)}\n ]\n}}\n'


def _rows(values: Any) -> str:
    return ",\n".join(f"  {json.dumps(value, ensure_ascii=False)}" for value in values)


def parse_suite(path: Path, raw: bytes) -> SuiteFile:
    """Read a suite file. Raises KvraceError with one line that names the file and what is wrong with it."""
    try:
        return _suite(path, _load(raw))
    except KvraceError as error:
        raise KvraceError(f"{path}: {error}") from error


def _load(raw: bytes) -> dict[str, Any]:
    try:
        data = json.loads(raw)
    except RecursionError as error:
        raise KvraceError("not a suite: nested too deeply") from error
    except ValueError as error:
        raise KvraceError(f"not JSON: {error}") from error
    if type(data.get("version")) is not int or data["version"] != VERSION:
        raise KvraceError(f"suite version {quoted(data.get('version'))}; this kvrace reads version {VERSION}")
    loaded: dict[str, Any] = data
    return loaded


def _suite(path: Path, data: dict[str, Any]) -> SuiteFile:
    subject = data.get("subject")
    if not isinstance(subject, dict):
        raise KvraceError("subject is not a table")
    line = text(MAX_TEXT)
    named = {name: line(subject.get(name), f"subject: {name}") for name in ("name", "version", "scheduler", "spec")}
    policy = subject.get("policy")
    return SuiteFile(
        path,
        line(data.get("kvrace"), "kvrace"),
        named["spec"],
        None if policy is None else line(policy, "subject: policy"),
        Identity(named["name"], named["version"], named["scheduler"]),
        line(data.get("suite"), "suite"),
        Scope.from_dict(data.get("scope")),
        Contract.parse(line(data.get("contract"), "contract")),
        _tours(data),
    )


def _tours(data: dict[str, Any]) -> tuple[Tour, ...]:
    happens = sequence(sequence(text(LONGEST), _LINES), _MANY)(data.get("happens"), "happens")
    rows = data.get("tours")
    if not isinstance(rows, list) or not rows:
        raise KvraceError("tours is not a list of tours")
    known: dict[str, Event] = {}
    tours: list[Tour] = []
    before, events = Tour((), ()), 0
    for index, row in enumerate(rows, 1):
        try:
            before = _tour(before, row, happens, known)
        except KvraceError as error:
            raise KvraceError(f"tour {index}: {error}") from error
        events += len(before.events)
        if events > MAX_PLAYED:
            raise KvraceError(f"more than {MAX_PLAYED:,} events")
        tours.append(before)
    return tuple(tours)


def _tour(before: Tour, row: Any, happens: Sequence[tuple[str, ...]], known: dict[str, Event]) -> Tour:
    if not isinstance(row, list) or not row:
        raise KvraceError("not a list")
    shared = number(0, len(before.events))(row[0], "the number of events in common with the tour before")
    events, seen = list(before.events[:shared]), list(before.happens[:shared])
    for entry in row[1:]:
        if not isinstance(entry, list) or len(entry) != 2:
            raise KvraceError("an entry is not an event and what happens")
        line = text(MAX_TEXT)(entry[0], "an event")
        if line not in known:
            known[line] = parse_event(line)
        events.append(known[line])
        seen.append(happens[number(0, len(happens) - 1)(entry[1], "what happens")])
    if not 1 <= len(events) <= MAX_EVENTS:
        raise KvraceError(f"{len(events)} events; a tour has 1 to {MAX_EVENTS}")
    return Tour(tuple(events), tuple(seen))
