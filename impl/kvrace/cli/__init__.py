"""The command line. One file a command; :func:`main` is what the ``kvrace`` script and ``python -m kvrace`` run."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress

import typer

from kvmodel.errors import KvraceError
from kvrace.cli.app import app
from kvrace.cli.interrupt import end_as_with_ctrl_c, end_undisturbed
from kvrace.render.output import Output, drop, error_line
from kvrace.watchdog import describe

USAGE_ERROR, INTERRUPTED = 2, 3
_INTERRUPTED_IN_TYPER = 130
"""Newer typers return this where older ones raise Abort, in place of KeyboardInterrupt."""
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""Click's UsageError. Newer typers bring their own copy of click and export only this subclass of it."""


def main() -> None:
    """Run the command line of this process and end it with the command's exit status."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell (>&-)
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - stays open as long as the process
    end_as_with_ctrl_c()
    status = INTERRUPTED
    try:
        status = run(sys.argv[1:])
        end_undisturbed()
    except KeyboardInterrupt:  # just before or after the command's end
        end_undisturbed()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        drop(sys.stdout)
    except (OSError, ValueError) as error:
        status = _fail(f"cannot write to standard output: {error}")
    sys.exit(status)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status: 0 holds, 1 violated, 2 usage or environment error, 3 incomplete."""
    try:
        result = app(list(arguments), prog_name="kvrace", standalone_mode=False)
    except KvraceError as error:
        return _fail(str(error))
    except _UsageError as error:
        message = getattr(error, "format_message", error.__str__)()
        # Without any argument typer has shown the help, and has nothing more to say.
        return _fail(f"{message} (see kvrace --help)") if message else USAGE_ERROR
    except (KeyboardInterrupt, typer.Abort):
        result = _INTERRUPTED_IN_TYPER
    except OSError as error:
        about = f"{error.filename}: " if error.filename else ""
        return _fail(f"{about}{error.strerror or describe(error)}")
    except SystemExit as error:
        if not isinstance(error.__context__, BrokenPipeError):
            return _unexpected(error)
        # The help and the version are the only texts that do not go through Output: typer and rich leave so when nobody reads them.
        drop(sys.stdout)
        return 0
    except BaseException as error:  # a scheduler may raise anything, and how kvrace ends is for kvrace to say
        return _unexpected(error)
    if result == _INTERRUPTED_IN_TYPER:
        _fail("interrupted; there is no verdict")
        return INTERRUPTED
    return result if isinstance(result, int) else 0


def _unexpected(error: BaseException) -> int:
    if os.environ.get("KVRACE_DEBUG"):
        traceback.print_exc()
    return _fail(
        f"unexpected {describe(error)}. This is a fault of kvrace; please report it with what KVRACE_DEBUG=1 shows"
    )


def _fail(message: str) -> int:
    with suppress(KvraceError):  # nowhere to say it
        Output(sys.stderr, color=False).write(f"kvrace: {error_line(message)}\n")
    return USAGE_ERROR
