"""``kvrace lab``: released vLLMs side by side, each to be run in a process of its own."""

from __future__ import annotations

import os
import sys
from typing import Annotated, NoReturn

import typer

from kvmodel.errors import KvraceError
from kvrace.cli import options
from kvrace.cli.program import ON_RELEASE, on_release
from kvrace.lab.catalogue import in_order, release_named
from kvrace.lab.store import Place, folder_there, install, kept, known_versions, remove
from kvrace.lab.use import version_here
from kvrace.render.lab import installed_line, lab_table, of_environment_line, removed_line
from kvrace.render.output import standard_output
from kvrace.render.progress import progress_line

ALL = "all"

lab_app = typer.Typer(
    help="Released vLLMs side by side: install, list, remove, run.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Versions = Annotated[
    list[str],
    typer.Argument(metavar="VERSION…|all", help="Releases of vLLM, as 0.22.1.", show_default=False),
]
Version = Annotated[str, typer.Argument(metavar="VERSION", help="A release of vLLM, as 0.22.1.", show_default=False)]
Arguments = Annotated[
    list[str],
    typer.Argument(metavar="-- COMMAND …", help="What kvrace is to do there: check, replay, …", show_default=False),
]


@lab_app.command("install")
def install_command(versions: Versions, no_color: options.NoColor = False) -> int:
    """Fetch the Python files of released vLLMs, with pip.

    They share the environment of kvrace; what a release needs beside it comes
    with it. What is there already is not fetched again, so after an interruption
    the same command goes on. The folder is $KVRACE_CACHE, by default kvrace in
    the user's folder for caches.

    \b
    Examples:
      kvrace lab install 0.15.1 0.22.1
      kvrace lab install all              the sampled releases: 2 GB to fetch
    """
    output = standard_output(not no_color)
    wanted = _wanted(versions, known_versions())
    for version in wanted:
        release_named(version)  # a version that is none is refused before anything is fetched
    with progress_line(not no_color) as line:
        for number, version in enumerate(wanted, 1):
            if version == version_here():
                output.print(of_environment_line(version))
                continue
            new = folder_there(version) is None
            place = install(version, lambda text, number=number: line.doing(f"{number}/{len(wanted)}  {text}"))  # type: ignore[misc]
            line.clear()
            output.print(installed_line(version, place.folders[0], new=new))
    return 0


@lab_app.command("list")
def list_command(no_color: options.NoColor = False) -> int:
    """List the releases that are installed, with their size, and those that kvrace knows."""
    standard_output(not no_color).print(lab_table(kept()))
    return 0


@lab_app.command("remove")
def remove_command(versions: Versions, no_color: options.NoColor = False) -> int:
    """Take releases out of the cache, and what only they need.

    \b
    Examples:
      kvrace lab remove 0.15.1
      kvrace lab remove all
    """
    output = standard_output(not no_color)
    for version in _wanted(versions, [one.version for one in kept()]):
        output.print(removed_line(version, remove(version)))
    return 0


@lab_app.command("run")
def run_command(version: Version, arguments: Arguments) -> int:
    """Run a command of kvrace on a release, which is fetched if it is not there.

    A process of its own imports it. Its exit status is the command's.

    \b
    Examples:
      kvrace lab run 0.15.1 -- check --scope seed
      kvrace lab run 0.31.0 -- check --subject fixed
      kvrace lab run 0.15.1 -- replay kvrace-traces/*
    """
    with progress_line(True) as line:
        place = Place(version, ()) if version == version_here() else install(version, line.doing)
    _become(place, arguments)


def _wanted(versions: list[str], everything: list[str]) -> list[str]:
    """The versions that are meant, the oldest first, each once. Raises KvraceError where "all" stands beside others."""
    if ALL in versions and len(versions) > 1:
        raise KvraceError(f"'{ALL}' means every release; leave out the others")
    return in_order(dict.fromkeys(everything if versions == [ALL] else versions))


def _become(place: Place, arguments: list[str]) -> NoReturn:
    """This process goes on as kvrace on the release: so signals, terminal and exit status are those of one program. With ``-P``,
    since the current folder may be a checkout of vLLM and would stand before the release."""
    folders = [str(folder) for folder in place.folders]
    for folder in folders:
        if os.pathsep in folder:
            raise KvraceError(
                f"{folder} cannot stand in PYTHONPATH, which is split at '{os.pathsep}'; set KVRACE_CACHE to another folder"
            )
    path = [*folders, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        ON_RELEASE: on_release(place.version),
    }
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, "-P", "-m", "kvrace", *arguments], environment)
