"""A proof as JSON: every obligation with its verdict and time, counterexamples as states, orders as events."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import kvrace
from kvmodel.proof.words import move_words, state_lines, witness_words
from kvmodel.relation.text import text
from kvrace.prove import Attempt, FoundOrder, Needed, Statement
from kvrace.render.terminal import ReplayCommand
from kvrace.result import Violation

FORMAT, VERSION = "kvrace-proof", 1


def proof_json(statements: Sequence[Statement], traces: Mapping[Violation, Path], replay: ReplayCommand) -> str:
    """The first statement is the one that was asked for. Nothing but ``seconds`` differs between two runs."""
    data = {
        "format": FORMAT,
        "version": VERSION,
        "kvrace": kvrace.__version__,
        "verdict": statements[0].proof.verdict,
        "exit_code": statements[0].exit_code,
        "statements": [_statement(statement, traces, replay) for statement in statements],
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _statement(statement: Statement, traces: Mapping[Violation, Path], replay: ReplayCommand) -> dict[str, Any]:
    model, proof = statement.model, statement.proof
    return {
        "policy": model.policy.name,
        "contract": str(model.contract),
        "assumed": sorted(model.assumed),
        "verdict": proof.verdict,
        "complete": proof.complete,
        "seconds": round(statement.seconds, 3),
        "invariant": [{"name": part.name, "formula": text(part.formula)} for part in model.invariant],
        "properties": [{"name": rule.name, "formula": text(rule.formula)} for rule in model.properties],
        "obligations": [
            {
                "name": result.obligation.name,
                "kind": result.obligation.kind,
                "action": result.obligation.actor or None,
                "about": result.obligation.about.name,
                "verdict": result.verdict,
                "why": result.why or None,
                "seconds": round(result.seconds, 4),
            }
            for result in proof.results
        ],
        "counterexamples": [_attempt(attempt) for attempt in statement.attempts],
        "orders": [_order(order, traces, replay) for order in statement.orders],
        "searched": [str(search) for search in statement.searched],
        "reached": {name: None if events is None else list(map(str, events)) for name, events in statement.reached},
        "needed": [_needed(needed) for needed in statement.needed],
        "played_on": statement.subject.spec if statement.subject else None,
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    example = attempt.counterexample
    return {
        "obligation": example.obligation.name,
        "before": state_lines(example.instance, example.before),
        "move": move_words(example.move) if example.move else None,
        "after": state_lines(example.instance, example.after),
        "broken_for": witness_words(example.witness),
        "reached": attempt.reached,
        "events": list(map(str, attempt.events)),
        "breaks": None if attempt.breaks is None else list(attempt.breaks),
    }


def _order(order: FoundOrder, traces: Mapping[Violation, Path], replay: ReplayCommand) -> dict[str, Any]:
    trace = traces.get(order.violation) if order.violation else None
    return {
        "property": order.rule,
        "in": str(order.search),
        "events": list(map(str, order.events)),
        "confirmed": order.violation is not None,
        "message": order.violation.message if order.violation else None,
        "why_not": order.why or None,
        "explorer_events": order.explorer,
        "trace": str(trace) if trace else None,
        "replay": replay.line(trace) if trace else None,
    }


def _needed(needed: Needed) -> dict[str, Any]:
    return {
        "assumption": needed.assumption,
        "in": str(needed.search),
        "property": needed.rule or None,
        "events": list(map(str, needed.events)),
        "confirmed": needed.violation is not None,
    }
