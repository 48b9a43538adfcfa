"""Trace files: one shortest order, with everything that is needed to play it again, as ITF JSON (Apalache ADR 015).

A trace file may come from anywhere, so reading checks sizes, types and values, imports nothing and evaluates nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import itf_py

import kvrace
from kvmodel.contract import Contract
from kvmodel.errors import KvraceError, quoted
from kvmodel.events import Event, parse_event
from kvmodel.playback import Frame
from kvmodel.port import AppliedPatch, Identity
from kvmodel.properties import PROPERTY_NAMES
from kvmodel.scope import Scope
from kvrace.files import reason, write_atomically
from kvrace.result import Violation
from kvrace.shapes import recordable, text
from kvrace.trace_states import MAX_TEXT, StatesReader, states_json, variables

FORMAT, VERSION = "kvrace-trace", 2
NO_FINDING = "none"
MAX_BYTES = 4 * 1024 * 1024
MAX_EVENTS = 1000


@dataclass(frozen=True, slots=True)
class RecordedTrace:
    """What a trace file or a text form says. ``property`` is :data:`NO_FINDING` in a text that nothing should break, and a text has
    no ``states``. ``spec`` and ``policy`` say how the subject was made; ``states`` are not yet
    decoded: :func:`frames_of` does that, and without a scheduler."""

    path: Path
    kvrace: str
    spec: str
    policy: str | None
    identity: Identity
    scope: Scope
    contract: Contract
    property: str
    blame: str
    shape: str
    message: str
    location: str | None
    events: tuple[Event, ...]
    loop: int | None
    states: tuple[dict[str, Any], ...]


def write_trace(violation: Violation, spec: str, policy: str | None, folder: Path) -> Path:
    """Write the violation's order into ``folder`` and return the file. The name depends on the contents alone."""
    meta = _meta(violation, spec, policy)
    identity = json.dumps([meta["subject"], meta["scope"], meta["contract"], violation.signature, violation.events])
    path = folder / f"{violation.property}-{hashlib.blake2b(identity.encode(), digest_size=4).hexdigest()}.itf.json"
    data = itf_py.trace_to_json(itf_py.Trace(meta, [], list(variables(violation.scope)), [], violation.loop_start))
    data["states"] = states_json(violation.frames, violation.scope)
    write_atomically(path, _text_of(data))
    return path


def _text_of(data: dict[str, Any]) -> str:
    """JSON with one state a line, so that two traces can be compared with ``diff``."""
    states = ",\n".join("  " + json.dumps(state, ensure_ascii=False) for state in data["states"])
    head = json.dumps({key: value for key, value in data.items() if key != "states"}, indent=1, ensure_ascii=False)
    return f'{head[:-2]},\n "states": [\n{states}\n ]\n}}\n'


def _meta(violation: Violation, spec: str, policy: str | None) -> dict[str, Any]:
    identity = violation.identity
    return {
        "format": FORMAT,
        "version": VERSION,
        "format-description": "https://apalache-mc.org/docs/adr/015adr-trace.html",
        "kvrace": kvrace.__version__,
        "verdict": "violated",
        "property": violation.property,
        "blame": violation.blame,
        "shape": recordable(violation.shape, MAX_TEXT),
        "message": recordable(violation.message, MAX_TEXT),
        "location": None if violation.location is None else recordable(violation.location, MAX_TEXT),
        "subject": {
            "name": identity.name,
            "version": identity.version,
            "scheduler": identity.scheduler,
            "spec": spec,
            "policy": policy,
            **({"patch": identity.patch._asdict()} if identity.patch else {}),
        },
        "scope": violation.scope.as_dict(),
        "contract": str(violation.contract),
        "loop": violation.loop_start,
    }


def read_trace(path: Path) -> RecordedTrace:
    """Read a trace file. Raises KvraceError with one line that names the file and what is wrong with it."""
    return parse_trace(path, read_bytes(path))


def parse_trace(path: Path, raw: bytes) -> RecordedTrace:
    """The same for a file that was already read."""
    try:
        return _trace(path, _load(raw))
    except KvraceError as error:
        raise KvraceError(f"{path}: {error}") from error


