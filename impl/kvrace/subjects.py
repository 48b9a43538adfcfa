"""Which scheduler is checked: from ``--subject``, ``--scheduler`` and ``--policy`` to a function that makes subjects.

vLLM is imported only here and only when it is asked for, or when nothing else was.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, replace
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, TextIO

from kvmodel.errors import KvraceError, quoted
from kvmodel.port import Subject
from kvmodel.relation.policies import POLICIES
from kvmodel.scope import Scheduling, Scope
from kvrace.ctrlc import ctrl_c_wins
from kvrace.lab.use import if_changed, release_of, use
from kvrace.watchdog import describe

BOTH: tuple[Scheduling, ...] = ("sync", "async")
DEFAULT_POLICY = "assert"
FIXED, FIXES_AS = "fixed", "wait_for_all"
"""kvrace's drop-in scheduler, and the remedy it is."""
BUILT_IN = frozenset({"vllm", "reference", FIXED, *POLICIES})
"""What ``--subject`` takes besides classes. A trace may name these by itself: no code is run but vLLM's and kvrace's."""
_MISSING = object()
_CLASS_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


@dataclass(frozen=True, slots=True)
class SubjectChoice:
    """A scheduler to check. ``spec`` is what ``--subject`` takes; ``note`` is a line the user must see beside the verdict."""

    spec: str
    policy: str | None
    make: Callable[[Scope], Subject]
    schedulings: tuple[Scheduling, ...]
    note: str | None = None
    patch: str | None = None
    """The file that vLLM was patched with, as the user has named it."""

    def cases(self, scopes: Sequence[Scope], scheduler: str | None) -> list[Scope]:
        """The scopes this subject can play. Raises KvraceError when it can play none, or not what ``--scheduler`` asks for."""
        if scheduler is not None and scheduler not in self.schedulings:
            raise KvraceError(
                f"{self.spec} plays {self.schedulings[0]} scheduling only; leave out --scheduler {scheduler}"
            )
        wanted = self.schedulings if scheduler is None else (scheduler,)
        cases = [scope for scope in scopes if scope.scheduling in wanted]
        if scopes and not cases:
            raise KvraceError(f"no case of the scope has {wanted[0]} scheduling, and {self.spec} is to play no other")
        return cases


def choose_subject(
    spec: str | None, policy: str | None, importing: Callable[[bool], None] = lambda _: None
) -> SubjectChoice:
    """The subject that ``--subject`` and ``--policy`` name; without ``spec`` vLLM, else the reference scheduler.

    ``importing`` is called with True before vLLM is imported and with False afterwards. Raises KvraceError: unknown class or
    policy, vLLM missing where it was asked for by name, or a vLLM that the adapter does not know.
    """
    if policy is not None and spec not in ("reference", None):
        raise KvraceError("--policy chooses a variant of the reference scheduler; use it with --subject reference")
    if spec == "reference" or (spec is None and policy is not None):
        return _reference(policy or DEFAULT_POLICY)
    if spec is None:
        return _vllm_or_reference(importing)
    release = release_of(spec)
    if spec == "vllm" or release is not None:
        return _vllm(importing, spec) if release is None else _release(release, importing, spec)
    if spec == FIXED or spec in POLICIES:
        return _remedy(spec, importing)
    if not _CLASS_PATH.fullmatch(spec):
        raise KvraceError(
            f"unknown subject {quoted(spec)}: use vllm, vllm==VERSION, fixed, reference, module:Class, or a remedy: "
            f"{', '.join(POLICIES)}"
        )
    return _class(spec, importing)


