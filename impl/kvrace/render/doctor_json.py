"""A diagnosis as JSON, for programs."""

from __future__ import annotations

import json
from typing import Any

import kvrace
from kvrace.doctor import Diagnosis, Hit, Outcome, SchedulerFound
from kvrace.known.orders import KnownResult
from kvrace.render.doctor import advised, see
from kvrace.transferconfig import ConnectorConfig

FORMAT, VERSION = "kvrace-diagnosis", 1


def diagnosis_json(found: Diagnosis, program: str) -> str:
    """The whole diagnosis; keys keep their order."""
    data = {
        "format": FORMAT,
        "version": VERSION,
        "kvrace": kvrace.__version__,
        "status": found.status,
        "exit_code": found.exit_code,
        "installed": {
            "name": found.installed.name,
            "version": found.installed.version,
            "folder": str(found.installed.folder),
            "checked": found.release is not None,
        },
        "scheduler": {
            "class": found.scheduler.name,
            "which": found.scheduler.which,
            "scheduling": found.scheduler.scheduling,
            "because": found.scheduler.because,
        },
        "connector": None if found.connector is None else _connector(found.connector),
        "assumed": found.assumed,
        "answers": dict(found.answers.asked),
        "readings": [
            {
                "connector": reading.connector,
                "ask": reading.ask,
                "answer": reading.answer,
                "because": reading.because,
                "at": list(reading.at),
                "release": reading.release,
            }
            for reading in found.answers.readings
        ],
        "outcome": _outcome(found.outcome, program),
        "with_drop_in": None if found.with_drop_in is None else _outcome(found.with_drop_in, program),
        "drop_in_starts": found.drop_in_starts,
        "advice": [advice._asdict() for advice in advised(found, program)],
    }
    return json.dumps(data, indent=2, ensure_ascii=True) + "\n"


def _connector(connector: ConnectorConfig) -> dict[str, Any]:
    return {
        "name": connector.name,
        "role": connector.role,
        "module": connector.module,
        "children": [_connector(child) for child in connector.children],
    }


def _outcome(outcome: Outcome, program: str) -> dict[str, Any]:
    return {
        "status": outcome.status,
        "missing": list(outcome.missing),
        "checked": [_checked(result) for result in outcome.checked],
        "orders": [_hit(hit, outcome.scheduler, program) for hit in outcome.hits],
    }


def _checked(result: KnownResult) -> dict[str, Any]:
    return {
        "scheduler": result.scheduler,
        "scheduling": result.scheduling,
        "contract": result.contract,
        "scope": result.scope,
        "cases": result.cases,
        "states": result.states,
        "transitions": result.transitions,
        "exhausted": result.exhausted,
        "violated": list(result.violated),
        "holds": list(result.holds),
    }


def _hit(hit: Hit, scheduler: SchedulerFound, program: str) -> dict[str, Any]:
    order = hit.order
    return {
        "rule": hit.rule,
        "certain": hit.certain,
        "property": order.property,
        "blame": order.blame,
        "message": order.message,
        "location": order.location,
        "requests": list(order.requests),
        "events": list(order.events),
        "loop": None if order.loop < 0 else order.loop,
        "see": see(hit, scheduler, program),
    }
