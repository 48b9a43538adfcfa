"""What ``kvrace check`` leaves behind: traces, the report on the terminal, the files that were asked for, annotations."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rich.console import RenderableType

from kvmodel.errors import KvraceError
from kvmodel.port import Identity
from kvrace.cli.program import program, replay_options
from kvrace.files import TraceFolder, check_target, encodable, write_atomically
from kvrace.render import terminal
from kvrace.render.annotations import result_annotations
from kvrace.render.json import result_json
from kvrace.render.junit import result_junit
from kvrace.render.output import Output, standard_output
from kvrace.render.plain import Traces
from kvrace.render.sarif import result_sarif
from kvrace.render.terminal import ReplayCommand
from kvrace.result import CheckResult, Violation
from kvrace.subjects import SubjectChoice
from kvrace.trace import write_trace

STANDARD_OUTPUT = "-"
Render = Callable[[CheckResult, Sequence[Identity], Traces, ReplayCommand], str]


def _page(result: CheckResult, identities: Sequence[Identity], traces: Traces, replay: ReplayCommand) -> str:
    """The web page. Imported only here: its templates would cost a third of the start of every command."""
    from kvrace.render.html import page

    return page(result, identities, traces, replay)


_RENDERERS: dict[str, Render] = {
    "--json": result_json,
    "--html": _page,
    "--junit": result_junit,
    "--sarif": result_sarif,
}
"""What makes the text of each option's file."""


class Report(NamedTuple):
    """One file that was asked for. ``target`` is None for standard output."""

    target: Path | None
    render: Render


def asked_for(given: Mapping[str, str | None]) -> list[Report]:
    """The files to write, from the values of their options. Raises KvraceError for one that cannot be written, or is asked for
    twice."""
    taken: dict[Hashable, str] = {}
    reports = []
    for option, name in given.items():
        if name is None:
            continue
        if name == STANDARD_OUTPUT and option != "--json":
            raise KvraceError(f"{option} -: only --json is written to standard output; name a file")
        if name != STANDARD_OUTPUT:
            check_target(Path(name), option)
        other = taken.setdefault(_what_is_written(name), option)
        if other != option:
            raise KvraceError(f"{other} and {option} would write the same file {name}; name two files")
        target = None if name == STANDARD_OUTPUT else Path(name).absolute()  # a scheduler may change the working folder
        reports.append(Report(target, _RENDERERS[option]))
    return reports


def _what_is_written(name: str) -> Hashable:
    """Equal for two names of one file, however they are written."""
    try:
        there = os.fstat(1) if name == STANDARD_OUTPUT else os.stat(name)
    except OSError:
        return os.path.realpath(name)
    return there.st_dev, there.st_ino


def tell(
    result: CheckResult,
    identities: Sequence[Identity],
    choice: SubjectChoice,
    folder: TraceFolder,
    reports: Sequence[Report],
    output: Output,
) -> int:
    """Write everything and return the exit status. What cannot be written takes nothing else with it; then it is an error."""
    traces: dict[Violation, Path] = {}
    command = ReplayCommand(program(), replay_options(choice.spec, choice.patch))

    def write_traces() -> None:
        for violation in result.violations:
            path = write_trace(violation, choice.spec, choice.policy, folder.path)
            traces[violation] = folder.shown / path.name

    def write_screen() -> None:
        own = [note for note in result.notes if note != choice.note]  # the choice's stands above the report
        show(output, terminal.report(replace(result, notes=tuple(own)), identities, traces, command, output.width))

    def write_report(report: Report) -> None:
        text = report.render(result, identities, traces, command)
        if report.target is None:
            standard_output(color=False).write(encodable(text))
        else:
            write_atomically(report.target, text)

    def annotate() -> None:
        output.write(result_annotations(result, identities, traces, command))

    failed: list[KvraceError] = []
    writes: list[Callable[[], None]] = [
        write_traces,
        write_screen,
        *(partial(write_report, report) for report in reports),
    ]
    for write in [*writes, *([annotate] if _on_github() else [])]:
        try:
            write()
        except KvraceError as error:
            failed.append(error)
    if failed:
        raise failed[0]
    return result.exit_code


def show(output: Output, part: RenderableType) -> None:
    """Print for people. GitHub obeys every line that looks like a command; between these two it obeys nothing but the second."""
    token = secrets.token_hex(16)
    if _on_github():
        output.write(f"::stop-commands::{token}\n")
    output.print(part)
    if _on_github():
        output.write(f"::{token}::\n")


def _on_github() -> bool:
    return os.environ.get("GITHUB_ACTIONS") == "true"
