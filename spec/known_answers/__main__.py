"""``python -m spec.known_answers`` plays every known answer on every release of the lab and writes ``measured.json``.

Each release is played in a process of its own, two at a time: some minutes in all. With ids only these are played again, and the
rest of the file stays. ``--play VERSION`` is that process: it prints what one release says, as JSON.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from spec.known_answers.expected import Answer, answers
from spec.known_answers.played import play
from spec.known_answers.table import MEASURED, measured

from kvrace.files import write_atomically
from kvrace.lab.catalogue import catalogue
from kvrace.lab.use import PREFIX
from kvrace.subjects import choose_subject, stdout_to_stderr

ROOT = Path(__file__).resolve().parents[2]


def played_apart(version: str, ids: Sequence[str], traces: Path | None = None) -> dict[str, dict[str, Any]]:
    """What a release says of the answers with these ids, found in a process of its own. Traces are written where asked for."""
    command = [sys.executable, "-m", "spec.known_answers", "--play", version, *ids]
    if traces is not None:
        command += ["--traces", str(traces)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SystemExit(f"{version}: {ran.stderr}")
    said: dict[str, dict[str, Any]] = json.loads(ran.stdout)
    return said


def _play_here(version: str, wanted: Sequence[Answer], traces: Path | None) -> dict[str, dict[str, Any]]:
    with stdout_to_stderr():
        choice = choose_subject(f"{PREFIX}{version}", None)
        return {answer.id: play(answer, choice, traces) for answer in wanted}


def _play_all(ids: Sequence[str]) -> None:
    releases = [release.version for release in catalogue() if not release.cannot]
    known = measured() if MEASURED.exists() else {}
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda version: played_apart(version, ids), releases))
    present = {answer.id for answer in answers()}
    kept = {version: {i: r for i, r in known.get(version, {}).items() if i in present} for version in releases}
    whole = {version: {**kept[version], **said} for version, said in zip(releases, results, strict=True)}
    write_atomically(MEASURED, json.dumps(whole, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ids", nargs="*", help="only these answers (default: all)")
    parser.add_argument("--play", metavar="VERSION")
    parser.add_argument("--traces", type=Path)
    options = parser.parse_args()
    wanted = [answer for answer in answers() if not options.ids or answer.id in options.ids]
    if options.play:
        print(json.dumps(_play_here(options.play, wanted, options.traces)))
    else:
        _play_all([answer.id for answer in wanted])


if __name__ == "__main__":
    main()
