"""What was read in the sources of vLLM's connectors: the file ``connectors.toml``, which is written by hand.

Reading is not checking. Each answer names the symbols it was read in, and ``read_sources.json`` keeps the digests of their text in
the releases that were read, so that an answer is never given for a text that nobody read.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from kvmodel.errors import KvraceError
from kvrace.files import reason
from kvrace.known.sources import symbol_digest
from kvrace.shapes import flag, one_of, sequence, table, text

Question = Literal["loads", "claims", "unbidden", "unclaimed", "duplicate", "unsolicited", "lossy", "unseen"]
Answer = Literal["yes", "no", "depends", "undetermined"]
Role = Literal["kv_producer", "kv_consumer", "kv_both"]
QUESTIONS: dict[Question, str] = {
    "loads": "starts loads that run between two steps",
    "claims": "answers True from request_finished for a request that is aborted while its load runs",
    "unbidden": "starts a load although num_external_tokens is 0",
    "unclaimed": "reports a save for which request_finished answered False",
    "duplicate": "reports a transfer twice",
    "unsolicited": "reports a save for a live request, or one that it never claimed",
    "lossy": "never reports some transfer",
    "unseen": "moves or frees something that no report tells the scheduler of",
}
ROLES: tuple[Role, ...] = get_args(Role)
CONNECTORS, READ = Path(__file__).parent / "connectors.toml", Path(__file__).parent / "read_sources.json"
_FOLDER = "distributed/kv_transfer/kv_connector"
_OF_ALL = (f"{_FOLDER}/v1/base.py:KVConnectorBase_V1", f"{_FOLDER}/factory.py:KVConnectorFactory")
"""What every reading rests on: the methods that a connector does not have itself, and how its class is found by its name."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One answer and where it was read. It holds for the text of ``releases`` (none: of all that were read), for ``roles``
    (none: all), and where the switch ``when`` of ``kv_connector_extra_config`` is on (none: always). The connector takes a switch
    for on as Python does, so the text ``"false"`` as well, or if ``by_word``, only where it says true or 1."""

    ask: Question
    answer: Answer
    at: tuple[str, ...]
    because: str
    roles: tuple[Role, ...]
    releases: tuple[str, ...]
    when: str
    by_word: bool

    def fits(self, role: Role, extra: Mapping[str, Any]) -> bool:
        given = extra.get(self.when)
        on = str(given).lower().strip() in ("true", "1") if self.by_word else bool(given)
        return (on or not self.when) and (not self.roles or role in self.roles)


@dataclass(frozen=True, slots=True)
class ConnectorFacts:
    """One connector. ``classes`` has the class that vLLM makes, whose methods often only pass a call on, and all that leads to it.
    ``instead`` is the file of another package that takes its place where it is installed, unless the environment variable
    ``unless`` is set."""

    names: tuple[str, ...]
    classes: tuple[str, ...]
    source: str
    read_in: tuple[str, ...]
    instead: str
    unless: str
    facts: tuple[Fact, ...]

    def places(self, fact: Fact) -> tuple[str, ...]:
        """Where it was read, as ``path:symbol`` below the folder of vLLM."""
        return tuple(f"{self.source}/{place}" for place in fact.at)

    def rests_on(self) -> tuple[str, ...]:
        """What vLLM goes through before it comes to any of these places."""
        registered = (f'{_FOLDER}/factory.py:KVConnectorFactory.register_connector("{name}")' for name in self.names)
        return (*_OF_ALL, *registered, *(f"{_FOLDER}/v1/{place}" for place in self.classes))

    def about(self, ask: Question, role: Role, extra: Mapping[str, Any]) -> list[Fact]:
        """The facts that answer a question for a role and these settings; the first whose text is installed counts."""
        return [fact for fact in self.facts if fact.ask == ask and fact.fits(role, extra)]


def _with_defaults(reader: Any, **defaults: Any) -> Any:
    def read(value: Any, place: str) -> Any:
        return reader({**defaults, **value} if isinstance(value, dict) else value, place)

    return read


_FACT = _with_defaults(
    table(
        Fact,
        ask=one_of({name: name for name in QUESTIONS}),
        answer=one_of({name: name for name in get_args(Answer)}),
        at=sequence(text(200), 10),
        because=text(300),
        roles=sequence(one_of({name: name for name in ROLES}), len(ROLES)),
        releases=sequence(text(40), 100),
        when=text(100),
        by_word=flag,
    ),
    roles=[],
    releases=[],
    when="",
    by_word=False,
)
_CONNECTOR = _with_defaults(
    table(
        ConnectorFacts,
        names=sequence(text(100), 10),
        classes=sequence(text(200), 10),
        source=text(200),
        read_in=sequence(text(40), 100),
        instead=text(200),
        unless=text(100),
        facts=sequence(_FACT, 100),
    ),
    instead="",
    unless="",
)


@cache
def connectors() -> tuple[ConnectorFacts, ...]:
    """Every connector that was read. Raises KvraceError for a file that is missing or says what cannot be."""
    try:
        data = tomllib.loads(CONNECTORS.read_text(encoding="utf-8"))
    except OSError as error:
        raise KvraceError(f"cannot read {CONNECTORS}: {reason(error)}") from error
    except ValueError as error:
        raise KvraceError(f"{CONNECTORS}: {error}") from error
    return tuple(_CONNECTOR(value, name) for name, value in data.items())


def connector_named(name: str) -> ConnectorFacts | None:
    """What was read of the connector that ``kv_connector`` names."""
    return next((facts for facts in connectors() if name in facts.names), None)


@cache
def _read_digests() -> dict[str, dict[str, str]]:
    try:
        data: dict[str, dict[str, str]] = json.loads(READ.read_bytes())
    except (OSError, ValueError) as error:
        raise KvraceError(f"cannot read {READ}: {error}") from error
    return data


def release_with_text(package: Path, version: str, facts: ConnectorFacts, fact: Fact) -> str | None:
    """The release in which the installed text of a fact's symbols was read, ``version`` if it was that one; None where it is
    another text. ``package`` is the folder of the installed vLLM."""
    installed = {place: symbol_digest(package, place) for place in (*facts.rests_on(), *facts.places(fact))}
    for release in sorted(fact.releases or facts.read_in, key=lambda release: release != version):
        read = _read_digests().get(release, {})
        if all(digest is not None and read.get(place) == digest for place, digest in installed.items()):
            return release
    return None
