"""``kvrace replay``: play a recorded order again and say what became of its finding."""

from __future__ import annotations

from pathlib import Path

from kvmodel.errors import KvraceError, shortened
from kvrace.cli import options
from kvrace.render.output import standard_output
from kvrace.render.progress import progress_line
from kvrace.render.replay import report
from kvrace.replay import replay
from kvrace.subjects import SubjectChoice, choose_subject, stdout_to_stderr
from kvrace.trace import RecordedTrace, read_trace


def replay_command(
    file: options.TraceFile,
    subject: options.Subject = None,
    policy: options.Policy = None,
    call_timeout: options.CallTimeout = 10.0,
    no_color: options.NoColor = False,
) -> int:
    """Play the order in a trace file again: on the scheduler it was found on, or with --subject on another one.

    \b
    Exit status:
      0  fixed: the whole order was played and nothing is violated
      1  still failing, or it fails differently
      2  usage or environment error, with one line on standard error
      3  diverged: the order cannot be played to its end on this scheduler
    """
    recorded = read_trace(Path(file))
    if not 0 < call_timeout < float("inf"):
        raise KvraceError(f"--call-timeout {call_timeout:g}: must be more than 0 seconds")
    output = standard_output(not no_color)
    with progress_line(not no_color) as line, stdout_to_stderr():
        choice = _choose(recorded, subject, policy, line.importing)
        result = replay(recorded, choice, call_timeout)
    output.print(report(result, output.width))
    return result.exit_code


def _choose(recorded: RecordedTrace, subject: str | None, policy: str | None, importing: object) -> SubjectChoice:
    """The recorded subject, or the one the user names. A trace file alone never makes kvrace import a module."""
    spec = subject
    if spec is None:
        if recorded.spec not in ("vllm", "reference"):
            raise KvraceError(
                f"{recorded.path} was recorded on {shortened(recorded.spec)}; a trace does not choose what is imported, so "
                f"add --subject {shortened(recorded.spec)} (or another) to play it"
            )
        spec = "reference" if policy is not None else recorded.spec
    if spec == "reference" and policy is None and recorded.spec == "reference":
        policy = recorded.policy
    return choose_subject(spec, policy, importing)  # type: ignore[arg-type]
