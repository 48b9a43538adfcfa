"""``--help`` of every command, as it is read in a terminal of 80 columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kvrace.cli.app import app
from tests.cli.conftest import Run


def _commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[Any]:
    for command in group.registered_commands:
        yield pytest.param((*path, command.name), command.callback, id=" ".join((*path, command.name)))
    for inner in group.registered_groups:
        yield from _commands(inner.typer_instance, (*path, inner.name))


@pytest.mark.parametrize(("command", "does"), _commands(app))
def test_lines_that_were_broken_by_hand_are_not_broken_again(
    command: tuple[str, ...], does: Callable[..., int], kvrace: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = kvrace(*command, "--help")
    assert shown.status == 0
    assert max(map(len, shown.out.splitlines())) <= 80
    _, *paragraphs = re.split(r"\n\s*\n", (does.__doc__ or "").replace("\b\n", ""))
    by_hand = [line.strip() for paragraph in paragraphs for line in paragraph.splitlines() if "\n" in paragraph.strip()]
    missing = [line for line in by_hand if line not in shown.out]
    assert not missing
