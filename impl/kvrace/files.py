"""Write a file completely or not at all, and find out beforehand whether it can be written."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from kvmodel.errors import KvraceError


def reason(error: OSError) -> str:
    """What the operating system says, without the number and the path."""
    return error.strerror or type(error).__name__


def encodable(text: str) -> str:
    """``text`` with halves of surrogate pairs, as in the name of a file that is no UTF-8, written as JSON writes them."""
    return text.encode("utf-8", "backslashreplace").decode()


def write_atomically(path: Path, text: str) -> None:
    """Write ``text`` to a temporary file, then rename it. Raises KvraceError and leaves nothing half-written.

    A symbolic link stays one, and the file it leads to is written. What is there and no regular file (a device, a FIFO, this
    process's own standard output) is written straight through and never replaced.
    """
    temporary = ""
    text = encodable(text)
    try:
        there = _status(path)
        if there is not None and _is_open_here(there) is not None:
            _write_to_descriptor(_is_open_here(there), text)
            return
        if there is not None and not stat.S_ISREG(there.st_mode):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            return
        target = Path(os.path.realpath(path))
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".kvrace-", suffix=".part")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o666 & ~_umask() if there is None else stat.S_IMODE(there.st_mode))
        os.replace(temporary, target)
    except OSError as error:
        raise KvraceError(f"cannot write {path}: {reason(error)}") from error
    finally:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)


def _status(path: Path) -> os.stat_result | None:
    """What is at the end of ``path``, links followed; None where nothing is. Raises OSError for a loop of links."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _is_open_here(there: os.stat_result) -> int | None:
    """The descriptor, if this is what standard output or standard error go to (``/dev/stdout``, also when it is a file)."""
    for descriptor in (1, 2):
        with suppress(OSError):
            if os.path.samestat(os.fstat(descriptor), there) and not stat.S_ISCHR(there.st_mode):
                return descriptor
    return None


def _write_to_descriptor(descriptor: int | None, text: str) -> None:
    assert descriptor is not None
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    with open(descriptor, "w", encoding="utf-8", closefd=False) as file:
        file.write(text)


def _umask() -> int:
    """The process's umask. It can only be read by setting it; kvrace has one thread at this point."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def check_target(path: Path, what: str) -> None:
    """Raise KvraceError, naming ``what``, when :func:`write_atomically` could not write ``path``."""
    try:
        there = _status(path)
    except OSError as error:
        raise KvraceError(f"{what}: cannot write {path}: {reason(error)}") from error
    if there is None or stat.S_ISREG(there.st_mode):
        check_writable(Path(os.path.realpath(path)).parent, what)
    elif stat.S_ISDIR(there.st_mode):
        raise KvraceError(f"{what}: {path} is a folder")
    elif stat.S_ISSOCK(there.st_mode) or not os.access(path, os.W_OK):
        raise KvraceError(f"{what}: {path} cannot be written to")


def check_writable(folder: Path, what: str) -> None:
    """Raise KvraceError, naming ``what``, when no file can be made in ``folder``."""
    if not folder.is_dir():
        raise KvraceError(
            f"{what}: {folder} is not a folder" if folder.exists() else f"{what}: there is no folder {folder}"
        )
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise KvraceError(f"{what}: cannot write in {folder}: {reason(error)}") from error


class TraceFolder:
    """The folder for trace files, made before anything is explored and taken away again if it stays empty.

    ``path`` is absolute; ``shown`` is what the user has called it, with ``option``.
    """

    def __init__(self, path: Path, option: str = "--trace-dir") -> None:
        self.path, self.shown = path, path
        self._made: list[Path] = []
        try:
            self.path = path.absolute()  # a scheduler may change the working folder
            missing = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
            for folder in reversed(missing):
                folder.mkdir()
                self._made.append(folder)
            check_writable(path, option)
        except OSError as error:
            self.leave_no_empty_folder()
            raise KvraceError(f"{option}: cannot make {path}: {reason(error)}") from error
        except KvraceError:
            self.leave_no_empty_folder()
            raise

    def leave_no_empty_folder(self) -> None:
        """Remove the folders this run made, if nothing is in them."""
        for folder in reversed(self._made):
            try:
                folder.rmdir()
            except OSError:  # something is in it, or it is gone
                return
        self._made.clear()
