"""Other releases of a package, each as a folder to put first on the Python path.

pip fetches the wheel, so its configuration (index, proxy, certificates) holds. Kept are the Python files, and the metadata that
says which version it is; with the compiled ones gone, a build for another platform can be imported. Nothing of it is imported here.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from kvmodel.errors import KvraceError, quoted
from kvrace.files import reason

PINS = Path(__file__).parent / "vllm" / "releases.txt"
"""Which releases kvrace is checked with, beside the one that is installed for it."""
CACHE = Path("build/releases")
"""Where their folders are kept, below the folder of the project."""

_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([0-9][A-Za-z0-9.+!-]*)")


@dataclass(frozen=True, slots=True)
class Release:
    """A package by its name on the index, and its version."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name}-{self.version}"


def pinned(pins: Path = PINS) -> list[Release]:
    """The releases in a requirements file that has nothing but pins. Raises KvraceError."""
    try:
        lines = [line.partition("#")[0].strip() for line in pins.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise KvraceError(f"cannot read {pins}: {reason(error) if isinstance(error, OSError) else error}") from error
    releases = []
    for line in filter(None, lines):
        pin = _PIN.fullmatch(line)
        if pin is None:
            raise KvraceError(f"{pins}: {quoted(line)} is not name==version")
        releases.append(Release(*pin.groups()))
    return releases


def unpacked(release: Release, cache: Path) -> Path:
    """The folder in ``cache`` with the Python files of a release, fetched if it is not there. It is there whole or not at all,
    and of several processes that ask at once, one fetches it and the others wait.

    Raises KvraceError: pip cannot get a wheel, or ``cache`` cannot be written.
    """
    folder = cache.absolute() / str(release)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with open(cache / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.is_dir():
                with tempfile.TemporaryDirectory(dir=cache, prefix=".", suffix=".part") as work:
                    os.rename(_python_files(_wheel(release, Path(work)), Path(work, "files")), folder)
    except OSError as error:
        raise KvraceError(f"cannot unpack {release} in {cache}: {reason(error)}") from error
    return folder


def _wheel(release: Release, folder: Path) -> Path:
    """Let pip fetch the wheel. Not into its own cache: what is needed of it is kept, and the rest is large."""
    pin = f"{release.name}=={release.version}"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet"]
    download = ["download", "--no-deps", "--no-cache-dir", "--only-binary=:all:", "--dest", str(folder), pin]
    run = subprocess.run([*pip, *download], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    wheels = sorted(folder.glob("*.whl"))
    if run.returncode or not wheels:
        said = [line.removeprefix("ERROR: ") for line in run.stderr.splitlines() if line.strip()]
        raise KvraceError(f"pip cannot fetch {pin}: {said[-1] if said else f'exit status {run.returncode}'}")
    return wheels[0]


def _python_files(wheel: Path, folder: Path) -> Path:
    """Extract into ``folder`` what Python imports. ``zipfile`` lets no name lead out of it."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.endswith((".py", ".dist-info/METADATA")):
                    archive.extract(name, folder)
    except zipfile.BadZipFile as error:
        raise KvraceError(f"{wheel.name} is not a wheel: {error}") from error
    return folder


def main() -> None:
    """``python -m kvrace.releases`` makes the folders of the pinned releases and prints their paths."""
    try:
        for release in pinned():
            print(unpacked(release, CACHE), flush=True)
    except KvraceError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
