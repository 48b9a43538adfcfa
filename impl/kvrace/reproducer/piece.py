"""The building blocks of a generated file: a piece of code and the imports it needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from textwrap import dedent
from typing import NamedTuple

from kvrace.reproducer.text import WIDTH, enclosed


class Piece(NamedTuple):
    """A definition for the top level of the file. ``imports`` are ``module`` or ``module:name``."""

    code: str
    imports: tuple[str, ...] = ()


def piece(code: str, *imports: str) -> Piece:
    return Piece(dedent(code).strip("\n"), imports)


_THIRD_PARTY = ("numpy", "pytest", "torch", "vllm")


def import_lines(imports: Iterable[str]) -> list[str]:
    """The import statements in the usual order: the standard library, a blank line, the rest; plain imports first."""
    whole: set[str] = set()
    parts: defaultdict[str, set[str]] = defaultdict(set)
    for item in imports:
        module, _, name = item.partition(":")
        if name:
            parts[module].add(name)
        else:
            whole.add(module)
    lines = []
    for third in (False, True):
        block = [f"import {module}" for module in sorted(whole) if _is_third(module) is third]
        for module in sorted(parts):
            if _is_third(module) is third:
                block += _from(module, parts[module])
        lines += [*block, ""]
    return lines[:-1]


def _from(module: str, names: set[str]) -> list[str]:
    ordered = sorted(names, key=lambda name: (not name.isupper(), name[0].islower(), name))
    line = f"from {module} import {', '.join(ordered)}"
    return [line] if len(line) <= WIDTH else enclosed(f"from {module} import (", ordered, ")")


def _is_third(module: str) -> bool:
    return module.partition(".")[0] in _THIRD_PARTY
