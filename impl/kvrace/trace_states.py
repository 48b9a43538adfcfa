"""The states of a trace file: written from the frames of a playback, and read back to the same frames.

Every field of a frame is recorded, so that any picture of the order can be drawn from the file alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import itf_py

from kvmodel.contract import ALL_MEANINGS
from kvmodel.errors import KvraceError, quoted
from kvmodel.events import DIRECTIONS, Event, parse_event
from kvmodel.playback import Frame
from kvmodel.port import (
    Crash,
    DispatchedStep,
    Handover,
    LoadStarted,
    Observation,
    ResetAnswer,
    Response,
    ScheduledRequest,
)
from kvmodel.properties import PROPERTY_NAMES, Finding
from kvmodel.scope import Scope
from kvmodel.world import LATER_FIELDS, Access, Drafts, RequestState, Stage, Step, Transfer, World
from kvrace.shapes import Reader, at_most_one, flag, number, one_of, pairs, record, recordable, sequence, set_of, text

MAX_TEXT = 1000
_MAX_ENTRIES, _MAX_TOKENS, _MAX_DEPTH = 1024, 1_000_000, 8
_STAGES = {stage.name.lower(): stage for stage in Stage}
_MARKERS = ({"#bigint"}, {"#map"}, {"#set"})


def states_json(frames: Sequence[Frame], scope: Scope) -> list[dict[str, Any]]:
    """The ITF states of a playback: after each event what the scheduler did and shows, and what the world holds."""
    states = []
    for index, frame in enumerate(frames):
        recorded = _values(frame) | (_values_of_life(frame) if scope.lifecycle else {})
        recorded |= _values_of_failures(frame) if scope.load_failures else {}
        values = {name: _plain(value) for name, value in recorded.items()}
        state: dict[str, Any] = itf_py.state_to_json(itf_py.State({"index": index}, values))
        states.append(state)
    return states


def _values(frame: Frame) -> dict[str, Any]:
    """The variables of a state, in the order in which the file has them."""
    seen, did, world = frame.observation, frame.response, frame.world
    return {
        "event": str(frame.event) if frame.event else "",
        "step": () if did.step is None else (did.step,),
        "loads": did.loads,
        "handovers": did.handovers,
        "notices": did.notices,
        "crash": () if did.crash is None else (did.crash,),
        "phases": dict(seen.phases),
        "queues": dict(seen.queues),
        "owned": dict(seen.owned),
        "held_back": seen.held_back,
        "references": {block: count for block, count in enumerate(seen.references) if count is not None},
        "free": seen.free,
        "free_count": seen.free_count,
        "cached": seen.cached,
        "tables": dict(seen.tables),
        "negative": seen.negative,
        "pending": seen.pending,
        "requests": world.requests,
        "steps": world.steps,
        "transfers": world.transfers,
        "settled": world.settled,
        "deviations": world.deviations,
        "findings": frame.findings,
    }


def _values_of_failures(frame: Frame) -> dict[str, Any]:
    """The variables of scopes in which loads fail."""
    return {"spoiled": dict(frame.world.spoiled), "delivered": frame.response.delivered}


def _values_of_life(frame: Frame) -> dict[str, Any]:
    """What only a scope with events of the engine's life has."""
    answer, world = frame.response.reset, frame.world
    return {
        "reset": () if answer is None else (_Reset(answer.done, answer.preempted, _listed(answer.refusal)),),
        "paused": _listed(world.paused),
        "again": world.again,
        "earlier": world.earlier,
    }


class _Reset(NamedTuple):
    """A ResetAnswer as a file has it."""

    done: bool
    preempted: tuple[str, ...]
    refusal: tuple[Crash, ...]

    @classmethod
    def read(cls, done: bool, preempted: tuple[str, ...], refusal: Crash | None) -> ResetAnswer:
        return ResetAnswer(done, preempted, refusal)


def _listed(value: Any) -> tuple[Any, ...]:
    """What may be missing, as ITF has it: a sequence of one or of none."""
    return () if value is None else (value,)


JUDGED = ("crash", "findings")
"""The variables that say where something broke: in another release the same line of source stands elsewhere."""


