"""The text form of an order: a file for people to read, change and keep beside their code.

First come lines ``field: value``, then the events, one a line, each with what happens indented beneath it. Blank lines and lines
that begin with ``#`` are for people and are kept when the file is rewritten. A text may come from anywhere: reading is strict,
every error names its line, and nothing is evaluated.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from kvmodel.contract import EXACTLY_ONCE, Contract
from kvmodel.errors import KvraceError, quoted
from kvmodel.events import Event, parse_event
from kvmodel.playback import Frame
from kvmodel.port import AppliedPatch, Identity
from kvmodel.properties import PROPERTY_NAMES
from kvmodel.scope import Scope
from kvrace.render.observed import LONGEST, observations
from kvrace.shapes import recordable
from kvrace.trace import MAX_EVENTS, NO_FINDING, RecordedTrace
from kvrace.trace_states import MAX_TEXT

FORMAT, VERSION = "kvrace-text", 1
INDENT = "    "
_FIRST = f"format: {FORMAT} {VERSION}"
_FIELD = re.compile(r"([a-z]+(?:[ _][a-z]+)*): (\S.*)")
_IDENTITY = re.compile(r"(.+?) (\S*)(?: \+ (\S.*?) \(([0-9a-f]+)\))?: (\S.*)")
_SCOPE_FIELDS = tuple(field.name for field in fields(Scope))
FINDING_FIELDS = ("property", "blame", "shape", "message", "location", "loop")
SUBJECT_FIELDS = ("subject", "policy", "recorded on", "kvrace")
_FIELDS = (*FINDING_FIELDS, *SUBJECT_FIELDS, *_SCOPE_FIELDS, "contract")
_MAX_LINES = 40 * MAX_EVENTS


@dataclass(slots=True)
class Item:
    """A part of the file: a line for people, a field, or an event with the lines beneath it. ``notes`` are the lines for people
    that stand among those."""

    kind: Literal["note", "field", "event"]
    text: str
    beneath: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.text.partition(": ")[0]

    def lines(self) -> list[str]:
        return [self.text, *self.notes, *(INDENT + line for line in self.beneath)]


@dataclass(frozen=True, slots=True)
class TextForm:
    """A text as it was read. ``written`` has the lines beneath each event, or is None when there are none in the whole file."""

    recorded: RecordedTrace
    items: tuple[Item, ...]
    written: tuple[tuple[str, ...], ...] | None


def is_text_form(raw: bytes) -> bool:
    """Whether a file says in its first line that it is a text form, of whatever version."""
    return raw.removeprefix(BOM_UTF8).startswith(f"format: {FORMAT}".encode())


def text_of(items: Sequence[Item]) -> str:
    return "\n".join(line for item in items for line in item.lines()) + "\n"


def as_text(recorded: RecordedTrace, frames: Sequence[Frame]) -> str:
    """The text form of a recorded order and its playback."""
    head = [Item("field", _FIRST), *(Item("field", f"{name}: {value}") for name, value in header(recorded).items())]
    events = [
        Item("event", str(event), list(lines))
        for event, lines in zip(recorded.events, observations(frames), strict=True)
    ]
    return text_of([*head, Item("note", ""), *events])


def header(recorded: RecordedTrace) -> dict[str, str]:
    """The fields of a text, in their order; those that have their usual value are left out."""
    named = recorded.property != NO_FINDING
    values = {
        "property": recorded.property,
        "blame": recorded.blame if named else None,
        "shape": recorded.shape if named else None,
        "message": recorded.message if named else None,
        "location": recorded.location if named else None,
        "loop": None if recorded.loop is None else str(recorded.loop),
        "subject": recorded.spec,
        "policy": recorded.policy,
        "recorded on": _recorded_on(recorded.identity),
        "kvrace": recorded.kvrace,
        **_scope_values(recorded.scope),
        "contract": str(recorded.contract),
    }
    lines = {name: recordable(value, MAX_TEXT).strip() for name, value in values.items() if value}
    return {name: line for name, line in lines.items() if line}


def _recorded_on(identity: Identity) -> str | None:
    return f"{identity.name} {identity.release}: {identity.scheduler}" if identity.scheduler else None


def _scope_values(scope: Scope) -> dict[str, str]:
    """The scheduling, and the fields without which the scope would be another one."""
    data = scope.as_dict()
    shown = {"requests": ",".join(scope.requests), "scheduling": scope.scheduling}
    for name in data.keys() - shown.keys():
        with suppress(KvraceError):
            if Scope.from_dict({other: value for other, value in data.items() if other != name}) == scope:
                continue
        shown[name] = json.dumps(data[name])
    return {name: shown[name] for name in data if name in shown}


def parse_text(path: Path, raw: bytes) -> TextForm:
    """Read a text form. Raises KvraceError with one line that names the file, the line and what is wrong there."""
    try:
        return _parse(path, raw)
    except KvraceError as error:
        raise KvraceError(f"{path}: {error}") from error


def _parse(path: Path, raw: bytes) -> TextForm:
    try:
        text = raw.removeprefix(BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        raise KvraceError(f"not UTF-8: byte {error.start}") from error
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")  # editors on Windows end lines so
    if lines[0] != _FIRST:
        raise KvraceError(f"line 1: {quoted(lines[0])}; this kvrace reads {quoted(_FIRST)}")
    if len(lines) > _MAX_LINES:
        raise KvraceError(f"{len(lines)} lines; at most {_MAX_LINES} are read")
    items = [Item("field", _FIRST)]
    given: dict[str, tuple[int, str]] = {}
    events: list[Event] = []
    gap: list[str] = []  # lines for people of which it is not yet known whether they stand among those beneath an event
    for number, line in enumerate(lines[1:], start=2):
        with _at(number):
            _check_characters(line)
            if not line.strip() or line.lstrip().startswith("#"):
                gap.append(line)
                continue
            if line.startswith(" "):
                _beneath(items[-1], line)
                items[-1].notes += gap
                gap.clear()
                continue
            items += [*(Item("note", note) for note in gap), _item(line, given, events, number)]
            gap.clear()
    items += [Item("note", note) for note in gap]
    recorded = _recorded(path, given, events)
    written = tuple(tuple(item.beneath) for item in items if item.kind == "event")
    return TextForm(recorded, tuple(items), written if any(written) else None)


@contextmanager
def _at(line: int) -> Iterator[None]:
    try:
        yield
    except KvraceError as error:
        raise KvraceError(f"line {line}: {error}") from error


def _check_characters(line: str) -> None:
    if len(line) > LONGEST + len(INDENT):
        raise KvraceError(f"longer than {LONGEST + len(INDENT)} characters")
    if not line.isprintable():
        raise KvraceError("unprintable characters (a tab, a carriage return?)")


def _beneath(above: Item, line: str) -> None:
    text = line.removeprefix(INDENT)
    if text == line or text.startswith(" "):
        raise KvraceError(f"what happens is indented by {len(INDENT)} spaces, no more and no less")
    if above.kind != "event":
        raise KvraceError("an indented line stands beneath an event, and there is none above")
    above.beneath.append(text)


def _item(line: str, given: dict[str, tuple[int, str]], events: list[Event], number: int) -> Item:
    match = None if events else _FIELD.fullmatch(line)
    if match is None:
        event = parse_event(line)
        if str(event) != line:
            raise KvraceError(f"write this event as {quoted(event)}")
        if len(events) == MAX_EVENTS:
            raise KvraceError(f"at most {MAX_EVENTS} events are played")
        events.append(event)
        return Item("event", line)
    name, value = match[1], match[2]
    if name not in _FIELDS:
        raise KvraceError(f"unknown field {quoted(name)}: use one of {', '.join(_FIELDS)}")
    if name in given:
        raise KvraceError(f"{name} was already given in line {given[name][0]}")
    if len(value) > MAX_TEXT:
        raise KvraceError(f"{name} is longer than {MAX_TEXT} characters")
    given[name] = number, value
    return Item("field", line)


def _recorded(path: Path, given: Mapping[str, tuple[int, str]], events: Sequence[Event]) -> RecordedTrace:
    def value(name: str, default: str) -> str:
        return given[name][1] if name in given else default

    def optional(name: str) -> str | None:
        return given[name][1] if name in given else None

    def choice(name: str, known: Sequence[str]) -> str:
        if value(name, known[0]) not in known:
            raise KvraceError(
                f"line {given[name][0]}: unknown {name} {quoted(value(name, ''))}: use one of {', '.join(known)}"
            )
        return value(name, known[0])

    scope = _scope(given)
    with _at(given["contract"][0] if "contract" in given else 1):
        contract = Contract.parse(value("contract", EXACTLY_ONCE))
    if not events:
        raise KvraceError("there is no event")
    property_name = choice("property", (NO_FINDING, *PROPERTY_NAMES))
    for name in FINDING_FIELDS[1:]:
        if property_name == NO_FINDING and name in given:
            raise KvraceError(f"line {given[name][0]}: {name} goes with a property, and none is named")
    if "policy" in given and value("subject", "vllm") != "reference":
        raise KvraceError(f"line {given['policy'][0]}: policy goes with 'subject: reference'")
    return RecordedTrace(
        path,
        value("kvrace", ""),
        value("subject", "vllm"),
        optional("policy"),
        _identity(given),
        scope,
        contract,
        property_name,
        choice("blame", ("scheduler", "connector")),
        value("shape", ""),
        value("message", ""),
        optional("location"),
        tuple(events),
        _loop(given, len(events)),
        (),
    )


def _identity(given: Mapping[str, tuple[int, str]]) -> Identity:
    """Whom the text was recorded on: nobody yet, if it was written by hand."""
    if "recorded on" not in given:
        return Identity("", "", "")
    line, text = given["recorded on"]
    match = _IDENTITY.fullmatch(text)
    if match is None:
        raise KvraceError(f"line {line}: recorded on: write it as 'name version: scheduler'")
    name, version, file, digest, scheduler = match.groups()
    return Identity(name, version, scheduler, AppliedPatch(file, digest) if file else None)


def _loop(given: Mapping[str, tuple[int, str]], events: int) -> int | None:
    if "loop" not in given:
        return None
    line, text = given["loop"]
    if not re.fullmatch(r"[0-9]{1,4}", text) or int(text) >= events:
        raise KvraceError(f"line {line}: loop is not the number of an event before the last")
    return int(text)


def _scope(given: Mapping[str, tuple[int, str]]) -> Scope:
    if "requests" not in given:
        raise KvraceError("there is no field requests (for example 'requests: load_save,local')")
    data: dict[str, Any] = {}
    for name in _SCOPE_FIELDS:
        if name in given:
            line, text = given[name]
            data[name] = text
            if name == "requests":
                data[name] = text.split(",")
            elif name != "scheduling":
                try:
                    data[name] = json.loads(text)
                except (ValueError, RecursionError) as error:
                    raise KvraceError(
                        f"line {line}: {name}: {quoted(text)} is no value (a number, true, false)"
                    ) from error
    return Scope.from_dict(data)
