"""The cache: one folder for each release and for each package that some releases need, whole or not there at all."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path

from kvmodel.errors import KvraceError
from kvrace.cache import cache_folder
from kvrace.files import reason
from kvrace.lab.catalogue import DISTRIBUTIONS, Package, Release, catalogue, release_named
from kvrace.lab.wheels import NotThere, unpack, wheel

Tell = Callable[[str], None]
_LOCK, _PART = ".lock", ".part"


def nobody(_: str) -> None:
    """Hears what is being fetched, and says it to nobody."""


@dataclass(frozen=True, slots=True)
class Place:
    """An installed release: ``folders`` is what has to stand first on the Python path, the release before what it needs."""

    version: str
    folders: tuple[Path, ...]


def releases_folder() -> Path:
    return cache_folder().absolute() / "releases"


def packages_folder() -> Path:
    return cache_folder().absolute() / "packages"


def install(version: str, tell: Tell = nobody) -> Place:
    """The folders of a release, fetched where they are not there yet; ``tell`` hears what is being fetched.

    Of several processes that ask at once, one fetches and the others wait. Interrupted, it leaves nothing that counts, and goes on
    with what is missing the next time. Raises KvraceError: pip cannot get a wheel, the cache cannot be written, or kvrace cannot
    drive this release.
    """
    release = release_named(version)
    size = f", about {release.megabytes} MB" if release.megabytes else ""
    folder = _found(release) or _first(release, lambda package: tell(f"fetching vLLM {package.version}{size} …"))
    needed = []
    for package in _missing_here(release):
        place = packages_folder() / str(package)
        if not _is_whole(place, package):
            tell(f"fetching {package.pin}, which vLLM {version} needs …")
        needed.append(_unpacked(package, packages_folder()))
    return Place(version, (folder, *needed))


def folder_there(version: str) -> Path | None:
    """The folder of a release if it is there already. Raises KvraceError for what is no release that can be driven."""
    return _found(release_named(version))


def _missing_here(release: Release) -> list[Package]:
    """What the release needs and the environment does not have."""
    return [package for package in release.needs if PathFinder.find_spec(package.module) is None]


def _found(release: Release) -> Path | None:
    places = [(releases_folder() / str(package), package) for package in release.candidates()]
    return next((place for place, package in places if _is_whole(place, package)), None)


def _is_whole(folder: Path, package: Package) -> bool:
    """Whether the folder has the module and its metadata. One that somebody has emptied must not count: what it lacks would be
    taken from the environment, and that is another release. Without metadata of their own, 0.13.0 to 0.16.0 even write some
    beside the environment's when they are imported."""
    metadata = folder.glob(f"*-{package.version}.dist-info/METADATA")
    return (folder / package.module / "__init__.py").is_file() and any(metadata)


def _first(release: Release, tell: Callable[[Package], None]) -> Path:
    """The release from the first of its distributions that has it."""
    packages = release.candidates()
    for package in packages:
        tell(package)
        try:
            return _unpacked(package, releases_folder())
        except NotThere:
            if len(packages) == 1:
                raise
    tried = " nor ".join(package.pin for package in packages)
    raise KvraceError(
        f"pip finds neither {tried} for this Python; is there a network? 'kvrace lab list' has the releases that are known"
    )


def _unpacked(package: Package, cache: Path) -> Path:
    folder = cache / str(package)
    try:
        with _locked(folder):
            if not _is_whole(folder, package):
                part = _empty(folder)
                try:
                    (part / "files").mkdir(parents=True)
                    unpack(wheel(package, part), package, part / "files")
                    if os.path.lexists(folder):  # damaged
                        os.rename(folder, part / "damaged")
                    os.rename(part / "files", folder)
                finally:
                    shutil.rmtree(part, ignore_errors=True)
    except OSError as error:
        raise KvraceError(f"cannot unpack {package.pin} in {cache}: {reason(error)}") from error
    return folder


def _empty(folder: Path) -> Path:
    """Where a folder is made ready. What a process that was killed has left there is taken away: whoever lives has the lock."""
    part = folder.with_name(f".{folder.name}{_PART}")
    if part.is_symlink():
        part.unlink()
    elif part.exists():
        shutil.rmtree(part)
    return part


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(f".{folder.name}{_LOCK}"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# What is there.


@dataclass(frozen=True, slots=True)
class Kept:
    """A release in the cache, and its size on the disk in bytes."""

    version: str
    distribution: str
    size: int


def kept() -> list[Kept]:
    """The releases in the cache."""
    found = []
    for distribution in DISTRIBUTIONS:
        for folder in _folders(releases_folder()):
            head, _, version = folder.name.rpartition("-")
            if head == distribution:
                found.append(Kept(version, distribution, _size(folder)))
    return found


def size_of_packages() -> int:
    """What the packages that some releases need take on the disk, in bytes."""
    return sum(map(_size, _folders(packages_folder())))


def remove(version: str, tell: Tell = nobody) -> int:
    """Take a release out of the cache, and the packages that none of the others needs. Returns the bytes that are free now.

    Raises KvraceError when it is not there or cannot be removed. A process that runs on it may fail.
    """
    mine = [kept_release for kept_release in kept() if kept_release.version == version]
    if not mine:
        raise KvraceError(f"vLLM {version} is not installed; 'kvrace lab list' shows what is")
    freed = 0
    for one in mine:
        freed += _removed(releases_folder() / f"{one.distribution}-{version}")
    needed = {str(package) for left in kept() for package in _needs(left.version)}
    for folder in _folders(packages_folder()):
        if folder.name not in needed:
            freed += _removed(folder)
    tell(f"removed vLLM {version}")
    return freed


def _needs(version: str) -> tuple[Package, ...]:
    """Nothing for a folder whose name is no version: somebody else has made it."""
    with suppress(KvraceError):
        return release_named(version).needs
    return ()


def _removed(folder: Path) -> int:
    size = _size(folder)
    try:
        with _locked(folder):
            part = _empty(folder)
            os.rename(folder, part)
            _empty(folder)
    except OSError as error:
        raise KvraceError(f"cannot remove {folder}: {reason(error)}") from error
    return size


def _folders(cache: Path) -> list[Path]:
    if not cache.is_dir():
        return []
    return sorted(folder for folder in cache.iterdir() if folder.is_dir() and not folder.name.startswith("."))


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


def known_versions() -> list[str]:
    """The versions of the catalogue."""
    return [release.version for release in catalogue()]