def _plain(value: Any) -> Any:
    """The value as ITF has it: a tuple is a sequence, a stage is its name, and a line of text is one that can be read."""
    if isinstance(value, Stage):
        return value.name.lower()
    if isinstance(value, str):
        return recordable(value, MAX_TEXT)
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _record(value)
    return [_plain(entry) for entry in value] if isinstance(value, tuple) else value


def _record(value: Any) -> SimpleNamespace:
    """A named tuple as ITF has it, without later fields that have their default."""
    defaults = {name: default for name, default in value._field_defaults.items() if name in LATER_FIELDS}
    written = {
        name: entry for name, entry in value._asdict().items() if name not in defaults or entry != defaults[name]
    }
    return SimpleNamespace(**{name: _plain(entry) for name, entry in written.items()})


class StatesReader:
    """Reads the states of a file whose scope is known."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self._variables = _readers(scope)

    def frame(self, state: Mapping[str, Any]) -> Frame:
        """The frame that a state records. Raises KvraceError for the first value that cannot be one."""
        read = {name: self._read(state, name) for name in self._variables}
        if len(read["requests"]) != len(self.scope.requests):
            raise KvraceError(f"requests: {len(read['requests'])}, and the scope has {len(self.scope.requests)}")
        counts = dict(read["references"])
        references = tuple(counts.get(block) for block in range(self.scope.blocks + 1))
        observation = Observation(references=references, **{name: read[name] for name in _SEEN})
        response = Response(**{name: read[name] for name in _DID if name in read})
        world = World(**{name: read[name] for name in World._fields if name in read})
        return Frame(read["event"], response, world, observation, read["findings"])

    def _read(self, state: Mapping[str, Any], name: str) -> Any:
        if name not in state:
            raise KvraceError(f"{name} is missing")
        _refuse_unknown_shapes(state[name], name)
        try:
            value = itf_py.value_from_json(state[name])
        except (TypeError, ValueError, AttributeError) as error:
            raise KvraceError(f"{name} is not an ITF value") from error
        return self._variables[name](value, name)


_DID = ("step", "loads", "handovers", "notices", "crash", "reset", "delivered")
_SEEN = tuple(name for name in Observation._fields if name != "references")


def _readers(scope: Scope) -> dict[str, Reader[Any]]:
    """A reader for each variable. Names that only the scheduler uses are any text; those the world knows are the scope's."""
    word, line = text(200), text(MAX_TEXT)
    tokens, count = number(0, _MAX_TOKENS), number(-_MAX_TOKENS, _MAX_TOKENS)
    block = number(0, scope.blocks)
    blocks = sequence(block, _MAX_ENTRIES)
    name = one_of({name: name for name in scope.names})
    names = sequence(name, _MAX_ENTRIES)
    words = sequence(word, _MAX_ENTRIES)
    direction = one_of({direction: direction for direction in DIRECTIONS})
    few = number(0, 2)
    scheduled = record(
        ScheduledRequest,
        request=name,
        new_blocks=blocks,
        replaces=flag,
        start=tokens,
        computed=tokens,
        samples=flag,
        window_blocks=blocks,
        drafts=tokens,
        optional=LATER_FIELDS,
    )
    access = record(
        Access, request=name, blocks=blocks, written=blocks, start=tokens, loaded=tokens, optional=LATER_FIELDS
    )
    request = record(
        RequestState,
        stage=one_of(_STAGES),
        claims=flag,
        abort_sent=flag,
        known=flag,
        load_started=flag,
        save_started=flag,
        table=blocks,
        computed=tokens,
        notices=few,
        finished_calls=few,
        dismissals=number(-1, 2),
        repeatable=sequence(direction, 4),
        unsolicited_sent=flag,
        lease_over=flag,
        window_table=blocks,
        optional=LATER_FIELDS,
    )
    crash = record(Crash, error=line, location=line, source=line, hang=flag)
    transfers = sequence(
        record(
            Transfer,
            request=name,
            direction=direction,
            blocks=blocks,
            wait=tokens,
            over=flag,
            claimed=flag,
            rank=number(0, scope.ranks),
            told=one_of({kind: kind for kind in ("late", "expired")}),
            failed=flag,
            optional=LATER_FIELDS,
        ),
        2 * len(scope.requests) * len(scope.rank_numbers),
    )
    life: dict[str, Reader[Any]] = {
        "reset": at_most_one(record(_Reset.read, done=flag, preempted=names, refusal=at_most_one(crash))),
        "paused": at_most_one(one_of({mode: mode for mode in ("new", "all")})),
        "again": names,
        "earlier": transfers,
    }
    return {
        "event": _event,
        "step": at_most_one(
            record(
                DispatchedStep,
                scheduled=sequence(scheduled, _MAX_ENTRIES),
                preempted=names,
                dismissed=names,
                common=count,
                optional=LATER_FIELDS,
            )
        ),
        "loads": sequence(
            record(
                LoadStarted,
                request=name,
                blocks=blocks,
                table=blocks,
                computed=tokens,
                in_step=flag,
                window=blocks,
                optional=LATER_FIELDS,
            ),
            _MAX_ENTRIES,
        ),
        "handovers": sequence(
            record(Handover, request=name, blocks=blocks, window=blocks, optional=LATER_FIELDS), _MAX_ENTRIES
        ),
        "notices": names,
        "crash": at_most_one(crash),
        "phases": pairs(word, word, _MAX_ENTRIES),
        "queues": pairs(word, words, _MAX_ENTRIES),
        "owned": pairs(word, blocks, _MAX_ENTRIES),
        "held_back": blocks,
        "references": pairs(block, count, _MAX_ENTRIES),
        "free": blocks,
        "free_count": count,
        "cached": set_of(block, _MAX_ENTRIES),
        "tables": pairs(word, words, _MAX_ENTRIES),
        "negative": words,
        "pending": flag,
        "requests": sequence(request, len(scope.requests)),
        "steps": sequence(
            record(
                Step,
                accesses=sequence(access, _MAX_ENTRIES),
                samples=names,
                cleanup=flag,
                drafts=sequence(record(Drafts, request=name, many=tokens), len(scope.requests)),
                garbage=names,
                optional=LATER_FIELDS,
            ),
            scope.steps_in_flight,
        ),
        "transfers": transfers,
        "settled": flag,
        "deviations": sequence(one_of({contract: contract for contract in ALL_MEANINGS}), len(ALL_MEANINGS)),
        **(
            {"spoiled": pairs(block, number(0, scope.block_size), _MAX_ENTRIES), "delivered": names}
            if scope.load_failures
            else {}
        ),
        "findings": sequence(
            record(
                Finding,
                property=one_of({rule: rule for rule in PROPERTY_NAMES}),
                message=line,
                blame=one_of({"scheduler": "scheduler", "connector": "connector"}),
                shape=text(MAX_TEXT),
                blocks=blocks,
            ),
            len(PROPERTY_NAMES),
        ),
        **(life if scope.lifecycle else {}),
    }


