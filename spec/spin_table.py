"""The table of spec/agreement.md: what kvrace's own search and Spin say of the same instances."""

from __future__ import annotations

from spec.markdown import markdown_table

from kvmodel.contract import Contract
from kvmodel.relation.model import Model
from kvmodel.relation.policies import POLICIES
from kvmodel.relation.scoped import scoped
from kvmodel.scope import Scheduling, Scope
from kvrace.spin import Explored, compare

_MAIN = ("assert", "skip", "wait_for_all")
INSTANCES: tuple[tuple[tuple[str, ...], Scheduling, int, tuple[str, ...]], ...] = (
    (("load_save",), "sync", 1, (*_MAIN, "not_while_loading", "reclaim")),
    (("load_save",), "async", 2, _MAIN),
    (("load_save", "local"), "sync", 2, _MAIN),
)
"""Requests, scheduler, blocks, and the policies: all that differ in kind in the smallest instance, where Spin is quick."""


def agreement() -> str:
    rows = []
    for requests, scheduling, blocks, policies in INSTANCES:
        for policy in policies:
            instance = scoped(Model(POLICIES[policy], Contract()), Scope(requests, scheduling), blocks=blocks)
            compared = compare(instance)
            ours, spins = compared.kvrace, compared.spin
            assert compared.agree, f"{','.join(requests)}, {scheduling}, {policy}: kvrace {ours}, Spin {spins}"
            size = f"{blocks} block{'s' if blocks > 1 else ''}"
            rows.append(
                [
                    f"`{','.join(requests)}`, {scheduling}, {size}",
                    f"`{policy}`",
                    f"{ours.states:,}",
                    f"{spins.states:,}",
                    f"{ours.transitions:,}",
                    f"{spins.transitions:,}",
                    _broken(ours),
                ]
            )
    head = ["instance", "policy", "states, kvrace", "Spin", "transitions, kvrace", "Spin", "broken, by both"]
    return markdown_table(head, rows)


def _broken(explored: Explored) -> str:
    return ", ".join(f"`{name}` after {moves}" for name, moves in sorted(explored.broken.items())) or "nothing"
