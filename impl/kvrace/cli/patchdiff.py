"""``kvrace diff --patch``: which verdicts a diff changes."""

from __future__ import annotations

from pathlib import Path

from kvrace.check import Limits
from kvrace.cli.interrupt import interruptible
from kvrace.cli.jsontarget import JsonTarget
from kvrace.cli.program import program, replay_options
from kvrace.cli.reports import show
from kvrace.files import TraceFolder
from kvrace.patch.diff import read_patch
from kvrace.patchdiff import Checked, Compared, patch_diff
from kvrace.render.output import Output
from kvrace.render.patchdiff import report
from kvrace.render.patchdiff_json import patch_diff_json
from kvrace.render.progress import progress_line
from kvrace.render.terminal import ReplayCommand
from kvrace.result import Violation
from kvrace.trace import write_trace


def compare_verdicts(
    compared: Compared, limits: Limits, trace_dir: Path, json: JsonTarget, output: Output, color: bool
) -> int:
    """Check without and with the patch, show what it changes, and return the exit status."""
    read_patch(Path(compared.patch))  # refused before anything is imported
    folder = TraceFolder(trace_dir)
    try:
        with progress_line(color) as line, interruptible(lambda what: line.doing(f"checking {what} …")) as listen:
            found = patch_diff(compared, limits, listen)
        traces = {**_written(found.before, compared, folder), **_written(found.after, compared, folder)}
        without = ReplayCommand(program(), replay_options(compared.spec, None))
        with_it = ReplayCommand(program(), replay_options(compared.spec, compared.patch))
        replay = {
            violation: (with_it if violation.identity.patch else without).line(path)
            for violation, path in traces.items()
        }
        show(output, report(found, replay, output.width))
        json.write(patch_diff_json(found, traces, replay))
        return found.exit_code
    finally:
        folder.leave_no_empty_folder()


def _written(side: Checked, compared: Compared, folder: TraceFolder) -> dict[Violation, Path]:
    return {
        violation: folder.shown / write_trace(violation, compared.spec, None, folder.path).name
        for violation in side.result.violations
    }
