"""What is expected: the file of known answers, read."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from kvmodel.contract import Contract
from kvmodel.scope import Scope

FILE = Path(__file__).with_name("answers.toml")


@dataclass(frozen=True, slots=True)
class Answer:
    """One reported bug, and how kvrace has to find it.

    ``has_it``: the first and the last sampled release with it; ``gone_in``: the next one, None where the newest still has it.
    ``property``, ``shape`` and ``function`` say which finding is meant: shape as in a finding's signature, function the place in
    the scheduler's source; empty ones are not looked at. ``order``: the shortest order on the last release that has it (of a
    loop, what comes before it); with ``as_given`` it is the order of the report, played as it is. ``max_states``: where to stop
    exploring a release in which something grows for ever.
    """

    id: str
    title: str
    threads: tuple[str, ...]
    property: str
    scope: Scope
    contract: Contract
    order: tuple[str, ...]
    has_it: tuple[str, str]
    gone_in: str | None = None
    blame: str = "scheduler"
    shape: str = ""
    function: str = ""
    as_given: bool = False
    max_states: int = 400_000
    note: str = ""

    @property
    def pair(self) -> tuple[str, ...]:
        """The releases that a test plays: the last one with it and the first one without."""
        return (self.has_it[1], self.gone_in) if self.gone_in else (self.has_it[1],)


def answers() -> list[Answer]:
    """The set, in the order of the file."""
    found = [_answer(table) for table in tomllib.loads(FILE.read_text(encoding="utf-8"))["answer"]]
    assert len({answer.id for answer in found}) == len(found), "an id is there twice"
    return found


def _answer(table: dict[str, Any]) -> Answer:
    known = {field.name for field in fields(Answer)}
    assert set(table) <= known, f"{table['id']}: unknown {sorted(set(table) - known)}"
    lists = {name: tuple(table[name]) for name in ("threads", "order", "has_it")}
    contract = Contract.parse(table.get("contract", "exactly-once"))
    return Answer(**{**table, **lists, "scope": Scope.from_dict(table["scope"]), "contract": contract})
