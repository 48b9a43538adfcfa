"""An environment in which kvrace cannot be imported, and pytest run in it on generated files."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest
from spec.known_answers.exported import failures

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class BareEnvironment:
    """An interpreter of its own that sees every package of this environment but kvrace."""

    python: Path
    packages: Path

    def run(
        self, *arguments: object, path: tuple[Path, ...] = (), **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """``path`` comes before the packages, so another release of vLLM may be in it."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
        kept |= {"PYTHONPATH": os.pathsep.join(map(str, (*path, self.packages))), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        command = [str(self.python), *map(str, arguments)]
        return subprocess.run(command, env={**kept, **variables}, capture_output=True, text=True, check=False)

    def run_tests(self, folder: Path, *, path: tuple[Path, ...] = (), **variables: str) -> dict[str, str]:
        """Of each file in ``folder`` how its one test failed (type and message), empty when it passed."""
        report = folder / "report.xml"
        options = ("-q", "-p", "no:cacheprovider", "--rootdir", folder, f"--junitxml={report}")
        ran = self.run("-m", "pytest", *options, folder, path=path, **variables)
        assert ran.returncode in (0, 1), ran.stdout + ran.stderr
        return failures(report)


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> BareEnvironment:
    """No pip, and a folder of links to all packages but kvrace's: no module, no ``.pth`` file and no entry point of it is seen."""
    root = tmp_path_factory.mktemp("bare")
    venv.EnvBuilder(with_pip=False, symlinks=True).create(root / "venv")
    packages = root / "packages"
    packages.mkdir()
    for folder in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for entry in Path(folder).iterdir():
            ours = entry.name.lower().lstrip("_").startswith(("kvrace", "kvmodel", "editable__"))
            if not ours and entry.suffix != ".pth":
                (packages / entry.name).symlink_to(entry)
    environment = BareEnvironment(root / "venv" / "bin" / Path(sys.executable).name, packages)
    for module in ("kvrace", "kvmodel"):
        failed = environment.run("-c", f"import {module}")
        assert f"No module named '{module}'" in failed.stderr
    listed = "from importlib.metadata import distributions; print([d.name for d in distributions()])"
    assert "kvrace" not in environment.run("-c", listed).stdout
    return environment
