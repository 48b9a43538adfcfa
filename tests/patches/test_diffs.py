"""Diffs as people send them: what is applied, what is set aside, and what is refused in one line with nothing left behind."""

from __future__ import annotations

import difflib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kvmodel.errors import KvraceError
from kvrace.patch.apply import Applied, apply
from kvrace.patch.diff import Patch, parse_patch
from tests.patches.conftest import SCHEDULER, Refuse

NAME = "vllm/v1/scheduler.py"


def _diff(old: str, new: str, name: str = NAME) -> str:
    lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"a/{name}", f"b/{name}")
    return f"diff --git a/{name} b/{name}\nindex 1..2 100644\n{''.join(lines)}"


CHANGED = SCHEDULER.replace("line_30 = 30\n", "line_30 = 'thirty'\nmore = 1\n")
GOOD = _diff(SCHEDULER, CHANGED)
NEW = (
    "diff --git a/vllm/v1/new.py b/vllm/v1/new.py\nnew file mode 100644\n--- /dev/null\n+++ b/vllm/v1/new.py\n"
    "@@ -0,0 +1 @@\n+x = 1\n"
)
GONE = (
    "diff --git a/vllm/v1/windows.py b/vllm/v1/windows.py\ndeleted file mode 100644\n--- a/vllm/v1/windows.py\n+++ /dev/null\n"
    "@@ -1,3 +0,0 @@\n-one = 1\n-two = 2\n-three = 3\n"
)
BINARY = "diff --git a/{0} b/{0}\nindex 1..2 100644\nBinary files a/{0} and b/{0} differ\n"


def _parsed(diff: str) -> Patch:
    return parse_patch(Path("it.diff"), diff.encode())


def _applied(diff: str, **files: str) -> Applied:
    tree = {NAME: SCHEDULER, **{f"vllm/v1/{name}.py": text for name, text in files.items()}}
    return apply(_parsed(diff), tree.get, "vllm 9.9.9")


def test_a_diff_is_applied_at_its_lines_and_others_are_named() -> None:
    elsewhere = (
        _diff("a\n", "b\n", "tests/v1/test_it.py") + _diff("a\n", "b\n", "csrc/cache.cu") + BINARY.format("docs/a.png")
    )
    patch = _parsed(elsewhere + GOOD)
    assert patch.skipped == ("tests/v1/test_it.py", "csrc/cache.cu", "docs/a.png")
    assert apply(patch, {NAME: SCHEDULER}.get, "vllm 9.9.9") == Applied({NAME: CHANGED})
    assert str(patch).startswith("it.diff (")
    assert _parsed(GOOD).identity.digest != patch.identity.digest


@pytest.mark.parametrize("extra", [7, -5])
def test_a_hunk_that_was_shifted_is_found_and_said_to_be(extra: int) -> None:
    def shifted(text: str) -> str:
        return "before = 0\n" * extra + text if extra > 0 else text.split("\n", -extra)[-extra]

    applied = apply(_parsed(GOOD), {NAME: shifted(SCHEDULER)}.get, "vllm 9.9.9")
    assert applied.texts[NAME] == shifted(CHANGED)
    assert applied.moved == (f"{NAME}: the hunk of line 27 fits at line {27 + extra}",)


def test_a_hunk_that_fits_at_several_places_is_not_guessed() -> None:
    block = "def f():\n    a = 1\n    b = 2\n    c = 3\n"
    diff = _diff(block, block.replace("b = 2", "b = 4"), "vllm/v1/twice.py")
    with pytest.raises(KvraceError, match="fits at lines 11, 15 of vllm/v1/twice.py of vllm 9.9.9, and not at its own"):
        _applied(diff, twice="# no\n" * 10 + block + block)


@pytest.mark.parametrize("convert", ["diff", "file", "both"])
def test_line_ends_of_windows_make_no_difference(convert: str) -> None:
    diff = GOOD.replace("\n", "\r\n") if convert != "file" else GOOD
    text = SCHEDULER.replace("\n", "\r\n") if convert != "diff" else SCHEDULER
    assert apply(_parsed(diff), {NAME: text}.get, "vllm 9.9.9").texts == {NAME: CHANGED}


