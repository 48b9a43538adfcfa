"""The matrix of remedies as JSON."""

from __future__ import annotations

import json
from typing import Any

import kvrace
from kvmodel.relation.policies import POLICIES
from kvrace.matrix import Matrix, Place, PlanCheck, SharedOrder, length
from kvrace.render.matrix import Traces
from kvrace.render.terminal import ReplayCommand

FORMAT, VERSION = "kvrace-matrix", 1


def matrix_json(matrix: Matrix, traces: Traces, replay: ReplayCommand) -> str:
    """The whole matrix. Keys keep their order, and nothing but ``seconds`` differs between two runs."""
    orders = matrix.orders
    data = {
        "format": FORMAT,
        "version": VERSION,
        "kvrace": kvrace.__version__,
        "subject": matrix.subject,
        "scope": {"name": matrix.scope_name, "cases": [scope.as_dict() for scope in matrix.scopes]},
        "complete": matrix.complete,
        "stopped": matrix.stopped,
        "notes": list(matrix.notes),
        "exit_code": matrix.exit_code,
        "states": matrix.states,
        "transitions": matrix.transitions,
        "seconds": round(matrix.seconds, 3),
        "remedies": {remedy: POLICIES[remedy].meaning for remedy in matrix.remedies},
        "contracts": list(matrix.contracts),
        "properties": list(matrix.properties),
        "cells": [_cell(matrix, place, orders) for place in matrix.places],
        "plan": {remedy: [_check(check) for check in matrix.plan(remedy)] for remedy in matrix.remedies},
        "orders": [_order(order, traces, replay) for order in orders],
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _cell(matrix: Matrix, place: Place, orders: tuple[SharedOrder, ...]) -> dict[str, Any]:
    """``orders`` of a property are numbers of the list of orders, from 0."""
    result = matrix.results.get(place)
    properties = {}
    for name in matrix.properties:
        numbers = [n for n, one in enumerate(orders) if one.violation.property == name and place in one.places]
        properties[name] = {"verdict": matrix.verdict(place, name), "orders": numbers}
    return {
        "remedy": place.remedy,
        "contract": place.contract,
        "scheduler": [case.identity.scheduler for case in result.cases] if result else [],
        "version": result.cases[0].identity.version if result else None,
        "complete": place not in matrix.missing,
        "states": result.states if result else 0,
        "transitions": result.transitions if result else 0,
        "properties": properties,
    }


def _check(check: PlanCheck) -> dict[str, Any]:
    order = check.violation.events if check.violation else check.events
    return {"name": check.name, "means": check.means, "verdict": check.verdict, "events": list(order)}


def _order(order: SharedOrder, traces: Traces, replay: ReplayCommand) -> dict[str, Any]:
    found, trace = order.violation, traces.get(order.violation)
    return {
        "property": found.property,
        "blame": found.blame,
        "length": length(found),
        "message": found.message,
        "location": found.location,
        "scope": found.scope.as_dict(),
        "scheduler": found.identity.scheduler,
        "events": list(found.events),
        "loop": found.loop_start,
        "cells": [place._asdict() for place in order.places],
        "trace": str(trace) if trace else None,
        "replay": replay.line(trace) if trace else None,
    }
