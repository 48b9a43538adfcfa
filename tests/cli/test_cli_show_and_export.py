"""``kvrace show`` and ``kvrace export``: the recorded order again, from its file alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from kvmodel.errors import KvraceError
from kvmodel.playback import Frame
from kvrace.render.mermaid import MAX_EVENTS, mermaid
from kvrace.trace import RecordedTrace, frames_of, read_trace

NO_VLLM = "import sys; sys.modules['vllm'] = None"


def test_show_draws_the_order_from_the_file_alone(kvrace: Any, seed_trace: Path, snapshot: SnapshotAssertion) -> None:
    shown = kvrace("show", seed_trace)
    assert shown.status == 0
    assert shown.screen == snapshot


def test_show_draws_what_replay_draws(kvrace: Any, seed_trace: Path) -> None:
    def lanes(text: str) -> list[str]:
        return [line for line in text.splitlines() if line.startswith("  ")]

    assert lanes(kvrace("show", seed_trace).out) == lanes(kvrace("replay", seed_trace).out)


def test_show_draws_a_part(kvrace: Any, seed_trace: Path, snapshot: SnapshotAssertion) -> None:
    assert kvrace("show", seed_trace, "--until", 2).screen == snapshot


def test_show_and_export_need_no_vllm(start: Callable[..., Popen[str]], seed_trace: Path) -> None:
    text = seed_trace.read_text().replace('"spec": "reference"', '"spec": "mine:Sched"')
    seed_trace.write_text(text)
    for arguments in (["show"], ["export", "--as", "text"], ["export", "--as", "mermaid"]):
        process = start(*arguments, seed_trace, prelude=NO_VLLM)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")
        assert "no-use-after-free" in out
    process = start("show", seed_trace, prelude=NO_VLLM)
    assert process.communicate(timeout=60)[0].splitlines()[-1].endswith("--subject mine:Sched")


def test_a_loop_is_shown_as_one(kvrace: Any) -> None:
    kvrace("check", "--subject", "reference", "--requests", "load", "--scheduler", "sync", "--contract", "lossy",
           "--property", "no-stuck")  # fmt: skip
    (trace,) = Path("kvrace-traces").iterdir()
    assert "repeat for ever" in kvrace("show", trace).out
    assert "    loop for ever" in kvrace("export", trace, "--as", "mermaid").out
    assert re.search(r"^loop: \d+$", kvrace("export", trace, "--as", "text").out, re.M)


@pytest.mark.parametrize("form", ["text", "mermaid"])
def test_exports(kvrace: Any, seed_trace: Path, snapshot: SnapshotAssertion, form: str) -> None:
    shown = kvrace("export", seed_trace, "--as", form)
    assert (shown.status, shown.err) == (0, "")
    assert shown.out == snapshot
    assert kvrace("export", seed_trace, "--as", form, "--output", "out").out == ""
    assert Path("out").read_text() == shown.out


def test_what_cannot_be_exported_is_one_line(kvrace: Any, seed_trace: Path) -> None:
    Path("order.txt").write_text(kvrace("export", seed_trace, "--as", "text").out)
    wrong = {
        ("order.txt", "mermaid"): "order.txt: a text form has no states to draw; 'kvrace replay' plays and shows it",
        ("order.txt", "text"): "order.txt: a text form has no states to draw; 'kvrace replay' plays and shows it",
        (str(seed_trace), "svg"): "unknown form 'svg': use one of text, mermaid, pytest",
    }
    for (path, form), message in wrong.items():
        shown = kvrace("export", path, "--as", form, "--output", "out")
        assert shown.status == 2
        assert shown.error_line == f"kvrace: {message}"
    shown = kvrace("export", seed_trace, "--as", "text", "--output", "missing/out")
    assert shown.status == 2
    assert "--output: there is no folder" in shown.error_line
    assert not Path("out").exists()


def test_a_hostile_state_is_one_line(kvrace: Any, seed_trace: Path) -> None:
    data = json.loads(seed_trace.read_text())
    data["states"][3]["free"] = [{"#bigint": "99"}]
    seed_trace.write_text(json.dumps(data))
    for arguments in (["show"], ["export", "--as", "mermaid"], ["export", "--as", "text"]):
        shown = kvrace(*arguments, seed_trace)
        assert shown.status == 2
        assert shown.error_line == f"kvrace: {seed_trace}: state 3: free, entry 0: 99 is outside 0 to 2"


LABEL = r"(?:[\w ,.:()·×↓↑•≡+/=✗-]|#[0-9]+;)+"
LINES = [
    rf"    title {LABEL}",
    r"    participant (client|scheduler|connector)",
    rf"    (client|scheduler|connector)--?>>(client|scheduler|connector): {LABEL}",
    rf"    Note (over|right of) (scheduler|connector|client,connector): {LABEL}",
]
OPENS = [r"    loop for ever", r"    rect rgb\(255, 215, 215\)"]


def _is_a_diagram(text: str) -> None:
    """A grammar narrower than Mermaid's: known statements, labels without anything Mermaid obeys, groups that close."""
    lines = text.split("\n")
    assert lines[:2] == ["```mermaid", "sequenceDiagram"]
    assert lines[-2:] == ["```", ""]
    assert lines[2].startswith("    title ")
    depth = 0
    for line in lines[2:-2]:
        if any(re.fullmatch(pattern, line) for pattern in OPENS):
            depth += 1
        elif line == "    end":
            depth -= 1
        else:
            assert any(re.fullmatch(pattern, line) for pattern in LINES), line
            label = line.partition(": ")[2] or line.removeprefix("    title ")
            assert not re.search(r"\bend\b|style|classdef", label, re.IGNORECASE), line
        assert depth in (0, 1)
    assert depth == 0


HOSTILE = [
    "end", "END", "a; b", "#quot; #", 'say "hi"', "<script>alert(1)</script>", "```", "%%{init: {}}%%", "one\ntwo", "style x:#;",
    "classDef y:#z;", "loop end end", "a->>b: c", "{}[]|\\&*~`$^@!?'", "\u202e\u2028\x00\x1b[31m", "",
]  # fmt: skip


@pytest.fixture
def recorded(seed_trace: Path) -> tuple[RecordedTrace, tuple[Frame, ...]]:
    trace = read_trace(seed_trace)
    return trace, frames_of(trace)


@pytest.mark.parametrize("message", HOSTILE)
def test_no_message_breaks_a_diagram(recorded: tuple[RecordedTrace, tuple[Frame, ...]], message: str) -> None:
    trace, frames = recorded
    diagram = mermaid(replace(trace, message=message), frames)
    _is_a_diagram(diagram)
    assert mermaid(replace(trace, message=message, loop=1), frames).count("    end") == 1


def test_every_finding_is_a_diagram(kvrace: Any) -> None:
    kvrace("check", "--subject", "reference", "--scope", "seed", "--contract", "unclaimed,duplicate,unsolicited,lossy")
    traces = sorted(Path("kvrace-traces").iterdir())
    assert len(traces) > 5
    for trace in traces:
        _is_a_diagram(kvrace("export", trace, "--as", "mermaid").out)


def test_a_long_order_is_no_diagram(recorded: tuple[RecordedTrace, tuple[Frame, ...]]) -> None:
    trace, frames = recorded
    long = replace(trace, events=trace.events * 20)
    with pytest.raises(KvraceError, match=f"80 events; a diagram has at most {MAX_EVENTS}"):
        mermaid(long, frames)
