"""Where ``--json`` goes: nowhere, to standard output, or to a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kvrace.cli.reports import STANDARD_OUTPUT
from kvrace.files import check_target, encodable, write_atomically
from kvrace.render.output import standard_output


@dataclass(frozen=True, slots=True)
class JsonTarget:
    """``file`` is absolute, since a scheduler may change the working folder; None where there is no file."""

    wanted: bool
    file: Path | None

    @classmethod
    def of(cls, given: str | None) -> JsonTarget:
        """Raises KvraceError for a file that cannot be written."""
        if given in (None, STANDARD_OUTPUT):
            return cls(given is not None, None)
        check_target(Path(given), "--json")
        return cls(True, Path(given).absolute())

    def write(self, text: str) -> None:
        if self.file is not None:
            write_atomically(self.file, text)
        elif self.wanted:
            standard_output(color=False).write(encodable(text))
