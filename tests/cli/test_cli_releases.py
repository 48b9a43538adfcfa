"""``kvrace matrix releases`` and ``kvrace bisect``: what is refused before any release is looked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("matrix", "releases", "--release", "../evil"), "'../evil' is not a version of vLLM"),
        (("matrix", "releases", "--jobs", "0"), "--jobs 0: must be 1 or more"),
        (("matrix", "releases", "--contract", "kind"), "unknown"),
        (("matrix", "releases", "--scope", "vast"), "unknown scope 'vast'"),
        (("matrix", "releases", "--time-limit", "0"), "--time-limit 0: must be more than 0 seconds"),
        (("matrix", "releases", "--html", "nowhere/page.html"), "--html: there is no folder "),
        (("bisect", "--finding", "f000000"), "nothing in kvrace-matrix has a finding f000000 over seed"),
        (("matrix", "releases", "--results", "file"), "--results: cannot make file"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    kvrace: Any, arguments: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KVRACE_CACHE", str(tmp_path / "cache"))
    Path("file").write_text("")
    finished = kvrace(*arguments)
    assert finished.status == 2
    assert said in finished.error_line
    assert not Path("kvrace-matrix").exists()
