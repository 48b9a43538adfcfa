"""What only a process of its own can show: signals, pipes, terminals, encodings, imports."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
import types
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import ROOT

LONG = ("check", "--subject", "reference", "--policy", "wait_for_all", "--scope", "medium")
NO_VLLM = "import sys; sys.modules['vllm'] = None"
BROKEN_VLLM = "raise RuntimeError('operator torchvision::nms does not exist')"
SEED = ("check", "--scope", "seed")


def _until(process: Any, word: str) -> str:
    seen = ""
    while word not in seen:
        line = process.stdout.readline()
        assert line, f"{word!r} did not come: {seen}"
        seen += line
    return seen


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_gives_the_incomplete_verdict(start: Any, number: signal.Signals) -> None:
    process = start(*LONG)
    _until(process, "contract")
    time.sleep(0.5)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 3
    last = " ".join(out.split())
    assert "? incomplete on the reference scheduler 0.1.0 (not vLLM): nothing is violated in" in last
    assert "the run was interrupted in case" in last
    assert err == ""


@pytest.mark.slow
@pytest.mark.vllm
def test_what_vllm_prints_is_not_shown(start: Any) -> None:
    process = start("check", "--scope", "seed")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert out.startswith("kvrace 0.")
    assert err == ""


@pytest.mark.vllm
def test_ctrl_c_while_vllm_is_imported(start: Any) -> None:
    process = start("check", "--subject", "vllm", "--scope", "seed")
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 3
    assert (out, err) == ("", "kvrace: interrupted; there is no verdict\n")


INTERRUPTED_IMPORT = """
import os, signal, time
try:
    os.kill(os.getpid(), signal.{signal})
    time.sleep(0.01)
{then}
"""
SWALLOWED = "except KeyboardInterrupt: pass"
BROKEN = "finally: raise RuntimeError('CPU dispatcher tracer already initialized')"


@pytest.mark.parametrize("number", ["SIGINT", pytest.param("SIGTERM", marks=pytest.mark.slow)])
@pytest.mark.parametrize("then", [SWALLOWED, BROKEN], ids=["swallowed", "broken"])
@pytest.mark.parametrize(
    "command", ["check", "check --subject vllm", "diff --subject vllm --subject fixed", "matrix remedies --jobs 1"]
)
def test_ctrl_c_that_an_import_makes_an_error_of(
    start: Any, tmp_path: Path, command: str, then: str, number: str
) -> None:
    package = tmp_path / "fake" / "vllm"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(INTERRUPTED_IMPORT.format(signal=number, then=then))
    process = start(*command.split(), prelude=f"import sys; sys.path.insert(0, {str(package.parent)!r})")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 3, err
    if command.startswith("matrix"):
        assert "? incomplete: the run was interrupted" in out and err == ""
    else:
        assert (out, err) == ("", "kvrace: interrupted; there is no verdict\n")


def test_ctrl_c_within_a_text_that_an_import_executes() -> None:
    """As dataclasses do: after it ``python -m`` ends itself by a signal, whatever the exit status is."""
    Path("vllm").mkdir()
    Path("vllm/__init__.py").write_text("""exec("import os, time; os.kill(os.getpid(), 2); time.sleep(0.01)")""")
    paths = os.pathsep.join([str(ROOT / "model"), str(ROOT / "impl")])
    ended = subprocess.run(
        [sys.executable, "-m", "kvrace", *SEED],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (3, "")
    assert ended.stderr == "kvrace: interrupted; there is no verdict\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_after_the_report_leaves_the_exit_status_as_it_is(start: Any, number: signal.Signals) -> None:
    leaving = "import atexit, sys, time; atexit.register(lambda: (print('leaving', file=sys.stderr, flush=True), time.sleep(1)))"
    process = start("check", "--subject", "reference", "--scope", "seed", prelude=leaving)
    assert process.stderr.readline() == "leaving\n"
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (1, "")


def test_a_reader_that_goes_away(start: Any) -> None:
    process = start("check", "--subject", "reference", "--scope", "seed")
    process.stdout.close()
    err = process.stderr.read()
    assert process.wait(timeout=60) == 1
    assert err == ""
    assert any(Path("kvrace-traces").iterdir()), "traces are written before the report"


@pytest.mark.parametrize("arguments", [["--help"], ["check", "--help"], ["--version"], []])
def test_help_that_nobody_reads(start: Any, arguments: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    process = start(*arguments, stdout=write)
    os.close(write)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")


def test_a_full_disk_is_one_line(start: Any) -> None:
    with open("/dev/full", "w") as full:
        process = start("check", "--subject", "reference", "--scope", "seed", stdout=full)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert err == "kvrace: cannot write to <stdout>: No space left on device\n"


def test_a_terminal_that_has_only_ascii(start: Any) -> None:
    process = start("check", "--subject", "reference", "--scope", "seed", environment={"PYTHONIOENCODING": "ascii"})
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert out.isascii()
    assert "free wA <" in out


def test_without_vllm_the_reference_scheduler_is_checked(start: Any) -> None:
    process = start(*SEED, prelude=NO_VLLM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "note: vLLM is not installed here; 'pip install kvrace' into the environment that has it" in out
    assert "The reference scheduler is checked instead." in " ".join(out.split())
    assert "checking  reference " in out
    assert err == ""


def test_without_vllm_asking_for_it_is_an_error(start: Any) -> None:
    process = start(*SEED, "--subject", "vllm", prelude=NO_VLLM)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert err.startswith("kvrace: vLLM is not installed here; 'pip install kvrace'")
    assert err.count("\n") == 1


def test_a_vllm_whose_import_fails(start: Any, tmp_path: Path) -> None:
    package = tmp_path / "broken" / "vllm"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(BROKEN_VLLM)
    process = start(*SEED, prelude=f"import sys; sys.path.insert(0, {str(package.parent)!r})")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "note: importing vLLM failed: RuntimeError: operator torchvision::nms does not exist" in out


@pytest.mark.parametrize("subject", [["--subject", "vllm"], []], ids=["asked for", "not asked for"])
@pytest.mark.parametrize("error", ["SystemExit(0)", "GeneratorExit", "type('Odd', (BaseException,), {})"])
def test_a_vllm_that_leaves_at_its_import(start: Any, tmp_path: Path, error: str, subject: list[str]) -> None:
    package = tmp_path / "broken" / "vllm"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"raise {error}")
    process = start(*SEED, *subject, prelude=f"import sys; sys.path.insert(0, {str(package.parent)!r})")
    out, err = process.communicate(timeout=60)
    if subject:
        assert (process.returncode, out) == (2, "")
        assert err.startswith("kvrace: importing vLLM failed: ")
        assert err.count("\n") == 1
    else:
        assert (process.returncode, err) == (1, "")
        assert "work here? The reference scheduler is checked instead." in " ".join(out.split())


@pytest.mark.slow
@pytest.mark.vllm
def test_files_beside_the_users_module_take_the_place_of_nothing(start: Any) -> None:
    Path("vllm").mkdir()
    Path("vllm/__init__.py").write_text("raise RuntimeError('the wrong vllm')")
    Path("mine.py").write_text("from vllm.v1.core.sched.scheduler import Scheduler\nclass Mine(Scheduler): pass\n")
    process = start("check", "--subject", "mine:Mine", "--requests", "local", environment={"PYTHONSAFEPATH": "1"})
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert "✓ holds on mine:Mine with vllm " in out


@pytest.mark.parametrize("version", [False, True])
def test_a_folder_that_is_called_vllm_is_named(version: bool) -> None:
    from kvrace.vllm.environment import VllmUnavailable, _check_that_it_is_vllm

    found = types.ModuleType("vllm")
    found.__path__ = ["/home/user/vllm"]
    if version:
        found.__file__ = "/home/user/vllm/__init__.py"
    with pytest.raises(VllmUnavailable, match="/home/user/vllm"):
        _check_that_it_is_vllm(found)


def test_ctrl_c_during_the_first_imports(start: Any) -> None:
    interrupted = (
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'kvrace.cli': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from kvrace.__main__ import main; main()\n"
    )
    process = start("check", prelude=interrupted)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (3, "", "kvrace: interrupted; there is no verdict\n")


def test_help_is_quick(start: Any) -> None:
    """Asking for help imports neither vLLM nor z3 nor networkx."""
    slow = ("vllm", "torch", "z3", "networkx")
    watch = f"import sys, atexit; atexit.register(lambda: print([name for name in {slow} if name in sys.modules]))"
    process = start("check", "--help", prelude=watch)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out.rstrip().endswith("[]")


def test_progress_is_shown_on_a_terminal_and_taken_away(start: Any) -> None:
    ours, theirs = pty.openpty()
    process = start(
        "check", "--subject", "reference", "--requests", "load_save,load_save", "--scheduler", "sync", "--policy", "wait_for_all",
        stderr=theirs, environment={"TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    out, _ = process.communicate(timeout=60)
    line = os.read(ours, 100_000).decode()
    os.close(ours)
    assert process.returncode == 0
    assert "case 1/1" in line
    assert "states/s" in line
    assert line.endswith("\r\x1b[2K"), "the last thing written clears the line"
    assert "\x1b" not in out


@pytest.mark.slow
@pytest.mark.vllm
def test_a_constructor_that_hangs_is_not_waited_for(start: Any) -> None:
    Path("hanging.py").write_text(
        "from vllm.v1.core.sched.scheduler import Scheduler\n"
        "class Hangs(Scheduler):\n"
        "    def __init__(self, *args, **kwargs):\n"
        "        while True:\n"
        "            pass\n"
    )
    process = start("check", "--subject", "hanging:Hangs", "--requests", "local", "--call-timeout", 1)
    try:
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 2
    assert "did not come back within 1 s" in err
    assert err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.vllm
def test_a_call_that_hangs_is_reported_and_not_waited_for(start: Any) -> None:
    Path("hanging.py").write_text(
        "from vllm.v1.core.sched.scheduler import Scheduler\n"
        "class Hangs(Scheduler):\n"
        "    def update_from_output(self, *args, **kwargs):\n"
        "        while True:\n"
        "            pass\n"
    )
    process = start("check", "--subject", "hanging:Hangs", "--requests", "local", "--call-timeout", 1)
    try:
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 1
    assert err == ""
    assert "the call did not come back within 1 s" in " ".join(out.split())
    assert "update, hangs ◀" in out
