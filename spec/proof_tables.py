"""The tables of spec/proofs.md."""

from __future__ import annotations

from spec.markdown import markdown_table

from kvmodel.contract import Contract
from kvmodel.proof.bounded import Order, broken, shortest
from kvmodel.proof.obligations import obligations
from kvmodel.proof.orders import events_of
from kvmodel.proof.situations import SITUATIONS, reached
from kvmodel.proof.solve import prove
from kvmodel.proof.theorems import THEOREMS, WHY
from kvmodel.proof.vacuity import fails_without_conjunct
from kvmodel.relation.model import Model
from kvmodel.relation.policies import POLICIES
from kvmodel.relation.safety import ASSUMPTIONS
from kvmodel.relation.terms import TRUE
from kvmodel.relation.text import text

RULE = "no-use-after-free"
"""The property that is looked for where an assumption is missing."""


def _main() -> Model:
    return Model(POLICIES["wait_for_all"], Contract())


def proof_obligations() -> str:
    """How many obligations the main statement has, by action."""
    kinds = {"starts": "at the start", "implies": "the invariant implies a property"}
    places = {"checks": 1, "possible": 2}
    counts: dict[str, list[int]] = {}
    for obligation in obligations(_main()):
        group = kinds.get(obligation.kind) or f"`{obligation.actor}`"
        counts.setdefault(group, [0, 0, 0])[places.get(obligation.kind, 0)] += 1
    rows = [[group, *(str(number) if number else "-" for number in numbers)] for group, numbers in counts.items()]
    total = sum(map(sum, counts.values()))
    head = ["", "conjuncts or properties", "checks of the action", "that it can happen"]
    return f"{total} obligations, {len(_main().invariant)} conjuncts:\n\n" + markdown_table(head, rows)


def proof_properties() -> str:
    rows = [[f"`{rule.name}`", rule.why, f"`{text(rule.formula)}`"] for rule in _main().properties]
    return markdown_table(["property", "meaning", "formula"], rows)


def proof_checks() -> str:
    """The checks of the actions, under the policy that has a proof and the one that vLLM has."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for policy in ("wait_for_all", "assert"):
        for action in Model(POLICIES[policy], Contract()).actions:
            guards = [guard.formula for guard in action.guards]
            for check in action.checks:
                by_construction = check.formula in guards or check.formula == TRUE
                how = "yes" if by_construction else "no"
                rows.setdefault((check.name, text(check.formula), how), []).append(action.name)
    return markdown_table(
        ["check", "formula", "by construction", "of"],
        [[f"`{n}`", f"`{f}`", how, ", ".join(f"`{a}`" for a in dict.fromkeys(of))] for (n, f, how), of in rows.items()],
    )


def proof_assumptions() -> str:
    rows = [[f"`{name}`", meaning, WHY[name]] for name, meaning in ASSUMPTIONS.items()]
    return markdown_table(["assumption", "meaning", "why it is needed"], rows)


def proof_invariant() -> str:
    """Each conjunct, and the first obligation that fails without it."""
    rows = []
    for part in _main().invariant:
        failed = fails_without_conjunct(_main(), part)
        assert failed is not None, f"the proof does not need that {part.name}"
        rows.append([part.name, f"`{text(part.formula)}`", failed.name])
    return markdown_table(["conjunct", "formula", "without it, the first to fail is"], rows)


def proof_statements() -> str:
    rows = []
    for theorem in THEOREMS:
        proof = prove(theorem.model)
        failed = [result.obligation.name for result in proof.results if result.verdict != "proved"]
        assert proof.verdict == "proved", f"{theorem.policy} under {theorem.contract}: {failed}"
        rows.append(
            [
                f"`{theorem.policy}`",
                f"`{theorem.contract}`",
                ", ".join(f"`{name}`" for name in theorem.needed) or "nothing",
                f"{len(theorem.model.invariant)}, {len(proof.results)}",
                proof.verdict,
                theorem.remark or "-",
            ]
        )
    head = ["policy", "contract", "assumed", "conjuncts, obligations", "z3 says", "remark"]
    return markdown_table(head, rows)


def _written(order: Order) -> str:
    return "<br>".join(map(str, events_of(order)))


def proof_needed() -> str:
    """For each statement with assumptions an order that breaks a property without one of them."""
    rows = []
    for theorem in THEOREMS:
        for name, where in theorem.needed.items():
            instance = where.instance(theorem.without(name))
            order = shortest(instance, {RULE: broken(instance, RULE)}, where.most)[RULE]
            same = f" ({' and '.join(where.scope.names)} have one id)" if where.ids else ""
            rows.append([f"`{name}`", f"`{theorem.policy}`, `{theorem.contract}`", _written(order) + same])
    return markdown_table(["without", "policy, contract", f"a shortest order that breaks `{RULE}`"], rows)


def proof_reached() -> str:
    """That a scheduler does something: the invariant is not kept for want of anything to happen."""
    orders: dict[str, Order | None] = reached(_main())
    assert set(orders) == {situation.name for situation in SITUATIONS}
    rows = []
    for name, order in orders.items():
        assert order is not None, f"never reached: {name}"
        rows.append([name, _written(order)])
    return markdown_table(["situation", "in the fewest events"], rows)


PROOF_TABLES = {
    "proof-obligations": proof_obligations,
    "proof-properties": proof_properties,
    "proof-checks": proof_checks,
    "proof-assumptions": proof_assumptions,
}
PROOF_RUNS = {
    "proof-invariant": proof_invariant,
    "proof-statements": proof_statements,
    "proof-needed": proof_needed,
    "proof-reached": proof_reached,
}
