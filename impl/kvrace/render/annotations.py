"""The result as workflow commands of GitHub Actions, which shows them beside the code."""

from __future__ import annotations

from collections.abc import Sequence

from kvmodel.port import Identity
from kvrace.render.conformance import divergence_text
from kvrace.render.output import one_line
from kvrace.render.plain import Traces, finding_text, place
from kvrace.render.terminal import ReplayCommand, verdict_line
from kvrace.result import CheckResult


def result_annotations(
    result: CheckResult, identities: Sequence[Identity], traces: Traces, replay: ReplayCommand
) -> str:
    """An error for each finding and each divergence that no finding explains, a warning when something is not decided, a notice
    when everything holds."""
    commands = []
    for violation in result.violations:
        at = place(violation.location)
        where = {"file": at.file, "line": str(at.line)} if at else {}
        title = f"{violation.property} ({violation.blame})"
        commands.append(_command("error", finding_text(violation, result, traces, replay), **where, title=title))
    for found in result.conformance.divergences if result.conformance else ():
        if found.unexplained:
            commands.append(_command("error", divergence_text(found), title="conformance"))
    verdict = verdict_line(result, identities).plain
    if not result.complete:
        commands.append(_command("warning", verdict, title="kvrace: incomplete"))
    elif result.verdict == "holds":
        commands.append(_command("notice", verdict, title="kvrace: holds"))
    return "".join(f"{command}\n" for command in commands)


def _command(name: str, message: str, **properties: str) -> str:
    """One command on one line. Whatever is in its texts stays text: what ends a line, a property or the properties is escaped."""
    given = ",".join(f"{key}={_escaped(one_line(value), ':,')}" for key, value in properties.items())
    text = "\n".join(_indent(line) + one_line(line) for line in message.split("\n"))
    return f"::{name} {given}::{_escaped(text)}"


def _indent(line: str) -> str:
    return " " * (len(line) - len(line.lstrip(" ")))


def _escaped(text: str, also: str = "") -> str:
    return "".join(f"%{ord(character):02X}" if character in f"%\r\n{also}" else character for character in text)
