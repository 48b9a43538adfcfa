"""What people and programs read of a suite: what its tours cost when it is made, and what became of them when it is played."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

import kvrace
from kvmodel.port import Identity
from kvrace.render.looks import SIGNS, STYLES, count
from kvrace.render.replay import diff_lines, refusal
from kvrace.render.swimlane import swimlane
from kvrace.render.terminal import stop_words
from kvrace.suite import CaseTours, Departure
from kvrace.suitereplay import SuiteReplay

FORMAT, VERSION = "kvrace-suite-result", 1
_INDENT = 2
_HEAD = ("case", "transitions", "tours", "calls", "a transition", "cost", "at least", "ratio")


def suite_table(cases: Sequence[CaseTours], folder: Path, files: int) -> RenderableType:
    """A line for each case, and one for all: the calls of the tours, a reset for each, and the least that they can cost."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for name in _HEAD:
        table.add_column(justify="left" if name == "case" else "right", no_wrap=True)
    table.add_row(*(Text(name, style="dim") for name in _HEAD))
    for case in cases:
        table.add_row(f"{','.join(case.scope.requests)} {case.scope.scheduling}", *_numbers([case]))
    if len(cases) > 1:
        table.add_row(*(Text(cell, style="bold") for cell in ("all", *_numbers(cases))))
    price = cases[0].reset_price
    seconds = sum(case.seconds for case in cases)
    return Group(
        Text(""),
        table,
        Text(""),
        Text(
            f"a tour begins on a fresh scheduler: {count(sum(case.resets for case in cases), 'reset')} "
            f"at {count(price, 'call')} each, so cost = calls + {price} × tours",
            style="dim",
        ),
        Text(f"{SIGNS['holds']} {count(files, 'file')} written to {folder} in {seconds:.1f} s", STYLES["holds"]),
    )


def _numbers(cases: Sequence[CaseTours]) -> list[str]:
    total = totals(cases)
    return [
        *(f"{total[name]:,}" for name in ("transitions", "tours", "calls")),
        f"{total['calls_per_transition']:.2f}",
        *(f"{total[name]:,}" for name in ("cost", "bound")),
        f"{total['ratio']:.3f}",
    ]


def totals(cases: Sequence[CaseTours]) -> dict[str, Any]:
    """The figures of all cases together, by their names in the JSON."""
    transitions, calls = sum(case.transitions for case in cases), sum(case.calls for case in cases)
    cost, bound = sum(case.cost for case in cases), sum(case.bound for case in cases)
    return {
        "states": sum(case.states for case in cases),
        "transitions": transitions,
        "tours": sum(len(case.tours) for case in cases),
        "resets": sum(case.resets for case in cases),
        "calls": calls,
        "calls_per_transition": round(calls / transitions, 3),
        "cost": cost,
        "bound": bound,
        "ratio": round(cost / bound, 4),
    }


def suite_json(name: str, cases: Sequence[CaseTours], files: Sequence[Sequence[str]]) -> str:
    """The figures for programs. Nothing but ``seconds`` differs between two runs."""
    first = cases[0]
    data = {
        "format": FORMAT,
        "version": VERSION,
        "kvrace": kvrace.__version__,
        "scope": name,
        "contract": str(first.contract),
        "reset_price": first.reset_price,
        **totals(cases),
        "cases": [
            {
                "scope": case.scope.as_dict(),
                "subject": case.identity._asdict(),
                **totals([case]),
                "seconds": round(case.seconds, 3),
                "files": list(names),
            }
            for case, names in zip(cases, files, strict=True)
        ],
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def incomplete(limit: str, done: int, planned: int) -> Text:
    """A limit came first. Tours of a part of the graph would cover only that part, so none are written."""
    reached, remedy = stop_words(limit)
    return Text(
        f"{SIGNS['incomplete']} incomplete: {reached} after {done} of {count(planned, 'case')}; nothing was written; {remedy}",
        STYLES["incomplete"],
    )


def suite_report(result: SuiteReplay, width: int) -> RenderableType:
    """One line when everything happens as recorded; else the first tour that departs, as far as it was played."""
    path, tours = result.suite.path, len(result.suite.tours)
    played = f"{count(tours, 'tour')}, {count(result.suite.events, 'event')}"
    if result.first is None:
        on = "" if result.suite.identity == result.identity else f" on {_who(result.identity)}"
        return Text(f"{SIGNS['holds']} {path} conforms{on}: {played}", STYLES["holds"])
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_row(
        Text("recorded on", style="dim"), Text(f"{_who(result.suite.identity)}, by kvrace {result.suite.kvrace}")
    )
    facts.add_row(Text("played on", style="dim"), Text(_who(result.identity)))
    facts.add_row(Text("in", style="dim"), Text(f"{result.suite.scope} · contract {result.suite.contract}"))
    lanes = swimlane(result.first.frames, None, width - _INDENT)
    return Group(
        Text(f"{SIGNS['violated']} {path} differs in {result.departing:,} of {played}", STYLES["violated"]),
        facts,
        Text(f"the first of them is tour {result.first.tour}:"),
        Text(""),
        Padding(lanes, (0, 0, 0, _INDENT)),
        Text(""),
        *_departure(result.first),
    )


def _who(identity: Identity) -> str:
    return f"{identity.name} {identity.release}: {identity.scheduler}"


def _departure(first: Departure) -> list[RenderableType]:
    event = f"event {first.place} '{first.event}'"
    if first.refused is not None:
        return [Text(f"{event} is not allowed: {refusal(first.refused)}")]
    return [Text(f"{event} is not as recorded:"), *diff_lines(first.diff)]
