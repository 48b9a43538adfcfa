"""The patch that this process imports vLLM with, and the proof that it does: one process can import one vLLM."""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from kvmodel.errors import KvraceError
from kvmodel.port import AppliedPatch
from kvrace.cache import cache_folder
from kvrace.installed import installed_vllm
from kvrace.patch.apply import Applied, apply
from kvrace.patch.diff import Patch
from kvrace.patch.overlay import overlay


@dataclass(frozen=True, slots=True)
class Active:
    """A patch, and the folder that vLLM is imported from for it."""

    patch: Patch
    applied: Applied
    folder: Path

    def modules(self) -> dict[str, str]:
        """The changed files by the names of their modules."""
        return {_module(name): name for name in self.applied.texts}


_ACTIVE: list[Active] = []


def activate(patch: Patch) -> None:
    """From now on ``import vllm`` finds the vLLM it would have found, with ``patch``; a second time it does nothing. Raises
    KvraceError: there is none, the patch does not apply to it, or vLLM was imported already."""
    if applied_patch() == patch.identity:
        return
    found = installed_vllm()
    release = found.folder.parent

    def read(name: str) -> str | None:
        try:
            return (release / name).read_bytes().decode("utf-8", "surrogateescape")
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    applied = apply(patch, read, f"vllm {found.version}")
    if "vllm" in sys.modules:
        raise KvraceError("a process can import one vLLM, and this one has: --patch needs a process of its own")
    folder = overlay(release, applied.texts, cache_folder() / "patched")
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    _ACTIVE[:] = [Active(patch, applied, folder)]


def applied_patch() -> AppliedPatch | None:
    """What the vLLM of this process was patched with."""
    return _ACTIVE[0].patch.identity if _ACTIVE else None


def check_what_was_imported() -> None:
    """Raises KvraceError unless vLLM, and of the changed files each that was imported, come from the patched copy."""
    for active in _ACTIVE:
        for module, name in {"vllm": "vllm/__init__.py", **active.modules()}.items():
            if module not in sys.modules:
                continue
            found = getattr(sys.modules[module], "__file__", None)
            if found != str(active.folder / name) or active.applied.texts.get(name, "") is None:
                raise KvraceError(
                    f"{module} was imported from {found}, and not from the patched copy in {active.folder}"
                )


def patch_notes() -> tuple[str, ...]:
    """What a reader of a verdict should know of the patch, one line each."""
    notes: list[str] = []
    for active in _ACTIVE:
        patch, texts = active.patch, active.applied.texts
        notes += [f"{patch.identity.file}: {line}" for line in active.applied.moved]
        if patch.skipped:
            notes.append(f"{patch.identity.file}: not vLLM's Python, left out: {_some(patch.skipped)}")
        idle = [
            active.modules()[module] for module in _unimported(active) if texts[active.modules()[module]] is not None
        ]
        if idle:
            everything = len(idle) == len(texts)
            what = (
                "nothing of it was imported, so this is a verdict on the release as it is"
                if everything
                else "not imported"
            )
            notes.append(f"{patch.identity.file}: {what}: {_some(idle)}")
    return tuple(notes)


def _unimported(active: Active) -> list[str]:
    return [module for module in active.modules() if module not in sys.modules]


def _module(name: str) -> str:
    return name.removesuffix(".py").removesuffix("/__init__").replace(os.sep, ".").replace("/", ".")


def _some(names: tuple[str, ...] | list[str], most: int = 6) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
