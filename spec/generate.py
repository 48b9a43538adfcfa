"""Write the tables of README.md and spec/ from the model and from runs. `make docs` calls it; a test fails on stale tables.

A table stands between two comment lines, ``<!-- generated: NAME -->`` and ``<!-- end -->``. With ``--check`` nothing is written,
and the exit status is 1 when a table is stale.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from spec.fixed_table import fixed
from spec.known_answers.table import known_answers
from spec.known_answers.write_ups import WRITE_UP_TABLES
from spec.known_tables import KNOWN_TABLES
from spec.markdown import markdown_table
from spec.proof_tables import PROOF_RUNS, PROOF_TABLES
from spec.relation_tables import RELATION_TABLES
from spec.release_tables import RELEASE_TABLES
from spec.remedy_tables import REMEDY_RUNS
from spec.runs import explored, of_stock
from spec.spin_table import agreement

import kvrace
from kvmodel.conformance.abstraction import READINGS
from kvmodel.contract import EXACTLY_ONCE, FURTHER, MEANINGS, Contract
from kvmodel.differences import ASPECTS
from kvmodel.milestones import MILESTONES
from kvmodel.named_scopes import NAMED_SCOPES, named_scope
from kvmodel.properties import PROPERTIES, PROPERTY_NAMES
from kvmodel.scope import KINDS
from kvrace.diff import diff
from kvrace.diffresult import DiffResult
from kvrace.mutants import Mutant, Row, kill_table
from kvrace.render.suite import totals
from kvrace.result import CheckResult, Violation
from kvrace.subjects import choose_subject
from kvrace.suite import make_tours

ROOT = Path(__file__).resolve().parent.parent
MARK = re.compile(r"(<!-- generated: ([a-z-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
CONFORMANCE_SCOPES = ("small", "pressure", "prefix", "stops", "chunked", "priority")
DIFF_SCOPES = ("small", "pressure", "prefix")
TOURED_SCOPES = ("seed", "small")
FINDINGS_SCOPES = ("small", "pressure", "prefix", "chunked", "priority")


def kinds() -> str:
    return markdown_table(["kind", "meaning"], [[f"`{name}`", meaning] for name, meaning in KINDS.items()])


def contracts() -> str:
    return markdown_table(
        ["name", "the connector may …"], [[f"`{name}`", meaning] for name, meaning in MEANINGS.items()]
    )


def further_contracts() -> str:
    return markdown_table(
        ["name", "the connector may …"], [[f"`{name}`", meaning] for name, meaning in FURTHER.items()]
    )


def properties() -> str:
    rows = [[f"`{rule.name}`", rule.meaning, rule.source] for rule in PROPERTIES]
    return markdown_table(["name", "holds when", "where the rule comes from"], rows)


def scopes() -> str:
    rows = []
    for name, (meaning, _) in NAMED_SCOPES.items():
        cases = named_scope(name)
        sizes = sorted({f"{case.blocks} blocks of {case.block_size}" for case in cases})
        rows.append([f"`{name}`", meaning, str(len(cases)), ", ".join(sizes)])
    return markdown_table(["name", "what it is for", "cases", "pool"], rows)


def milestones() -> str:
    return markdown_table(["name", "the situation"], [[f"`{m.name}`", m.meaning] for m in MILESTONES])


def merging() -> str:
    from kvrace.vllm.api import load_api
    from kvrace.vllm.state import capture_rules

    api = load_api()
    rules = capture_rules(api)
    rows = [[f"`{owner.__name__}.{name}`", reason] for (owner, name), (_, reason) in rules.attributes.items()]
    rows += [[f"order of `{owner.__name__}.{name}`", reason] for (owner, name), reason in rules.unordered.items()]
    rows += [[f"`{kind.__name__}`", reason] for kind, reason in api.left_alone.items()]
    rows += [
        [f"`{prefix}`, every class", "configuration, not changed after construction"] for prefix in rules.opaque_modules
    ]
    return f"vLLM {api.version}:\n\n" + markdown_table(["state", "how it is compared, or why it is not"], rows)


def _length(violation: Violation) -> str:
    if violation.loop_start is not None:
        return f"{violation.loop_start} events, then a loop"
    return f"{len(violation.events)} events"


def _row(result: CheckResult) -> list[str]:
    found: dict[str, list[str]] = {}
    for violation in result.violations:
        found.setdefault(f"`{violation.property}`", []).append(f"{len(violation.events)}, {violation.blame}")
    violated = "; ".join(f"{name} ({' / '.join(dict.fromkeys(lengths))})" for name, lengths in found.items())
    holds = sum(verdict == "holds" for verdict in result.verdicts.values())
    bound = f"{len(result.cases)} cases, {result.states:,} states, {result.transitions:,} transitions"
    return [
        f"`{result.scope_name}`",
        f"`{result.contract}`",
        bound,
        violated or "nothing",
        f"{holds} of {len(PROPERTY_NAMES)}",
    ]


def findings() -> str:
    """The honest table of the README: the stock scheduler in the default scopes under every contract."""
    results = [of_stock("small", contract) for contract in MEANINGS]
    results += [of_stock(name) for name in FINDINGS_SCOPES[1:]]
    identity = results[0].cases[0].identity
    head = ["scope", "contract", "exhausted", "violated (events of a shortest order, blame)", "properties that hold"]
    return (
        f"Stock vLLM {identity.version}, `Scheduler` and `AsyncScheduler`, by kvrace {kvrace.__version__}:\n\n"
        + markdown_table(head, [_row(result) for result in results])
    )


def orders() -> str:
    """Every distinct finding in `small` under each contract, with a shortest order."""
    rows = []
    seen = set()
    for contract in MEANINGS:
        for violation in of_stock("small", contract).violations:
            if violation.signature in seen:
                continue
            seen.add(violation.signature)
            order = "<br>".join(violation.events[: violation.loop_start])
            if violation.loop_start is not None:
                order += "<br>then for ever:<br>" + "<br>".join(violation.events[violation.loop_start :])
            rows.append([f"`{violation.property}`", f"`{contract}`", violation.blame, violation.message, order])
    return markdown_table(["property", "first under", "blame", "what is wrong", "shortest order"], rows)


def conformance_cells() -> str:
    """How each part of the relational state is read off a scheduler, and what is not compared."""
    rows = [
        [f"`{r.symbol.name}`", r.symbol.meaning, r.read, f"no: {r.not_compared}" if r.not_compared else "yes"]
        for r in READINGS
    ]
    return markdown_table(["part of the state", "what it is", "how it is read", "compared after an event"], rows)


def conformance() -> str:
    """Stock vLLM held against the relation with both policies that matter, over the scopes of the main job."""
    rows = []
    for name in CONFORMANCE_SCOPES:
        for policy in ("assert", "wait_for_all") if name == "small" else ("assert",):
            result = explored("vllm", name, conformance=policy)
            found = result.conformance
            assert found is not None and found.judged == result.transitions
            assert found.unexplained == 0, f"{name}: a divergence from {policy} that no broken property explains"
            assert policy != "assert" or not found.divergences, f"{name}: vLLM does not do what policy assert does"
            shorts = ", ".join(dict.fromkeys(one.divergence.short for one in found.divergences))
            rows.append(
                [f"`{name}`", f"`{policy}`", f"{found.judged:,}", f"{found.excused:,}", f"{found.unexplained:,}", shorts or "-"]
            )  # fmt: skip
    head = ["scope", "policy", "transitions", "diverge with a broken property", "diverge without", "where"]
    identity = result.cases[0].identity
    return f"Stock vLLM {identity.version}, `Scheduler` and `AsyncScheduler`:\n\n" + markdown_table(head, rows)


def diff_aspects() -> str:
    return markdown_table(["aspect", "compared is"], [[aspect.name, aspect.meaning] for aspect in ASPECTS])


def drop_in() -> str:
    """kvrace's drop-in scheduler beside vLLM's own, over the scopes in which it was verified."""
    first, second = choose_subject("vllm", None), choose_subject("fixed", None)
    rows = []
    for name in DIFF_SCOPES:
        print(f"  vllm and fixed in {name} …", file=sys.stderr, flush=True)
        result = diff(first.make, second.make, named_scope(name), Contract(), scope_name=name)
        assert result.complete
        assert result.verdict == "same", f"{name}: {[found.events for found in result.differences]}"
        rows.append(_drop_in_row(result))
    identity = result.cases[0].identities[0]
    head = ["scope", "cases", "pairs of states", "transitions compared", "excused", "where vLLM breaks", "differences"]
    return f"`vllm` and `fixed`, vLLM {identity.version}, sync and async, `{EXACTLY_ONCE}`:\n\n" + markdown_table(
        head, rows
    )


def _drop_in_row(result: DiffResult) -> list[str]:
    figures = [f"{number:,}" for number in (len(result.cases), result.states, result.compared, result.excused)]
    broken = ", ".join(f"`{name}` ({times:,})" for name, times in result.broken.items())
    return [f"`{result.scope_name}`", *figures, broken or "-", str(len(result.differences))]


def tours() -> str:
    """What it costs to take every transition, against the least it can cost."""
    from kvrace.vllm.subject import VllmSubject

    rows = []
    for name in TOURED_SCOPES:
        print(f"  tours of {name} …", file=sys.stderr, flush=True)
        cases = list(make_tours(VllmSubject, named_scope(name), Contract()))
        rows.append(tours_row(name, len(cases), totals(cases)))
    head = [
        "scope",
        "cases",
        "transitions",
        "tours, each with a reset",
        "calls",
        "calls a transition",
        "cost",
        "at least",
    ]
    return markdown_table(head, rows)


def tours_row(name: str, cases: int, found: Mapping[str, Any]) -> list[str]:
    """``found`` are the figures that ``kvrace suite`` gives for all cases together."""
    figures = [f"{number:,}" for number in (cases, found["transitions"], found["resets"], found["calls"])]
    ratio = f"{found['calls'] / found['transitions']:.2f}"
    return [f"`{name}`", *figures, ratio, f"{found['cost']:,}", f"{found['bound']:,}"]


def _conformance(row: Row) -> str:
    if row.result.conformance is None:
        return "not judged"
    return row.divergence.divergence.short if row.divergence else "-"


def _kills(mutants: list[Mutant]) -> str:
    rows = []
    for row in kill_table(mutants):
        assert row.killed, f"mutant {row.mutant.name} survived"
        evidence = row.evidence
        rows.append(
            [
                f"`{row.mutant.name}`",
                row.mutant.breaks,
                f"`{row.mutant.property}`",
                _length(evidence) if evidence else "survived",
                ", ".join(f"`{name}`" for name in row.also) or "-",
                _conformance(row),
            ]
        )
    return f"{len(rows)} mutants, all killed:\n\n" + markdown_table(
        ["mutant", "the planted fault", "killed by", "in", "also seen by", "conformance"], rows
    )


def reference_mutants() -> str:
    from kvrace.reference.mutants import MUTANTS

    return _kills(list(MUTANTS))


def vllm_mutants() -> str:
    from kvrace.vllm.mutants import vllm_mutants as mutants

    return _kills(mutants())


FROM_THE_MODEL: dict[str, Callable[[], str]] = {
    "kinds": kinds,
    "contracts": contracts,
    "further-contracts": further_contracts,
    "properties": properties,
    "scopes": scopes,
    "milestones": milestones,
    "merging": merging,
    "conformance-cells": conformance_cells,
    "diff-aspects": diff_aspects,
    **RELATION_TABLES,
    **PROOF_TABLES,
    **KNOWN_TABLES,
    **RELEASE_TABLES,
    **WRITE_UP_TABLES,
    "known-answers": known_answers,
}
FROM_RUNS: dict[str, Callable[[], str]] = {
    "findings": findings,
    "conformance": conformance,
    "orders": orders,
    "fixed": fixed,
    "drop-in": drop_in,
    "tours": tours,
    "reference-mutants": reference_mutants,
    "vllm-mutants": vllm_mutants,
    "agreement": agreement,
    **PROOF_RUNS,
    **REMEDY_RUNS,
}


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "spec").glob("*.md"))]


@cache
def table(name: str) -> str:
    """The table called ``name``. Raises KeyError for a table nobody makes."""
    return (FROM_THE_MODEL | FROM_RUNS)[name]()


def with_tables(text: str, tables: dict[str, str]) -> str:
    """``text`` with the given tables in their places."""
    return MARK.sub(lambda match: match[1] + tables.get(match[2], match[3]) + match[4], text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a table is stale")
    parser.add_argument("names", nargs="*", help="only these tables (default: all)")
    options = parser.parse_args()
    names = set(options.names) or set(FROM_THE_MODEL | FROM_RUNS)
    stale = []
    made = {match[2] for page in pages() for match in MARK.finditer(page.read_text())} & names
    tables = {
        name: table(name) for name in sorted(made)
    }  # minutes; pages are read only afterwards, since they may change
    for page in pages():
        text = page.read_text()
        new = with_tables(text, tables)
        if new != text:
            stale.append(str(page.relative_to(ROOT)))
            if not options.check:
                page.write_text(new)
    for name in stale:
        print(f"{name} {'is stale: run make docs' if options.check else 'written'}")
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
