"""Obligations to z3, one at a time. Sorts have any size, so what is proved holds for any number of requests, blocks and steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import z3

from kvmodel.proof.obligations import Obligation, obligations
from kvmodel.relation.model import Model
from kvmodel.relation.symbolic import Translation
from kvmodel.relation.terms import Formula

Verdict = Literal["proved", "refuted", "unknown"]
TIME_LIMIT = 10.0
"""Seconds for one obligation. The slowest of all statements takes a tenth of a second."""


@dataclass(frozen=True, slots=True)
class Discharged:
    """``refuted``: there is a state that satisfies the hypotheses and not the goal. ``unknown``: z3 gave up, and ``why``."""

    obligation: Obligation
    verdict: Verdict
    seconds: float
    why: str = ""


class Solver:
    """z3, with one translation for all obligations of a model: they have most of their hypotheses in common."""

    def __init__(self, time_limit: float = TIME_LIMIT) -> None:
        self._translation = Translation()
        self._limit = max(1, int(time_limit * 1000))
        self._known: dict[int, tuple[Formula, Any]] = {}

    def _said(self, formula: Formula) -> Any:
        if id(formula) not in self._known:
            self._known[id(formula)] = formula, self._translation.formula(formula)
        return self._known[id(formula)][1]

    def discharge(self, obligation: Obligation) -> Discharged:
        """Ask whether the hypotheses can hold without the goal. Anything but a clear no is not a proof."""
        started = time.monotonic()
        solver = z3.Solver(ctx=self._translation.context)
        solver.set("timeout", self._limit)
        solver.set("ctrl_c", False)  # which is for Python: z3 would call an interrupted obligation unknown and go on
        solver.add(*map(self._said, obligation.hypotheses), z3.Not(self._said(obligation.goal)))
        answer = solver.check()
        seconds = time.monotonic() - started
        if answer == z3.unsat:
            return Discharged(obligation, "proved", seconds)
        if answer == z3.sat:
            return Discharged(obligation, "refuted", seconds)
        return Discharged(obligation, "unknown", seconds, solver.reason_unknown())


@dataclass(frozen=True, slots=True)
class Proof:
    """Every obligation of a model and what became of it. ``complete`` is not set when the user ended it before its end."""

    model: Model
    results: tuple[Discharged, ...]
    seconds: float
    complete: bool = True

    def having(self, verdict: Verdict) -> tuple[Discharged, ...]:
        return tuple(result for result in self.results if result.verdict == verdict)

    @property
    def verdict(self) -> Verdict:
        """``proved`` only when every obligation was discharged; a refuted one outweighs one that z3 gave up."""
        if self.having("refuted"):
            return "refuted"
        return "proved" if self.complete and len(self.having("proved")) == len(self.results) else "unknown"


def prove(model: Model, time_limit: float = TIME_LIMIT, listen: Callable[[Discharged], None] = lambda _: None) -> Proof:
    """Discharge every obligation of the model; ``listen`` is told of each at once. Ctrl-C ends it and keeps what is known."""
    started = time.monotonic()
    results: list[Discharged] = []
    complete = True
    solver = Solver(time_limit)
    try:
        for obligation in obligations(model):
            results.append(solver.discharge(obligation))
            listen(results[-1])
    except KeyboardInterrupt:
        complete = False
    return Proof(model, tuple(results), time.monotonic() - started, complete)
