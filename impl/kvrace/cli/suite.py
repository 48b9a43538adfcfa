"""``kvrace suite``: tours that take every transition of a scope, as files that ``kvrace replay`` plays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kvmodel.contract import Contract
from kvmodel.errors import KvraceError, quoted
from kvmodel.scope import Scheduling, Scope
from kvrace.check import Limits
from kvrace.cli import options, scope_options
from kvrace.cli.check import named_option
from kvrace.cli.contracts import contract_of
from kvrace.cli.interrupt import interruptible
from kvrace.cli.jsontarget import JsonTarget
from kvrace.cli.reports import STANDARD_OUTPUT, show
from kvrace.cli.scopes import ScopeOptions
from kvrace.files import TraceFolder, write_atomically
from kvrace.render import terminal
from kvrace.render.output import Output, standard_error, standard_output
from kvrace.render.progress import ProgressLine, progress_line
from kvrace.render.suite import incomplete, suite_json, suite_table
from kvrace.subjects import SubjectChoice, choose_subject, stdout_to_stderr
from kvrace.suite import RESET_PRICE, CaseTours, LimitReached, make_tours
from kvrace.suitefile import SUFFIX, suite_texts
from kvrace.trace import MAX_EVENTS
from kvrace.watchdog import ending

MOST_EXPENSIVE = 1000


def suite_command(
    out: options.SuiteFolder,
    reset_cost: options.ResetCost = RESET_PRICE,
    longest: options.LongestTour = MAX_EVENTS,
    subject: options.Subject = None,
    scheduler: options.Scheduler = None,
    policy: options.Policy = None,
    contract: options.Contract = None,
    scope: scope_options.ScopeName = None,
    requests: scope_options.Requests = None,
    blocks: scope_options.Blocks = None,
    block_size: scope_options.BlockSize = None,
    prompt_blocks: scope_options.PromptBlocks = None,
    prompts: scope_options.Prompts = None,
    output_tokens: scope_options.OutputTokens = None,
    token_budget: scope_options.TokenBudget = None,
    priorities: scope_options.Priorities = None,
    prefix_sharing: scope_options.PrefixSharing = False,
    early_stop: scope_options.EarlyStop = False,
    separate_ends: scope_options.SeparateEnds = False,
    engine_order: scope_options.EngineOrder = False,
    time_limit: options.TimeLimit = None,
    max_states: options.MaxStates = None,
    call_timeout: options.CallTimeout = 10.0,
    json: options.Json = None,
    no_color: options.NoColor = False,
) -> int:
    """Write a conformance suite: orders that take every transition of a scope at least once, with what happens in them.

    The orders are tours: each begins on a fresh scheduler and goes on from
    transition to transition, and all of them together cost as little as
    possible. A file holds the tours of one case; 'kvrace replay' plays them, on
    the same scheduler after a change or on another one, and shows the first
    thing that happens otherwise. What a tour breaks is recorded like everything
    else: a suite says what a scheduler does, and not what it should do.

    \b
    Examples:
      kvrace suite --scope seed --out suite       two files, in seconds
      kvrace suite --out suite                    scope small on vLLM, minutes
      kvrace replay suite/*                       does it still conform?
      kvrace replay --subject mine:Sched suite/*-sync.suite.json
      kvrace suite --requests load,save --subject reference --out suite

    \b
    Exit status:
      0  the suite was written; violations in it are recorded
      2  usage or environment error, with one line on standard error
      3  incomplete: a limit was reached first, and nothing was written
    """
    output = standard_error(not no_color) if json == STANDARD_OUTPUT else standard_output(not no_color)
    name, scopes = ScopeOptions(
        scope,
        requests,
        blocks,
        block_size,
        prompt_blocks,
        prompts,
        output_tokens,
        token_budget,
        priorities,
        prefix_sharing,
        early_stop,
        separate_ends,
        engine_order,
    ).scopes()
    under = contract_of(contract)
    if scheduler not in (None, "sync", "async"):
        raise KvraceError(f"unknown scheduler {quoted(scheduler)}: use sync or async")
    if not 1 <= reset_cost <= MOST_EXPENSIVE:
        raise KvraceError(f"--reset-cost {reset_cost}: use 1 to {MOST_EXPENSIVE}, in scheduler calls")
    if not 1 <= longest <= MAX_EVENTS:
        raise KvraceError(f"--longest {longest}: use 1 to {MAX_EVENTS}, in events")
    Limits.of(time_limit, max_states, call_timeout, named_option)  # refused before vLLM is imported
    target = JsonTarget.of(json)
    with progress_line(not no_color) as line:
        with stdout_to_stderr():
            choice = choose_subject(subject, policy, line.importing)
        limits = Limits.of(time_limit, max_states, call_timeout, named_option)
        plan = _Plan(choice, name, choice.cases(scopes, scheduler), under, reset_cost, longest, limits)
        return _run(plan, Path(out), target, output, line)


@dataclass(frozen=True, slots=True)
class _Plan:
    """A run, fully checked before it begins."""

    choice: SubjectChoice
    scope_name: str
    scopes: Sequence[Scope]
    contract: Contract
    reset_cost: int
    longest: int
    limits: Limits


def _run(plan: _Plan, out: Path, json: JsonTarget, output: Output, line: ProgressLine) -> int:
    folder = TraceFolder(out, "--out")
    try:
        if any(folder.path.iterdir()):
            raise KvraceError(f"--out: {out} is not empty; name a folder that is new or empty")
        cases = _made(plan, output, line)
        if cases is None:
            return 3
        files = _write(plan, cases, folder)
    finally:
        folder.leave_no_empty_folder()
    show(output, suite_table(cases, folder.shown, sum(map(len, files))))
    json.write(suite_json(plan.scope_name, cases, files))
    return 0


def _made(plan: _Plan, output: Output, line: ProgressLine) -> list[CaseTours] | None:
    """The tours of every case; None, and a line that says so, when a limit came first."""
    make = ending(plan.choice.make, plan.limits.call_seconds)
    one_of_each: dict[Scheduling, Scope] = {}
    for scope in plan.scopes:
        one_of_each.setdefault(scope.scheduling, scope)
    with stdout_to_stderr():
        identities = [make(scope).identity for scope in one_of_each.values()]
    notes = (plan.choice.note,) if plan.choice.note else ()
    show(output, terminal.header(identities, plan.scope_name, plan.scopes, plan.contract, notes, "recording"))
    cases: list[CaseTours] = []
    try:
        with interruptible(line.exploring) as listen, stdout_to_stderr():
            for case in make_tours(
                make,
                plan.scopes,
                plan.contract,
                reset_price=plan.reset_cost,
                longest=plan.longest,
                limits=plan.limits,
                listen=listen,
                touring=line.touring,
            ):
                cases.append(case)
    except LimitReached as limit:
        line.clear()
        output.print(incomplete(str(limit), len(cases), len(plan.scopes)))
        return None
    line.clear()
    return cases


def _write(plan: _Plan, cases: Sequence[CaseTours], folder: TraceFolder) -> list[list[str]]:
    """One file for each case, or several for a large one: their names."""
    names = []
    digits = len(str(len(cases)))
    for number, case in enumerate(cases, 1):
        parts = suite_texts(case, plan.scope_name, plan.choice.spec, plan.choice.policy)
        stem = f"{number:0{digits}}-{'+'.join(case.scope.requests)}"
        written = []
        for part, text in enumerate(parts, 1):
            which = f"-part{part}" if len(parts) > 1 else ""
            written.append(f"{stem}{which}-{case.scope.scheduling}{SUFFIX}")
            write_atomically(folder.path / written[-1], text)
        names.append(written)
    return names
