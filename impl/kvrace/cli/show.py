"""``kvrace show``: a recorded order as it was found, from its file alone."""

from __future__ import annotations

from pathlib import Path

from kvmodel.errors import KvraceError, shortened
from kvrace.cli import options
from kvrace.cli.program import program, replay_options
from kvrace.render.output import standard_output
from kvrace.render.show import shown
from kvrace.render.terminal import ReplayCommand
from kvrace.textform import is_text_form
from kvrace.trace import RecordedTrace, frames_of, parse_trace, read_bytes


def show_command(file: options.TraceFile, until: options.Until = None, no_color: options.NoColor = False) -> int:
    """Show a recorded order again: its finding, where it was found, and what each event did.

    Nothing is played and no vLLM is needed: the picture is drawn from the states
    in the file. 'kvrace replay' plays it.

    \b
    Examples:
      kvrace show kvrace-traces/no-crash-1b2c3d4e.itf.json
      kvrace show --until 3 TRACE

    \b
    Exit status:
      0  the order was shown
      2  usage error, or no trace file, with one line on standard error
    """
    recorded = read_with_states(Path(file))
    if until is not None and not 1 <= until <= len(recorded.events):
        raise KvraceError(f"--until {shortened(until)}: {file} has the events 1 to {len(recorded.events)}")
    frames = frames_of(recorded)
    patch = recorded.identity.patch
    options_of_it = replay_options(recorded.spec, patch.file if patch else None)
    line = ReplayCommand(program(), options_of_it).line(Path(file))
    output = standard_output(not no_color)
    output.print(shown(recorded, frames[: None if until is None else until + 1], line, output.width))
    return 0


def read_with_states(path: Path) -> RecordedTrace:
    """A trace file, which has the states that a picture is drawn from. Raises KvraceError for a text form, which has none."""
    raw = read_bytes(path)
    if is_text_form(raw):
        raise KvraceError(f"{path}: a text form has no states to draw; 'kvrace replay' plays and shows it")
    return parse_trace(path, raw)
