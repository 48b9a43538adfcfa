"""Make this process import a release of the lab. One process imports one vLLM."""

from __future__ import annotations

import importlib
import sys
from contextlib import suppress
from pathlib import Path

from kvmodel.errors import KvraceError
from kvrace.installed import installed_vllm
from kvrace.lab.store import Tell, folder_there, install

PREFIX = "vllm=="
"""How ``--subject`` names a release: ``vllm==0.22.1``."""


def to_stderr(text: str) -> None:
    print(f"kvrace: {text}", file=sys.stderr, flush=True)


def release_of(spec: str | None) -> str | None:
    """The version in a subject ``vllm==VERSION``; None for any other subject."""
    return spec.removeprefix(PREFIX) if spec is not None and spec.startswith(PREFIX) else None


def use(version: str, tell: Tell = to_stderr) -> None:
    """From now on ``import vllm`` finds this release: the one of the environment where that is it, else the lab's, which is fetched
    where it is not there; ``tell`` hears of that. A second time it does nothing, nor in a process that this one starts.

    Raises KvraceError when another vLLM was imported already, and as :func:`kvrace.lab.store.install` does.
    """
    here = version_here()
    if here == version:
        return
    if "vllm" in sys.modules:
        raise KvraceError(
            f"one process imports one vLLM, and this one has {here or 'another one'}: vLLM {version} needs a process of its own; "
            "'kvrace matrix releases' compares releases"
        )
    put_first(install(version, tell).folders)


def if_changed(version: str) -> str:
    """What to do if the release cannot be used though its files were right when they were fetched; empty for the environment's."""
    folder = folder_there(version)
    if folder is None or str(folder) not in sys.path:
        return ""
    return f"; if somebody changed its files, 'kvrace lab remove {version}' and it is fetched again"


def put_first(folders: tuple[Path, ...]) -> None:
    """Before everything else on the Python path, so that their packages are the ones that are imported."""
    sys.path[:0] = [str(folder) for folder in folders]
    importlib.invalidate_caches()


def version_here() -> str | None:
    """The version that this process has imported, or would import, without what it was built for."""
    if "vllm" in sys.modules:
        version = getattr(sys.modules["vllm"], "__version__", None)
        return None if version is None else str(version).partition("+")[0]
    with suppress(KvraceError):
        return installed_vllm().version.partition("+")[0]
    return None
