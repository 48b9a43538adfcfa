"""Explorations of the real vLLM that several tables and tests are made from.

Each is done once in a process, and where the environment names a folder, once for all processes that share it. The tests give the
folder to their workers and take it away at the end, so that a result never outlives the code it is of.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from kvmodel.contract import EXACTLY_ONCE, Contract
from kvmodel.named_scopes import NAMED_SCOPES, named_scope
from kvmodel.scope import Scope, both_schedulers
from kvrace.check import check
from kvrace.result import CheckResult
from kvrace.subjects import choose_subject
from kvrace.vllm.environment import import_vllm

Made = TypeVar("Made")
SHARED = "KVRACE_SHARED_RUNS"
"""The environment variable with the folder."""


_MADE: dict[str, Any] = {}


def once(name: str, make: Callable[[], Made]) -> Made:
    """What ``make`` makes, and ``name`` says all about."""
    if name not in _MADE:
        _MADE[name] = _shared(f"{name}, vLLM {import_vllm()}", make)
    made: Made = _MADE[name]
    return made


def _shared(name: str, make: Callable[[], Made]) -> Made:
    folder = os.environ.get(SHARED)
    if folder is None:
        return make()
    file = Path(folder) / name
    with _alone(file.with_name(f"{name}.lock")):
        if not file.exists():
            file.write_bytes(pickle.dumps(make()))
        made: Made = pickle.loads(file.read_bytes())
    return made


def explored(subject: str, scope: str, contract: str = EXACTLY_ONCE, conformance: str | None = None) -> CheckResult:
    """``subject`` over ``scope``, the name of one or kinds of requests, exhausted."""
    name = f"{subject}, {scope}, {contract}, conformance {conformance}"
    return once(name, partial(_explore, subject, scope, contract, conformance))


def of_stock(scope: str, contract: str = EXACTLY_ONCE) -> CheckResult:
    """The stock scheduler; the run under the default contract says how far it conforms, too."""
    return explored("vllm", scope, contract, "assert" if contract == EXACTLY_ONCE else None)


def _explore(subject: str, scope: str, contract: str, conformance: str | None) -> CheckResult:
    print(f"  {subject}: {scope} under {contract} …", file=sys.stderr, flush=True)
    scopes = named_scope(scope) if scope in NAMED_SCOPES else both_schedulers(Scope(tuple(scope.split(","))))
    make = choose_subject(subject, None).make
    result = check(make, scopes, Contract.parse(contract), scope_name=scope, conformance=conformance)
    assert result.complete
    return result


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """One process at a time; the lock goes with the process that holds it, however that ends."""
    with lock.open("w") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