def choose_patched(
    spec: str | None, policy: str | None, patch: str | None, importing: Callable[[bool], None] = lambda _: None
) -> SubjectChoice:
    """The same on a private copy of vLLM that the diff ``patch`` is applied to, if there is one; then the subject is vLLM's unless
    ``spec`` says otherwise. Raises KvraceError as well for a diff that cannot be applied."""
    if patch is None:
        return choose_subject(spec, policy, importing)
    if spec == "reference" or policy is not None:
        raise KvraceError("--patch changes vLLM, and the reference scheduler is not vLLM's; leave one of them out")
    from kvrace.patch.active import activate
    from kvrace.patch.diff import read_patch

    wanted = read_patch(Path(patch))
    release = release_of(spec)
    if release is not None:
        use(release)
    activate(wanted)
    _try_with(str(wanted), importing)
    return replace(choose_subject(spec or "vllm", None, importing), patch=patch)


def _try_with(patch: str, importing: Callable[[bool], None]) -> None:
    """Import the patched vLLM. Raises KvraceError, with the diff named in it: what goes wrong here may be its doing."""
    try:
        _load_vllm(importing)
    except KvraceError as error:
        raise KvraceError(f"with {patch}: {error}") from error
    except Exception as error:
        raise KvraceError(f"with {patch} vLLM cannot be used: {describe(error)}{_place(error)}") from error


def _reference(policy: str, note: str | None = None) -> SubjectChoice:
    from kvrace.reference.subject import ReferenceSubject

    def make(scope: Scope) -> Subject:
        return ReferenceSubject(scope, policy=policy)

    make(Scope(("local",)))  # an unknown policy shows here, before anything is explored
    return SubjectChoice("reference", policy, make, BOTH, note)


def _vllm_or_reference(importing: Callable[[bool], None]) -> SubjectChoice:
    from kvrace.vllm.environment import VllmUnavailable

    try:
        return _vllm(importing)
    except VllmUnavailable as error:
        return _reference(DEFAULT_POLICY, f"{_sentence(str(error))} The reference scheduler is checked instead.")


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _vllm(importing: Callable[[bool], None], spec: str = "vllm") -> SubjectChoice:
    api = _load_vllm(importing)
    from kvrace.vllm.subject import VllmSubject

    return SubjectChoice(spec, None, VllmSubject, api.schedulings)


def _release(version: str, importing: Callable[[bool], None], spec: str) -> SubjectChoice:
    use(version)
    try:
        return _vllm(importing, spec)
    except KvraceError as error:
        raise KvraceError(f"{error}{if_changed(version)}") from error


def _remedy(spec: str, importing: Callable[[bool], None]) -> SubjectChoice:
    """kvrace's drop-in scheduler, or vLLM's with a remedy that somebody proposed: its class for each scheduling."""
    _load_vllm(importing).check_holds_for_loads(f"'{spec}' is")
    from kvrace.vllm.remedies import REMEDIES
    from kvrace.vllm.subject import VllmSubject

    remedy = REMEDIES[FIXES_AS if spec == FIXED else spec]

    def make(scope: Scope) -> Subject:
        return VllmSubject(scope, remedy.scheduler(scope.scheduling))

    return SubjectChoice(spec, None, make, BOTH)


def _class(spec: str, importing: Callable[[bool], None]) -> SubjectChoice:
    _find_module(spec.partition(":")[0])  # before the seconds that vLLM takes
    _load_vllm(importing)
    folder = os.getcwd()
    _make_importable(folder)
    return choose_class(_import_class(spec), spec, folder)


def choose_class(found: object, spec: str | None = None, folder: str | None = None) -> SubjectChoice:
    """The subject for a class that is at hand. ``spec`` is what ``--subject`` takes for it, by default where it was defined;
    files below ``folder``, by default the current one, are shown relative to it.

    Raises KvraceError for what is no subclass of vLLM's Scheduler, or when vLLM is missing or unknown.
    """
    api = _load_vllm(lambda _: None)
    folder = folder or os.getcwd()
    named = spec or f"{getattr(found, '__module__', '')}:{getattr(found, '__qualname__', found)}"
    if not isinstance(found, type) or not issubclass(found, api.scheduler):
        raise KvraceError(f"{named} is not a subclass of vllm.v1.core.sched.scheduler:Scheduler")
    from kvrace.vllm.subject import VllmSubject

    def make(scope: Scope) -> Subject:
        return VllmSubject(scope, found, folder)

    plays: Scheduling = "async" if api.async_scheduler and issubclass(found, api.async_scheduler) else "sync"
    return SubjectChoice(named, None, make, (plays,))


