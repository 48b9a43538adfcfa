"""A unified diff as git and GitHub write it, read with suspicion: what does not concern vLLM's Python files is set aside by name,
and what is no clean diff of them is refused as a whole."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from unidiff.constants import DEV_NULL, SYMLINK_FILE_MODE
from unidiff.errors import UnidiffParseError
from unidiff.patch import PatchedFile, PatchSet

from kvmodel.errors import KvraceError, quoted
from kvmodel.port import AppliedPatch
from kvrace.files import reason
from kvrace.shapes import recordable

MAX_BYTES = 8 * 1024 * 1024
_LONGEST_HEADER = 1000
"""Characters. A diff names files in its headers, and reading a very long one takes a time that grows with its square."""
_LONGEST_NAME = 100
_PACKAGE = "vllm"
_PREFIXES = frozenset({"a", "b", "c", "i", "o", "w"})
"""What git puts before a name, with ``diff.mnemonicPrefix`` as well."""
_HEADERS = ("diff --git ", "--- ", "+++ ", "Binary file", "@@")
_LOST = re.compile(r"[+ \t]|-(?!-- |-? ?$)|@(?!@ -)")
"""How a line begins that comes after a hunk and was meant to be in it, so that the numbers of the hunk are wrong."""
_COLOURED = re.compile(r"^\x1b\[[\d;]*m(diff --git|---|\+\+\+|@@) ", re.MULTILINE)
_HUNK = re.compile(r"@@ -\d{1,9}(,\d{1,9})? \+\d{1,9}(,\d{1,9})? @@")


@dataclass(frozen=True, slots=True)
class Hunk:
    """One place in a file: the lines that have to be there, and those to put in their place. Line ends are left out.

    ``line`` is where the diff was made, from 1.
    """

    line: int
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one file: ``old`` is None where it is new, ``new`` where it is deleted; with two names it is renamed, or
    copied where it is ``kept``."""

    old: str | None
    new: str | None
    hunks: tuple[Hunk, ...]
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Patch:
    """A diff. ``changes`` concern Python files of vLLM; ``skipped`` names the files it has besides, which nothing is done with."""

    path: Path
    identity: AppliedPatch
    changes: tuple[Change, ...]
    skipped: tuple[str, ...]

    def __str__(self) -> str:
        return str(self.identity)


def read_patch(path: Path) -> Patch:
    """Read a diff. Raises KvraceError with one line: it cannot be read, is too large or no diff, leaves the tree, or has nothing
    that can be checked."""
    try:
        if path.exists() and not path.is_file():
            raise KvraceError(f"{path}: not a file")
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise KvraceError(f"{path}: cannot be read: {reason(error)}") from error
    if len(raw) > MAX_BYTES:
        raise KvraceError(f"{path}: larger than {MAX_BYTES // 1024 // 1024} MB; no patch that can be reviewed is")
    return parse_patch(path, raw)


def parse_patch(path: Path, raw: bytes) -> Patch:
    """The same for what was already read."""
    try:
        changes, skipped = _sorted_out(_files(_text(raw)))
        if not changes:
            named = f": it has {_some(skipped)}" if skipped else ""
            raise KvraceError(f"changes no Python file of vLLM{named}")
    except KvraceError as error:
        raise KvraceError(f"{path}: {error}") from error
    name = recordable(path.name, _LONGEST_NAME)
    return Patch(path, AppliedPatch(name, hashlib.sha256(raw).hexdigest()[:12]), changes, skipped)


