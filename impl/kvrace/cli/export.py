"""``kvrace export``: a recorded order in another form."""

from __future__ import annotations

from pathlib import Path

from kvmodel.errors import KvraceError, quoted
from kvrace.cli import options
from kvrace.cli.show import read_with_states
from kvrace.files import check_target, write_atomically
from kvrace.render.mermaid import mermaid
from kvrace.render.output import standard_output
from kvrace.textform import as_text, is_text_form, parse_text
from kvrace.trace import frames_of, parse_trace, read_bytes

FORMS = ("text", "mermaid", "pytest")


def export_command(file: options.OrderFile, form: options.ExportAs, output: options.ExportTarget = None) -> int:
    """Write a recorded order as text to keep and edit, as a diagram, or as a test.

    Nothing is played and no vLLM is needed. A text form is what 'kvrace replay'
    plays and 'kvrace replay --rewrite' brings up to date; a diagram is a Mermaid
    block that an issue comment shows; a test is a Python file for pytest.

    \b
    Examples:
      kvrace export TRACE --as text --output tests/counterexamples/crash.txt
      kvrace export TRACE --as mermaid
      kvrace export TRACE --as pytest --output test_crash.py

    \b
    Exit status:
      0  the order was written
      2  usage error, or no trace file, with one line on standard error
    """
    if form not in FORMS:
        raise KvraceError(f"unknown form {quoted(form)}: use one of {', '.join(FORMS)}")
    if output is not None:
        check_target(Path(output), "--output")
    text = _exported(Path(file), form)
    if output is None:
        standard_output(color=False).write(text)
    else:
        write_atomically(Path(output), text)
    return 0


def _exported(path: Path, form: str) -> str:
    if form == "pytest":
        from kvrace.reproducer import pytest_source

        raw = read_bytes(path)
        source: str = pytest_source(parse_text(path, raw).recorded if is_text_form(raw) else parse_trace(path, raw))
        return source
    recorded = read_with_states(path)
    frames = frames_of(recorded)
    return as_text(recorded, frames) if form == "text" else mermaid(recorded, frames)
