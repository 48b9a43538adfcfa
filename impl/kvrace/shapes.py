"""What a value out of a hostile file has to look like: readers that check type, range and size, and combine.

A reader takes a decoded value and its place in words, and gives the value as the model has it. It raises KvraceError, naming the
place, for anything else; nothing is converted on the quiet.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from kvmodel.errors import KvraceError, quoted

Value = TypeVar("Value")
Other = TypeVar("Other")
Reader = Callable[[Any, str], Value]


def number(low: int, high: int) -> Reader[int]:
    """A whole number from ``low`` to ``high``; true and false are none."""

    def read(value: Any, place: str) -> int:
        if type(value) is not int:
            raise KvraceError(f"{place} is not a number")
        if not low <= value <= high:
            raise KvraceError(f"{place}: {quoted(value)} is outside {low} to {high}")
        return value

    return read


def text(longest: int) -> Reader[str]:
    """One line of text that a terminal shows and does not obey."""

    def read(value: Any, place: str) -> str:
        if not isinstance(value, str):
            raise KvraceError(f"{place} is missing" if value is None else f"{place} is not text")
        if len(value) > longest:
            raise KvraceError(f"{place} is longer than {longest} characters")
        if not value.isprintable():
            raise KvraceError(f"{place} has unprintable characters")
        return value

    return read


def recordable(line: str, longest: int) -> str:
    """``line`` as :func:`text` reads it: what kvrace writes, it must be able to read."""
    shown = "".join(character if character.isprintable() else " " for character in line)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def flag(value: Any, place: str) -> bool:
    if not isinstance(value, bool):
        raise KvraceError(f"{place} is not true or false")
    return value


def one_of(known: Mapping[str, Value]) -> Reader[Value]:
    """A word, and what it stands for."""

    def read(value: Any, place: str) -> Value:
        if not isinstance(value, str) or value not in known:
            raise KvraceError(f"{place}: {quoted(value)} is none of {', '.join(known)}")
        return known[value]

    return read


def sequence(item: Reader[Value], longest: int) -> Reader[tuple[Value, ...]]:
    def read(value: Any, place: str) -> tuple[Value, ...]:
        if not isinstance(value, list):
            raise KvraceError(f"{place} is not a list")
        if len(value) > longest:
            raise KvraceError(f"{place} has more than {longest} entries")
        return tuple(item(entry, f"{place}, entry {index}") for index, entry in enumerate(value))

    return read


def at_most_one(item: Reader[Value]) -> Reader[Value | None]:
    """A list of one entry or of none: ITF knows no null."""
    entries = sequence(item, 1)

    def read(value: Any, place: str) -> Value | None:
        found = entries(value, place)
        return found[0] if found else None

    return read


def set_of(item: Reader[Value], longest: int) -> Reader[frozenset[Value]]:
    def read(value: Any, place: str) -> frozenset[Value]:
        if not isinstance(value, frozenset):
            raise KvraceError(f"{place} is not a set")
        if len(value) > longest:
            raise KvraceError(f"{place} has more than {longest} entries")
        return frozenset(item(entry, place) for entry in value)

    return read


def pairs(key: Reader[Other], item: Reader[Value], longest: int) -> Reader[tuple[tuple[Other, Value], ...]]:
    """A map, as pairs in the order of the file."""

    def read(value: Any, place: str) -> tuple[tuple[Other, Value], ...]:
        if not isinstance(value, Mapping):
            raise KvraceError(f"{place} is not a map")
        if len(value) > longest:
            raise KvraceError(f"{place} has more than {longest} entries")
        return tuple((key(name, place), item(entry, f"{place} of {quoted(name)}")) for name, entry in value.items())

    return read


def record(made: Callable[..., Value], *, optional: Collection[str] = (), **fields: Reader[Any]) -> Reader[Value]:
    """A record with exactly these fields, handed to ``made`` by name. Those that are ``optional`` may be missing."""

    def read(value: Any, place: str) -> Value:
        names = getattr(value, "_fields", None)
        if names is None:
            raise KvraceError(f"{place} is not a record")
        missing = fields.keys() - set(names) - set(optional)
        for name in [*sorted(missing), *sorted(set(names) - fields.keys())]:
            raise KvraceError(f"{place} has {'no' if name in fields else 'an unknown'} field {quoted(name)}")
        given = {name: reader for name, reader in fields.items() if name in names}
        return made(**{name: reader(getattr(value, name), f"{place}: {name}") for name, reader in given.items()})

    return read


def table(made: Callable[..., Value], **fields: Reader[Any]) -> Reader[Value]:
    """A JSON object with exactly these fields, handed to ``made`` by name."""

    def read(value: Any, place: str) -> Value:
        if not isinstance(value, dict):
            raise KvraceError(f"{place} is not a table")
        for name in [*sorted(fields.keys() - value.keys()), *sorted(value.keys() - fields.keys())]:
            raise KvraceError(f"{place} has {'no' if name in fields else 'an unknown'} field {quoted(name)}")
        return made(**{name: reader(value[name], f"{place}: {name}") for name, reader in fields.items()})

    return read