def _some(names: Sequence[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _text(raw: bytes) -> str:
    """The diff with the line ends that git writes. What is no UTF-8 may be in a file that is set aside."""
    if b"\0" in raw:
        raise KvraceError("not a diff: it has zero bytes")
    return raw.decode("utf-8", "surrogateescape").replace("\r\n", "\n")


def _files(text: str) -> PatchSet:
    if _COLOURED.search(text):
        raise KvraceError("it is coloured; write it with --color=never")
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if len(line) > _LONGEST_HEADER and line.startswith(_HEADERS):
            raise KvraceError(f"line {number}: a header of {len(line)} characters")
    try:
        files = PatchSet.from_string(text)
    except (UnidiffParseError, ValueError) as error:
        raise KvraceError(f"not a diff that can be applied: {error}") from error
    if not files:
        raise KvraceError("not a diff: no file is named in it")
    _check_that_nothing_is_lost(lines, files)
    return files


def _check_that_nothing_is_lost(lines: Sequence[str], files: PatchSet) -> None:
    """The library takes every line that it does not know for a remark. A hunk with a wrong head, or the rest of one with wrong
    numbers, must not be left out like that: the verdict would be on something else than the diff."""
    hunks = [hunk for file in files for hunk in file]
    inside = {line.diff_line_no for hunk in hunks for line in hunk if line.diff_line_no is not None}
    after, heads = False, 0
    for number, line in enumerate(lines, 1):
        if number in inside or not line or line.startswith("\\"):
            after = after or number in inside
            continue
        head = bool(_HUNK.match(line))
        heads += head
        cut = line.startswith("--- ") and not "".join(lines[number : number + 1]).startswith("+++ ")
        if (after and (cut or _LOST.match(line))) or (line.startswith("@@") and not head):
            raise KvraceError(
                f"line {number} is neither in a hunk nor the head of one; the diff is damaged, or of a merge"
            )
        after = False
    if heads != len(hunks):
        raise KvraceError("a hunk in it belongs to no file")


def _sorted_out(files: PatchSet) -> tuple[tuple[Change, ...], tuple[str, ...]]:
    changes: list[Change] = []
    skipped: dict[str, None] = {}
    for file in files:
        old, new = _name(file.source_file), _name(file.target_file)
        shown = new or old
        if shown is None:
            raise KvraceError("not a diff that can be applied: a file without a name")
        _check_kind(file, shown)
        concerned = [name for name in (old, new) if name is not None and _is_ours(name)]
        if not concerned or file.is_binary_file:
            skipped[shown] = None
        elif change := _change(file, old, new):
            changes.append(change)
        else:
            skipped[shown] = None
    return tuple(changes), tuple(skipped)


def _change(file: PatchedFile, old: str | None, new: str | None) -> Change | None:
    """None where nothing but the mode of the file changes."""
    if old is not None and not _is_ours(old) and new is not None:
        raise KvraceError(f"{new} is renamed from {old}, which no release has as a Python file of vLLM")
    hunks = tuple(_hunks(file))
    if not hunks and old == new:
        return None
    kept = any(line.startswith("copy from ") for line in file.patch_info or ())
    if new is not None and not _is_ours(new):
        return None if kept else Change(old, None, ())
    return Change(old, new, hunks, kept)


def _hunks(file: PatchedFile) -> Iterator[Hunk]:
    for hunk in file:
        before = tuple(line.value.rstrip("\n") for line in hunk if line.is_context or line.is_removed)
        after = tuple(line.value.rstrip("\n") for line in hunk if line.is_context or line.is_added)
        yield Hunk(hunk.source_start, before, after)


def _name(given: str) -> str | None:
    """The file in the tree that a header names, without git's prefix; None for ``/dev/null``. Raises KvraceError for whatever does
    not lie in the tree."""
    if given == DEV_NULL:
        return None
    if given.startswith('"') or not given.isprintable():
        raise KvraceError(f"a name with characters that git quotes: {quoted(given)}")
    parts = PurePosixPath(given).parts
    if "\\" in given or given.startswith("/") or ".." in parts:
        raise KvraceError(f"{quoted(given)} leads out of the tree")
    if len(parts) > 1 and parts[0] in _PREFIXES:
        parts = parts[1:]
    if not parts or given.endswith("/"):
        raise KvraceError(f"{quoted(given)} is no file")
    return "/".join(parts)


def _is_ours(name: str) -> bool:
    return name.startswith(f"{_PACKAGE}/") and name.endswith(".py")


def _check_kind(file: PatchedFile, name: str) -> None:
    """Raises KvraceError for what is no text, below the package."""
    if not name.startswith(f"{_PACKAGE}/"):
        return
    if SYMLINK_FILE_MODE in (file.source_mode, file.target_mode):
        raise KvraceError(f"{name} is a symbolic link in it")
    if file.is_binary_file and name.endswith(".py"):
        raise KvraceError(f"{name} is binary in it")
