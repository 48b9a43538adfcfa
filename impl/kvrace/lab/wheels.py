"""From the name of a package to a folder with its files. pip fetches the wheel, so its configuration (index, proxy, certificates)
holds, and it compares the wheel with the hash that the index gives. Nothing of the wheel is run."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from kvmodel.errors import KvraceError
from kvrace.lab.catalogue import Package

_ABSENT = re.compile(r"No matching distribution found")
_NO_VERSION = re.compile(r"\(from versions: none\)")
_CHUNK = 1 << 20


class NotThere(KvraceError):
    """The index has no such package, or not in this version, or not for this Python."""


def wheel(package: Package, folder: Path) -> Path:
    """Let pip fetch the wheel into a new folder in ``folder``, and not into a cache of its own: most of it is not needed again.
    New, since the pip of a kvrace that was killed may go on for a while, and must not write where this one does.

    Raises KvraceError with pip's last line; :class:`NotThere` where the index has no such wheel.
    """
    place = Path(tempfile.mkdtemp(dir=folder))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet"]
    download = ["download", "--no-deps", "--no-cache-dir", "--only-binary=:all:", "--dest", str(place), package.pin]
    run = subprocess.run([*pip, *download], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    wheels = sorted(place.glob("*.whl"))
    if run.returncode or not wheels:
        text = f"pip cannot fetch {package.pin}: {_why(run.stderr) or f'exit status {run.returncode}'}"
        if _NO_VERSION.search(run.stderr):  # what pip says as well when it cannot reach the index
            text += ", nor any other version; is there a network, and is pip's index the right one?"
        raise NotThere(text) if _ABSENT.search(run.stderr) else KvraceError(text)
    version = wheels[0].name.split("-")[1].partition("+")[0]
    if version != package.version:
        raise KvraceError(f"the index has {package.pin} as {version}: use that")
    return wheels[0]


def _why(said: str) -> str:
    """pip's last error, or where that only announces one (``ERROR: Exception:``, and a traceback), the last line of all."""
    errors = [line.removeprefix("ERROR: ") for line in said.splitlines() if line.startswith("ERROR: ")]
    lines = [line for line in said.splitlines() if line.strip()]
    return errors[-1] if errors and not errors[-1].endswith(":") else "".join(lines[-1:])


def python_files(name: str) -> bool:
    """What is kept of a vLLM: with the compiled files gone, a build for another platform can be imported."""
    return name.endswith((".py", ".dist-info/METADATA"))


def unpack(archive_path: Path, package: Package, folder: Path) -> None:
    """Extract into ``folder`` what is kept of the wheel, each file compared with the wheel's RECORD. ``zipfile`` lets no name lead
    out of the folder. Raises KvraceError for a file that is no wheel, or is not what its RECORD says."""
    try:
        with zipfile.ZipFile(archive_path) as archive:
            recorded = _recorded(archive)
            for name in archive.namelist():
                if _is_kept(name, package):
                    _extract(archive, name, folder, recorded)
    except (zipfile.BadZipFile, KeyError, UnicodeDecodeError) as error:
        raise KvraceError(f"{archive_path.name} is not a wheel: {error}") from error


def _is_kept(name: str, package: Package) -> bool:
    if package.module == "vllm":
        return python_files(name)
    return not name.startswith(package.without) if package.without else True


def _recorded(archive: zipfile.ZipFile) -> dict[str, str]:
    """The sha256 of each file, as RECORD has it."""
    records = [name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/RECORD", name)]
    if len(records) != 1:
        raise zipfile.BadZipFile("it has no RECORD")
    rows = csv.reader(io.StringIO(archive.read(records[0]).decode()))
    return {row[0]: row[1].partition("sha256=")[2] for row in rows if len(row) > 1}


def _extract(archive: zipfile.ZipFile, name: str, folder: Path, recorded: dict[str, str]) -> None:
    path = Path(archive.extract(name, folder))
    if path.is_dir() or name.endswith(".dist-info/RECORD"):
        return
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    found = base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()
    if recorded.get(name) != found:
        raise zipfile.BadZipFile(f"{name} is not the file that its RECORD names")
