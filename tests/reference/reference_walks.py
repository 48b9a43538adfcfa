"""Helpers of these tests: check the reference scheduler, and look at a state whatever its blocks are called."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial

from kvmodel.contract import Contract
from kvmodel.lockstep import Node, canonical_names
from kvmodel.scope import Scheduling, Scope
from kvrace.check import check
from kvrace.reference.subject import ReferenceSubject
from kvrace.result import CheckResult, Violation

SCHEDULINGS: tuple[Scheduling, ...] = ("sync", "async")


def run(
    scopes: Sequence[Scope], policy: str = "assert", contract: str = "exactly-once", conformance: str | None = None
) -> CheckResult:
    make = partial(ReferenceSubject, policy=policy)
    return check(make, scopes, Contract.parse(contract), conformance=conformance)


def of(result: CheckResult, name: str) -> list[Violation]:
    """The violations of one property, shortest order first."""
    return sorted((v for v in result.violations if v.property == name), key=lambda v: len(v.events))


def shown(node: Node) -> Hashable:
    """World and observation with blocks named by where they stand."""
    seen = node.observation
    names = canonical_names(seen)
    new = [0] * len(names)
    for block, name in names.items():
        new[name] = block
    return (
        node.world.renamed(names),
        node.crashed,
        seen._replace(
            owned=tuple((owner, tuple(names[block] for block in blocks)) for owner, blocks in seen.owned),
            held_back=tuple(names[block] for block in seen.held_back),
            references=tuple(seen.references[block] for block in new),
            free=tuple(names[block] for block in seen.free),
            cached=frozenset(names[block] for block in seen.cached),
        ),
    )
