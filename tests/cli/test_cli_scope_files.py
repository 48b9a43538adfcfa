"""Scopes in a file of one's own: ``--scope FILE.toml``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

POLICY = ("--subject", "reference", "--policy", "skip")


def _file(text: str) -> str:
    Path("mine.toml").write_text(text)
    return "mine.toml"


def _result(kvrace: Any, *arguments: str) -> dict[str, Any]:
    kvrace("check", *POLICY, *arguments, "--json", "result.json")
    result: dict[str, Any] = json.loads(Path("result.json").read_text())
    return result


def test_a_case_is_explored_in_both_ways_of_scheduling_or_in_the_one_it_names(kvrace: Any) -> None:
    name = _file(
        """
        [[case]]
        requests = ["load_save"]
        [[case]]
        requests = ["load"]
        scheduling = "async"
        """,
    )
    result = _result(kvrace, "--scope", name)
    cases = [(case["scope"]["requests"], case["scope"]["scheduling"]) for case in result["cases"]]
    assert cases == [(["load_save"], "sync"), (["load_save"], "async"), (["load"], "async")]
    assert result["scope"] == {"name": "mine.toml", "cases": 3}
    assert result["properties"]["no-use-after-free"] == "violated"


def test_a_file_and_the_same_options_are_the_same_scope(kvrace: Any) -> None:
    name = _file('requests = ["load_save", "local"]\nblocks = 3\nearly_stop = true\n')
    of_file = _result(kvrace, "--scope", name)
    of_options = _result(kvrace, "--requests", "load_save,local", "--blocks", "3", "--early-stop")
    assert [case["states"] for case in of_file["cases"]] == [case["states"] for case in of_options["cases"]]
    assert of_file["violations"] and [v["events"] for v in of_file["violations"]] == [
        v["events"] for v in of_options["violations"]
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("requests = [", "is not a scope file (TOML)"),
        ("blocks = 3", "the scope has no requests"),
        ('requests = ["load"]\nsize = 3', "the scope has an unknown field 'size'"),
        ('requests = ["loud"]', "unknown request kind 'loud'"),
        ('requests = ["load"]\nscheduling = "often"', "unknown scheduler 'often'"),
        ('requests = ["load"]\nscheduling = 3', "the scope's scheduling is not sync or async"),
        (
            '[[case]]\nrequests = ["load"]\n[[case]]\nrequests = ["load"]\nblocks = "many"',
            "mine.toml, case 2: the scope's",
        ),
        ("case = 3", "'case' is not a list of tables"),
        ("case = []", "0 cases; a file has 1 to 1000"),
        ("x = " + "[" * 5000, "is not a scope file (TOML)"),
        ("#" * 70_000, "is longer than 65536 bytes"),
        ('requests = ["load"]\nblocks = ' + "1" * 60_000, "is not a scope file (TOML)"),
        (
            'requests = ["load"]\nblocks = 0x' + "f" * 60_000,
            "blocks: a number of hundreds of digits is outside 1 to 128",
        ),
    ],
)
def test_a_bad_file_is_one_line(kvrace: Any, text: str, complaint: str) -> None:
    run = kvrace("check", *POLICY, "--scope", _file(text))
    assert run.status == 2 and complaint in run.error_line and "mine.toml" in run.error_line


def test_a_file_that_is_not_there(kvrace: Any) -> None:
    run = kvrace("check", *POLICY, "--scope", "none.toml")
    assert run.status == 2
    assert run.error_line == "kvrace: cannot read the scope file none.toml: No such file or directory"


def test_a_file_with_no_case_for_the_scheduler_that_is_asked_for(kvrace: Any) -> None:
    name = _file('\ufeffrequests = ["load"]\nscheduling = "async"')
    run = kvrace("check", *POLICY, "--scope", name, "--scheduler", "sync")
    assert run.status == 2
    assert run.error_line == "kvrace: no case of the scope has sync scheduling, and reference is to play no other"
