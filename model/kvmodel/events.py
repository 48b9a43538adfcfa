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
ReportKind = Literal["due", "duplicate", "unsolicited", "late", "expired"]

DIRECTIONS: tuple[Direction, ...] = ("load", "save")
_UNUSUAL: dict[str | None, ReportKind] = {
    "duplicate": "duplicate",
    "unsolicited": "unsolicited",
    "late": "late",
    "expired": "expired",
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
class Abort:
    """The client is gone: ``Scheduler.finish_requests(request, FINISHED_ABORTED)``. Comes between any two calls."""

    request: str

    def __str__(self) -> str:
        return f"abort {self.request}"


@dataclass(frozen=True, slots=True)
class Schedule:
    """The engine asks for a step: ``Scheduler.schedule()``. The step is dispatched until an ``Update`` processes it."""

    def __str__(self) -> str:
        return "schedule"


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
    """One id in ``KVConnectorOutput.finished_recving`` (load) or ``finished_sending`` (save), in the output of one rank."""

    direction: Direction
    request: str
    kind: ReportKind = "due"
    rank: int = 0

    def __str__(self) -> str:
        suffix = "" if self.kind == "due" else f":{self.kind}"
        return f"{self.direction}:{self.request}{_at(self.rank)}{suffix}"


@dataclass(frozen=True, slots=True)
class Update:
    """The output of the oldest dispatched step is processed: ``Scheduler.update_from_output()``.

    ``reports`` came with it; ``stops`` are requests whose sampled token is a stop token; ``drafts`` says of how many requests it
    accepts how many of the drafts that the step verified, the first ones, and rejects all others.
    """

    reports: tuple[Report, ...] = ()
    stops: tuple[str, ...] = ()
    drafts: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        words = ["update", *(str(report) for report in self.reports), *(f"stop:{name}" for name in self.stops)]
        return " ".join([*words, *(f"drafts:{name}:{count}" for name, count in self.drafts)])


Event = Add | Abort | Schedule | TransferEnds | Lose | Update

_REQUEST = re.compile(r"[A-Z]")
_REPORT = re.compile(rf"(load|save):([A-Z])(?:@([1-9]))?(?::({'|'.join(map(str, _UNUSUAL))}))?")

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


def _update(words: list[str], text: str) -> Update:
    reports: list[Report] = []
    stops: list[str] = []
    drafts: list[tuple[str, int]] = []
    for word in words:
        if accepted := _DRAFTS.fullmatch(word):
            drafts.append((accepted[1], int(accepted[2])))
            continue
        if word.startswith("stop:"):
            stops.append(_request(word.removeprefix("stop:"), text))
            continue
        match = _REPORT.fullmatch(word)
        if not match:
            raise KvraceError(
                f"event {quoted(text)}: {quoted(word)} is not a report (load:A, save:A, stop:A, drafts:A:1)"
            )
        direction: Direction = "load" if match[1] == "load" else "save"
        reports.append(Report(direction, match[2], _UNUSUAL.get(match[4], "due"), int(match[3] or 0)))
    twice = next((word for place, word in enumerate(words) if word in words[:place]), None)
    if twice is not None:
        raise KvraceError(f"event {quoted(text)}: {quoted(twice)} is there twice")
    if len(dict(drafts)) < len(drafts):
        raise KvraceError(f"event {quoted(text)}: the drafts of a request are there twice")
    return Update(tuple(sorted(reports)), tuple(sorted(stops)), tuple(sorted(drafts)))


def parse_event(text: str) -> Event:
    """Read one event from its line of text. Raises KvraceError when the line is not an event."""
    match text.split():
        case ["add", name]:
            return Add(_request(name, text))
        case ["add", name, "unclaimed"]:
            return Add(_request(name, text), claims=False)
        case ["abort", name]:
            return Abort(_request(name, text))
        case ["schedule"]:
            return Schedule()
        case ["ends", word]:
            return TransferEnds(*_transfer(word, text))
        case ["lose", word]:
            return Lose(*_transfer(word, text))
        case ["update", *words]:
            return _update(words, text)
    raise KvraceError(f"{quoted(text)} is not an event (add, abort, schedule, update, ends, lose)")
