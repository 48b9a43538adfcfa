"""``kvrace check --list``: every name that an option takes, with its meaning."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kvmodel.contract import ALL_MEANINGS
from kvmodel.milestones import MILESTONES
from kvmodel.named_scopes import NAMED_SCOPES, named_scope
from kvmodel.properties import PROPERTIES
from kvmodel.scope import KINDS


def listing() -> RenderableType:
    """Scopes, request kinds, contracts, properties and milestones."""
    scopes = [(name, f"{meaning}: {len(named_scope(name))} cases") for name, (meaning, _) in NAMED_SCOPES.items()]
    properties = [(rule.name, f"{rule.meaning} ({rule.source})") for rule in PROPERTIES]
    milestones = [(milestone.name, milestone.meaning) for milestone in MILESTONES]
    return Group(
        *_section("--scope", "what is explored", scopes),
        *_section("--requests", "the kinds of request", KINDS.items()),
        *_section("--contract", "the connector may", ALL_MEANINGS.items()),
        *_section("--property", "holds when", properties),
        *_section("reached", "the situations of which a scope should have some", milestones),
    )


def _section(option: str, title: str, names: Iterable[tuple[str, str]]) -> tuple[RenderableType, ...]:
    table = Table.grid(padding=(0, 2, 0, 0))
    for name, meaning in names:
        table.add_row(Text(f"  {name}", style="bold"), Text(meaning))
    return Text.assemble((option, "bold"), f"  {title}"), table, Text("")
