"""``kvrace matrix``: tables of verdicts that no single check gives."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import typer

from kvmodel.contract import MEANINGS, Contract
from kvmodel.errors import KvraceError, quoted
from kvmodel.relation.policies import POLICIES, policy_named
from kvrace.check import Limits
from kvrace.cli import matrix_options, options, scope_options
from kvrace.cli.check import named_option
from kvrace.cli.interrupt import interruptible
from kvrace.cli.jsontarget import JsonTarget
from kvrace.cli.program import program
from kvrace.cli.releases import releases_command
from kvrace.cli.reports import STANDARD_OUTPUT, show
from kvrace.cli.scopes import ScopeOptions
from kvrace.files import TraceFolder
from kvrace.matrix import Explorer, Matrix, matrix, subject_of
from kvrace.render.matrix import header, report
from kvrace.render.matrix_json import matrix_json
from kvrace.render.output import standard_error, standard_output
from kvrace.render.progress import progress_line
from kvrace.render.terminal import ReplayCommand
from kvrace.result import Violation
from kvrace.trace import write_trace

DEFAULT_MATRIX_SCOPE = "pair"
CALL_SECONDS = 10.0

matrix_app = typer.Typer(
    help="Tables of verdicts: every remedy, and every release, under every contract.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@matrix_app.command("remedies")
def remedies_command(
    remedies: matrix_options.RemedyNames = None,
    contracts: matrix_options.ContractNames = None,
    subject: matrix_options.MatrixSubject = "vllm",
    scope: matrix_options.MatrixScope = None,
    requests: scope_options.Requests = None,
    blocks: scope_options.Blocks = None,
    time_limit: options.TimeLimit = None,
    max_states: options.MaxStates = None,
    jobs: matrix_options.Jobs = None,
    json: options.Json = None,
    trace_dir: options.TraceFolder = "kvrace-traces",
    no_color: options.NoColor = False,
) -> int:
    """Try every order on each publicly proposed remedy, under each contract, and show what each of them breaks.

    A remedy is vLLM's scheduler with one proposed change, or as it is ('assert').
    Beside the nine properties stands the test plan that the question began with:
    "abort + finished_sending no longer crashes", "nothing leaks, nothing is freed
    twice", "normal transfer is unaffected". spec/fixes.md says who proposed what.

    \b
    Examples:
      kvrace matrix remedies              on vLLM: about 5 minutes of CPU time
      kvrace matrix remedies --remedy skip --contract exactly-once
      kvrace matrix remedies --requests load_save --json matrix.json
      kvrace matrix remedies --time-limit 60        what a minute gives
      kvrace matrix remedies --subject reference    without vLLM

    \b
    Exit status:
      0  the matrix is complete; a violated cell is a result, not an error
         (for a verdict on one scheduler: kvrace check --subject skip)
      2  usage or environment error, with one line on standard error
      3  incomplete: interrupted, or a limit was reached; what was finished
         is shown, and what is missing is named
    """
    output = standard_error(not no_color) if json == STANDARD_OUTPUT else standard_output(not no_color)
    chosen = [policy_named(name).name for name in _each(remedies, POLICIES)]
    under = [str(Contract.parse(name)) for name in _each(contracts, MEANINGS)]
    if subject not in ("vllm", "reference"):
        raise KvraceError(f"--subject {quoted(subject)}: remedies are of vllm or of reference")
    Limits.of(time_limit, max_states, CALL_SECONDS, named_option)  # refused before anything is shown
    if jobs is not None and jobs < 1:
        raise KvraceError(f"--jobs {jobs}: must be 1 or more")
    target = JsonTarget.of(json)
    named = scope if scope is not None or requests is not None else DEFAULT_MATRIX_SCOPE
    name, scopes = ScopeOptions(named, requests, blocks).scopes()
    folder = TraceFolder(Path(trace_dir))
    try:
        with progress_line(not no_color) as line, interruptible(line.filling) as listen:
            show(output, header(subject, name, scopes, chosen))
            explorer = Explorer(subject, name, Limits.of(time_limit, max_states, CALL_SECONDS, named_option))
            made = matrix(explorer, chosen, under, scopes, jobs=jobs or os.cpu_count() or 1, listen=listen)
        traces = _written(made, folder)
        replay = ReplayCommand(program())
        show(output, report(made, traces, replay, output.width))
        target.write(matrix_json(made, traces, replay))
        return made.exit_code
    finally:
        folder.leave_no_empty_folder()


matrix_app.command("releases")(releases_command)


def _each(given: Sequence[str] | None, known: Iterable[str]) -> list[str]:
    """What was asked for, each once and in the usual order; everything if nothing was."""
    names = list(known)
    asked = list(dict.fromkeys(given or names))
    return sorted(asked, key=lambda name: names.index(name) if name in names else len(names))


def _written(made: Matrix, folder: TraceFolder) -> dict[Violation, Path]:
    traces = {}
    for order in made.orders:
        spec, policy = subject_of(made.subject, order.places[0].remedy)
        traces[order.violation] = folder.shown / write_trace(order.violation, spec, policy, folder.path).name
    return traces
