"""``kvrace check``: exhaust a scope on a scheduler and show the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kvmodel.contract import Contract
from kvmodel.errors import KvraceError, quoted
from kvmodel.properties import chosen_properties
from kvmodel.relation.policies import policy_named
from kvmodel.scope import Scheduling, Scope
from kvrace.check import Limits, check
from kvrace.cli import options, scope_options
from kvrace.cli.contracts import contract_of
from kvrace.cli.interrupt import interruptible
from kvrace.cli.reports import STANDARD_OUTPUT, Report, asked_for, show, tell
from kvrace.cli.scopes import ScopeOptions
from kvrace.files import TraceFolder
from kvrace.render import terminal
from kvrace.render.listing import listing
from kvrace.render.output import Output, standard_error, standard_output
from kvrace.render.progress import ProgressLine, progress_line
from kvrace.subjects import SubjectChoice, choose_patched, stdout_to_stderr
from kvrace.watchdog import ending


@dataclass(frozen=True, slots=True)
class _Plan:
    """A run, fully checked before it begins."""

    choice: SubjectChoice
    scope_name: str
    scopes: Sequence[Scope]
    contract: Contract
    properties: tuple[str, ...]
    limits: Limits
    conformance: str | None


def check_command(
    subject: options.Subject = None,
    patch: options.Patch = None,
    scheduler: options.Scheduler = None,
    policy: options.Policy = None,
    contract: options.Contract = None,
    properties: options.Property = None,
    conformance: options.Conformance = None,
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
    html: options.Html = None,
    junit: options.Junit = None,
    sarif: options.Sarif = None,
    trace_dir: options.TraceFolder = "kvrace-traces",
    no_color: options.NoColor = False,
    list_names: options.List = False,
) -> int:
    """Try every order of events within a scope on a scheduler, and show the shortest order that breaks a rule.

    \b
    Examples:
      kvrace check                        vLLM as installed here, scope small
      kvrace check --scope seed           the race that kvrace began with
      kvrace check --requests load_save,local --blocks 3
      kvrace check --contract duplicate   a connector that reports twice
      kvrace check --subject mine:Sched   your subclass, from ./mine.py
      kvrace check --patch fix.diff       vLLM with a pull request's diff
      kvrace check --subject reference --policy wait_for_all
      kvrace check --conformance assert   held against the specification

    \b
    Exit status:
      0  everything holds over the whole scope
      1  something is violated, or a step diverges from the specification
      2  usage or environment error, with one line on standard error
      3  incomplete: a limit was reached first, and nothing is violated so far
    """
    output = standard_error(not no_color) if json == STANDARD_OUTPUT else standard_output(not no_color)
    if list_names:
        output.print(listing())
        return 0
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
    judged_by = contract_of(contract)
    wanted = _properties(properties)
    if conformance is not None:
        policy_named(conformance)
    if scheduler not in (None, "sync", "async"):
        raise KvraceError(f"unknown scheduler {quoted(scheduler)}: use sync or async")
    Limits.of(time_limit, max_states, call_timeout, named_option)  # refused before vLLM is imported
    reports = asked_for({"--json": json, "--html": html, "--junit": junit, "--sarif": sarif})
    with progress_line(not no_color) as line:
        with stdout_to_stderr():
            choice = choose_patched(subject, policy, patch, line.importing)
        cases = choice.cases(scopes, scheduler)
        limits = Limits.of(time_limit, max_states, call_timeout, named_option)
        plan = _Plan(choice, name, cases, judged_by, wanted, limits, conformance)
        return _run(plan, TraceFolder(Path(trace_dir)), reports, output, line)


def _properties(given: list[str] | None) -> tuple[str, ...]:
    return chosen_properties([name.strip() for text in given for name in text.split(",")] if given else None)


def named_option(name: str) -> str:
    """What the user calls a limit."""
    return f"--{name.replace('_', '-')}"


def _run(plan: _Plan, folder: TraceFolder, reports: Sequence[Report], output: Output, line: ProgressLine) -> int:
    choice = plan.choice
    notes = (choice.note,) if choice.note else ()
    make = ending(choice.make, plan.limits.call_seconds)
    try:
        one_of_each: dict[Scheduling, Scope] = {}
        for scope in plan.scopes:
            one_of_each.setdefault(scope.scheduling, scope)
        with stdout_to_stderr():
            identities = [make(scope).identity for scope in one_of_each.values()]
        show(output, terminal.header(identities, plan.scope_name, plan.scopes, plan.contract, notes))
        with interruptible(line.exploring) as listen, stdout_to_stderr():
            result = check(
                make,
                plan.scopes,
                plan.contract,
                scope_name=plan.scope_name,
                properties=plan.properties,
                limits=plan.limits,
                listen=listen,
                conformance=plan.conformance,
            )
        line.clear()
        return tell(replace(result, notes=(*notes, *result.notes)), identities, choice, folder, reports, output)
    finally:
        folder.leave_no_empty_folder()
