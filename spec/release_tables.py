"""The matrix of releases in spec/findings.md, from spec/releases.json.

The file is what ``python -m spec.release_tables`` finds on all releases of the lab (ten minutes of CPU time, kept in
build/release-matrix and gone on with); the table is made from the file alone. A slow test explores one release again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from spec.markdown import markdown_table

FILE = Path(__file__).parent / "releases.json"
_KEPT = ("format", "version", "kvrace", "scope", "releases", "contracts", "properties", "failed", "cells", "findings")
_LEFT_OUT = ("trace", "replay")


def _data() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return data


def release_matrix() -> str:
    """Which property each release breaks under each contract; releases with the same verdicts in one row."""
    data = _data()
    cells = {(cell["release"], cell["contract"]): cell["explored"] for cell in data["cells"]}
    rows: list[tuple[list[str], list[str]]] = []
    for release in data["releases"]:
        texts = [_cell(cells.get((release, contract))) for contract in data["contracts"]]
        if rows and rows[-1][1] == texts:
            rows[-1][0].append(release)
        else:
            rows.append(([release], texts))
    states = sum(one["states"] for explored in cells.values() for one in explored.values())
    head = (
        f"{len(data['releases'])} releases over scope `{data['scope']['name']}`, sync and async, {states:,} states, exhausted. "
        "A cell names what is violated:\n\n"
    )
    body = [[_span(releases), *texts] for releases, texts in rows]
    return head + markdown_table(["release", *(f"`{contract}`" for contract in data["contracts"])], body)


def _cell(explored: dict[str, Any] | None) -> str:
    if explored is None:
        return "not known"
    broken = {name: _broken(one) for name, one in explored.items()}
    if len(set(map(tuple, broken.values()))) == 1:
        return _names(next(iter(broken.values())))
    return "<br>".join(f"{name}: {_names(names)}" for name, names in broken.items())


def _broken(one: dict[str, Any]) -> list[str]:
    return [name for name, verdict in one["properties"].items() if verdict == "violated"]


def _names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "nothing"


def _span(releases: list[str]) -> str:
    return releases[0] if len(releases) == 1 else f"{releases[0]} to {releases[-1]}"


def release_findings() -> str:
    """Each distinct finding under exactly-once, with its first and last release."""
    data = _data()
    rows = []
    for one in data["findings"]:
        if "exactly-once" not in one["contracts"]:
            continue
        shortest = one["shortest"]
        order = ", ".join(
            event for event in shortest["events"][: shortest["loop"]] if event not in ("schedule", "update")
        )
        last = "still there" if one["last"] == data["releases"][-1] else one["last"]
        without = f" (not in {', '.join(one['without'])})" if one["without"] else ""
        code = f"`{one['code']}` in `{one['function']}`".replace("|", "\\|")
        rows.append([f"`{one['id']}`", f"`{one['property']}`", one["first"], last + without, order, code])
    return markdown_table(["id", "property", "first", "last", "order, without empty steps", "line"], rows)


RELEASE_TABLES = {"release-matrix": release_matrix, "release-findings": release_findings}


def main() -> int:
    """Explore what is not kept, and write the file. The exit status is that of ``kvrace matrix releases``."""
    results = FILE.parents[1] / "build/release-matrix"
    results.mkdir(parents=True, exist_ok=True)
    whole = results / "matrix.json"
    command = [sys.executable, "-m", "kvrace", "matrix", "releases", "--results", str(results), "--json", str(whole)]
    status = subprocess.run(command, check=False).returncode
    if status == 0:
        write(whole)
    return status


def write(whole: Path) -> None:
    """Keep of the matrix what does not differ from run to run."""
    data = json.loads(whole.read_text(encoding="utf-8"))
    for one in data["findings"]:
        one["shortest"] = {name: value for name, value in one["shortest"].items() if name not in _LEFT_OUT}
        del one["found"]
    kept = {name: data[name] for name in _KEPT}
    FILE.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
