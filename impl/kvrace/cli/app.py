"""The application: its commands and the options that come before a command."""

from __future__ import annotations

from typing import Annotated

import typer

import kvrace
from kvrace.cli.check import check_command
from kvrace.cli.diff import diff_command
from kvrace.cli.doctor import doctor_command
from kvrace.cli.export import export_command
from kvrace.cli.lab import lab_app
from kvrace.cli.matrix import matrix_app
from kvrace.cli.mutants import mutants_command
from kvrace.cli.promela import promela_command
from kvrace.cli.prove import prove_command
from kvrace.cli.releases import bisect_command
from kvrace.cli.replay import replay_command
from kvrace.cli.show import show_command
from kvrace.cli.suite import suite_command

HELP = (
    "Play every order of abort, schedule and KV-transfer events on the real vLLM v1 scheduler.\n\n"
    "kvrace asks of a scheduler: is there any order of client, engine and connector events that crashes it, leaks blocks, "
    "frees them twice or while they are in use, or leaves a request stuck? Within a stated scope it tries all of them, on a "
    "plain CPU, without weights, and shows the shortest order that breaks a rule.\n\n"
    "Begin with: kvrace check --scope seed"
)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("check")(check_command)
app.command("diff")(diff_command)
app.command("doctor")(doctor_command)
app.command("replay")(replay_command)
app.command("show")(show_command)
app.command("export")(export_command)
app.command("mutants")(mutants_command)
app.add_typer(matrix_app, name="matrix")
app.add_typer(lab_app, name="lab")
app.command("bisect")(bisect_command)
app.command("prove")(prove_command)
app.command("promela")(promela_command)
app.command("suite")(suite_command)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kvrace {kvrace.__version__}")
        raise typer.Exit


@app.callback(help=HELP)
def _options(
    version: Annotated[
        bool, typer.Option("--version", metavar="", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Options of kvrace itself."""
