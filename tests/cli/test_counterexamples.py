"""The orders kept in tests/counterexamples still do what is written beneath their events.

After a change that is meant, ``kvrace replay --rewrite tests/counterexamples/*.txt`` writes what happens now; the difference is
then read like any other.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvrace.replay import EXIT_CODES
from kvrace.textform import FINDING_FIELDS, SUBJECT_FIELDS
from kvrace.trace_states import VARIABLES

FOLDER = Path(__file__).resolve().parent.parent / "counterexamples"
PAGE = FOLDER.parent.parent / "spec" / "traces.md"
ORDERS = sorted(FOLDER.glob("*.txt"))
ON_VLLM = [path for path in ORDERS if path.name.startswith("vllm-")]
ON_THE_REFERENCE = [path for path in ORDERS if path not in ON_VLLM]


def _is_as_written(shown: Any, path: Path) -> None:
    holds = "\nproperty: none\n" in path.read_text()
    assert "✓ as written, beneath all" in shown.out, shown.out
    assert ("✓ still holds" if holds else "✗ still failing") in shown.out
    assert shown.status == (0 if holds else 1)


def test_there_are_orders() -> None:
    assert len(ON_VLLM) >= 8 and len(ON_THE_REFERENCE) >= 16


@pytest.mark.parametrize("path", ON_THE_REFERENCE, ids=lambda path: path.stem)
def test_on_the_reference_scheduler(kvrace: Any, path: Path) -> None:
    _is_as_written(kvrace("replay", path), path)


@pytest.mark.vllm
@pytest.mark.parametrize("path", ON_VLLM, ids=lambda path: path.stem)
def test_on_vllm(kvrace: Any, path: Path) -> None:
    _is_as_written(kvrace("replay", path), path)


def test_rewriting_them_changes_nothing(kvrace: Any, tmp_path: Path) -> None:
    copies = [tmp_path / path.name for path in ON_THE_REFERENCE]
    for path, copy in zip(ON_THE_REFERENCE, copies, strict=True):
        copy.write_bytes(path.read_bytes())
    shown = kvrace("replay", "--rewrite", *copies)
    assert shown.status == 0
    for path, copy in zip(ON_THE_REFERENCE, copies, strict=True):
        assert copy.read_text() == path.read_text()


def test_the_page_on_traces_names_everything() -> None:
    page = PAGE.read_text()
    for name in (*VARIABLES, *FINDING_FIELDS, *SUBJECT_FIELDS):
        assert f"`{name}`" in page, name
    for outcome, status in EXIT_CODES.items():
        assert f"| {outcome} | {status} |" in page
    example = page.split("```text\n")[1].split("```")[0]
    assert example in [path.read_text() for path in ORDERS]


def test_the_order_on_the_page_can_be_filled_in(kvrace: Any) -> None:
    Path("idea.txt").write_text(PAGE.read_text().split("```text\n")[2].split("```")[0])
    assert kvrace("replay", "--rewrite", "idea.txt").status == 0
    assert "✓ as written, beneath all 3 events" in kvrace("replay", "idea.txt").out
