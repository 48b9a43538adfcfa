"""The options of ``kvrace prove`` and ``kvrace promela``, each with the words that ``--help`` shows."""

from __future__ import annotations

from typing import Annotated

import typer

from kvmodel.relation.policies import POLICIES
from kvmodel.relation.safety import ASSUMPTIONS
from kvmodel.scope import KINDS
from kvrace.cli.options import LIMITS, OUTPUT, PROVED, SCOPE, SUBJECT, not_empty

RelationRequests = Annotated[
    str,
    typer.Option(
        "--requests",
        metavar="KIND[,KIND]",
        help=f"The kind of each request: {', '.join(KINDS)}.",
        callback=not_empty,
        show_default=False,
        rich_help_panel=SCOPE,
    ),
]
RelationScheduler = Annotated[
    str,
    typer.Option(
        "--scheduler",
        metavar="sync|async",
        help="One step in flight, or two.",
        callback=not_empty,
        rich_help_panel=SCOPE,
    ),
]
RelationBlocks = Annotated[
    int | None,
    typer.Option(
        "--blocks", metavar="N", help="Blocks in the pool. Default: one for each request.", rich_help_panel=SCOPE
    ),
]
RelationPolicy = Annotated[
    str,
    typer.Option(
        "--policy",
        metavar="NAME",
        help=f"What the scheduler does with the report of a transfer whose request is over: {', '.join(POLICIES)}.",
        callback=not_empty,
        rich_help_panel=SUBJECT,
    ),
]
RunSpin = Annotated[
    bool,
    typer.Option(
        "--run",
        metavar="",
        help="Run Spin on it and hold its figures against kvrace's own search, in place of writing the text.",
        rich_help_panel=OUTPUT,
    ),
]
ProvedPolicy = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="NAME",
        help=f"What the scheduler does with the report of a transfer whose request is over: {', '.join(POLICIES)}. Without it: "
        "wait_for_all, and in short assert and skip.",
        callback=not_empty,
        rich_help_panel=PROVED,
    ),
]
Assume = Annotated[
    str | None,
    typer.Option(
        "--assume",
        metavar="NAME[,NAME]|none",
        help=f"What is assumed beyond the contract: {', '.join(ASSUMPTIONS)}. Without it: what the listed statement assumes "
        "(--list), else nothing.",
        callback=not_empty,
        rich_help_panel=PROVED,
    ),
]
PlayedOn = Annotated[
    str | None,
    typer.Option(
        "--subject",
        metavar="vllm|reference",
        help="Where the orders that refute a policy are played. Without it: on vLLM, or a subclass of it with the policy, "
        "where it can be imported, else on the reference scheduler.",
        callback=not_empty,
        rich_help_panel=PROVED,
    ),
]
Brief = Annotated[
    bool,
    typer.Option(
        "--brief", metavar="", help="One line for each action, not for each obligation.", rich_help_panel=OUTPUT
    ),
]
ObligationTimeLimit = Annotated[
    float,
    typer.Option(
        "--time-limit",
        metavar="SECONDS",
        help="z3 gives an obligation up after this time; then nothing is proved.",
        rich_help_panel=LIMITS,
    ),
]
ProofJson = Annotated[
    str | None,
    typer.Option(
        "--json",
        metavar="FILE",
        help="Write obligations, counterexamples and orders as JSON; '-' writes them to standard output and the report to standard "
        "error.",
        callback=not_empty,
        rich_help_panel=OUTPUT,
    ),
]
ListTheorems = Annotated[
    bool,
    typer.Option("--list", metavar="", help="List the statements and what each assumes, and exit."),
]
