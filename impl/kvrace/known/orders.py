"""What kvrace found out about each release, scheduler and contract: the file ``orders.json``.

``spec/known_orders.py`` writes it from runs. It is checked when it is read, like every other file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kvmodel.contract import Contract
from kvmodel.errors import KvraceError, quoted
from kvmodel.properties import PROPERTY_NAMES
from kvmodel.scope import KINDS, SCHEDULINGS
from kvrace.files import reason
from kvrace.shapes import flag, number, one_of, sequence, table, text

FORMAT, VERSION = "kvrace-known-orders", 1
ORDERS = Path(__file__).parent / "orders.json"
SCHEDULERS = ("stock", "fixed")
"""vLLM's own classes, and kvrace's drop-in for them."""
_MANY = 1_000_000_000


@dataclass(frozen=True, slots=True)
class KnownOrder:
    """One finding with its shortest order. From event number ``loop`` on the events repeat for ever (-1: there is no loop).

    ``together`` says whether load and save of one request are pending together somewhere in the order; ``requests`` are the kinds
    of its requests, with which ``kvrace check`` finds it again.
    """

    property: str
    blame: str
    message: str
    location: str
    requests: tuple[str, ...]
    together: bool
    events: tuple[str, ...]
    loop: int


@dataclass(frozen=True, slots=True)
class KnownResult:
    """One exhausted scope on one scheduler, under one contract."""

    scheduler: str
    scheduling: str
    contract: str
    scope: str
    cases: int
    states: int
    transitions: int
    exhausted: bool
    violated: tuple[str, ...]
    holds: tuple[str, ...]
    findings: tuple[KnownOrder, ...]


@dataclass(frozen=True, slots=True)
class KnownRelease:
    """A checked release. ``sources`` has the digest of each file that decides what its scheduler answers."""

    release: str
    sources: tuple[tuple[str, str], ...]
    results: tuple[KnownResult, ...]

    def result(self, scheduler: str, scheduling: str, contract: str) -> KnownResult | None:
        """The run of this scheduler under this contract, if there was one."""
        wanted = (scheduler, scheduling, contract)
        return next((r for r in self.results if (r.scheduler, r.scheduling, r.contract) == wanted), None)

    def verified(self, scheduling: str) -> bool:
        """Whether every order of the drop-in's scope was played under the default contract, and every property holds."""
        result = self.result("fixed", scheduling, str(Contract()))
        return result is not None and result.exhausted and not result.violated


@dataclass(frozen=True, slots=True)
class _File:
    format: str
    version: int
    kvrace: str
    releases: tuple[KnownRelease, ...]


def _words(names: Iterable[str]) -> Any:
    return one_of({name: name for name in names})


def _contract(value: Any, place: str) -> str:
    try:
        return str(Contract.parse(text(100)(value, place)))
    except KvraceError as error:
        raise KvraceError(f"{place}: {error}") from error


def _digests(value: Any, place: str) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict):
        raise KvraceError(f"{place} is not a table")
    word = text(200)
    return tuple((word(name, place), word(digest, f"{place} of {quoted(name)}")) for name, digest in value.items())


_ORDER = table(
    KnownOrder,
    property=_words(PROPERTY_NAMES),
    blame=_words(("scheduler", "connector")),
    message=text(1000),
    location=text(300),
    requests=sequence(_words(KINDS), 26),
    together=flag,
    events=sequence(text(200), 100),
    loop=number(-1, 100),
)
_RESULT = table(
    KnownResult,
    scheduler=_words(SCHEDULERS),
    scheduling=_words(SCHEDULINGS),
    contract=_contract,
    scope=text(100),
    cases=number(1, 1000),
    states=number(1, _MANY),
    transitions=number(1, _MANY),
    exhausted=flag,
    violated=sequence(_words(PROPERTY_NAMES), len(PROPERTY_NAMES)),
    holds=sequence(_words(PROPERTY_NAMES), len(PROPERTY_NAMES)),
    findings=sequence(_ORDER, 100),
)
_RELEASE = table(KnownRelease, release=text(40), sources=_digests, results=sequence(_RESULT, 1000))
_FILE = table(
    _File,
    format=_words((FORMAT,)),
    version=number(VERSION, VERSION),
    kvrace=text(40),
    releases=sequence(_RELEASE, 1000),
)


@cache
def known_releases(path: Path = ORDERS) -> tuple[KnownRelease, ...]:
    """The releases that were checked. Raises KvraceError for a file that is missing or is not what kvrace writes."""
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise KvraceError(f"cannot read {path}: {reason(error)}") from error
    except (ValueError, RecursionError) as error:
        raise KvraceError(f"{path}: not JSON: {error}") from error
    return _FILE(data, str(path)).releases


def known_release(version: str) -> KnownRelease | None:
    """What is known of a release; the part of a version after ``+`` names a build, not a release."""
    public = version.partition("+")[0]
    return next((release for release in known_releases() if release.release == public), None)