def _find_module(module_name: str) -> None:
    """Look for the module's outermost package, also in the current folder, without importing anything. Raises KvraceError."""
    importlib.invalidate_caches()
    package = module_name.partition(".")[0]
    if package in sys.modules or importlib.util.find_spec(package):
        return
    if PathFinder.find_spec(package, [os.getcwd()]) is None:
        raise KvraceError(f"there is no module {quoted(package)} in {os.getcwd()} or on the Python path")


def _make_importable(folder: str) -> None:
    """After everything else, so that a file of the user takes the place of nothing that vLLM imports."""
    if folder not in sys.path:
        sys.path.append(folder)


def _import_class(spec: str) -> object:
    """The object that ``module:Class`` names. Raises KvraceError with one line, whatever importing the module raises."""
    module_name, _, path = spec.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for name in path.split("."):
            found = getattr(found, name, _MISSING)
            if found is _MISSING:
                raise KvraceError(f"module {quoted(module_name)} has no class {quoted(path)}")
    except (KvraceError, KeyboardInterrupt):
        raise
    except BaseException as error:  # also SystemExit: kvrace says how it ends
        raise KvraceError(f"importing {module_name} failed: {describe(error)}{_place(error)}") from error
    return found


def _place(error: BaseException) -> str:
    """The innermost frame of the user's own code, as `` (file:line)``."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith("<frozen")]
    own = [f for f in frames if f.filename != __file__ and not f.filename.endswith("importlib/__init__.py")]
    return f" ({own[-1].filename}:{own[-1].lineno})" if own else ""


def _load_vllm(importing: Callable[[bool], None]) -> Any:
    """Import vLLM and check its API, with what they print kept off the terminal (``KVRACE_DEBUG=1`` shows it)."""
    from kvrace.vllm.api import load_api

    importing(True)
    try:
        with ctrl_c_wins(), _quiet(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what vLLM imports; a test run may have made errors of warnings
            return load_api()
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        from kvrace.vllm.environment import VllmUnavailable

        raise VllmUnavailable(f"preparing vLLM failed: {describe(error)}") from error
    finally:
        importing(False)


@contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Standard output is for the report: what a scheduler or a user's module prints goes to standard error."""
    with _redirected({1: 2}), redirect_stdout(sys.stderr):
        yield


@contextmanager
def _quiet() -> Iterator[None]:
    """Send what is written to the file descriptors 1 and 2, by Python or by native code, to a file that is then dropped."""
    if os.environ.get("KVRACE_DEBUG"):
        with stdout_to_stderr():
            yield
        return
    with tempfile.TemporaryFile() as sink, _redirected({1: sink.fileno(), 2: sink.fileno()}):
        yield


@contextmanager
def _redirected(targets: dict[int, int]) -> Iterator[None]:
    """File descriptors that lead elsewhere for a while. What is buffered goes where it was written to."""
    streams = (sys.stdout, sys.stderr)
    _flush(streams)
    kept = {descriptor: os.dup(descriptor) for descriptor in targets}
    for descriptor, target in targets.items():
        os.dup2(target, descriptor)
    try:
        yield
    finally:
        _flush(streams)
        for descriptor, copy in kept.items():
            os.dup2(copy, descriptor)
            os.close(copy)


def _flush(streams: Iterable[TextIO]) -> None:
    for stream in streams:
        with suppress(OSError, ValueError):  # a reader that has gone away; a stream that a scheduler has closed
            stream.flush()
