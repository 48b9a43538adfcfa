"""``kvrace diff``: two schedulers over every order of a scope, and where the second does what the first does not."""

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
from kvrace.cli.patchdiff import compare_verdicts
from kvrace.cli.reports import STANDARD_OUTPUT, show
from kvrace.cli.scopes import ScopeOptions
from kvrace.diff import diff
from kvrace.patchdiff import Compared
from kvrace.render import diff as rendered
from kvrace.render.diff_json import diff_json
from kvrace.render.output import Output, standard_error, standard_output
from kvrace.render.progress import ProgressLine, progress_line
from kvrace.render.terminal import heading
from kvrace.subjects import SubjectChoice, choose_subject, stdout_to_stderr
from kvrace.watchdog import ending

Both = tuple[SubjectChoice, SubjectChoice]


@dataclass(frozen=True, slots=True)
class _Plan:
    """A run, fully checked before it begins."""

    both: Both
    scope_name: str
    scopes: Sequence[Scope]
    contract: Contract
    strict: bool
    limits: Limits


def diff_command(
    subjects: options.TwoSubjects = None,
    patch: options.Patch = None,
    policies: options.Policies = None,
    scheduler: options.Scheduler = None,
    contract: options.Contract = None,
    strict: options.Strict = False,
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
    trace_dir: options.TraceFolder = "kvrace-traces",
    no_color: options.NoColor = False,
) -> int:
    """Compare two schedulers on every order of events within a scope, and show the shortest order to each difference.
    With --patch: compare the verdicts on one scheduler without and with a diff.

    Both play the same orders, step by step. After every event they must have
    decided the same, told workers, clients and connector the same, and freed the
    same blocks. Where the first one breaks a property, the transition is excused:
    it is counted, and nothing is asked of the second there or after it. So a
    remedy can be held against what it mends: the same everywhere else?

    With --patch FILE.diff, vLLM (or one --subject) is checked as it is and with
    the diff, each in a process of its own, and every finding is said to be new,
    gone, or still there. A diff may change what is decided; what counts is what
    it breaks.

    \b
    Examples:
      kvrace diff --patch fix.diff --scope seed       what a pull request changes
      kvrace diff --subject vllm --subject fixed      kvrace's drop-in scheduler
      kvrace diff --subject vllm --subject mine:Sched --scope seed
      kvrace diff --strict --subject mine:Old --subject mine:New
      kvrace diff --subject vllm --subject reference --policy skip
      kvrace diff --subject reference --policy assert \\
                  --subject reference --policy wait_for_all

    \b
    Exit status:
      0  the same over the whole scope; with --patch: nothing new is violated
      1  there is a difference; with --patch: a finding is new
      2  usage or environment error, with one line on standard error
      3  incomplete: a limit was reached first, and there is no difference
         (with --patch: nothing that is surely new) so far
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
    Limits.of(time_limit, max_states, call_timeout, named_option)  # refused before vLLM is imported
    if patch is not None:
        if strict or policies:
            raise KvraceError("--patch compares verdicts on vLLM; leave out --strict and --policy")
        wanted = Compared(options.only(subjects, "--subject") or "vllm", patch, name, tuple(scopes), scheduler, under)
        limits = Limits.of(time_limit, max_states, call_timeout, named_option)
        return compare_verdicts(wanted, limits, Path(trace_dir), JsonTarget.of(json), output, not no_color)
    specs = _with_policies(subjects or [], policies or [])
    target = JsonTarget.of(json)
    with progress_line(not no_color) as line:
        with stdout_to_stderr():
            first, second = (choose_subject(spec, policy, line.importing) for spec, policy in specs)
        cases = _cases((first, second), scopes, scheduler)
        limits = Limits.of(time_limit, max_states, call_timeout, named_option)
        return _run(_Plan((first, second), name, cases, under, strict, limits), target, output, line)


def _with_policies(subjects: Sequence[str], policies: Sequence[str]) -> list[tuple[str, str | None]]:
    """Both subjects, each with its policy: one for each reference scheduler in their order, or none at all."""
    if len(subjects) != 2:
        raise KvraceError("two schedulers are compared: give --subject twice, as in --subject vllm --subject fixed")
    references = subjects.count("reference")
    if policies and len(policies) != references:
        raise KvraceError(
            f"--policy is for the reference scheduler, which is named {references} times here: give it as often, in the same order"
        )
    left = iter(policies)
    return [(spec, next(left, None) if spec == "reference" else None) for spec in subjects]


def _cases(both: Both, scopes: Sequence[Scope], scheduler: str | None) -> list[Scope]:
    """The scopes that both can play. Raises KvraceError when there are none."""
    played = [set(choice.cases(scopes, scheduler)) for choice in both]
    cases = [scope for scope in scopes if scope in played[0] & played[1]]
    if not cases:
        words = " and ".join(f"{choice.spec} plays {choice.schedulings[0]} scheduling only" for choice in both)
        raise KvraceError(f"{words}: there is nothing that both can play")
    return cases


def _run(plan: _Plan, json: JsonTarget, output: Output, line: ProgressLine) -> int:
    make_first, make_second = (ending(choice.make, plan.limits.call_seconds) for choice in plan.both)
    one_of_each: dict[Scheduling, Scope] = {}
    for scope in plan.scopes:
        one_of_each.setdefault(scope.scheduling, scope)
    with stdout_to_stderr():
        who = (
            [make_first(scope).identity for scope in one_of_each.values()],
            [make_second(scope).identity for scope in one_of_each.values()],
        )
    doing = {"comparing": who[0], "with": who[1]}
    show(output, heading(doing, plan.scope_name, plan.scopes, plan.contract, ()))
    with interruptible(line.exploring) as listen, stdout_to_stderr():
        result = diff(
            make_first,
            make_second,
            plan.scopes,
            plan.contract,
            scope_name=plan.scope_name,
            strict=plan.strict,
            limits=plan.limits,
            listen=listen,
        )
    line.clear()
    show(output, rendered.report(result, who, output.width))
    json.write(diff_json(result, who))
    return result.exit_code
