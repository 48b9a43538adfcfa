"""``kvrace mutants``: plant known faults, one at a time, and see that the property meant for each catches it."""

from __future__ import annotations

import fnmatch

from kvmodel.errors import KvraceError
from kvrace.cli import options
from kvrace.mutants import Mutant, kill_table
from kvrace.render.mutants import kill_table_row, kill_table_summary
from kvrace.render.output import standard_output
from kvrace.render.progress import progress_line
from kvrace.subjects import choose_subject


def mutants_command(
    subject: options.MutantsOf = "reference",
    pattern: options.MutantPattern = "*",
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
    """
    output = standard_output(not no_color)
    with progress_line(not no_color) as line:
        chosen = [mutant for mutant in _mutants(subject, line.importing) if fnmatch.fnmatchcase(mutant.name, pattern)]
        if not chosen:
            raise KvraceError(f"no mutant of {subject} is called {pattern!r}; run 'kvrace mutants' to see their names")
        rows = []
        for row in kill_table(chosen):
            line.clear()
            output.print(kill_table_row(row))
            rows.append(row)
    output.print(kill_table_summary(rows))
    return 0 if all(row.killed for row in rows) else 1


def _mutants(subject: str, importing: object) -> list[Mutant]:
    if subject == "vllm":
        choose_subject("vllm", None, importing)  # type: ignore[arg-type]
        from kvrace.vllm.mutants import vllm_mutants

        return vllm_mutants()
    if subject == "reference":
        from kvrace.reference.mutants import MUTANTS

        return list(MUTANTS)
    raise KvraceError(f"there are no mutants of {subject!r}: use reference or vllm")