def _event(value: Any, place: str) -> Event | None:
    line = text(MAX_TEXT)(value, place)
    return parse_event(line) if line else None


def variables(scope: Scope) -> tuple[str, ...]:
    """The names of the variables that a state has in this scope, in the order of the file."""
    return tuple(_readers(scope))


VARIABLES = variables(Scope(("local",)))
"""Those that a state has in every scope."""
_FIELDS = {
    field
    for kind in (
        ScheduledRequest,
        DispatchedStep,
        LoadStarted,
        Handover,
        Crash,
        RequestState,
        Access,
        Step,
        Drafts,
        Transfer,
        Finding,
        _Reset,
    )
    for field in kind._fields
}


def _refuse_unknown_shapes(value: Any, place: str, depth: int = 0) -> None:
    """The ITF library makes a class of each record it decodes: it gets to see no other names than those of known fields."""
    if depth > _MAX_DEPTH:
        raise KvraceError(f"{place} is nested too deeply")
    if isinstance(value, dict):
        unknown = sorted(value.keys() - _FIELDS)
        if unknown and value.keys() not in _MARKERS:
            raise KvraceError(f"{place} has an unknown field {quoted(unknown[0])}")
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for entry in inner:
        _refuse_unknown_shapes(entry, place, depth + 1)
