"""Text for the generated file. What comes from a trace may be hostile: it gets in as quoted literals or as plain comment text.

The layout is the one that ``ruff format`` would choose, so that no formatter has to run where kvrace runs.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Sequence

WIDTH = 88
"""Columns of a line of code: the default of ruff and black."""
_LONGEST = 400


def plain(text: str) -> str:
    """Text of a trace on one line, printable, and not endless. It may still hold quotes and backslashes."""
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"


def docstring_lines(text: str, indent: str = "") -> list[str]:
    """Text for the inside of a docstring, folded. Nothing in it can end the docstring or begin an escape."""
    lines = textwrap.wrap(plain(text), WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return [line.replace("\\", "\\\\").replace('"', "'") for line in lines]


def comment_lines(text: str, indent: str = "", follow: str = "") -> list[str]:
    """Text as comment lines, folded. ``follow`` indents the lines after the first within the comment."""
    lines = textwrap.wrap(
        plain(text), WIDTH - len(indent) - 2, subsequent_indent=follow, break_long_words=False, break_on_hyphens=False
    )
    return [f"{indent}# {line}" for line in lines]


def quoted(text: str) -> str:
    """A string literal in double quotes, ASCII only."""
    return json.dumps(text)


def enclosed(head: str, items: Sequence[str], tail: str, indent: str = "") -> list[str]:
    """``head item, item tail`` on one line if it fits, else one item a line with a comma after the last."""
    line = f"{indent}{head}{', '.join(items)}{tail}"
    if len(line) <= WIDTH:
        return [line]
    return [f"{indent}{head}", *(f"{indent}    {item}," for item in items), f"{indent}{tail}"]


def statement(head: str, items: Sequence[str], tail: str = ")") -> list[str]:
    """The same for a statement that will be indented as the body of a function."""
    return [line.removeprefix("    ") for line in enclosed(head, items, tail, "    ")]


def string_set(names: Iterable[str]) -> list[str]:
    """The items of a set literal."""
    return [quoted(name) for name in names]
