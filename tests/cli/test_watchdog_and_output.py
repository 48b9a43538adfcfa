"""What guards the command line: a watchdog over every call of a subject, and output that a terminal does not obey."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text

from kvmodel.errors import KvraceError
from kvmodel.events import Schedule
from kvmodel.port import SubjectHang
from kvmodel.scope import Scope
from kvrace.cli.program import program
from kvrace.reference.subject import ReferenceSubject
from kvrace.render.output import Output
from kvrace.watchdog import ending, watched

SCOPE = Scope(("local",))


class _Subject:
    """Does one thing, whatever it is asked."""

    scope = SCOPE

    def __init__(self, act: Any) -> None:
        self.act = act

    def start(self) -> None:
        self.act()

    def observe(self) -> Any:
        return self.act()

    def capture(self, names: dict[int, int]) -> Any:
        return self.act()

    def restore(self, snapshot: object) -> None:
        self.act()


def _hang() -> None:
    while True:
        pass


def _leave() -> None:
    raise GeneratorExit


CALLS: dict[str, Any] = {
    "start": lambda subject: subject.start(),
    "observe": lambda subject: subject.observe(),
    "capture": lambda subject: subject.capture({}),
    "restore": lambda subject: subject.restore(None),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_is_no_entry_point_may_not_hang(call: str) -> None:
    with pytest.raises(KvraceError, match="did not come back within 0.1 s"), watched(_Subject(_hang), 0.1) as subject:  # type: ignore[arg-type]
        CALLS[call](subject)


@pytest.mark.parametrize("call", CALLS)
def test_nor_raise_what_is_no_error(call: str) -> None:
    with pytest.raises(KvraceError, match="raised GeneratorExit"), watched(_Subject(_leave), 1.0) as subject:  # type: ignore[arg-type]
        CALLS[call](subject)


def test_making_a_subject_may_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvrace.watchdog._MAKING_SECONDS", 0.2)
    with pytest.raises(KvraceError, match="making the scheduler did not come back within 0.2 s"):
        ending(lambda _: _hang(), 0.1)(SCOPE)  # type: ignore[arg-type,return-value,func-returns-value]
    with pytest.raises(KvraceError, match="making the scheduler raised SystemExit: 0"):
        ending(lambda _: sys.exit(0), 0.1)(SCOPE)


@pytest.mark.parametrize("hidden", ["\x1b]0;owned\x07", "\u202e", "\u200b", "\x9b31m", "\u2028"])
def test_a_report_never_contains_what_a_terminal_obeys(hidden: str) -> None:
    stream = io.StringIO()
    Output(stream, color=False).print(Text(f"before{hidden}after"), "plain")
    shown = stream.getvalue()
    assert shown.replace("\n", "").isprintable()
    assert shown.startswith("before")
    assert shown.endswith("after\nplain\n")


def test_the_printed_command_can_be_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "my env" / "bin" / "kvrace"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(script)])
    monkeypatch.setenv("PATH", "/usr/bin")
    assert program() == "'my env/bin/kvrace'"
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert program() == f"'{script}'"
    monkeypatch.chdir(script.parent)
    assert program() == f"'{script}'"
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}/usr/bin")
    assert program() == "kvrace"
    monkeypatch.setattr(sys, "argv", ["/somewhere/kvrace/__main__.py"])
    assert program().endswith(" -m kvrace")


def test_of_several_open_subjects_each_is_watched() -> None:
    """The outer one also after an inner one was opened and closed."""

    class Hangs(ReferenceSubject):
        def apply(self, event: Any, script: Any) -> Any:
            while True:
                pass

    scope = Scope(("local",))
    with watched(Hangs(scope), 0.5) as outer:
        with watched(ReferenceSubject(scope), 0.5) as inner:
            inner.start()
            with pytest.raises(SubjectHang):
                outer.apply(Schedule(), {})
        with pytest.raises(SubjectHang):
            outer.apply(Schedule(), {})
