"""The text form of an order: played, compared with what is written beneath its events, and rewritten."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

HAND_WRITTEN = """\
format: kvrace-text 1
# What a client that goes away at once leaves behind.
subject: reference
policy: wait_for_all
requests: load_save,local
blocks: 3

add A
# the load begins here
schedule

    # and this is the abort
abort A
"""


@pytest.fixture
def order(kvrace: Any, seed_trace: Path) -> Path:
    """The seed order as text."""
    path = Path("order.txt")
    assert kvrace("export", seed_trace, "--as", "text", "--output", path).status == 0
    return path


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_text_is_played_and_compared(kvrace: Any, order: Path) -> None:
    shown = kvrace("replay", order)
    assert shown.status == 1
    assert "✗ still failing: no-use-after-free (scheduler)" in shown.out
    assert shown.out.rstrip().endswith("✓ as written, beneath all 4 events")


def test_what_happens_otherwise_is_a_diff(kvrace: Any, order: Path, snapshot: SnapshotAssertion) -> None:
    shown = kvrace("replay", order, "--policy", "wait_for_all")
    assert shown.status == 1
    assert shown.screen == snapshot
    assert "2 files: 2 fixed, 2 written otherwise" in kvrace("replay", order, order, "--policy", "wait_for_all").out


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    phases: A HELD\n", ""),
        ("    phases: A HELD\n", "    phases: A HELD\n    and: more\n"),
        ("free: 1 2", "free: 2 1"),
        ("block 1 is in the pool while the load of A still writes there\n", "all is well\n"),
    ],
)
def test_every_line_counts(kvrace: Any, order: Path, old: str, new: str) -> None:
    lines = order.read_text().partition("add A\n")
    order.write_text(lines[0] + lines[1] + lines[2].replace(old, new))
    shown = kvrace("replay", order)
    assert shown.status == 1
    assert "✗ written otherwise: 1 of 4 events" in shown.out


def test_line_numbers_of_source_files_do_not_count(kvrace: Any) -> None:
    kvrace("check", "--subject", "reference", "--scope", "seed", "--property", "no-crash")
    trace = min(Path("kvrace-traces").iterdir(), key=lambda path: path.stat().st_size)
    text = kvrace("export", trace, "--as", "text").out
    assert "policies.py:" in text
    Path("order.txt").write_text(text.replace("policies.py:", "policies.py:9"))
    before = Path("order.txt").read_bytes()
    shown = kvrace("replay", "order.txt")
    assert "✗ still failing: no-crash" in shown.out
    assert "✓ as written" in shown.out
    assert "order.txt is as written" in kvrace("replay", "--rewrite", "order.txt").out
    assert Path("order.txt").read_bytes() == before


def test_a_loop_is_kept_while_it_loops(kvrace: Any) -> None:
    kvrace("check", "--subject", "reference", "--requests", "load", "--scheduler", "sync", "--contract", "lossy",
           "--property", "no-stuck")  # fmt: skip
    (trace,) = Path("kvrace-traces").iterdir()
    order = Path("order.txt")
    kvrace("export", trace, "--as", "text", "--output", order)
    shown = kvrace("replay", order)
    assert "✗ still failing: no-stuck (connector): left alone, A is never over" in shown.out
    assert "✓ as written" in shown.out
    text = order.read_text()
    _replace(order, "    engine: busy\n", "")
    assert "order.txt is rewritten" in kvrace("replay", "--rewrite", order).out
    assert order.read_text() == text
    order.write_text(text.replace("\nloop: 3\n", "\nloop: 1\n"))
    assert "\nloop: 3\n" in text
    assert "✓ fixed" in kvrace("replay", order).out
    assert kvrace("replay", "--rewrite", order).status == 0
    assert "property: none\n" in order.read_text() and "loop" not in order.read_text()


def test_what_comes_after_a_crash_is_not_played(kvrace: Any) -> None:
    order = Path("order.txt")
    order.write_text(
        "format: kvrace-text 1\nsubject: reference\npolicy: wait_for_all\nrequests: load_save\n"
        "add A\nschedule\nabort A\nupdate load:A save:A\nschedule\nupdate\n"
    )
    assert "✓ still holds" in kvrace("replay", "--rewrite", order).out
    before = order.read_bytes()
    shown = kvrace("replay", order, "--policy", "assert")
    assert shown.status == 1
    assert "✗ newly failing: no-crash" in shown.out
    assert "✗ written otherwise: 1 of 4 events played\n" in shown.out
    _replace(order, "policy: wait_for_all", "policy: assert")
    before = order.read_bytes()
    shown = kvrace("replay", "--rewrite", order)
    assert shown.status == 3
    assert "order.txt is left as it is: event 5 'schedule' cannot be played" in shown.out
    assert order.read_bytes() == before


def test_rewriting_accepts_what_happens_now(kvrace: Any, order: Path) -> None:
    before = order.read_text()
    shown = kvrace("replay", "--rewrite", order)
    assert (shown.status, order.read_text()) == (0, before)
    assert "order.txt is as written" in shown.out
    _replace(order, "policy: skip", "policy: wait_for_all")
    shown = kvrace("replay", "--rewrite", order)
    assert shown.status == 0
    assert "order.txt is rewritten" in shown.out
    text = order.read_text()
    assert "property: none\n" in text and "policy: wait_for_all\n" in text
    assert "message" not in text and "shape" not in text
    shown = kvrace("replay", order)
    assert shown.status == 0
    assert "✓ still holds: all 4 events were played and nothing is violated\n✓ as written" in shown.out
    shown = kvrace("replay", order, "--policy", "skip")
    assert shown.status == 1
    assert "✗ newly failing: no-use-after-free" in shown.out
    _replace(order, "policy: wait_for_all", "policy: skip")
    assert kvrace("replay", "--rewrite", order).status == 0
    assert sorted(order.read_text().splitlines()) == sorted(before.splitlines())


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        (["--policy", "assert"], "change its 'policy:' line or leave out --policy"),
        (["--subject", "vllm"], "change its 'subject:' line or leave out --subject"),
    ],
)
def test_rewriting_keeps_the_recorded_scheduler(kvrace: Any, order: Path, options: list[str], hint: str) -> None:
    before = order.read_bytes()
    shown = kvrace("replay", "--rewrite", *options, order)
    assert shown.status == 2
    assert shown.error_line == f"kvrace: order.txt: --rewrite keeps the scheduler a text was recorded on; {hint}"
    assert order.read_bytes() == before
    assert kvrace("replay", "--rewrite", "--subject", "reference", "--policy", "skip", order).status == 0


def test_what_nobody_recorded_is_rewritten_on_any_scheduler(kvrace: Any) -> None:
    path = Path("hand.txt")
    path.write_text(HAND_WRITTEN.replace("subject: reference\npolicy: wait_for_all\n", ""))
    assert kvrace("replay", "--rewrite", "--subject", "reference", "--policy", "skip", path).status == 0
    assert "subject: reference\npolicy: skip\n" in path.read_text()


def test_line_ends_of_windows_and_a_byte_order_mark(kvrace: Any, order: Path) -> None:
    text = order.read_bytes()
    order.write_bytes(b"\xef\xbb\xbf" + text.replace(b"    phases: A HELD\n", b"").replace(b"\n", b"\r\n"))
    shown = kvrace("replay", order)
    assert shown.status == 1
    assert "✗ written otherwise: 1 of 4 events; --rewrite" in shown.out
    assert kvrace("replay", "--rewrite", order).status == 0
    assert order.read_bytes() == text


def test_an_error_of_the_scheduler_names_the_file(kvrace: Any, order: Path) -> None:
    path = Path("budget.txt")
    path.write_text("format: kvrace-text 1\nsubject: reference\nrequests: local\ntoken_budget: 4\nadd A\n")
    alone, among = kvrace("replay", path), kvrace("replay", order, path)
    assert (alone.status, among.status) == (2, 2)
    assert alone.error_line.startswith("kvrace: the reference scheduler has no token budget")
    assert "kvrace: budget.txt: the reference scheduler has no token budget" in among.err


def test_one_event_is_not_called_all(kvrace: Any) -> None:
    path = Path("one.txt")
    path.write_text("format: kvrace-text 1\nsubject: reference\nrequests: local\nadd A\n")
    assert "✓ still holds: the event was played and nothing is violated\n" in kvrace("replay", path).out
    assert kvrace("replay", "--rewrite", path).status == 0
    assert "✓ as written, beneath the event\n" in kvrace("replay", path).out


def test_events_alone_are_a_text(kvrace: Any, snapshot: SnapshotAssertion) -> None:
    path = Path("hand.txt")
    path.write_text(HAND_WRITTEN)
    shown = kvrace("replay", path)
    assert shown.status == 0
    assert shown.screen == snapshot
    assert kvrace("replay", "--rewrite", path).status == 0
    assert path.read_text() == snapshot
    rewritten = path.read_text()
    assert [line for line in rewritten.splitlines() if "#" in line] == [
        line for line in HAND_WRITTEN.splitlines() if "#" in line
    ]
    assert "✓ as written, beneath all 3 events" in kvrace("replay", path).out
    assert "hand.txt is as written" in kvrace("replay", "--rewrite", path).out
    assert path.read_text() == rewritten


def test_notes_stay_where_they_are(kvrace: Any, order: Path) -> None:
    _replace(order, "    phases: A HELD\n", "    phases: A DOZING\n")
    _replace(order, "    phases: A WAITING\n", "# first\n    phases: A WAITING\n    # second\n")
    _replace(order, "abort A\n", "\n# third\nabort A\n    # fourth\n")
    order.write_text(order.read_text() + "\n# the end\n\n")
    noted = order.read_text()
    assert kvrace("replay", "--rewrite", order).status == 0
    rewritten = order.read_text()
    assert sorted(rewritten.splitlines()) == sorted(noted.replace("A DOZING", "A HELD").splitlines())
    assert rewritten.endswith("\n# the end\n\n")
    assert "\n# third\nabort A\n    # fourth\n    scheduler: keeps A\n" in rewritten
    assert kvrace("replay", "--rewrite", order).status == 0
    assert order.read_text() == rewritten


def test_a_prefix_of_a_text_is_compared(kvrace: Any, order: Path) -> None:
    shown = kvrace("replay", order, "--until", 2)
    assert shown.status == 3
    assert shown.out.rstrip().endswith("✓ as written, beneath all 2 events played")
    _replace(order, "    phases: A WAITING\n", "")
    shown = kvrace("replay", order, "--until", 1)
    assert shown.status == 1
    assert "? nothing yet: the first of 4 events was played, and" in shown.out
    assert shown.out.rstrip().endswith("✗ written otherwise: 1 of 1 event played")
    assert kvrace("replay", order, "--until", 2, "--rewrite").error_line.endswith("leave out --until")


def test_what_diverges_is_not_rewritten(kvrace: Any, order: Path) -> None:
    _replace(order, "abort A\n", "update save:A\n")
    _replace(order, "\nupdate save:A\n    scheduler: update, drops A\n", "\nschedule\n    scheduler: update, drops A\n")
    before = order.read_bytes()
    shown = kvrace("replay", "--rewrite", order)
    assert shown.status == 3
    assert "order.txt is left as it is: event 3 'update save:A' cannot be played" in shown.out
    shown = kvrace("replay", order)
    assert shown.status == 3
    assert "? diverged at event 3" in shown.out
    assert shown.out.rstrip().endswith("✓ as written, beneath all 2 events played")
    _replace(order, "    phases: A WAITING\n", "")
    before = order.read_bytes()
    shown = kvrace("replay", order)
    assert shown.status == 3
    assert shown.out.rstrip().endswith("✗ written otherwise: 1 of 2 events played")
    assert order.read_bytes() == before


def test_only_texts_are_rewritten(kvrace: Any, order: Path, seed_trace: Path) -> None:
    before = order.read_bytes(), seed_trace.read_bytes()
    shown = kvrace("replay", "--rewrite", order, seed_trace)
    assert shown.status == 2
    assert "not a text form, and only these are rewritten" in shown.error_line
    assert (order.read_bytes(), seed_trace.read_bytes()) == before


def test_a_folder_without_leave_to_write_is_one_line(kvrace: Any, order: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    _replace(order, "policy: skip", "policy: wait_for_all")
    before = order.read_bytes()
    monkeypatch.setattr("os.replace", full)
    shown = kvrace("replay", "--rewrite", order)
    assert shown.status == 2
    assert "kvrace: cannot write order.txt: No space left on device" in shown.err
    assert order.read_bytes() == before
    assert sorted(os.listdir()) == ["kvrace-traces", "order.txt"]


def test_a_text_does_not_choose_what_is_imported(kvrace: Any, order: Path) -> None:
    Path("evil.py").write_text("open('was-imported', 'w')")
    _replace(order, "subject: reference\npolicy: skip\n", "subject: evil:Scheduler\n")
    shown = kvrace("replay", order)
    assert shown.status == 2
    assert "add --subject evil:Scheduler (or another) to play it" in shown.error_line
    assert not Path("was-imported").exists()


FORMAT = "format: kvrace-text 1\n"
GOOD = FORMAT + "subject: reference\nrequests: load\n"
HOSTILE: dict[str, tuple[str | bytes, str]] = {
    "a later version": ("format: kvrace-text 2\n", "line 1: 'format: kvrace-text 2'; this kvrace reads 'format: kvrace-text 1'"),
    "lone carriage returns": (GOOD.replace("1\n", "1\r\r\n"), "line 1: 'format: kvrace-text 1\\r'; this kvrace reads"),
    "nothing else": (FORMAT, "there is no field requests"),
    "no event": (GOOD, "there is no event"),
    "not UTF-8": (GOOD.encode() + b"# \xff\n", "not UTF-8: byte 58"),
    "escape codes": (GOOD + "# \x1b[2J\n", "line 4: unprintable characters"),
    "a tab": (GOOD + "add A\n\tphases: none\n", "line 5: unprintable characters (a tab, a carriage return?)"),
    "a long line": (GOOD + "#" * 2000, "line 4: longer than 1204 characters"),
    "many lines": (GOOD + "\n" * 50_000, "50003 lines; at most 40000 are read"),
    "many events": (GOOD + "schedule\n" * 1001, "line 1004: at most 1000 events are played"),
    "an unknown field": (GOOD + "hook: rm -rf /\nadd A\n", "line 4: unknown field 'hook': use one of property, blame,"),
    "a field twice": (GOOD + "requests: save\nadd A\n", "line 4: requests was already given in line 3"),
    "a field after an event": (GOOD + "add A\nblocks: 3\n", "line 5: 'blocks: 3' is not an event"),
    "a field without a value": (GOOD + "policy: \nadd A\n", "line 4: 'policy: ' is not an event"),
    "a long value": (GOOD + f"message: {'x' * 1100}\nadd A\n", "line 4: message is longer than 1000 characters"),
    "code as an event": (GOOD + "__import__('os')\n", "line 4: \"__import__('os')\" is not an event"),
    "an event in other words": (GOOD + "add  A\n", "line 4: write this event as 'add A'"),
    "reports in another order": (GOOD + "update save:A load:A\n", "line 4: write this event as 'update load:A save:A'"),
    "a word twice": (GOOD + "update stop:A stop:A\n", "line 4: event 'update stop:A stop:A': 'stop:A' is there twice"),
    "two spaces": (GOOD + "add A\n  phases: none\n", "line 5: what happens is indented by 4 spaces, no more and no less"),
    "six spaces": (GOOD + "add A\n      phases: none\n", "line 5: what happens is indented by 4 spaces, no more and no less"),
    "beneath a field": (GOOD + "    phases: none\nadd A\n", "line 4: an indented line stands beneath an event"),
    "an unknown property": (GOOD + "property: no-bugs\nadd A\n", "line 4: unknown property 'no-bugs': use one of none, no-crash"),
    "an unknown blame": (GOOD + "property: no-crash\nblame: you\nadd A\n", "line 5: unknown blame 'you': use one of scheduler"),
    "a message without a property": (GOOD + "message: m\nadd A\n", "line 4: message goes with a property, and none is named"),
    "an unknown contract": (GOOD + "contract: polite\nadd A\n", "line 4: unknown contract 'polite'"),
    "a loop that is text": (GOOD + "property: no-stuck\nloop: x\nadd A\n", "line 5: loop is not the number of an event"),
    "a loop beyond the end": (GOOD + "property: no-stuck\nloop: 1\nadd A\n", "line 5: loop is not the number of an event"),
    "nobody": (GOOD + "recorded on: me\nadd A\n", "line 4: recorded on: write it as 'name version: scheduler'"),
    "an unknown kind": (FORMAT + "requests: prefill\nadd A\n", "unknown request kind 'prefill'"),
    "a number that is none": (GOOD + "blocks: many\nadd A\n", "line 4: blocks: 'many' is no value"),
    "a number that is a table": (GOOD + "blocks: {}\nadd A\n", "the scope's blocks is not a number"),
    "a huge number": (GOOD + f"blocks: {'9' * 900}\nadd A\n", "blocks: a number of hundreds of digits is outside 1 to 128"),
    "nested deeply": (GOOD + f"blocks: {'[' * 900}\nadd A\n", "line 4: blocks: '[[["),
    "an impossible order": (GOOD + "add A\nupdate\n", "event 2 'update': no step is in flight; no scheduler can play this order"),
    "a policy of nobody": (FORMAT + "requests: load\npolicy: skip\nadd A\n", "line 3: policy goes with 'subject: reference'"),
    "an unknown policy": (GOOD + "policy: hope\nadd A\n", "hope"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_is_one_line(kvrace: Any, name: str) -> None:
    content, expected = HOSTILE[name]
    path = Path("hostile.txt")
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    before = path.read_bytes()
    for arguments in (["replay"], ["replay", "--rewrite"]):
        shown = kvrace(*arguments, path)
        assert shown.status == 2
        assert expected in shown.error_line
        assert len(shown.error_line) < 620
    assert path.read_bytes() == before
    assert os.listdir() == ["hostile.txt"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_text_is_never_a_fault_of_kvrace(kvrace: Any, order: Path, seed: int) -> None:
    import random

    choice = random.Random(seed)
    raw = bytearray(order.read_bytes())
    for _ in range(choice.randrange(1, 6)):
        place = choice.randrange(len(raw))
        match choice.randrange(3):
            case 0:
                raw[place] = choice.choice(b"\x00\xff \n#:AB9e[")
            case 1:
                del raw[place : place + choice.randrange(1, 40)]
            case 2:
                raw[place:place] = choice.choice([b"\n", b"    ", b"add B\n", b"schedule\n", b"# \n"])
    order.write_bytes(raw)
    shown = kvrace("replay", order)
    assert shown.status in (0, 1, 2, 3)
    assert "fault of kvrace" not in shown.err
