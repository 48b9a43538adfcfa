"""A private copy of a release with some of its files changed: a folder to put first on the Python path.

Only the changed files, and the folders down to them, are real; everything else is a symbolic link to the release, which nothing is
written to. The name of the folder says what is in it, so a second run finds it there.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from kvmodel.errors import KvraceError
from kvrace.files import reason

_KEPT_OUT = "__pycache__"
Texts = Mapping[str, str | None]


def overlay(release: Path, texts: Texts, cache: Path) -> Path:
    """The folder below ``cache`` that has the packages of the folder ``release``, with ``texts`` in place of those files, and
    without those that are None. Raises KvraceError where it cannot be made, or where somebody has changed it."""
    release = release.resolve()
    try:
        folders = _folders(texts)
        made = cache.absolute() / _digest(release, folders, texts)
        if not made.is_dir():
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache, prefix=".", suffix=".part") as work:
                _fill(Path(work, "files"), release, folders, texts)
                _rename(Path(work, "files"), made)
        for name, text in texts.items():
            if _bytes_at(made / name) != (None if text is None else _bytes(text)):
                raise KvraceError(f"{made} is not as it was made: {name} was changed there; delete that folder")
    except OSError as error:
        raise KvraceError(f"cannot make a patched copy in {cache}: {reason(error)}") from error
    return made


def _folders(texts: Texts) -> list[str]:
    """The folders that have to be real, outermost first."""
    return sorted({str(folder) for name in texts for folder in PurePosixPath(name).parents if folder.parts})


def _entries(release: Path, folder: str) -> list[str]:
    return sorted(os.listdir(release / folder)) if (release / folder).is_dir() else []


def _digest(release: Path, folders: list[str], texts: Texts) -> str:
    """Of everything that the folder is made from. What the links lead to need not be in it."""
    made_from = [str(release), *(f"{folder}/{name}" for folder in folders for name in _entries(release, folder))]
    made_from += [f"{name}\0{text}" for name, text in sorted(texts.items())]
    return hashlib.sha256("\0\0".join(made_from).encode("utf-8", "surrogateescape")).hexdigest()[:24]


def _fill(made: Path, release: Path, folders: list[str], texts: Texts) -> None:
    made.mkdir()
    for metadata in release.glob("vllm*.dist-info"):
        (made / metadata.name).symlink_to(metadata)
    for folder in folders:
        (made / folder).mkdir()
        for name in _links(release, folder, {*folders, *texts}):
            (made / folder / name).symlink_to(release / folder / name)
    for path, text in texts.items():
        if text is not None:
            (made / path).write_bytes(_bytes(text))


def _links(release: Path, folder: str, real: set[str]) -> Iterator[str]:
    for name in _entries(release, folder):
        if name != _KEPT_OUT and f"{folder}/{name}" not in real:
            yield name


def _rename(work: Path, made: Path) -> None:
    """Give the folder its name. Another process may have been first, with the same in it."""
    try:
        os.rename(work, made)
    except OSError:
        if not made.is_dir():
            raise


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _bytes_at(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
