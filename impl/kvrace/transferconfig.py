"""``--kv-transfer-config`` as ``vllm serve`` takes it: which connectors it names. It may come from anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from kvmodel.errors import KvraceError, quoted
from kvrace.files import reason
from kvrace.known.connectors import ROLES, Role
from kvrace.shapes import text

OPTION = "--kv-transfer-config"
MULTI = "MultiConnector"
_LARGEST, _DEEPEST, _MOST = 100_000, 4, 32
_WORD = text(200)


@dataclass(frozen=True, slots=True)
class ConnectorConfig:
    """One connector as it is configured. ``module`` is the Python module of one that vLLM does not ship; ``children`` are those of
    a MultiConnector, in their order."""

    name: str
    role: Role
    module: str | None
    extra: Mapping[str, Any]
    children: tuple[ConnectorConfig, ...] = ()

    def all(self) -> Iterator[ConnectorConfig]:
        """This one and those that it holds."""
        yield self
        for child in self.children:
            yield from child.all()


def read_config(given: str, fields: Set[str] | None) -> ConnectorConfig:
    """From JSON, ``@FILE`` or the path of a file. ``fields`` are the keys that vLLM takes, None where they are not known. Raises
    KvraceError with one line, also for a key that vLLM refuses and where no connector is named."""
    where, raw = _source(given)
    if len(raw) > _LARGEST:
        raise KvraceError(f"{where}: longer than {_LARGEST:,} characters")
    try:
        data = json.loads(raw)
    except RecursionError as error:
        raise KvraceError(f"{where}: nested too deeply") from error
    except ValueError as error:
        raise KvraceError(f"{where}: not JSON: {error}") from error
    return _connector(data, where, 1, fields)


def _source(given: str) -> tuple[str, str]:
    if not given.strip():
        raise KvraceError(f"{OPTION}: the value is empty")
    if _meant_as_json(given):
        return OPTION, given
    path = Path(given.removeprefix("@"))
    try:
        with open(path, encoding="utf-8") as file:
            return f"{OPTION} {path}", file.read(_LARGEST + 1)
    except OSError as error:
        hint = "" if given.startswith("@") else "; give the JSON itself, or the name of a file that has it"
        raise KvraceError(f"{OPTION}: cannot read {quoted(str(path))}: {reason(error)}{hint}") from error
    except ValueError as error:  # no UTF-8, or a name with a null in it
        raise KvraceError(f"{OPTION}: cannot read {quoted(str(path))}: {error}") from error


def _meant_as_json(given: str) -> bool:
    """Also a word such as null, which is JSON and hardly the name of a file; @null is."""
    if given.lstrip().startswith(("{", "[", '"')):
        return True
    try:
        json.loads(given)
    except ValueError:
        return False
    return True


def _connector(data: Any, where: str, depth: int, fields: Set[str] | None) -> ConnectorConfig:
    if not isinstance(data, dict):
        raise KvraceError(f"{where}: not a JSON object such as {{'kv_connector': …, 'kv_role': …}}")
    _refuse_unknown(data, where, fields)
    if data.get("kv_connector") is None or not str(data["kv_connector"]).strip():
        instead = f"; without a connector leave {OPTION} out" if depth == 1 else ""
        raise KvraceError(f"{where}: no kv_connector is named{instead}")
    name = _WORD(data["kv_connector"], f"{where}: kv_connector")
    role = data.get("kv_role")
    if role not in ROLES:
        raise KvraceError(f"{where}: kv_role of {quoted(name)} is {quoted(role)}: vLLM wants {', '.join(ROLES)}")
    module = data.get("kv_connector_module_path")
    if module is not None and not _WORD(module, f"{where}: kv_connector_module_path"):
        raise KvraceError(f"{where}: kv_connector_module_path is empty")
    extra = data.get("kv_connector_extra_config", {})
    if not isinstance(extra, dict):
        raise KvraceError(f"{where}: kv_connector_extra_config of {quoted(name)} is not a JSON object")
    children = _children(extra, where, depth, fields) if name == MULTI and not module else ()
    return ConnectorConfig(name, role, module, extra, children)


def _refuse_unknown(data: Mapping[str, Any], where: str, fields: Set[str] | None) -> None:
    """vLLM refuses such a key, and it may be the misspelt one that matters."""
    for key in data:
        if fields is not None and key not in fields:
            near = get_close_matches(key, fields, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise KvraceError(f"{where}: vLLM's KVTransferConfig has no {quoted(key)}{hint}")


def _children(extra: Mapping[str, Any], where: str, depth: int, fields: Set[str] | None) -> tuple[ConnectorConfig, ...]:
    given = extra.get("connectors")
    if not isinstance(given, list) or not 1 <= len(given) <= _MOST:
        raise KvraceError(
            f"{where}: {MULTI} needs kv_connector_extra_config.connectors: a list of 1 to {_MOST} of them"
        )
    if depth == _DEEPEST:
        raise KvraceError(f"{where}: {MULTI} in {MULTI} more than {_DEEPEST} times")
    return tuple(
        _connector(entry, f"{where}: connector {number}", depth + 1, fields) for number, entry in enumerate(given, 1)
    )
