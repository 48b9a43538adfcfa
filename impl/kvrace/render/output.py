"""Where text goes: width, colour, encoding, and a reader that has gone away."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
import unicodedata
from typing import TextIO

from rich.console import Console, RenderableType
from rich.segment import Segment, Segments

from kvmodel.errors import KvraceError
from kvrace.files import reason

WIDTH_WITHOUT_TERMINAL = 100
SMALLEST_WIDTH = 60
_SYMBOLS = "·×↓↑•◀→↻✓✗…─—≡"
_QUOTED_MOST, _UNBROKEN_MOST, _LINE_MOST = 60, 200, 600
_QUOTED = re.compile(rf"'([^']{{{_QUOTED_MOST + 1},}})'")
_UNBROKEN = re.compile(rf"(\S{{{_UNBROKEN_MOST}}})\S+")
_PLAIN = str.maketrans(dict(zip(_SYMBOLS, "-xwrs<>~+X.--=", strict=True)))
"""One character for one, so that columns stay where they are."""


class Output:
    """Renders to one stream. Escape codes only on a terminal, and never with ``NO_COLOR`` or ``--no-color``."""

    def __init__(self, stream: TextIO, *, color: bool = True, width: int | None = None) -> None:
        self.stream = stream
        terminal = stream.isatty() or bool(os.environ.get("FORCE_COLOR"))
        self._styled = color and terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self.width = max(SMALLEST_WIDTH, width or shutil.get_terminal_size((WIDTH_WITHOUT_TERMINAL, 24)).columns)
        self._unicode = _can_encode(stream, _SYMBOLS)

    def print(self, *parts: RenderableType) -> None:
        """Render ``parts``, one under the other. A reader that has closed the pipe is not an error."""
        buffer = io.StringIO()
        console = Console(
            file=buffer,
            width=self.width,
            force_terminal=self._styled,
            color_system="auto" if self._styled else None,
            no_color=not self._styled,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )
        for part in parts:
            shown = [
                segment if segment.control else Segment(printable(segment.text), segment.style)
                for segment in console.render(part)
            ]
            console.print(Segments(shown), crop=False)
        lines = [line.rstrip() for line in buffer.getvalue().split("\n")]
        self.write("\n".join(lines))

    def write(self, text: str) -> None:
        """Write plain text in what the stream's encoding has. Raises KvraceError when the device is full."""
        if not self._unicode:
            text = text.translate(_PLAIN)
            encoding = getattr(self.stream, "encoding", None) or "ascii"
            text = text.encode(encoding, errors="replace").decode(encoding)
        try:
            self.stream.write(text)
            self.stream.flush()
        except BrokenPipeError:
            drop(self.stream)
        except OSError as error:
            drop(self.stream)
            raise KvraceError(f"cannot write to {self.stream.name}: {reason(error)}") from error
        except ValueError as error:
            raise KvraceError("cannot write the report: the scheduler has closed the stream it goes to") from error


def plain(part: RenderableType, width: int) -> str:
    """``part`` as text without escape codes."""
    buffer = io.StringIO()
    Output(buffer, color=False, width=width).print(part)
    return buffer.getvalue()


def drop(stream: TextIO) -> None:
    """Send everything else that is written to ``stream`` nowhere, also what Python flushes when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _can_encode(stream: TextIO, text: str) -> bool:
    try:
        text.encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def one_line(text: str) -> str:
    """``text`` on one line, without control characters that a terminal would obey."""
    line = " ".join(text.split())
    return "".join(character if character.isprintable() else "?" for character in line)


def error_line(text: str) -> str:
    """``text`` as the one line of an error: quoted words and unbroken ones are cut, so that what is wrong stays in sight."""
    line = _QUOTED.sub(lambda match: f"'{match[1][:_QUOTED_MOST]}…'", one_line(text))
    line = _UNBROKEN.sub(lambda match: f"{match[1]}…", line)
    return line if len(line) <= _LINE_MOST else f"{line[: _LINE_MOST - 1]}…"


def printable(text: str) -> str:
    """``text`` without what is not shown but obeyed: control characters, and those that turn the direction of writing."""
    if text.isprintable():
        return text
    return "".join(c for c in text if c == "\n" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp"))


def standard_output(color: bool) -> Output:
    return Output(sys.stdout, color=color)


def standard_error(color: bool) -> Output:
    return Output(sys.stderr, color=color)
