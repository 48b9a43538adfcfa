"""Scopes in a file of one's own: what is too much for options, or is to be kept.

TOML, with the fields of :class:`~kvmodel.scope.Scope` by name: at the top for one case, or a ``[[case]]`` for each of several.
A case that does not say how it is scheduled is one for each of sync and async.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from kvmodel.errors import KvraceError
from kvmodel.scope import SCHEDULINGS, Scope
from kvrace.files import reason

SUFFIX = ".toml"
"""What tells a file from the name of a scope that kvrace has."""
_LONGEST = 1 << 16
_CASES_MAX = 1000


def read_scopes(path: Path) -> list[Scope]:
    """The cases in a file. It may be hostile: its size and every field are checked. Raises KvraceError, naming the place."""
    data = _decoded(path)
    tables = data.get("case", [data]) if set(data) <= {"case"} and data else [data]
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise KvraceError(f"{path}: 'case' is not a list of tables; write [[case]]")
    if not 1 <= len(tables) <= _CASES_MAX:
        raise KvraceError(f"{path}: {len(tables)} cases; a file has 1 to {_CASES_MAX}")
    return [scope for number, table in enumerate(tables, 1) for scope in scopes_of(table, _place(path, tables, number))]


def scopes_of(table: dict[str, Any], place: str) -> list[Scope]:
    """One case as scopes, one for each way of scheduling unless it names one. Raises KvraceError, naming ``place``."""
    ways = [table["scheduling"]] if "scheduling" in table else SCHEDULINGS
    try:
        return [Scope.from_dict({**table, "scheduling": way}) for way in ways]
    except KvraceError as error:
        raise KvraceError(f"{place}: {error}") from error


def _place(path: Path, tables: list[Any], number: int) -> str:
    return f"{path}, case {number}" if len(tables) > 1 else str(path)


def _decoded(path: Path) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            raw = file.read(_LONGEST + 1)
    except OSError as error:
        raise KvraceError(f"cannot read the scope file {path}: {reason(error)}") from error
    if len(raw) > _LONGEST:
        raise KvraceError(f"{path} is longer than {_LONGEST} bytes: a scope file is not")
    try:
        return tomllib.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:  # also of a number with more digits than Python reads
        raise KvraceError(f"{path} is not a scope file (TOML): {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
