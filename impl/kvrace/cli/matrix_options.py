"""The options of ``kvrace matrix``, ``kvrace bisect`` and ``kvrace mutants``, each with the words that ``--help`` shows."""

from __future__ import annotations

from typing import Annotated

import typer

from kvmodel.contract import MEANINGS
from kvmodel.named_scopes import NAMED_SCOPES
from kvmodel.relation.policies import POLICIES
from kvrace.cli.options import LIMITS, OUTPUT, SCOPE, SUBJECT, not_empty

RemedyNames = Annotated[
    list[str] | None,
    typer.Option(
        "--remedy",
        metavar="NAME",
        help=f"Only this one; may be given more than once. {', '.join(POLICIES)}.",
        callback=not_empty,
        rich_help_panel=SUBJECT,
    ),
]
ContractNames = Annotated[
    list[str] | None,
    typer.Option(
        "--contract",
        metavar="NAME[,NAME]",
        help=f"Only under this one; may be given more than once. {', '.join(MEANINGS)}.",
        callback=not_empty,
        rich_help_panel=SUBJECT,
    ),
]
MatrixSubject = Annotated[
    str,
    typer.Option(
        "--subject",
        metavar="vllm|reference",
        help="Whose scheduler the remedies change.",
        callback=not_empty,
        rich_help_panel=SUBJECT,
    ),
]
MatrixScope = Annotated[
    str | None,
    typer.Option(
        "--scope",
        metavar="NAME|FILE.toml",
        help=f"A scope by name: {', '.join(NAMED_SCOPES)}. Default: pair. Or a file of your own.",
        callback=not_empty,
        rich_help_panel=SCOPE,
    ),
]
ReleaseNames = Annotated[
    list[str] | None,
    typer.Option(
        "--release",
        metavar="VERSION",
        help="Only this release; may be given more than once. Without it: all that 'kvrace lab list' has.",
        callback=not_empty,
        rich_help_panel=SUBJECT,
    ),
]
FindingId = Annotated[
    str,
    typer.Option(
        "--finding",
        metavar="ID",
        help="The id of a finding, as 'kvrace matrix releases' shows it.",
        callback=not_empty,
        rich_help_panel=SUBJECT,
    ),
]
EveryRelease = Annotated[
    bool,
    typer.Option("--every", metavar="", help="Look at every release, and not only at halves.", rich_help_panel=LIMITS),
]
ReleasesScope = Annotated[
    str | None,
    typer.Option(
        "--scope",
        metavar="NAME",
        help=f"A scope by name: {', '.join(NAMED_SCOPES)}. Default: seed.",
        callback=not_empty,
        rich_help_panel=SCOPE,
    ),
]
Results = Annotated[
    str,
    typer.Option(
        "--results",
        metavar="FOLDER",
        help="Where the results of each release are kept.",
        callback=not_empty,
        rich_help_panel=OUTPUT,
    ),
]
Fresh = Annotated[
    bool,
    typer.Option("--fresh", metavar="", help="Explore also what is kept already.", rich_help_panel=OUTPUT),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        metavar="N",
        help="Explorations at a time, each in a process of its own. Default: the number of cores.",
        rich_help_panel=LIMITS,
    ),
]
MutantsOf = Annotated[
    str,
    typer.Option(
        "--subject",
        metavar="reference|vllm|vllm==VERSION",
        help="Where the faults are planted.",
        callback=not_empty,
        rich_help_panel=SUBJECT,
    ),
]
MutantPattern = Annotated[
    str,
    typer.Option(
        "--only",
        metavar="PATTERN",
        help="Only mutants whose name matches, with * and ?.",
        callback=not_empty,
        rich_help_panel=SUBJECT,
    ),
]
