"""``kvrace replay``: play recorded orders again and say what became of their findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kvmodel.errors import KvraceError, shortened
from kvrace.cli import options
from kvrace.files import check_target, write_atomically
from kvrace.render.output import Output, standard_output
from kvrace.render.progress import ProgressLine, progress_line
from kvrace.render.replay import as_written, counts, heading, report, unchanged_or_rewritten
from kvrace.render.suite import suite_report
from kvrace.replay import Replay, prefix, replay
from kvrace.subjects import BUILT_IN, DEFAULT_POLICY, SubjectChoice, choose_patched, stdout_to_stderr
from kvrace.suitefile import SuiteFile, is_suite, parse_suite
from kvrace.suitereplay import SuiteReplay, conform
from kvrace.textform import TextForm, is_text_form, parse_text
from kvrace.trace import RecordedTrace, parse_trace, read_bytes
from kvrace.written import differences, rewritten, settled

_WORST_FIRST = (1, 3, 0)


def replay_command(
    files: options.Orders,
    until: options.Until = None,
    rewrite: options.Rewrite = False,
    subject: options.Subject = None,
    policy: options.Policy = None,
    patch: options.Patch = None,
    call_timeout: options.CallTimeout = 10.0,
    no_color: options.NoColor = False,
) -> int:
    """Play recorded orders again: on their own scheduler, or with --subject on another one.

    FILE is a trace that 'kvrace check' wrote, or a text form: the same order for
    people to read, edit and keep in a repository. Beneath each event a text says
    what happens, and replay shows what happens otherwise.
    'kvrace export --as text' makes one of a trace; events alone are one as well.
    Of a suite, which 'kvrace suite' wrote, every tour is played, and the first
    thing that does not happen as recorded is shown.

    \b
    Examples:
      kvrace replay kvrace-traces/no-crash-*.itf.json
      kvrace replay --until 3 TRACE             only the first three events
      kvrace replay --subject mine:Sched TRACE  the same order on your class
      kvrace replay --patch fix.diff TRACE      on vLLM with this diff
      kvrace replay tests/counterexamples/*.txt
      kvrace replay --rewrite ORDER.txt         write what happens now
      kvrace replay suite/*                     all tours of a suite

    \b
    Exit status:
      0  fixed, or still holds: everything was played, nothing is violated
         and a text is as written; a suite conforms, violations and all;
         with --rewrite: the file now says what happens, also when that
         is a violation
      1  still failing, fails differently, newly failing, or written
         otherwise; or a suite differs
      2  usage or environment error, with one line on standard error
      3  diverged: the order cannot be played to its end on this scheduler
         (--rewrite leaves such a file as it is);
         or with --until, nothing is violated yet
      Of several files the worst counts: 1 before 3 before 0.
    """
    if not 0 < call_timeout < float("inf"):
        raise KvraceError(f"--call-timeout {call_timeout:g}: must be more than 0 seconds")
    if rewrite and until is not None:
        raise KvraceError("--rewrite writes what happens in the whole order; leave out --until")
    orders = [_read(Path(file), rewrite) for file in files]
    for order in orders:
        if isinstance(order, SuiteFile):
            _check_that_it_is_played_whole(order, until, rewrite)
            continue
        prefix(order.recorded, until)
        if rewrite:
            _check_that_it_is_kept(order.recorded, subject, policy)
    output = standard_output(not no_color)
    run = _Run(output, rewrite, len(orders) > 1)
    with progress_line(not no_color) as line:
        chooser = _Chooser(subject, policy, patch, line.importing)
        choices = []
        for order in orders:
            recorded = order if isinstance(order, SuiteFile) else order.recorded
            with stdout_to_stderr(), _named(recorded.path, run.several):
                choices.append(chooser.choose(recorded))
        for order, choice in zip(orders, choices, strict=True):
            if isinstance(order, SuiteFile):
                run.tell_suite(_conform(order, choice, call_timeout, line, run.several))
                continue
            with stdout_to_stderr(), _named(order.recorded.path, run.several):
                result = replay(order.recorded, choice, call_timeout, until)
            run.tell(order, result)
    return run.end()


@dataclass(frozen=True, slots=True)
class _Order:
    """A file as it was read; ``form`` if it is a text form."""

    recorded: RecordedTrace
    form: TextForm | None


def _conform(
    suite: SuiteFile, choice: SubjectChoice, call_timeout: float, line: ProgressLine, several: bool
) -> SuiteReplay:
    with stdout_to_stderr(), _named(suite.path, several):
        result = conform(suite, choice, call_timeout, lambda done, tours: line.playing(suite.path.name, done, tours))
    line.clear()
    return result


def _read(path: Path, rewrite: bool) -> _Order | SuiteFile:
    raw = read_bytes(path)
    if is_suite(raw):
        return parse_suite(path, raw)
    if is_text_form(raw):
        form = parse_text(path, raw)
        if rewrite:
            check_target(path, "--rewrite")
        return _Order(form.recorded, form)
    if rewrite:
        raise KvraceError(
            f"{path}: not a text form, and only these are rewritten; 'kvrace export --as text' makes one of a trace"
        )
    return _Order(parse_trace(path, raw), None)


def _check_that_it_is_played_whole(suite: SuiteFile, until: int | None, rewrite: bool) -> None:
    if until is not None:
        raise KvraceError(f"{suite.path}: a suite is played to its end; leave out --until")
    if rewrite:
        raise KvraceError(f"{suite.path}: a suite is not rewritten; 'kvrace suite' makes a new one")


def _check_that_it_is_kept(recorded: RecordedTrace, subject: str | None, policy: str | None) -> None:
    """Raises KvraceError when a text that was recorded on one scheduler would be rewritten on another."""
    if not recorded.identity.scheduler:
        return
    spec = recorded.spec if subject is None and policy is None else subject or "reference"
    kept = recorded.policy or DEFAULT_POLICY
    if spec != recorded.spec or (policy is not None and policy != kept):
        name = "policy" if spec == recorded.spec else "subject"
        option = "--policy" if subject is None or name == "policy" else "--subject"
        raise KvraceError(
            f"{recorded.path}: --rewrite keeps the scheduler a text was recorded on; "
            f"change its '{name}:' line or leave out {option}"
        )


@contextmanager
def _named(path: Path, several: bool) -> Iterator[None]:
    """Of several files, an error of the scheduler says which one it was for."""
    try:
        yield
    except KvraceError as error:
        if not several or str(error).startswith(str(path)):
            raise
        raise KvraceError(f"{path}: {error}") from error


@dataclass(slots=True)
class _Run:
    """The files of one command, told one after the other."""

    output: Output
    rewrite: bool
    several: bool
    replays: list[Replay] = field(default_factory=list)
    suites: list[SuiteReplay] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    otherwise: int = 0
    rewritten: int = 0

    def tell(self, order: _Order, result: Replay) -> None:
        """Print the report of one file, and rewrite it if that is asked for and every event was played."""
        if self.several:
            self.output.print(*([""] if self.statuses else []), heading(str(order.recorded.path)))
        self.output.print(report(result, self.output.width))
        self.replays.append(result)
        self.statuses.append(self._compare(order.form, result))

    def tell_suite(self, result: SuiteReplay) -> None:
        """Print what became of a suite: one line when it conforms, so that a folder full of them stays in sight."""
        self.output.print(suite_report(result, self.output.width))
        self.suites.append(result)
        self.statuses.append(result.exit_code)

    def _compare(self, form: TextForm | None, result: Replay) -> int:
        if form is None:
            return result.exit_code
        if not self.rewrite:
            found = differences(form, result)
            self.otherwise += bool(found)
            self.output.print(as_written(result, found, form.written is not None))
            return result.exit_code if not found or result.outcome == "diverged" else 1
        if result.refused is not None:
            self.output.print(unchanged_or_rewritten(result, changed=False))
            return 3
        changed = not settled(form, result)
        if changed:
            write_atomically(form.recorded.path, rewritten(form, result))
            self.rewritten += 1
        self.output.print(unchanged_or_rewritten(result, changed))
        return 0

    def end(self) -> int:
        if self.several:
            differing = sum(result.first is not None for result in self.suites)
            conforming = len(self.suites) - differing
            self.output.print("", counts(self.replays, self.otherwise, self.rewritten, conforming, differing))
        return next(status for status in _WORST_FIRST if status in self.statuses)


@dataclass(slots=True)
class _Chooser:
    """The subject of each file: vLLM is imported, and a class looked up, once."""

    subject: str | None
    policy: str | None
    patch: str | None
    importing: Callable[[bool], None]
    known: dict[tuple[str, str | None], SubjectChoice] = field(default_factory=dict)

    def choose(self, recorded: RecordedTrace | SuiteFile) -> SubjectChoice:
        """The recorded subject, or the one the user names. A file alone never makes kvrace import a module."""
        spec, policy = self.subject, self.policy
        if spec is None:
            if recorded.spec not in BUILT_IN:
                raise KvraceError(
                    f"{recorded.path} was recorded on {shortened(recorded.spec)}; a trace does not choose what is imported, so "
                    f"add --subject {shortened(recorded.spec)} (or another) to play it"
                )
            spec = "reference" if policy is not None else recorded.spec
            self._check_that_no_patch_is_missing(recorded)
        if spec == "reference" and policy is None and recorded.spec == "reference":
            policy = recorded.policy
        if (spec, policy) not in self.known:
            self.known[spec, policy] = choose_patched(spec, policy, self.patch, self.importing)
        return self.known[spec, policy]

    def _check_that_no_patch_is_missing(self, recorded: RecordedTrace | SuiteFile) -> None:
        """Raises KvraceError when an order of a patched vLLM would be played on another one without the user knowing."""
        patch = recorded.identity.patch
        if patch is not None and self.patch is None:
            raise KvraceError(
                f"{recorded.path} was recorded on {recorded.identity.name} {recorded.identity.release}; add --patch "
                f"{shortened(patch.file)} to play it there, or --subject {shortened(recorded.spec)} to play it without"
            )
