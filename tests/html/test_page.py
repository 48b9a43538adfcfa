"""The page says what the JSON says, needs nothing from elsewhere, and takes nobody's words for markup."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from kvmodel.scope import Scope
from kvrace.render.html import page
from kvrace.render.terminal import ReplayCommand
from tests.html.helpers import Element, page_of, parse, result_of

SEED = ("--scope", "seed")
RUNS = {
    "violated": SEED,
    "holds": (*SEED, "--policy", "wait_for_all"),
    "a loop, and a connector to blame": ("--requests", "save", "--contract", "lossy"),
    "cut short": ("--requests", "load_save,load", "--max-states", "70"),
    "cut short before anything": ("--scope", "small", "--max-states", "1"),
    "two properties": (*SEED, "--property", "no-leak,no-crash"),
    "a big pool and shared blocks": ("--requests", "local,local", "--blocks", "12", "--prefix-sharing"),
}


_known: dict[tuple[str, ...], tuple[Element, dict[str, Any]]] = {}


def _checked(kvrace: Any, *arguments: str) -> tuple[Element, dict[str, Any]]:
    """The page and the JSON of one run; several tests look at the same ones."""
    if arguments not in _known:
        shown = kvrace("check", "--subject", "reference", *arguments, "--html", "page.html", "--json", "result.json")
        assert shown.err == ""
        _known[arguments] = parse(Path("page.html").read_text()), json.loads(Path("result.json").read_text())
    return _known[arguments]


@pytest.mark.parametrize("arguments", RUNS.values(), ids=RUNS)
def test_the_page_agrees_with_the_json(kvrace: Any, arguments: tuple[str, ...]) -> None:
    tree, result = _checked(kvrace, *arguments)
    shown = {row.attributes["data-property"]: row.attributes["data-verdict"] for row in tree.all("tr", role="row")[1:]}
    assert shown == result["properties"]
    words = {row.attributes["data-property"]: row.one("b", of="word").text for row in tree.all("tr", role="row")[1:]}
    assert words == result["properties"]
    assert tree.one("h1").text.split()[1] == result["verdict"]
    assert f"{result['states']:,} state" in tree.one("section", of="verdict").text
    assert f"{result['transitions']:,} transition" in tree.one("section", of="verdict").text

    findings = tree.all("article", of="finding")
    reported = sorted(result["violations"], key=lambda violation: len(violation["events"]))
    assert len(findings) == len(reported)
    for article, violation in zip(findings, reported, strict=True):
        assert violation["property"] in article.one("h3").text
        assert article.one("p", of="message").text == " ".join(violation["message"].split())
        moments = article.one("div", of="moments").all("section")
        assert [moment.one("h4").one("code").text for moment in moments[1:]] == violation["events"]
        assert article.one("dl", of="facts").all("code")[-1].text.endswith(violation["trace"])
        assert f"blame {violation['blame']}" in article.one("dl", of="facts").text
        assert bool(article.all("p", of="loop")) == (violation["loop"] is not None)

    rows = tree.one("table", of="cases").one("tbody").all("tr")
    assert len(rows) == len(result["cases"])
    for row, case in zip(rows, result["cases"], strict=True):
        assert [cell.text for cell in row.all("td", of="number")[1:]] == [
            f"{case[k]:,}" for k in ("states", "transitions")
        ]
        assert [cell.one("span", of="unseen").text for cell in row.all("td", of="mark")] == list(
            case["properties"].values()
        )
        assert (case["stopped"] or "exhausted") in row.text


@pytest.mark.parametrize("arguments", RUNS.values(), ids=RUNS)
def test_small_cases_are_drawn_whole_and_large_ones_are_counted(kvrace: Any, arguments: tuple[str, ...]) -> None:
    tree, result = _checked(kvrace, *arguments)
    large = [case["states"] for case in result["cases"] if case["states"] > 120]
    assert ("a picture can show" in tree.text) == bool(large)
    for number, case in enumerate(result["cases"], start=1):
        drawn = tree.all("details", id=f"states-{number}")
        assert bool(drawn) == (case["states"] <= 120)
        if drawn:
            assert len(drawn[0].all("g", of="state")) == case["states"]
            lines = drawn[0].one("div", of="graph").all("path", of="e")
            assert len(lines) == case["transitions"] == len(drawn[0].one("tbody").all("tr"))
            titles = [line.one("title").text for line in lines]
            assert {name for title in titles for name in re.findall(r"; breaks ([a-z-]+):", title)} == {
                name for name, verdict in case["properties"].items() if verdict == "violated"
            }


def test_an_order_is_shown_as_lanes_and_as_a_grid_with_what_is_broken_marked(kvrace: Any) -> None:
    tree, _ = _checked(kvrace, "--requests", "load_save", "--scheduler", "sync", "--property", "no-use-after-free")
    under_a_load = tree.one("article", id="finding-1")
    lanes = [row.text for row in under_a_load.one("table", of="lanes").one("tbody").all("tr")]
    assert lanes == [
        "1 add A free free",
        "2 schedule load A starts A×1 ↓A free",
        "3 abort A keeps A save A starts A×1 ↓A↑A free",
        "4 update, drops A save A done free ↓A ◀broken here free",
    ]
    grid = under_a_load.one("table", of="grid")
    assert [cell.text for cell in grid.all("td", data_event="3")] == ["A×1 ↓ load A writes ↑ save A reads", "free"]
    (broken,) = grid.all("td", of="broken")
    assert broken.attributes["data-event"] == "4"
    assert broken.text == "free ↓ load A writes ◀ broken here"
    state = under_a_load.all("section", data_event="4")[0]
    facts = dict(zip([e.text for e in state.all("dt")], [e.text for e in state.all("dd")], strict=True))
    assert facts["transfers (changed)"] == "load of A in block 1: running"
    assert facts["free, next first (changed)"] == "1, 2"
    assert facts["client sees"] == "A: over, abort sent"


def test_blocks_that_nothing_happens_to_are_left_out_of_a_big_pool(kvrace: Any) -> None:
    tree, _ = _checked(kvrace, "--requests", "load_save", "--blocks", "12", "--property", "no-crash")
    assert tree.all("p", of="legend")[0].text.endswith("not shown: blocks 2-12, free throughout")
    assert [cell.text for cell in tree.all("table", of="lanes")[0].all("th", of="block")] == ["block 1"]


@pytest.mark.parametrize("arguments", RUNS.values(), ids=RUNS)
def test_nothing_comes_from_elsewhere(kvrace: Any, arguments: tuple[str, ...]) -> None:
    tree, _ = _checked(kvrace, *arguments)
    ids = [e.attributes["id"] for e in tree if "id" in e.attributes]
    assert len(ids) == len(set(ids))
    for element in tree:
        assert element.tag not in (
            "link",
            "img",
            "iframe",
            "object",
            "embed",
            "base",
            "form",
            "video",
            "audio",
            "source",
            "use",
        )
        for name, value in element.attributes.items():
            assert not name.startswith("on"), "the policy stops it"
            assert name not in ("style", "src", "srcset", "data", "action", "xlink:href", "background", "poster")
            if name == "href":
                assert value[0] == "#"
                assert value[1:] in ids
            elif name in ("aria-labelledby", "aria-describedby"):
                assert value in ids
            elif "url(" in value:
                assert re.fullmatch(r"url\(#([\w-]+)\)", value)[1] in ids  # type: ignore[index]
    assert "url(" not in tree.one("style").text
    assert "@import" not in tree.one("style").text
    assert not re.search(r"fetch\(|XMLHttpRequest|WebSocket|import\(|https?:|innerHTML|eval\(", tree.one("script").text)


def test_the_policy_allows_the_style_and_the_script_of_the_page_and_nothing_else(kvrace: Any) -> None:
    tree, _ = _checked(kvrace, *SEED)
    policy = tree.one("meta", http_equiv="Content-Security-Policy").attributes["content"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    for name, tag in (("style-src", "style"), ("script-src", "script")):
        (text,) = tree.one(tag).parts
        assert rules[name] == f"'sha256-{base64.b64encode(hashlib.sha256(str(text).encode()).digest()).decode()}'"
    assert set(rules) == {"default-src", "style-src", "script-src", "base-uri", "form-action"}


HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>\"'></style>--> {{ 7 * 7 }} &amp; \u202egnp.exe\x00\ud800 é"
)
SEEN = HOSTILE.replace("\u202e", "").replace("\x00", "").replace("\ud800", "")


def test_nobodys_words_become_markup() -> None:
    result = result_of(Scope(("load_save",)))
    case = result.cases[0]
    identity = case.identity._replace(scheduler=f"mine:{HOSTILE}", version=HOSTILE)
    hostile = []
    for violation in case.violations:
        *frames, last = violation.frames
        if crash := last.response.crash:
            crash = crash._replace(error=HOSTILE, source=HOSTILE, location=HOSTILE)
            last = last._replace(response=last.response._replace(crash=crash))
        tables = ((HOSTILE, ("A",)),)
        last = last._replace(observation=last.observation._replace(tables=tables, phases=(("A", HOSTILE),)))
        hostile.append(replace(violation, message=HOSTILE, location=HOSTILE, identity=identity, frames=(*frames, last)))
    cases = (replace(case, violations=tuple(hostile), identity=identity, stopped=HOSTILE),)
    traces = {violation: Path(HOSTILE) for violation in hostile}
    text = page(replace(result, cases=cases, notes=(HOSTILE,)), [identity], traces, ReplayCommand(HOSTILE, HOSTILE))
    assert text.encode()
    tree, plain = parse(text), parse(page_of(result))
    assert {e.tag for e in tree} - {e.tag for e in plain} == set()
    assert len(tree.all("script")) == 1
    assert tree.all("article")[0].one("p", of="message").text == SEEN
    assert any(SEEN in state.text for state in tree.all("dl", of="state"))
    assert "49" not in tree.one("h1").text
    assert SEEN in tree.one("h1").text


@pytest.mark.slow
@pytest.mark.vllm
def test_the_findings_of_the_real_scheduler(kvrace: Any) -> None:
    assert kvrace("check", "--subject", "vllm", *SEED, "--html", "page.html").status == 1
    tree = parse(Path("page.html").read_text())
    assert tree.one("h1").text.startswith("✗ violated on vllm ")
    shown = {article.one("h3").text.split()[-1] for article in tree.all("article")}
    assert {"no-crash", "no-use-after-free"} <= shown
    crashed = next(a for a in tree.all("article") if "no-crash" in a.one("h3").text)
    assert "vllm/v1/core/sched/scheduler.py" in crashed.one("dl", of="facts").all("code")[0].text
    assert len(crashed.all("td", of="broken")) == 1


def test_two_runs_differ_in_their_seconds_only(kvrace: Any) -> None:
    pages = []
    for _ in range(2):
        kvrace("check", "--subject", "reference", *SEED, "--html", "page.html")
        pages.append(re.sub(r"in [0-9.]+ s\b", "in SECONDS s", Path("page.html").read_text()))
    assert pages[0] == pages[1]


@pytest.mark.parametrize("target", ["missing/page.html", "."])
def test_what_can_not_be_written_is_known_before_anything_is_explored(kvrace: Any, target: str) -> None:
    shown = kvrace("check", "--subject", "reference", *SEED, "--html", target)
    assert shown.status == 2
    assert shown.error_line.startswith("kvrace: --html: ")
    assert not Path("kvrace-traces").exists()


def test_standard_output_is_for_one_report(kvrace: Any) -> None:
    assert kvrace("check", *SEED, "--html", "-").error_line == (
        "kvrace: --html -: only --json is written to standard output; name a file"
    )


def test_the_exit_status_is_the_verdicts(kvrace: Any) -> None:
    assert kvrace("check", "--subject", "reference", *SEED, "--html", "page.html").status == 1
    assert (
        kvrace("check", "--subject", "reference", "--policy", "wait_for_all", *SEED, "--html", "page.html").status == 0
    )


def test_what_the_page_is_made_of_is_part_of_the_package() -> None:
    folder = files("kvrace.render.html") / "templates"
    assert {"page.html", "page.css", "page.js", "finding.html"} <= {file.name for file in folder.iterdir()}


@pytest.mark.slow
def test_the_page_of_the_default_scope_stays_small(kvrace: Any) -> None:
    tree, result = _checked(kvrace, "--scope", "small")
    assert len(result["cases"]) == len(tree.one("table", of="cases").one("tbody").all("tr")) == 28
    assert Path("page.html").stat().st_size < 600_000
