"""Write a file completely or not at all, and find out beforehand whether it can be written."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from kvmodel.errors import KvraceError


def reason(error: OSError) -> str:
    """What the operating system says, without the number and the path."""
    return error.strerror or type(error).__name__


def write_atomically(path: Path, text: str) -> None:
    """Write ``text`` to a temporary file in the same folder, then rename it. Raises KvraceError and leaves nothing half-written."""
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        raise KvraceError(f"cannot write {path}: {reason(error)}") from error
    finally:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)


def _umask() -> int:
    """The process's umask. It can only be read by setting it; kvrace has one thread at this point."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


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
    """The folder for trace files, made before anything is explored and taken away again if it stays empty."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._made: list[Path] = []
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        try:
            for folder in reversed(missing):
                folder.mkdir()
                self._made.append(folder)
            check_writable(path, "--trace-dir")
        except OSError as error:
            self.leave_no_empty_folder()
            raise KvraceError(f"--trace-dir: cannot make {path}: {reason(error)}") from error
        except KvraceError:
            self.leave_no_empty_folder()
            raise

    def leave_no_empty_folder(self) -> None:
        """Remove the folders this run made, if nothing is in them."""
        for folder in reversed(self._made):
            if any(folder.iterdir()):
                return
            folder.rmdir()
        self._made.clear()
