"""``kvrace mutants``: what counts as killed, as survived and as not known."""

from __future__ import annotations

import signal
from functools import partial
from typing import Any

import pytest

from kvrace.check import Limits
from kvrace.mutants import kill_table, run_mutant
from kvrace.reference.mutants import MUTANTS


def test_a_killed_mutant(kvrace: Any) -> None:
    name = MUTANTS[0].name
    shown = kvrace("mutants", "--only", name)
    assert shown.status == 0
    assert "✓ all 1 mutants are killed by the property meant for them" in shown.out


def test_a_mutant_that_a_limit_saved_is_undetermined_and_not_survived(
    kvrace: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = Limits(max_states=2)
    assert run_mutant(MUTANTS[0], limits).outcome == "undetermined"
    monkeypatch.setattr("kvrace.cli.mutants.kill_table", partial(kill_table, limits=limits))
    shown = kvrace("mutants", "--only", MUTANTS[0].name)
    assert shown.status == 3
    assert f"? undetermined, because a limit was reached first: {MUTANTS[0].name}" in shown.out
    assert "survived" not in shown.out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_ends_it_and_is_no_verdict(start: Any, number: signal.Signals) -> None:
    process = start("mutants")
    first = process.stdout.readline()
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert first.startswith("✓ ")
    assert process.returncode == 3, out
    assert f"of {len(MUTANTS)} are killed so far, and none has survived" in " ".join(out.split())
    assert err == ""
