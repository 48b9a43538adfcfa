"""The generated tables of README.md and spec/ say what the model and the runs say now."""

from __future__ import annotations

import re

import pytest
from spec.generate import FROM_RUNS, FROM_THE_MODEL, MARK, pages, regenerate


def _names() -> list[str]:
    return [match[2] for page in pages() for match in MARK.finditer(page.read_text())]


def test_every_table_is_used_and_every_used_table_is_made() -> None:
    assert set(_names()) == set(FROM_THE_MODEL | FROM_RUNS)


@pytest.mark.vllm
@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_tables_from_the_model_are_fresh(page) -> None:
    text = page.read_text()
    assert regenerate(text, set(FROM_THE_MODEL)) == text, "stale: run make docs"


@pytest.mark.vllm
@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in pages() if set(FROM_RUNS) & {m[2] for m in MARK.finditer(page.read_text())}],
                         ids=lambda page: page.name)  # fmt: skip
def test_tables_from_runs_are_fresh(page) -> None:
    text = page.read_text()
    assert regenerate(text, set(FROM_RUNS)) == text, "stale: run make docs"


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
