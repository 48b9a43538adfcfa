"""The events an interleaving is made of.

An event names what the *environment* does: a client, the engine loop, or the connector. How a scheduler answers is
never part of an event, so the same order of events can be played to any scheduler.

Each event has one line of text (``add A``, ``update load:A save:A``); :func:`parse_event` reads back what ``str`` writes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from kvmodel.errors import KvraceError, quoted

Direction = Literal["load", "save"]
ReportKind = Literal["due", "duplicate", "unsolicited", "late", "expired", "earlier"]
PauseMode = Literal["new", "all"]
FailedPart = Literal["all", "first", "last", "id"]

DIRECTIONS: tuple[Direction, ...] = ("load", "save")
_UNUSUAL: dict[str | None, ReportKind] = {
    "duplicate": "duplicate",
    "unsolicited": "unsolicited",
    "late": "late",
    "expired": "expired",
    "earlier": "earlier",
}


def _at(rank: int) -> str:
    return f"@{rank}" if rank else ""


@dataclass(frozen=True, slots=True)
class Add:
    """A client sends a request. ``claims`` is how the connector will answer at ``request_finished``.

    With ``claims=False`` (contract ``unclaimed``) the save starts all the same, but the scheduler is told ``False``.
    """

    request: str
    claims: bool = True

    def __str__(self) -> str:
        return f"add {self.request}" if self.claims else f"add {self.request} unclaimed"


@dataclass(frozen=True, slots=True)
class AddAgain:
    """A client sends a request under an id whose earlier request is over for it. Only in scopes with ``reuse``."""

    request: str

    def __str__(self) -> str:
        return f"add {self.request} again"


@dataclass(frozen=True, slots=True)
class Abort:
    """The client is gone: ``Scheduler.finish_requests(request, FINISHED_ABORTED)``. Comes between any two calls."""

    request: str

    def __str__(self) -> str:
        return f"abort {self.request}"


@dataclass(frozen=True, slots=True)
class AbortAll:
    """Nobody is served any longer: ``Scheduler.finish_requests(None, FINISHED_ABORTED)``. Only in scopes with ``abort_all``."""

    def __str__(self) -> str:
        return "abort all"


@dataclass(frozen=True, slots=True)
class Reset:
    """The prefix cache is emptied: ``Scheduler.reset_prefix_cache()``, with ``running`` also of what running requests own.

    Only in scopes with ``reset`` or ``reset_running``.
    """

    running: bool = False

    def __str__(self) -> str:
        return "reset running" if self.running else "reset"


@dataclass(frozen=True, slots=True)
class Pause:
    """The engine is paused: ``Scheduler.set_pause_state()``. ``new``: nobody new is started. ``all``: nothing is scheduled.

    Only in scopes with ``pause``.
    """

    mode: PauseMode

    def __str__(self) -> str:
        return f"pause {self.mode}"


@dataclass(frozen=True, slots=True)
class Resume:
    """The pause is over."""

    def __str__(self) -> str:
        return "resume"


@dataclass(frozen=True, slots=True)
class Schedule:
    """The engine asks for a step: ``Scheduler.schedule()``. The step is dispatched until an ``Update`` processes it.

    The connector that is asked for a load of one of ``later`` cannot say yet (``get_num_new_matched_tokens`` gives None); for
    one of ``missing`` it says that there is none. Only in scopes with ``lookup``.
    """

    later: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    def __str__(self) -> str:
        words = ["schedule", *(f"later:{name}" for name in self.later), *(f"miss:{name}" for name in self.missing)]
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class TransferEnds:
    """A transfer physically ends before it is reported (in scopes with ``separate_ends``), or after it was (contracts ``late`` and
    ``lease``). ``rank``: only the part of that rank."""

    request: str
    direction: Direction
    rank: int = 0

    def __str__(self) -> str:
        return f"ends {self.direction}:{self.request}{_at(self.rank)}"


@dataclass(frozen=True, slots=True)
class Lose:
    """A transfer ends and will never be reported (contract ``lossy``). ``rank``: only the part of that rank."""

    request: str
    direction: Direction
    rank: int = 0

    def __str__(self) -> str:
        return f"lose {self.direction}:{self.request}{_at(self.rank)}"


@dataclass(frozen=True, slots=True, order=True)
class Report:
    """One id in ``KVConnectorOutput.finished_recving`` (load) or ``finished_sending`` (save), in the output of one rank.

    ``earlier``: it is that of a transfer for the earlier request of a re-used id, which the report itself does not say.
    """

    direction: Direction
    request: str
    kind: ReportKind = "due"
    rank: int = 0

    def __str__(self) -> str:
        suffix = "" if self.kind == "due" else f":{self.kind}"
        return f"{self.direction}:{self.request}{_at(self.rank)}{suffix}"


@dataclass(frozen=True, slots=True, order=True)
class Failure:
    """A load that failed: ``KVConnectorOutput.invalid_block_ids`` has ``all`` of its blocks, or only the ``first`` or ``last``
    of them; or ``failed_recving`` has its request (``id``, since vLLM 0.30.0).

    ``str``: ``invalid:A``, ``invalid:A:first``, ``invalid:A:last``, ``failed:A``.
    """

    request: str
    part: FailedPart = "all"

    def __str__(self) -> str:
        if self.part == "id":
            return f"failed:{self.request}"
        return f"invalid:{self.request}" if self.part == "all" else f"invalid:{self.request}:{self.part}"


@dataclass(frozen=True, slots=True)
class Update:
    """The output of the oldest dispatched step is processed: ``Scheduler.update_from_output()``.

    ``reports`` and ``failures`` came with it; ``stops`` are requests whose sampled token is a stop token; ``drafts`` says of which
    requests it accepts how many of the drafts that the step verified, the first ones. It rejects all others.
    """

    reports: tuple[Report, ...] = ()
    stops: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
    drafts: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        words = ["update", *map(str, (*self.reports, *self.failures)), *(f"stop:{name}" for name in self.stops)]
        return " ".join([*words, *(f"drafts:{name}:{count}" for name, count in self.drafts)])


Event = Add | AddAgain | Abort | AbortAll | Reset | Pause | Resume | Schedule | TransferEnds | Lose | Update

_REQUEST = re.compile(r"[A-Z]")
_REPORT = re.compile(rf"(load|save):([A-Z])(?:@([1-9]))?(?::({'|'.join(map(str, _UNUSUAL))}))?")
_FAILURE = re.compile(r"invalid:([A-Z])(?::(first|last))?|failed:([A-Z])")

_DRAFTS = re.compile(r"drafts:([A-Z]):([1-9])")


def _request(word: str, text: str) -> str:
    if not _REQUEST.fullmatch(word):
        raise KvraceError(f"event {quoted(text)}: {quoted(word)} is not a request (one capital letter)")
    return word


def _transfer(word: str, text: str) -> tuple[str, Direction, int]:
    match = _REPORT.fullmatch(word)
    if not match or match[4]:
        raise KvraceError(f"event {quoted(text)}: {quoted(word)} is not a transfer (load:A or save:A)")
    return match[2], "load" if match[1] == "load" else "save", int(match[3] or 0)


def _failure(match: re.Match[str]) -> Failure:
    if match[3]:
        return Failure(match[3], "id")
    return Failure(match[1], "first" if match[2] == "first" else "last" if match[2] else "all")


def _update(words: list[str], text: str) -> Update:
    reports: list[Report] = []
    stops: list[str] = []
    failures: list[Failure] = []
    drafts: list[tuple[str, int]] = []
    for word in words:
        if accepted := _DRAFTS.fullmatch(word):
            drafts.append((accepted[1], int(accepted[2])))
            continue
        if word.startswith("stop:"):
            stops.append(_request(word.removeprefix("stop:"), text))
            continue
        if failed := _FAILURE.fullmatch(word):
            failures.append(_failure(failed))
            continue
        match = _REPORT.fullmatch(word)
        if not match:
            raise KvraceError(
                f"event {quoted(text)}: {quoted(word)} is not a report (load:A, save:A, stop:A, drafts:A:1)"
            )
        direction: Direction = "load" if match[1] == "load" else "save"
        reports.append(Report(direction, match[2], _UNUSUAL.get(match[4], "due"), int(match[3] or 0)))
    _check_each_once(words, text)
    if len(dict(drafts)) < len(drafts):
        raise KvraceError(f"event {quoted(text)}: the drafts of a request are there twice")
    return Update(tuple(sorted(reports)), tuple(sorted(stops)), tuple(sorted(failures)), tuple(sorted(drafts)))


def _check_each_once(words: list[str], text: str) -> None:
    twice = next((word for place, word in enumerate(words) if word in words[:place]), None)
    if twice is not None:
        raise KvraceError(f"event {quoted(text)}: {quoted(twice)} is there twice")


def _schedule(words: list[str], text: str) -> Schedule:
    named: dict[str, list[str]] = {"later": [], "miss": []}
    for word in words:
        answer, _, name = word.partition(":")
        if answer not in named:
            raise KvraceError(f"event {quoted(text)}: {quoted(word)} is not an answer (later:A, miss:A)")
        named[answer].append(_request(name, text))
    _check_each_once([name for names in named.values() for name in names], text)
    return Schedule(tuple(sorted(named["later"])), tuple(sorted(named["miss"])))


def parse_event(text: str) -> Event:
    """Read one event from its line of text. Raises KvraceError when the line is not an event."""
    match text.split():
        case ["add", name]:
            return Add(_request(name, text))
        case ["add", name, "unclaimed"]:
            return Add(_request(name, text), claims=False)
        case ["add", name, "again"]:
            return AddAgain(_request(name, text))
        case ["abort", "all"]:
            return AbortAll()
        case ["abort", name]:
            return Abort(_request(name, text))
        case ["reset"]:
            return Reset()
        case ["reset", "running"]:
            return Reset(running=True)
        case ["pause", "new" | "all" as mode]:
            return Pause("new" if mode == "new" else "all")
        case ["resume"]:
            return Resume()
        case ["schedule", *words]:
            return _schedule(words, text)
        case ["ends", word]:
            return TransferEnds(*_transfer(word, text))
        case ["lose", word]:
            return Lose(*_transfer(word, text))
        case ["update", *words]:
            return _update(words, text)
    raise KvraceError(
        f"{quoted(text)} is not an event (add, abort, schedule, update, ends, lose, reset, pause, resume)"
    )
