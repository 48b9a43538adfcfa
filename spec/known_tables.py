"""The tables of the operators' page, from the files of what was checked and what was read."""

from __future__ import annotations

from spec.markdown import markdown_table
from spec.read_sources import folders

from kvmodel.contract import EXACTLY_ONCE
from kvrace.doctor import diagnose
from kvrace.installed import Installed
from kvrace.known.connectors import ROLES, connectors
from kvrace.known.orders import KnownResult, known_releases
from kvrace.known.reading import CONTRACTS, TOGETHER
from kvrace.transferconfig import MULTI, ConnectorConfig

_SWITCHES = {"MoRIIOConnector": "read_mode", "LMCacheConnectorV1": "use_native"}


def affected() -> str:
    """Every connector that vLLM registers, in every role, on a GPU build with asynchronous scheduling on."""
    version, folder = next(iter(folders(pinned_too=False).items()))
    installed = Installed("vllm", version, folder)
    rows = []
    for config in _configurations():
        found = diagnose(installed, config, None, "async")
        assert found.with_drop_in is not None and found.status == diagnose(installed, config, None, "sync").status
        asked = found.answers.asked
        why = [f"`{rule}` {asked[rule]}" for rule in (TOGETHER, *CONTRACTS) if asked[rule] != "no"]
        switch = "".join(f", `{name}`" for name in config.extra)
        who = f"`{config.name}`, {config.role.removeprefix('kv_')}{switch}"
        rules = "all undetermined" if len(why) == 1 + len(CONTRACTS) else ", ".join(why) or "all kept"
        rows.append([who, found.status, found.with_drop_in.status, rules, asked["unseen"]])
    head = ["connector and role", f"vLLM {version}", "with the drop-in", "rules, as read", "unseen"]
    return markdown_table(head, _joined(rows))


def _configurations() -> list[ConnectorConfig]:
    found = []
    for facts in connectors():
        if MULTI in facts.names:
            continue
        switches = [{}, {_SWITCHES[name]: True}] if (name := facts.names[0]) in _SWITCHES else [{}]
        found += [ConnectorConfig(facts.names[0], role, None, extra) for extra in switches for role in ROLES]
    return found


def _joined(rows: list[list[str]]) -> list[list[str]]:
    """One row for the roles of a connector that come out the same."""
    joined: dict[tuple[str, ...], list[str]] = {}
    for who, *rest in rows:
        name, role, *switch = who.split(", ")
        joined.setdefault((name, *switch, *rest), []).append(role)
    width = len(rows[0]) - 1
    return [
        [
            ", ".join([key[0], *(["any role"] if len(roles) == len(ROLES) else [" or ".join(roles)]), *key[1:-width]]),
            *key[-width:],
        ]
        for key, roles in joined.items()
    ]


def checked_releases() -> str:
    """What the verdicts of ``kvrace doctor`` rest on."""
    rows = []
    for known in known_releases():
        for name in ("stock", "fixed"):
            for scheduling in ("sync", "async"):
                found = [
                    result for result in known.results if (result.scheduler, result.scheduling) == (name, scheduling)
                ]
                rows.append([known.release, f"{name}, {scheduling}", *_bounds(found)])
    return markdown_table(["release", "scheduler", "exhausted", "broken under"], rows)


def _bounds(found: list[KnownResult]) -> list[str]:
    assert all(result.exhausted for result in found)
    states = sum(result.states for result in found)
    scopes = ", ".join(dict.fromkeys(f"`{result.scope}`" for result in found))
    default = [result.scope for result in found if result.contract == EXACTLY_ONCE]
    broken = ", ".join(f"`{result.contract}`" for result in found if result.violated)
    under = f"{len(found)} contracts, {states:,} states in {scopes}"
    return [under + (f" (`{default[0]}` under `{EXACTLY_ONCE}`)" if "," in scopes else ""), broken or "none"]


KNOWN_TABLES = {"affected": affected, "checked-releases": checked_releases}
