"""The generated tables of README.md and spec/ say what the model and the runs say now."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from spec.generate import CONFORMANCE_SCOPES, FROM_RUNS, FROM_THE_MODEL, MARK, pages, table, with_tables
from spec.known_orders import part, with_release
from spec.runs import of_stock

from kvmodel.contract import EXACTLY_ONCE, MEANINGS
from kvrace.known.orders import ORDERS


def _names() -> list[str]:
    return [match[2] for page in pages() for match in MARK.finditer(page.read_text())]


def _is_fresh(page: Path, names: set[str]) -> None:
    text = page.read_text()
    tables = {match[2]: table(match[2]) for match in MARK.finditer(text) if match[2] in names}
    assert with_tables(text, tables) == text, "stale: run make docs"


def test_every_table_is_used_and_every_used_table_is_made() -> None:
    assert set(_names()) == set(FROM_THE_MODEL | FROM_RUNS)


def test_no_table_is_empty() -> None:
    empty = [match[2] for page in pages() for match in MARK.finditer(page.read_text()) if not match[3].strip()]
    assert empty == [], "make docs"


@pytest.mark.vllm
@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_tables_from_the_model_are_fresh(page) -> None:
    _is_fresh(page, set(FROM_THE_MODEL))


_OF_THE_STOCK_SCHEDULER = {"findings", "orders", "conformance"}
"""These tables share their runs, with each other and with the file of known orders."""
_ROW_BY_ROW = {"fixed", "tours"}
"""In tests/real/test_fixed.py and tests/cli/test_cli_suite.py."""
_SECONDS = {"single": 20, "unclaimed": 60, "duplicate": 70, "unsolicited": 50, "lossy": 60, "stops": 60, "priority": 60}
_RUNS = [*(("small", contract) for contract in MEANINGS), *((name, EXACTLY_ONCE) for name in CONFORMANCE_SCOPES[1:])]


@pytest.mark.vllm
@pytest.mark.parametrize(
    ("scope", "contract"),
    [pytest.param(*run, marks=pytest.mark.slow(max(_SECONDS.get(word, 35) for word in run))) for run in _RUNS],
)
def test_the_stock_scheduler_is_exhausted_and_does_what_policy_assert_does(scope: str, contract: str) -> None:
    """Each run on its own, so that processes share them. The tables below, and tests elsewhere, are made from the same runs."""
    result = of_stock(scope, contract)
    assert result.complete
    if contract == EXACTLY_ONCE:
        assert result.conformance is not None and result.conformance.judged == result.transitions
        assert result.conformance.divergences == ()


@pytest.mark.vllm
@pytest.mark.slow
def test_tables_from_runs_of_the_stock_scheduler_are_fresh() -> None:
    for page in pages():
        _is_fresh(page, _OF_THE_STOCK_SCHEDULER)


@pytest.mark.vllm
@pytest.mark.slow
def test_the_known_orders_are_fresh() -> None:
    assert with_release(part()) == ORDERS.read_text(), "stale: python -m spec.known_orders"


_PAGES = {"diff.md": 170, "proofs.md": 70, "mutants.md": 30}


def _other_runs() -> list[Any]:
    """The pages with tables from other runs; one of them needs Spin."""
    made = {page: {match[2] for match in MARK.finditer(page.read_text())} for page in pages()}
    marks = {
        page: [pytest.mark.slow(_PAGES.get(page.name, 0)), *([pytest.mark.spin] if "agreement" in names else [])]
        for page, names in made.items()
    }
    others = set(FROM_RUNS) - _OF_THE_STOCK_SCHEDULER - _ROW_BY_ROW
    return [pytest.param(page, id=page.name, marks=marks[page]) for page, names in made.items() if names & others]


@pytest.mark.vllm
@pytest.mark.parametrize("page", _other_runs())
def test_tables_from_other_runs_are_fresh(page: Path) -> None:
    _is_fresh(page, set(FROM_RUNS) - _OF_THE_STOCK_SCHEDULER - _ROW_BY_ROW)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
