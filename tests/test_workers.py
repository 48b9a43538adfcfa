"""Work in other processes: one that ends by itself is an error that names its work, and an interruption is heard first."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from typing import Any

import pytest

from kvmodel.errors import KvraceError
from kvrace import workers
from kvrace.workers import apart, spread


def dies(piece: str, _: Callable[[Any], None]) -> str:
    os._exit(0)


@pytest.mark.parametrize("way", [apart, spread])
def test_a_process_that_ends_by_itself_is_no_result(way: Callable[..., Any]) -> None:
    with pytest.raises(KvraceError, match="the process that checks 'with .*' ended before its work was done"):
        list(way(dies, ["with it", "with that"], 2, lambda _: None))


def test_what_ends_all_processes_at_once_is_an_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = multiprocessing.Pipe()
    theirs.close()
    process = multiprocessing.Process()
    monkeypatch.setattr(workers, "_start", lambda _: (ours, process))
    monkeypatch.setattr(workers, "_end", lambda _: None)
    monkeypatch.setattr(ours.__class__, "send", lambda *_: None)
    told: list[str] = []

    def interrupted(what: str) -> None:
        told.append(what)
        if len(told) > 1:  # the first time the process is still at work
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(apart(dies, ["it"], 1, interrupted))
