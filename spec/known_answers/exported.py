"""``python -m spec.known_answers.exported`` shows every finding that is written up without kvrace, and writes ``exported.json``.

On the last release that has it, the shortest order is found again, replayed from its trace file and exported as a test. The test is
run there, where it has to fail, and on the first release without, where it has to pass: by pytest, in a process in which kvrace
cannot be imported. With ids only these are shown again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as xml
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from spec.known_answers.__main__ import played_apart
from spec.known_answers.expected import Answer, answers
from spec.known_answers.write_ups import EXPORTED, exported, write_ups

from kvmodel.errors import KvraceError
from kvrace.files import write_atomically
from kvrace.lab.store import install
from kvrace.reproducer import pytest_source
from kvrace.trace import read_trace

_NO_KVRACE = 'import sys\n\nsys.modules["kvrace"] = sys.modules["kvmodel"] = None\n'


def export(traces: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Write a test for each trace file, by the id of its answer; for those that cannot be exported, why."""
    refused = {}
    (folder / "conftest.py").write_text(_NO_KVRACE)
    for name, trace in traces.items():
        try:
            (folder / f"{_module(name)}.py").write_text(pytest_source(read_trace(Path(trace))))
        except KvraceError as error:
            refused[name] = str(error)
    return refused


def run_without_kvrace(version: str, folder: Path, names: Sequence[str]) -> dict[str, str]:
    """How each of the tests in ``folder`` failed on a release of vLLM, by id: type, message and traceback, empty where it passed.
    All in one process."""
    report = folder / f"{version}.xml"
    path = os.pathsep.join(map(str, install(version).folders))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(folder),
        f"--junitxml={report}",
    ]
    environment = {**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    files = [str(folder / f"{_module(name)}.py") for name in names]
    ran = subprocess.run([*command, *files], env=environment, cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode not in (0, 1):
        raise SystemExit(f"{version}: {ran.stdout}{ran.stderr}")
    failed = failures(report)
    return {name: failed[_module(name)] for name in names}


def failures(report: Path) -> dict[str, str]:
    """How the one test of each file failed, by the module's name, from the report of pytest."""
    results: dict[str, str] = {}
    for case in xml.parse(report).iter("testcase"):
        assert case.find("error") is None and case.find("skipped") is None, xml.tostring(case, "unicode")
        failure = case.find("failure")
        name = case.attrib["classname"].rpartition(".")[2]
        assert name not in results, "one test a file"
        results[name] = "" if failure is None else f"{failure.attrib['message']}\n{failure.text}"
    return results


def _module(name: str) -> str:
    return f"test_{name.lower().replace('-', '_')}"


def _show(wanted: Sequence[Answer]) -> dict[str, dict[str, str]]:
    seen: dict[str, dict[str, str]] = {answer.id: {} for answer in wanted}
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for version in sorted({answer.has_it[1] for answer in wanted}):
            ids = [answer.id for answer in wanted if answer.has_it[1] == version]
            said = played_apart(version, ids, folder)
            traces = {name: one["trace"] for name, one in said.items()}
            assert {one["replayed"] for one in said.values()} == {"still failing"}, version
            refused = export(traces, folder)
            for name, why in refused.items():
                seen[name][version] = why
            shown = [name for name in ids if name not in refused]
            for name, failure in run_without_kvrace(version, folder, shown).items():
                seen[name][version] = _verdict(failure)
        for version in sorted({answer.gone_in for answer in wanted if answer.gone_in}):
            ids = [a.id for a in wanted if a.gone_in == version and (folder / f"{_module(a.id)}.py").exists()]
            for name, failure in run_without_kvrace(version, folder, ids).items():
                seen[name][version] = _verdict(failure)
    return seen


def _verdict(failure: str) -> str:
    return "fails" if failure else "passes"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ids", nargs="*", help="only these answers (default: all that are written up)")
    options = parser.parse_args()
    written = {name for one in write_ups() for name in one.answers}
    wanted = [answer for answer in answers() if answer.id in written and answer.id in (options.ids or written)]
    known = exported() if EXPORTED.exists() else {}
    whole = {**{name: seen for name, seen in known.items() if name in written}, **_show(wanted)}
    write_atomically(EXPORTED, json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    main()