def read_bytes(path: Path) -> bytes:
    """What is in the file, if that is not more than a trace can be. Raises KvraceError, naming the file."""
    try:
        if path.exists() and not path.is_file():
            raise KvraceError(f"{path}: not a file")
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise KvraceError(f"{path}: cannot be read: {reason(error)}") from error
    if len(raw) > MAX_BYTES:
        raise KvraceError(f"{path}: larger than {MAX_BYTES // 1024 // 1024} MB; no trace is")
    return raw


def frames_of(recorded: RecordedTrace) -> tuple[Frame, ...]:
    """The playback that the file records, without any scheduler. Raises KvraceError naming file, state and what is wrong there."""
    reader = StatesReader(recorded.scope)
    frames: list[Frame] = []
    for number, state in enumerate(recorded.states):
        try:
            frames.append(reader.frame(state))
        except KvraceError as error:
            raise KvraceError(f"{recorded.path}: state {number}: {error}") from error
    return tuple(frames)


def _load(raw: bytes) -> dict[str, Any]:
    try:
        data = json.loads(raw)
    except RecursionError as error:
        raise KvraceError("not a trace: nested too deeply") from error
    except ValueError as error:
        raise KvraceError(f"not JSON: {error}") from error
    if not isinstance(data, dict):
        raise KvraceError("not a trace: no ITF object at the top")
    return data


def _trace(path: Path, data: dict[str, Any]) -> RecordedTrace:
    meta = _table(data, "#meta")
    if meta.get("format") != FORMAT:
        raise KvraceError(f"not a kvrace trace: #meta has no format {FORMAT!r}")
    if type(meta.get("version")) is not int or meta["version"] != VERSION:
        raise KvraceError(f"trace version {quoted(meta.get('version'))}; this kvrace reads version {VERSION}")
    subject = _table(meta, "subject")
    states = _states(data)
    events = _events(states)
    if _text(meta, "property") not in PROPERTY_NAMES:
        raise KvraceError(f"unknown property {quoted(meta['property'])}")
    if _text(meta, "blame") not in ("scheduler", "connector"):
        raise KvraceError(f"unknown blame {quoted(meta['blame'])}")
    return RecordedTrace(
        path,
        _text(meta, "kvrace"),
        _text(subject, "spec"),
        _optional_text(subject, "policy"),
        Identity(_text(subject, "name"), _text(subject, "version"), _text(subject, "scheduler"), _patch(subject)),
        Scope.from_dict(meta.get("scope")),
        Contract.parse(_text(meta, "contract")),
        _text(meta, "property"),
        _text(meta, "blame"),
        _text(meta, "shape"),
        _text(meta, "message"),
        _optional_text(meta, "location"),
        events,
        _loop(data, len(events)),
        states,
    )


def _patch(subject: dict[str, Any]) -> AppliedPatch | None:
    if "patch" not in subject:
        return None
    patch = _table(subject, "patch")
    return AppliedPatch(_text(patch, "file"), _text(patch, "digest"))


def _table(data: dict[str, Any], name: str) -> dict[str, Any]:
    value = data.get(name)
    if not isinstance(value, dict):
        raise KvraceError(f"{name} is missing" if value is None else f"{name} is not a table")
    return value


def _text(data: dict[str, Any], name: str) -> str:
    return text(MAX_TEXT)(data.get(name), name)


def _optional_text(data: dict[str, Any], name: str) -> str | None:
    return None if data.get(name) is None else _text(data, name)


def _states(data: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    states = data.get("states")
    if not isinstance(states, list) or not states or not all(isinstance(state, dict) for state in states):
        raise KvraceError("states is not a list of states")
    if len(states) > MAX_EVENTS + 1:
        raise KvraceError(f"{len(states) - 1} events; at most {MAX_EVENTS} are played")
    return tuple(states)


def _events(states: Sequence[dict[str, Any]]) -> tuple[Event, ...]:
    """The events alone: to play them, nothing else of a state is needed."""
    lines = [_text(state, "event") for state in states]
    if lines[0]:
        raise KvraceError("the first state has an event; it is the state before any")
    return tuple(parse_event(line) for line in lines[1:])


def _loop(data: dict[str, Any], events: int) -> int | None:
    loop = data.get("loop")
    if loop is None:
        return None
    if type(loop) is not int or not 0 <= loop < events:
        raise KvraceError("loop is not the number of a state before the last")
    return loop
