"""The known-answer set (spec/known-answers.md): reported bugs are found where they are known to be, and not where they were mended.

Each release is played in a process of its own. What is found there is replayed from its trace file, and by the exported test that
knows nothing of kvrace.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from spec.known_answers.__main__ import played_apart
from spec.known_answers.expected import Answer, answers
from spec.known_answers.exported import export, run_without_kvrace
from spec.known_answers.table import measured
from spec.known_answers.write_ups import exported, write_ups

from kvrace.lab.catalogue import catalogue
from kvrace.trace import read_trace
from tests.reproducers.helpers import shows

ROOT = Path(__file__).resolve().parents[2]
NEWEST = catalogue()[-1].version


WRITTEN = [name for one in write_ups() for name in one.answers]


def _asked_of(version: str) -> list[Answer]:
    return [answer for answer in answers() if version in answer.pair]


RELEASES = sorted({version for answer in answers() for version in answer.pair})


@pytest.mark.vllm
@pytest.mark.slow(25)
@pytest.mark.parametrize("version", RELEASES)
def test_a_release_answers_as_it_is_known_to(version: str, tmp_path: Path) -> None:
    asked = _asked_of(version)
    said = played_apart(version, [answer.id for answer in asked], tmp_path)
    wrong = {answer.id: said[answer.id] for answer in asked if said[answer.id]["verdict"] != _expected(answer, version)}
    assert wrong == {}
    assert {name: _lasting(one) for name, one in said.items()} == {
        answer.id: _lasting(measured()[version][answer.id]) for answer in asked
    }
    traces = {name: one["trace"] for name, one in said.items() if one["verdict"] == "violated"}
    assert {said[name]["replayed"] for name in traces} <= {"still failing"}
    if traces:
        assert export(traces, tmp_path) == {}
        failed = run_without_kvrace(version, tmp_path, list(traces))
        assert [(n, failed[n]) for n, trace in traces.items() if not shows(failed[n], read_trace(Path(trace)))] == []


def _expected(answer: Answer, version: str) -> str:
    return "violated" if version == answer.has_it[1] else "holds"


def _lasting(one: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in one.items() if name not in ("trace", "replayed")}


@cache
def _order_of_releases() -> list[str]:
    return [release.version for release in catalogue()]


@pytest.mark.parametrize("answer", answers(), ids=lambda answer: answer.id)
def test_the_measured_verdicts_are_the_expected_ones(answer: Answer) -> None:
    """Cheap, from the file alone: found on the first and the last release that has it and wherever it can be asked between them,
    clean from the release in which it is gone."""
    order = _order_of_releases()
    first, last = map(order.index, answer.has_it)
    for number, version in enumerate(order):
        verdict = measured()[version][answer.id]["verdict"]
        if number == last:
            assert verdict == "violated"
        elif first <= number < last:
            assert verdict in ("violated", "differently"), version
        elif number > last:
            assert answer.gone_in is not None and verdict == "holds", version
    if answer.gone_in is not None:
        assert order.index(answer.gone_in) == last + 1
    else:
        assert answer.has_it[1] == NEWEST


def test_every_release_of_the_lab_was_asked() -> None:
    assert list(measured()) == [release.version for release in catalogue() if not release.cannot]


@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_written_up_was_seen_without_kvrace(name: str) -> None:
    (answer,) = (answer for answer in answers() if answer.id == name)
    expected = {answer.has_it[1]: "fails", **({answer.gone_in: "passes"} if answer.gone_in else {})}
    assert exported()[name] == expected


def test_what_is_written_up_has_its_heading() -> None:
    lines = (ROOT / "spec" / "findings.md").read_text(encoding="utf-8").splitlines()
    assert [one.title for one in write_ups() if not {f"## {one.title}", f"### {one.title}"}.intersection(lines)] == []
