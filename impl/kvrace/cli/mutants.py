"""``kvrace mutants``: plant known faults, one at a time, and see that the property meant for each catches it."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator

from kvmodel.errors import KvraceError, quoted
from kvrace.cli import matrix_options, options
from kvrace.cli.interrupt import interruptible
from kvrace.lab.use import release_of
from kvrace.mutants import Mutant, Row, kill_table
from kvrace.render.mutants import kill_table_row, kill_table_summary
from kvrace.render.output import standard_output
from kvrace.render.progress import progress_line
from kvrace.result import Progress
from kvrace.subjects import choose_subject, stdout_to_stderr


def mutants_command(
    subject: matrix_options.MutantsOf = "reference",
    pattern: matrix_options.MutantPattern = "*",
    no_color: options.NoColor = False,
) -> int:
    """Plant known faults in a scheduler, one at a time, and show which property catches each.

    A property is worth something only after a fault has made it fire. Each mutant says beforehand which property has to catch it.

    \b
    Examples:
      kvrace mutants                   on the reference scheduler, in seconds
      kvrace mutants --subject vllm    on the real scheduler, by subclassing it
      kvrace mutants --only '*twice*'

    \b
    Exit status:
      0  every mutant is killed by the property meant for it
      1  a mutant survived
      2  usage or environment error, with one line on standard error
      3  interrupted, or a limit came before a mutant was killed
    """
    output = standard_output(not no_color)
    rows: list[Row] = []
    with progress_line(not no_color) as line:
        known = _mutants(subject, line.importing)
        chosen = [mutant for mutant in known if fnmatch.fnmatchcase(mutant.name, pattern)]
        if not chosen:
            raise KvraceError(
                f"no mutant of {subject} is called {quoted(pattern)}; run 'kvrace mutants' to see their names"
            )
        with interruptible(_nothing) as progress:
            table = kill_table(chosen, progress=progress)
            while (row := _next(table)) is not None:
                line.clear()
                output.print(kill_table_row(row))
                rows.append(row)
    output.print(kill_table_summary(rows, len(chosen)))
    if any(row.outcome == "survived" for row in rows):
        return 1
    return 0 if len(rows) == len(chosen) and all(row.killed for row in rows) else 3


def _nothing(_: Progress) -> None:
    """A mutant takes less than the time in which progress is worth a line."""


def _next(table: Iterator[Row]) -> Row | None:
    """The next row; None at the end, and when the user interrupts between two explorations."""
    try:
        with stdout_to_stderr():
            return next(table, None)
    except KeyboardInterrupt:
        return None


def _mutants(subject: str, importing: object) -> list[Mutant]:
    if subject == "vllm" or release_of(subject) is not None:
        choose_subject(subject, None, importing)  # type: ignore[arg-type]
        from kvrace.vllm.mutants import vllm_mutants

        return vllm_mutants()
    if subject == "reference":
        from kvrace.reference.mutants import MUTANTS

        return list(MUTANTS)
    raise KvraceError(f"there are no mutants of {quoted(subject)}: use reference, vllm or vllm==VERSION")
