"""The connector contract: which completion histories a KV connector may produce.

The default, ``exactly-once``, is what vLLM's ``KVConnectorBase_V1`` asks for: every started transfer is reported once, and
``request_finished`` returns True exactly when a send report follows. Every other name changes one rule; names combine.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvmodel.errors import KvraceError, quoted

EXACTLY_ONCE = "exactly-once"

MEANINGS: dict[str, str] = {
    EXACTLY_ONCE: "report each started transfer once; True from request_finished iff a send report follows; "
    "load and save of one request may both be pending",
    "single": "never have load and save of one request pending together (stricter than the default)",
    "unclaimed": "return False from request_finished although its transfer still runs and will be reported",
    "duplicate": "report a transfer twice",
    "unsolicited": "report a send for a live request, or for an id it never claimed",
    "lossy": "never report some transfer",
}
"""What the connector may do under each name, in the words of the README's table. The relation that is proved knows these."""

FURTHER: dict[str, str] = {
    "late": "report a load as over while its bytes still land, and then report it once more or not at all",
    "lease": "report a save as over when its time is up, although its peer still reads or its request is not over, "
    "and then once more or not at all",
}
"""Names that only orders played on schedulers know: tables of every contract and the relation leave them out."""

ALL_MEANINGS = MEANINGS | FURTHER


@dataclass(frozen=True, slots=True)
class Contract:
    """A set of independent changes to ``exactly-once``."""

    names: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        unknown = self.names - ALL_MEANINGS.keys()
        if unknown:
            raise KvraceError(f"unknown contract {quoted(sorted(unknown)[0])}: use one of {', '.join(ALL_MEANINGS)}")

    @classmethod
    def parse(cls, text: str) -> Contract:
        """Read ``exactly-once`` or a comma-separated list of names. Raises KvraceError for an unknown name."""
        names = [name.strip() for name in text.split(",")]
        if not all(names):
            raise KvraceError(f"contract {quoted(text)}: an empty name; write for example 'duplicate,lossy'")
        return cls(frozenset(names) - {EXACTLY_ONCE}) if set(names) <= ALL_MEANINGS.keys() else cls(frozenset(names))

    def __str__(self) -> str:
        return ",".join(name for name in ALL_MEANINGS if name in self.names) or EXACTLY_ONCE

    @property
    def single(self) -> bool:
        return "single" in self.names

    @property
    def unclaimed(self) -> bool:
        return "unclaimed" in self.names

    @property
    def duplicate(self) -> bool:
        return "duplicate" in self.names

    @property
    def unsolicited(self) -> bool:
        return "unsolicited" in self.names

    @property
    def lossy(self) -> bool:
        return "lossy" in self.names

    @property
    def late(self) -> bool:
        return "late" in self.names

    @property
    def lease(self) -> bool:
        return "lease" in self.names
