"""The tables of spec/fixes.md that are made by running each remedy, and what z3 says of each policy."""

from __future__ import annotations

import sys

from spec.markdown import markdown_table
from spec.runs import once

from kvmodel.contract import EXACTLY_ONCE, MEANINGS, Contract
from kvmodel.named_scopes import named_scope
from kvmodel.proof.solve import prove
from kvmodel.relation.model import Model
from kvmodel.relation.policies import POLICIES
from kvrace.matrix import Explorer, Matrix, Place, PlanCheck, length, matrix

SCOPE = "seed"


def all_remedies() -> Matrix:
    """Every remedy under every contract."""
    return once(f"remedies, {SCOPE}", _make)


def _make() -> Matrix:
    print(f"  remedies over {SCOPE} …", file=sys.stderr, flush=True)
    made = matrix(Explorer("vllm", SCOPE), list(POLICIES), list(MEANINGS), named_scope(SCOPE))
    assert made.complete
    return made


def _cell(place: Place) -> str:
    made = all_remedies()
    found = []
    for name in made.violated(place):
        shortest = [f"{length(violation)}, {violation.blame}" for violation in made.shortest(place, name)]
        found.append(f"`{name}` ({' / '.join(shortest)})")
    return "<br>".join(found) or "all nine hold"


def remedies() -> str:
    """What each remedy breaks under each contract."""
    made = all_remedies()
    rows = [[f"`{name}`", *(_cell(Place(name, contract)) for contract in made.contracts)] for name in made.remedies]
    version = next(iter(made.results.values())).cases[0].identity.version
    return (
        f"vLLM {version}, scope `{SCOPE}`: one `load_save` request, sync and async, {made.states:,} states and "
        f"{made.transitions:,} transitions in all, exhausted:\n\n"
    ) + markdown_table(["remedy", *(f"`{contract}`" for contract in made.contracts)], rows)


def _check(check: PlanCheck) -> str:
    many = length(check.violation) if check.violation else len(check.events)
    return {"holds": "yes", "violated": f"**no**, {many} events", "incomplete": "not known"}[check.verdict]


def remedies_plan() -> str:
    """The test plan by name, for each remedy, and what is violated all the same."""
    made = all_remedies()
    rows = []
    for name in made.remedies:
        checks = made.plan(name)
        planned = {rule for check in checks for rule in check.rules}
        beyond = [f"`{rule}`" for rule in made.violated(Place(name, EXACTLY_ONCE)) if rule not in planned]
        rows.append([f"`{name}`", *map(_check, checks), ", ".join(beyond) or "-"])
    checks = made.plan(made.remedies[0])
    head = ["remedy", *(check.name for check in checks), "and yet violated"]
    means = "".join(f"* *{check.name}*: {check.means}.\n" for check in checks)
    return markdown_table(head, rows) + "\n" + means


def proof_policies() -> str:
    """What z3 says of each policy, and where a proof fails."""
    rows = []
    for policy in POLICIES.values():
        row = [f"`{policy.name}`"]
        for contract in (EXACTLY_ONCE, "single"):
            failed: dict[str, list[str]] = {}
            for result in prove(Model(policy, Contract.parse(contract))).results:
                if result.verdict != "proved":
                    failed.setdefault(f"`{result.obligation.actor}`", []).append(result.obligation.about.name)
            row.append("<br>".join(f"{actor}: {'; '.join(names)}" for actor, names in failed.items()) or "proved")
        rows.append(row)
    return markdown_table(["policy", f"under `{EXACTLY_ONCE}`", "under `single`"], rows)


REMEDY_RUNS = {"remedies": remedies, "remedies-plan": remedies_plan, "proof-policies": proof_policies}
