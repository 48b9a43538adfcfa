"""What a configured connector does, by what was read in its source: one answer to each question, for one or for several connectors.

Nothing is guessed. A connector that nobody read, one from elsewhere, and one whose text has changed since, is undetermined.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kvrace.installed import Installed, file_of_package
from kvrace.known.connectors import QUESTIONS, Answer, Question, connector_named, release_with_text
from kvrace.transferconfig import ConnectorConfig

TOGETHER = "together"
"""Load and save of one request are pending together: the one way in which ``single`` is stricter than ``exactly-once``."""
CONTRACTS: tuple[Question, ...] = ("unclaimed", "duplicate", "unsolicited", "lossy")
"""The questions that are contracts of ``kvrace check`` under the same name."""


@dataclass(frozen=True, slots=True)
class Reading:
    """An answer about one connector. ``at`` is where it was read, in ``release``; both are empty for what was not read."""

    connector: str
    ask: Question
    answer: Answer
    because: str
    at: tuple[str, ...] = ()
    release: str = ""


@dataclass(frozen=True, slots=True)
class Answers:
    """What a deployment's connectors do together: an answer to each contract, and the readings it follows from."""

    asked: dict[str, Answer]
    readings: tuple[Reading, ...]

    def why(self, ask: str) -> list[Reading]:
        """The readings that decide an answer. Two decide whether load and save are pending together."""
        parts = ("loads", "claims") if ask == TOGETHER else (ask, "unbidden") if ask == "duplicate" else (ask,)
        return [reading for reading in self.readings if reading.ask in parts and reading.answer != "no"]


def read(connector: ConnectorConfig, ask: Question, installed: Installed) -> Reading:
    """What is known of one connector of the installed vLLM."""
    facts = None if connector.module else connector_named(connector.name)
    if facts is None:
        where = f"it comes from {connector.module}" if connector.module else "it is none of vLLM's"
        return Reading(connector.name, ask, "undetermined", f"nobody read it: {where}")
    if facts.instead and file_of_package(facts.instead) and not os.environ.get(facts.unless):
        return Reading(connector.name, ask, "undetermined", f"nobody read it: here it is {facts.instead}")
    about = facts.about(ask, connector.role, connector.extra)
    for fact in about:
        release = release_with_text(installed.folder, installed.version, facts, fact)
        if release is not None:
            return Reading(connector.name, ask, fact.answer, fact.because, facts.places(fact), release)
    why = "the installed text is not the one that was read" if about else "not everything was found out by reading"
    return Reading(connector.name, ask, "undetermined", why)


def answers(connectors: Sequence[ConnectorConfig], installed: Installed) -> Answers:
    """What connectors do side by side, as children of one MultiConnector that is among them, or what the only one does."""
    readings = {ask: [read(connector, ask, installed) for connector in connectors] for ask in QUESTIONS}
    given = {ask: _any(found.answer for found in of) for ask, of in readings.items()}
    asked: dict[str, Answer] = {TOGETHER: _both(given["loads"], given["claims"])}
    asked |= {ask: given[ask] for ask in CONTRACTS}
    loading = sum(found.answer != "no" for found in readings["loads"])
    if loading > 1:  # MultiConnector asks one of them to load, and unites what they report
        asked["duplicate"] = _any([given["duplicate"], given["unbidden"]])
    asked["unseen"] = given["unseen"]
    counted = [found for ask, of in readings.items() if ask != "unbidden" or loading > 1 for found in of]
    return Answers(asked, tuple(counted))


def _any(given: Iterable[Answer]) -> Answer:
    """Whether one of several does it."""
    seen = set(given)
    order: tuple[Answer, ...] = ("yes", "undetermined", "depends", "no")
    return next((answer for answer in order if answer in seen), "no")


def _both(one: Answer, other: Answer) -> Answer:
    """Whether two things are done that only count together."""
    if "no" in (one, other):
        return "no"
    return "yes" if one == other == "yes" else "undetermined" if "undetermined" in (one, other) else "depends"
