"""A diff applied to texts, in memory: all of it or nothing."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from kvmodel.errors import KvraceError, shortened
from kvrace.patch.diff import Change, Hunk, Patch

Read = Callable[[str], str | None]
"""The text of a file of the release, or None where there is none."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What a diff makes of the files it names: their new text, or None where they are deleted. ``moved`` says of each hunk that did
    not fit at its line where it did, one line of words a file."""

    texts: dict[str, str | None]
    moved: tuple[str, ...] = field(default=())


def apply(patch: Patch, read: Read, of: str) -> Applied:
    """What ``patch`` makes of the files of a release, which is called ``of``. Raises KvraceError with one line for the first thing
    that does not fit, or for a file that is no Python any more."""
    texts: dict[str, str | None] = {}

    def now(name: str) -> str | None:
        return texts[name] if name in texts else read(name)

    moved: list[str] = []
    try:
        for change in patch.changes:
            _apply_one(change, now, texts, moved, of)
        for name, text in texts.items():
            if text is not None:
                _check_that_it_is_python(name, text)
    except KvraceError as error:
        raise KvraceError(f"{patch.path}: {error}") from error
    return Applied(texts, tuple(moved))


def _apply_one(
    change: Change, now: Callable[[str], str | None], texts: dict[str, str | None], moved: list[str], of: str
) -> None:
    name = change.new or change.old
    assert name is not None
    old = "" if change.old is None else now(change.old)
    if old is None:
        raise KvraceError(f"does not apply: {of} has no {change.old}")
    if change.new is not None and change.new != change.old and now(change.new) is not None:
        raise KvraceError(f"does not apply: {of} already has {change.new}")
    folders = PurePosixPath(change.new).parents if change.new is not None and change.new != change.old else ()
    for folder in map(str, folders):
        if now(folder) is not None:
            raise KvraceError(f"does not apply: {folder} is a file in {of}")
    lines, places = _with_hunks(change, old.replace("\r\n", "\n"), change.old or name, of)
    if places:
        moved.append(f"{name}: {', '.join(places)}")
    if change.old is not None and change.old != change.new and not change.kept:
        texts[change.old] = None
    if change.new is None:
        if change.hunks and lines:
            raise KvraceError(f"does not apply: {change.old} of {of} has more lines than the diff deletes")
    else:
        texts[change.new] = "".join(f"{line}\n" for line in lines)


def _with_hunks(change: Change, text: str, name: str, of: str) -> tuple[list[str], list[str]]:
    """The lines with every hunk in its place, and where hunks fitted that were not at their line."""
    lines = text.split("\n")
    if lines[-1] == "":  # whether the last line has a line end makes no difference to Python
        lines.pop()
    made: list[str] = []
    places: list[str] = []
    taken = 0  # lines before this one are in ``made`` already
    shift = 0  # by how much the hunk before was not where the diff has it
    for hunk in change.hunks:
        start = _place(hunk, lines, taken, shift, f"{name} of {of}")
        here = start - _first(hunk)
        if here != shift:
            shift = here
            places.append(f"the hunk of line {hunk.line} fits at line {start + 1}")
        made += [*lines[taken:start], *hunk.after]
        taken = start + len(hunk.before)
    return [*made, *lines[taken:]], places


def _first(hunk: Hunk) -> int:
    """The index of its first line: a hunk that takes nothing away stands behind its line."""
    return hunk.line - 1 if hunk.before else hunk.line


def _place(hunk: Hunk, lines: Sequence[str], taken: int, shift: int, where: str) -> int:
    """Where the lines of the hunk are: at its line, as far off it as the hunk before, or else at the only other place."""
    if not hunk.before:
        if lines:
            raise KvraceError(
                f"does not apply: the hunk of line {hunk.line} of {where} has no line that shows its place"
            )
        return 0
    expected = _first(hunk) + shift
    if expected >= taken and _fits(hunk, lines, expected):
        return expected
    found = _places(hunk, lines, taken)
    if len(found) == 1:
        return found[0]
    if not found:
        told = next((line for line in hunk.before if line.strip() and line not in lines), None)
        missing = f": it has no line '{shortened(told.strip())}'" if told else ""
        raise KvraceError(f"does not apply: the hunk of line {hunk.line} fits nowhere in {where}{missing}")
    many = ", ".join(str(place + 1) for place in found)
    raise KvraceError(
        f"does not apply: the hunk of line {hunk.line} fits at lines {many} of {where}, and not at its own"
    )


def _fits(hunk: Hunk, lines: Sequence[str], place: int) -> bool:
    return tuple(lines[place : place + len(hunk.before)]) == hunk.before


def _places(hunk: Hunk, lines: Sequence[str], taken: int, most: int = 3) -> list[int]:
    """Some of the places from line ``taken`` on where the hunk fits. Searched as text, so that no diff makes it slow."""
    text, wanted = "\n".join(["", *lines[taken:], ""]), "\n".join(["", *hunk.before, ""])
    found: list[int] = []
    place = text.find(wanted)
    while place >= 0 and len(found) < most:
        found.append(taken + text.count("\n", 0, place))
        place = text.find(wanted, place + 1)
    return found


def _check_that_it_is_python(name: str, text: str) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what vLLM has written
            ast.parse(text.encode("utf-8", "surrogateescape"))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise KvraceError(f"{name} is no Python with it: {error.args[0]}{line}") from error
