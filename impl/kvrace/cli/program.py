"""How this very program is called again, as it can be pasted into the user's shell."""

from __future__ import annotations

import os
import shlex
import shutil
import sys

from kvrace.subjects import BUILT_IN

NAME = "kvrace"
ON_RELEASE = "KVRACE_ON_RELEASE"
"""Set by ``kvrace lab run``: how the program was called that runs on a release."""
_RUN = " lab run "


def program() -> str:
    """``kvrace`` where the shell finds this program under that name, else the path by which it was started; on a release of the
    lab, the command that runs it there."""
    if os.environ.get(ON_RELEASE):
        return os.environ[ON_RELEASE]
    started = sys.argv[0]
    if os.path.basename(started) == "__main__.py":
        return f"{_shown(sys.executable)} -m {NAME}"
    if os.path.basename(started) != NAME:  # a test, or somebody's own script
        return NAME
    found = shutil.which(NAME)
    if found and os.path.exists(started) and os.path.samefile(found, started):
        return NAME
    return _shown(started)


def on_release(version: str) -> str:
    """How this program is called on a release. Where it was called so already, the inner release is the one that counts."""
    return f"{program().partition(_RUN)[0]}{_RUN}{version} --"


def replay_options(spec: str, patch: str | None) -> str:
    """What ``kvrace replay`` has to be told of the scheduler, since a trace alone chooses nothing that is imported."""
    options = [] if spec in BUILT_IN else ["--subject", spec]
    return shlex.join([*options, *(["--patch", patch] if patch else [])])


def _shown(path: str) -> str:
    """Relative to the current folder if it lies below it."""
    try:
        below = os.path.relpath(path)
    except OSError:  # there is no current folder any more
        below = os.pardir
    if below.startswith(os.pardir) or os.sep not in below:  # the shell looks for a bare name elsewhere
        return shlex.quote(path)
    return shlex.quote(below)
