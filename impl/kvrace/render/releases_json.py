"""The matrix of releases as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kvrace
from kvrace.cells import Cell, CellFinding
from kvrace.releasematrix import Finding, ReleaseMatrix
from kvrace.render.releases import replay_line
from kvrace.render.terminal import ReplayCommand

FORMAT, VERSION = "kvrace-release-matrix", 1


def releases_json(matrix: ReleaseMatrix, folder: Path, replay: ReplayCommand) -> str:
    """The whole matrix. Keys keep their order, and nothing but ``seconds`` differs between two runs."""
    data = {
        "format": FORMAT,
        "version": VERSION,
        "kvrace": kvrace.__version__,
        "scope": {"name": matrix.scope_name, "cases": [scope.as_dict() for scope in matrix.scopes]},
        "complete": matrix.complete,
        "stopped": matrix.stopped,
        "exit_code": matrix.exit_code,
        "seconds": round(matrix.seconds, 3),
        "releases": list(matrix.releases),
        "contracts": list(matrix.contracts),
        "properties": list(matrix.properties),
        "failed": dict(matrix.failed),
        "cells": [cell_json(cell) for cell in matrix.cells.values()],
        "findings": [finding_json(one, folder, replay) for one in matrix.findings],
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def cell_json(cell: Cell) -> dict[str, Any]:
    """``findings`` are ids."""
    return {
        "release": cell.release,
        "contract": cell.contract,
        "explored": {
            scheduling: {
                "scheduler": one.scheduler,
                "states": one.states,
                "transitions": one.transitions,
                "properties": one.verdicts,
                "findings": sorted({f.signature.id for f in cell.findings if f.scheduling == scheduling}),
            }
            for scheduling, one in cell.explored.items()
        },
    }


def finding_json(one: Finding, folder: Path, replay: ReplayCommand) -> dict[str, Any]:
    """A finding with a shortest order in the newest release that has it, and every place it was found in."""
    return {
        "id": one.id,
        **one.signature._asdict(),
        "first": one.first,
        "last": one.last,
        "releases": list(one.releases),
        "without": list(one.without),
        "contracts": list(one.contracts),
        "shortest": {**_order(one.shortest, folder), "replay": replay_line(one, folder, replay)},
        "found": [
            {**where._asdict(), "length": found.length, "blame": found.blame, "location": found.location}
            for where, found in one.found.items()
        ],
    }


def _order(found: CellFinding, folder: Path) -> dict[str, Any]:
    return {
        "blame": found.blame,
        "message": found.message,
        "location": found.location,
        "scope": found.scope,
        "events": list(found.events),
        "loop": found.loop,
        "trace": str(folder / found.trace),
    }
