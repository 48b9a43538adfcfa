"""What ``kvrace lab`` shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kvmodel.errors import KvraceError
from kvrace.installed import installed_vllm
from kvrace.lab.catalogue import catalogue, in_order
from kvrace.lab.store import Kept, releases_folder, size_of_packages

_MEGA = 1_000_000


def megabytes(size: int) -> str:
    return f"{size / _MEGA:.1f} MB"


def installed_line(version: str, folder: Path, new: bool) -> Text:
    return Text(f"vLLM {version}: {'installed' if new else 'was there already'}, {folder}")


def of_environment_line(version: str) -> Text:
    return Text(f"vLLM {version}: not fetched, it is the one of this environment")


def removed_line(version: str, size: int) -> Text:
    return Text(f"vLLM {version}: removed, {megabytes(size)} are free")


def lab_table(kept: Sequence[Kept]) -> RenderableType:
    """Every release that is known or there, and what the cache takes on the disk."""
    known = {release.version: release for release in catalogue()}
    there = {one.version: one for one in kept}
    environment = _of_environment()
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("release")
    table.add_column("installed", justify="right")
    table.add_column("to fetch", justify="right")
    table.add_column("")
    for version in in_order({*known, *there, *([environment] if environment else [])}):
        release, one = known.get(version), there.get(version)
        notes = ["the one of this environment"] if version == environment else []
        if release is None:
            notes.append("not tried by kvrace")
        elif release.cannot:
            notes.append(f"cannot be driven: {release.cannot}")
        else:
            notes += [release.note] if release.note else []
        fetched = f"{release.megabytes} MB" if release is not None and one is None and version != environment else ""
        table.add_row(version, megabytes(one.size) if one else "", fetched, "; ".join(notes))
    packages = size_of_packages()
    total = sum(one.size for one in kept) + packages
    besides = f", {megabytes(packages)} of it for packages that some of them need" if packages else ""
    many = f"{len(kept)} release{'' if len(kept) == 1 else 's'}"
    return Group(table, Text(f"\n{many} in {releases_folder()}: {megabytes(total)}{besides}"))


def _of_environment() -> str | None:
    try:
        return installed_vllm().version.partition("+")[0]
    except KvraceError:
        return None
