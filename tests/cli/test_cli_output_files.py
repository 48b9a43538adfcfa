"""Where results go: what exists there and is no regular file stays what it is, and nothing that is known is lost."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from kvmodel.errors import KvraceError

HOLDS = ("check", "--subject", "reference", "--policy", "wait_for_all", "--requests", "local", "--scheduler", "sync")
VIOLATED = ("check", "--subject", "reference", "--requests", "load_save", "--scheduler", "sync")


def test_a_fifo_stays_one_and_its_reader_gets_the_result(kvrace: Any) -> None:
    os.mkfifo("fifo")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(Path("fifo").read_text()))
    reader.start()
    assert kvrace(*HOLDS, "--json", "fifo").status == 0
    reader.join(timeout=10)
    assert json.loads(read[0])["verdict"] == "holds"
    assert stat.S_ISFIFO(os.stat("fifo").st_mode)


def test_a_device_stays_one(kvrace: Any) -> None:
    """A node of our own, never one in /dev."""
    try:
        os.mknod("null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        Path("null").write_text("")
    except OSError:
        pytest.skip("this user or this file system has no device nodes")
    assert kvrace(*HOLDS, "--json", "null").status == 0
    assert stat.S_ISCHR(os.stat("null").st_mode)
    assert os.listdir() == ["null"]


@pytest.mark.parametrize("exists", [True, False], ids=["a link", "a dangling link"])
def test_a_link_stays_one_and_what_it_leads_to_is_written(kvrace: Any, exists: bool) -> None:
    Path("elsewhere").mkdir()
    target = Path("elsewhere/result.json")
    if exists:
        target.write_text("old")
    os.symlink(target, "link.json")
    assert kvrace(*HOLDS, "--json", "link.json").status == 0
    assert Path("link.json").is_symlink()
    assert json.loads(target.read_text())["verdict"] == "holds"


@pytest.mark.parametrize("kind", ["a loop of links", "a link into a missing folder", "a name that is too long"])
def test_what_can_not_be_written_is_known_before_anything_is_explored(kvrace: Any, kind: str) -> None:
    os.symlink("loop", "loop")
    os.symlink("missing/result.json", "nowhere")
    name = {"a loop of links": "loop", "a link into a missing folder": "nowhere"}.get(kind, "x" * 300)
    shown = kvrace(*HOLDS, "--json", name)
    assert shown.status == 2
    assert shown.error_line.startswith("kvrace: --json: ")
    assert sorted(os.listdir()) == ["loop", "nowhere"]


def test_the_mode_of_a_file_that_exists_is_kept(kvrace: Any) -> None:
    Path("result.json").write_text("old")
    os.chmod("result.json", 0o640)
    assert kvrace(*HOLDS, "--json", "result.json").status == 0
    assert stat.S_IMODE(os.stat("result.json").st_mode) == 0o640


def test_standard_output_by_its_path_is_written_through_also_if_it_is_a_file(start: Any) -> None:
    os.symlink("/proc/self/fd/1", "stdout")
    with open("all.txt", "w") as file:
        process = start(*HOLDS, "--json", "stdout", stdout=file)
        process.communicate(timeout=60)
    assert process.returncode == 0
    written = Path("all.txt").read_text()
    assert written.startswith("kvrace 0.")
    assert '"verdict": "holds"' in written


@pytest.mark.parametrize("what", ["write_trace", "write_atomically"])
def test_a_verdict_is_told_although_a_file_cannot_be_written(
    kvrace: Any, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def full(*_: object) -> None:
        raise KvraceError("cannot write it: No space left on device")

    monkeypatch.setattr(f"kvrace.cli.reports.{what}", full)
    shown = kvrace(*VIOLATED, "--json", "result.json")
    assert shown.status == 2
    assert "✗ violated on the reference scheduler" in shown.out
    assert ("replay  " in shown.out) == (what == "write_atomically")
    assert shown.err == "kvrace: cannot write it: No space left on device\n"
    if what == "write_trace":
        assert json.loads(Path("result.json").read_text())["violations"][0]["trace"] is None


@pytest.mark.vllm
def test_a_scheduler_that_changes_the_folder_and_prints(kvrace: Any, tmp_path: Path) -> None:
    """Its output is not the report's, and the files go to where the user was."""
    Path("wanders.py").write_text(
        "import os\n"
        "from vllm.v1.core.sched.scheduler import Scheduler\n"
        "print('imported')\n"
        "class Wanders(Scheduler):\n"
        "    def __init__(self, *args, **kwargs):\n"
        "        super().__init__(*args, **kwargs)\n"
        "        os.chdir('/')\n"
        "        print('constructed')\n"
        "        os.system('echo from a child')\n"
    )
    shown = kvrace("check", "--subject", "wanders:Wanders", "--requests", "load_save", "--property", "no-crash",
                   "--json", "-")  # fmt: skip
    os.chdir(tmp_path)
    assert shown.status == 1
    result = json.loads(shown.out)
    assert all((tmp_path / found["trace"]).is_file() for found in result["violations"])
    assert {"imported", "constructed", "from a child"} <= set(shown.err.splitlines())
