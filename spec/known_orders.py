"""Write ``impl/kvrace/known/orders.json``: what kvrace found out about each release of vLLM, for ``kvrace doctor``.

Every entry is a finished run of kvrace. Nothing in the file is written by hand. ``python -m spec.known_orders`` makes it anew, for
the vLLM that is installed in this process and for every other pinned release (:mod:`kvrace.lab`) in a process of its own.
With ``--digests`` nothing is played: the results stay, and the digests of the checked files are taken again, as after a change of
how they are taken.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from spec.read_sources import folders
from spec.runs import explored, of_stock

import kvrace
from kvmodel.contract import EXACTLY_ONCE, MEANINGS
from kvrace.files import write_atomically
from kvrace.known.orders import FORMAT, ORDERS, VERSION
from kvrace.known.sources import scheduler_digests
from kvrace.lab.catalogue import Release, checked
from kvrace.lab.store import install
from kvrace.result import CaseResult, CheckResult, Violation

ROOT = Path(__file__).resolve().parent.parent
DROP_IN_SCOPES = {EXACTLY_ONCE: "small"}
"""The scope in which the drop-in is played under a contract; under the others it is ``seed``."""


def part() -> dict[str, Any]:
    """What the file says of the release that this process imports."""
    results = [("stock", of_stock("small", contract)) for contract in MEANINGS]
    results += [("fixed", explored("fixed", DROP_IN_SCOPES.get(name, "seed"), name)) for name in MEANINGS]
    import vllm

    return {
        "release": results[0][1].cases[0].identity.version,
        "sources": scheduler_digests(Path(vllm.__file__).parent),
        "results": [entry for name, result in results for entry in _entries(name, result)],
    }


def _entries(scheduler: str, result: CheckResult) -> Iterator[dict[str, Any]]:
    """One for each way of scheduling: which of them an engine has is part of its configuration."""
    for scheduling in ("sync", "async"):
        cases = [case for case in result.cases if case.scope.scheduling == scheduling]
        assert result.complete and cases
        names = result.properties
        yield {
            "scheduler": scheduler,
            "scheduling": scheduling,
            "contract": str(result.contract),
            "scope": result.scope_name,
            "cases": len(cases),
            "states": sum(case.states for case in cases),
            "transitions": sum(case.transitions for case in cases),
            "exhausted": all(case.complete for case in cases),
            "violated": [name for name in names if any(case.verdicts[name] == "violated" for case in cases)],
            "holds": [name for name in names if all(case.verdicts[name] == "holds" for case in cases)],
            "findings": [_finding(found) for found in _shortest(cases)],
        }


def _shortest(cases: Iterable[CaseResult]) -> list[Violation]:
    """Of each finding the shortest order, and the shortest in which no request ever has load and save pending together."""
    best: dict[tuple[Any, ...], Violation] = {}
    for violation in (violation for case in cases for violation in case.violations):
        for key in {(violation.signature, _together(violation)), (violation.signature, None)}:
            if key not in best or len(violation.frames) < len(best[key].frames):
                best[key] = violation
    kept = [found for (_, together), found in best.items() if not together]
    return sorted(dict.fromkeys(kept), key=lambda found: (len(found.frames), found.signature))


def _together(violation: Violation) -> bool:
    worlds = [frame.world for frame in violation.frames]
    moving = [[(transfer.request, transfer.direction) for transfer in world.transfers] for world in worlds]
    return any({(name, "load"), (name, "save")} <= set(now) for now in moving for name, _ in now)


def _finding(violation: Violation) -> dict[str, Any]:
    return {
        "property": violation.property,
        "blame": violation.blame,
        "message": violation.message,
        "location": _location(violation),
        "requests": list(violation.scope.requests),
        "together": _together(violation),
        "events": list(violation.events),
        "loop": -1 if violation.loop_start is None else violation.loop_start,
    }


def _location(violation: Violation) -> str:
    """The drop-in's own places without folder and line: the first is this checkout's, the second changes with every edit."""
    return re.sub(r"^.*?(kvrace/vllm/\w+\.py):\d+", r"\1", violation.location or "")


def of_other_release(release: Release) -> dict[str, Any]:
    """The same of a pinned release, in a process that imports it. Raises KvraceError when it cannot be fetched."""
    path = [*install(release.version).folders, ROOT / "model", ROOT / "impl", ROOT]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    command = [sys.executable, "-m", "spec.known_orders", "--part"]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["release"] == release.version
    return found


def text(parts: Iterable[dict[str, Any]]) -> str:
    """The file, with one finding a line, so that a difference can be read."""
    releases = ",\n".join(_release(found) for found in sorted(parts, key=lambda found: str(found["release"])))
    return f'{{"format": "{FORMAT}", "version": {VERSION}, "kvrace": "{kvrace.__version__}", "releases": [\n{releases}\n]}}\n'


def with_release(now: dict[str, Any]) -> str:
    """The file as it would be with what was found out now about one release."""
    there = json.loads(ORDERS.read_text())["releases"]
    return text([now, *(found for found in there if found["release"] != now["release"])])


def with_digests_of_now() -> str:
    """The file as it would be with the digests of its releases taken now. Raises KeyError for a release that is not pinned."""
    there, package = json.loads(ORDERS.read_text())["releases"], folders()
    return text({**found, "sources": scheduler_digests(package[found["release"]])} for found in there)


def _release(found: dict[str, Any]) -> str:
    results = ",\n".join(_result(result) for result in found["results"])
    sources = json.dumps(found["sources"], indent=1)
    return f'{{"release": "{found["release"]}",\n"sources": {sources},\n"results": [\n{results}\n]}}'


def _result(result: dict[str, Any]) -> str:
    head = json.dumps({name: value for name, value in result.items() if name != "findings"}, ensure_ascii=False)
    findings = ",\n".join(f"  {json.dumps(found, ensure_ascii=False)}" for found in result["findings"])
    return f'{head[:-1]}, "findings": [{chr(10) if findings else ""}{findings}]}}'


def main() -> None:
    if sys.argv[1:] == ["--part"]:
        print(json.dumps(part()))
        return
    only_digests = sys.argv[1:] == ["--digests"]
    write_atomically(
        ORDERS, with_digests_of_now() if only_digests else text([part(), *map(of_other_release, checked())])
    )
    print(f"{ORDERS.relative_to(ROOT)} written")


if __name__ == "__main__":
    main()