def test_a_last_line_without_an_end_is_a_line() -> None:
    end = "\\ No newline at end of file\n"
    diff = f"--- a/vllm/v1/end.py\n+++ b/vllm/v1/end.py\n@@ -1,2 +1,2 @@\n a = 1\n-b = 2\n{end}+b = 3\n{end}"
    assert _applied(diff, end="a = 1\nb = 2").texts == {"vllm/v1/end.py": "a = 1\nb = 3\n"}


def test_files_come_and_go_and_are_renamed_and_copied() -> None:
    rename = (
        "diff --git a/{0} b/vllm/v1/other.py\nsimilarity index 90%\n{1} from {0}\n{1} to vllm/v1/other.py\n"
        "--- a/{0}\n+++ b/vllm/v1/other.py\n@@ -1,2 +1,2 @@\n-line_1 = 1\n+line_1 = 0\n line_2 = 2\n"
    )
    other = SCHEDULER.replace("line_1 = 1\n", "line_1 = 0\n")
    assert _applied(NEW + GONE, windows="one = 1\r\ntwo = 2\r\nthree = 3\r\n").texts == {
        "vllm/v1/new.py": "x = 1\n",
        "vllm/v1/windows.py": None,
    }
    assert _applied(rename.format(NAME, "rename")).texts == {NAME: None, "vllm/v1/other.py": other}
    assert _applied(rename.format(NAME, "copy")).texts == {"vllm/v1/other.py": other}
    empty = "diff --git a/vllm/v1/e/__init__.py b/vllm/v1/e/__init__.py\nnew file mode 100644\nindex 0..e\n"
    moved = f"diff --git a/{NAME} b/vllm/v1/moved.py\nsimilarity index 100%\nrename from {NAME}\nrename to vllm/v1/moved.py\n"
    assert _applied(moved).texts == {NAME: None, "vllm/v1/moved.py": SCHEDULER}
    assert _applied(GOOD + empty).texts == {NAME: CHANGED, "vllm/v1/e/__init__.py": ""}


def test_the_commits_of_a_pull_request_are_applied_one_after_the_other() -> None:
    mail = "From 0123 Mon Sep 17 00:00:00 2001\nSubject: [PATCH {}/2] it\n\n- one\n+ two\n---\n vllm/x | 2 +-\n\n{}-- \n2.47.1\n\n"
    second = CHANGED.replace("more = 1", "more = 2")
    series = mail.format(1, GOOD) + mail.format(2, _diff(CHANGED, second))
    assert _applied(series).texts == {NAME: second}


