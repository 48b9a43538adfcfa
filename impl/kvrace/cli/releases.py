"""``kvrace matrix releases`` and ``kvrace bisect``: what is broken in which release, and since when."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from kvmodel.contract import MEANINGS, Contract
from kvmodel.errors import KvraceError
from kvrace.bisect import Bisection, bisect
from kvrace.check import Limits
from kvrace.cli import matrix_options, options, scope_options
from kvrace.cli.check import named_option
from kvrace.cli.interrupt import interruptible
from kvrace.cli.jsontarget import JsonTarget
from kvrace.cli.program import program
from kvrace.cli.reports import STANDARD_OUTPUT, show
from kvrace.cli.scopes import ScopeOptions
from kvrace.files import check_target, check_writable, reason, write_atomically
from kvrace.lab.catalogue import catalogue, in_order, release_named
from kvrace.releasematrix import TRACES, CellMaker, kept_matrix, release_matrix
from kvrace.render.bisect import probe_line
from kvrace.render.bisect import report as bisect_report
from kvrace.render.output import standard_error, standard_output
from kvrace.render.progress import progress_line
from kvrace.render.releases import header, report
from kvrace.render.releases_json import releases_json
from kvrace.render.terminal import ReplayCommand

DEFAULT_RELEASES_SCOPE = "seed"
CALL_SECONDS = 10.0


def releases_command(
    releases: matrix_options.ReleaseNames = None,
    contracts: matrix_options.ContractNames = None,
    scope: matrix_options.ReleasesScope = None,
    requests: scope_options.Requests = None,
    blocks: scope_options.Blocks = None,
    time_limit: options.TimeLimit = None,
    max_states: options.MaxStates = None,
    jobs: matrix_options.Jobs = None,
    results: matrix_options.Results = "kvrace-matrix",
    fresh: matrix_options.Fresh = False,
    json: options.Json = None,
    html: options.Html = None,
    no_color: options.NoColor = False,
) -> int:
    """Try every order on each sampled release of vLLM, under each contract, and show what each of them breaks, and since when.

    Each release is explored in a process of its own; one that the lab lacks is
    fetched ('kvrace lab'). Every release under every contract is kept in a file
    once it is finished: ended in whatever way, the next run goes on there.

    \b
    Examples:
      kvrace matrix releases                       all of the lab's, scope seed
      kvrace matrix releases --release 0.31.0 --release 0.32.0
      kvrace matrix releases --contract exactly-once --scope pair
      kvrace matrix releases --json matrix.json --html matrix.html
      kvrace bisect --finding ID                   which release brought it?

    \b
    Exit status:
      0  the matrix is complete; a violated cell is a result, not an error
      2  usage or environment error, with one line on standard error
      3  incomplete: interrupted, a limit was reached, or a release could not be
         explored; what was finished is shown and kept
    """
    output = standard_error(not no_color) if json == STANDARD_OUTPUT else standard_output(not no_color)
    chosen = _chosen(releases)
    under = [str(Contract.parse(name)) for name in contracts or MEANINGS]
    Limits.of(time_limit, max_states, CALL_SECONDS, named_option)  # refused before anything is shown
    many = _jobs(jobs)
    target = JsonTarget.of(json)
    if html is not None:
        check_target(Path(html), "--html")
    named = scope if scope is not None or requests is not None else DEFAULT_RELEASES_SCOPE
    name, scopes = ScopeOptions(named, requests, blocks).scopes()
    folder = _folder(results)
    with progress_line(not no_color) as line, interruptible(line.doing) as listen:
        show(output, header(chosen, name, scopes, Path(results)))
        maker = CellMaker(folder, name, tuple(scopes), Limits.of(time_limit, max_states, CALL_SECONDS, named_option))
        made = release_matrix(maker, chosen, list(dict.fromkeys(under)), fresh=fresh, jobs=many, listen=listen)
    replay = ReplayCommand(program())
    show(output, report(made, Path(results), replay))
    target.write(releases_json(made, Path(results), replay))
    if html is not None:
        from kvrace.render.html.releases import releases_page

        write_atomically(Path(html), releases_page(made, Path(results), replay))
    return made.exit_code


def bisect_command(
    finding: matrix_options.FindingId,
    releases: matrix_options.ReleaseNames = None,
    scope: matrix_options.ReleasesScope = None,
    requests: scope_options.Requests = None,
    blocks: scope_options.Blocks = None,
    every: matrix_options.EveryRelease = False,
    results: matrix_options.Results = "kvrace-matrix",
    no_color: options.NoColor = False,
) -> int:
    """Say which sampled release brought a finding, and which took it away.

    FINDING is an id that 'kvrace matrix releases' shows; it is looked for in the
    results that are kept, and what is not known yet is explored. Half of the
    releases that are left fall away with each probe, which is right only if the
    finding came once and went once: where the results that are kept say
    otherwise, that is said, and every release is looked at.

    \b
    Examples:
      kvrace bisect --finding f3a91c
      kvrace bisect --finding f3a91c --every        look at each release

    \b
    Exit status:
      0  the releases are named
      2  usage or environment error, or no result that is kept has this finding
      3  incomplete: interrupted, or a release could not be explored
    """
    output = standard_output(not no_color)
    chosen = _chosen(releases)
    named = scope if scope is not None or requests is not None else DEFAULT_RELEASES_SCOPE
    name, scopes = ScopeOptions(named, requests, blocks).scopes()
    maker = CellMaker(Path(results).absolute(), name, tuple(scopes), Limits(call_seconds=CALL_SECONDS))
    known = kept_matrix(maker, chosen, list(MEANINGS))
    wanted = next((one for one in known.findings if one.id == finding), None)
    if wanted is None:
        raise KvraceError(
            f"nothing in {results} has a finding {finding} over {name}, of this kvrace and the releases that are installed; "
            "'kvrace matrix releases' shows what there is"
        )
    _folder(results)
    with progress_line(not no_color) as line, interruptible(line.doing) as listen:

        def tell(probe: Bisection) -> None:
            line.clear()
            show(output, probe_line(probe.probes[-1]))

        found = bisect(maker, wanted, known, every=every, listen=listen, tell=tell)
        line.clear()
    show(output, bisect_report(found))
    return found.exit_code


def _chosen(releases: Sequence[str] | None) -> list[str]:
    """The releases asked for, the oldest first; those of the catalogue if none was."""
    if not releases:
        return [release.version for release in catalogue() if not release.cannot]
    return in_order({release_named(version).version for version in releases})


def _jobs(given: int | None) -> int:
    if given is not None and given < 1:
        raise KvraceError(f"--jobs {given}: must be 1 or more")
    return given or os.cpu_count() or 1


def _folder(results: str) -> Path:
    folder = Path(results).absolute()
    try:
        (folder / TRACES).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise KvraceError(f"--results: cannot make {results}: {reason(error)}") from error
    check_writable(folder, "--results")
    return folder