EVIL = [
    ("", "not a diff: no file is named in it"),
    ("just some words\n", "not a diff: no file is named in it"),
    ("{\"json\": 1}\n" * 9, "not a diff: no file is named in it"),
    ("\0" * 99, "zero bytes"),
    (b"\x7fELF\0\1", "zero bytes"),
    ("x" * (8 * 1024 * 1024 + 1), "larger than 8 MB"),
    (_diff("a\n", "b\n", "docs/a.md"), "changes no Python file of vLLM: it has docs/a.md"),
    (_diff("a\n", "b\n", "vllm/config.json"), "changes no Python file of vLLM: it has vllm/config.json"),
    (f"diff --git a/{NAME} b/{NAME}\nold mode 100644\nnew mode 100755\n", "changes no Python file of vLLM"),
    (GOOD + _diff("a\n", "b\n", "../evil.py"), "'a/../evil.py' leads out of the tree"),
    (GOOD.replace("a/vllm", "a/vllm/../../vllm"), "leads out of the tree"),
    ("--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-a\n+b\n", "'/etc/passwd' leads out of the tree"),
    ("--- a\\b.py\n+++ a\\b.py\n@@ -1 +1 @@\n-a\n+b\n", "leads out of the tree"),
    (_diff("a\n", "b\n", "vllm/\x1b[31m.py"), "a name with characters that git quotes"),
    ('--- "a/vllm/\\303\\251.py"\n+++ "b/vllm/\\303\\251.py"\n@@ -1 +1 @@\n-a\n+b\n', "a name with characters that git quotes"),
    (NEW.replace("100644", "120000"), "vllm/v1/new.py is a symbolic link in it"),
    (GOOD.replace("1..2 100644", "1..2 120000"), f"{NAME} is a symbolic link in it"),
    (BINARY.format(NAME), f"{NAME} is binary in it"),
    (f"diff --git a/{NAME} b/{NAME}\nindex 1..2 100644\nGIT binary patch\nliteral 3\nKcmZ\n", f"{NAME} is binary in it"),
    (GOOD.replace("line_29 = 29", "line_29 = 0"), f"fits nowhere in {NAME} of vllm 9.9.9: it has no line 'line_29 = 0'"),
    (GOOD.replace(NAME, "vllm/v1/missing.py"), "vllm 9.9.9 has no vllm/v1/missing.py"),
    (NEW.replace("new.py", "scheduler.py"), f"vllm 9.9.9 already has {NAME}"),
    (NEW.replace("v1/new.py", "v1/scheduler.py/new.py"), "is a file in"),
    (GONE.replace("-three = 3\n", "").replace("-1,3", "-1,2"), "has more lines than the diff deletes"),
    (GOOD.replace("more = 1", "more ="), f"{NAME} is no Python with it"),
    (GOOD.replace("more = 1", "(" * 5000), f"{NAME} is no Python with it"),
    (f"--- a/{NAME}\n+++ b/{NAME}\n@@ -5,0 +6 @@\n+x = 1\n", "has no line that shows its place"),
    (GOOD.replace("@@ -27,7 +27,8 @@", "@@ -27,7 +27,8"), "is neither in a hunk nor the head of one"),
    (GOOD.replace("@@ -27,7 +27,8 @@", "@@ -27,6 +27,7 @@"), "line 14 is neither in a hunk nor the head of one"),
    (GOOD.replace("@@ -27,7 +27,8 @@", "@@ -27,9 +27,9 @@"), "not a diff that can be applied: Hunk is shorter"),
    (GOOD.replace("@@ -27,7 +27,8 @@", f"@@ -{'9' * 5000},7 +27,8 @@"), "a header of"),
    (GOOD.replace("@@ -27,7 +27,8 @@", f"@@ -{'9' * 500},7 +27,8 @@"), "is neither in a hunk nor the head of one"),
    (GOOD + "@@@ -1,2 -1,2 +1,3 @@@\n++x\n", "the diff is damaged, or of a merge"),
    ("@@ -1 +1 @@\n-a\n+b\n", "not a diff that can be applied"),
    (GOOD + f"\x1b[1mdiff --git a/{NAME} b/{NAME}\x1b[m\n\x1b[36m@@ -1 +1 @@\x1b[m\n", "it is coloured"),
    ("diff --git " + "://" * 100_000 + "\n", "line 1: a header of 300011 characters"),
    (GOOD + "--- a" + "://" * 100_000 + "\n", "a header of"),
    (GOOD + "\\ No newline at end of file\n--- a/vllm/v1/x.py\n", "is neither in a hunk nor the head of one"),
]  # fmt: skip


@pytest.mark.parametrize(("diff", "said"), EVIL, ids=[f"{number}-{said[:40]}" for number, (_, said) in enumerate(EVIL)])
def test_what_is_no_clean_diff_of_vllm_is_refused_in_one_line(refuse: Refuse, diff: str | bytes, said: str) -> None:
    line = refuse(diff)
    assert line.startswith("kvrace: it.diff: ")
    assert said in line


def test_a_patch_that_is_not_there_is_refused(refuse: Refuse, release: Path) -> None:
    from kvrace.cli import run

    assert run(["check", "--patch", "missing.diff"]) == 2
    assert run(["check", "--patch", str(release)]) == 2
    assert run(["check", "--patch", ""]) == 2


def test_only_vllm_is_patched(refuse: Refuse, capfd: pytest.CaptureFixture[str]) -> None:
    from kvrace.cli import run

    Path("it.diff").write_text(GOOD)
    assert run(["check", "--patch", "it.diff", "--subject", "reference"]) == 2
    assert "the reference scheduler is not vLLM's" in capfd.readouterr().err


def test_what_goes_wrong_while_the_patched_vllm_is_imported_is_said_of_the_diff(release: Path, tmp_path: Path) -> None:
    (tmp_path / "it.diff").write_text(_diff("", "raise RuntimeError('no')\n", "vllm/__init__.py"))
    root = Path(__file__).resolve().parents[2]
    paths = os.pathsep.join([str(release), str(root / "model"), str(root / "impl")])
    command = [sys.executable, "-m", "kvrace", "check", "--patch", "it.diff", "--scope", "seed"]
    ran = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("kvrace: with it.diff (")
    assert "RuntimeError: no" in ran.stderr
    assert ran.stderr.count("\n") == 1
