"""The options of ``kvrace check`` and ``kvrace replay``, each with the words that ``--help`` shows."""

from __future__ import annotations

from typing import Annotated, TypeVar

import typer

from kvmodel.contract import ALL_MEANINGS, EXACTLY_ONCE, MEANINGS
from kvmodel.errors import KvraceError
from kvmodel.named_scopes import NAMED_SCOPES
from kvmodel.properties import PROPERTY_NAMES
from kvmodel.relation.policies import POLICIES
from kvmodel.relation.safety import ASSUMPTIONS
from kvmodel.scope import KINDS

_Given = TypeVar("_Given")


def _not_empty(context: typer.Context, parameter: typer.CallbackParam, given: _Given) -> _Given:
    """An empty value is a shell variable that is not set, and never what the user means."""
    if "" in (given if isinstance(given, list) else [given]):
        name = max(parameter.opts, key=len) if parameter.param_type_name == "option" else parameter.metavar
        raise KvraceError(f"{name}: the value is empty")
    return given


def only(given: list[str] | None, option: str) -> str | None:
    """The one value of an option whose last value must not silently win. Raises KvraceError where there are more."""
    if given and len(given) > 1:
        raise KvraceError(f"{option} is given {len(given)} times: which one is meant?")
    return given[0] if given else None


_SUBJECT, _SCOPE, _LIMITS, _OUTPUT = "What is checked", "Over which scope", "When to stop", "What is written"
_PROVED = "What is proved"
DEFAULT_SCOPE = "small"

Subject = Annotated[
    str | None,
    typer.Option(
        "--subject",
        metavar="vllm|vllm==VERSION|reference|module:Class",
        help="The scheduler: vLLM's own, that of a release ('kvrace lab list'), kvrace's reference scheduler, or your subclass of "
        "vLLM's (the current folder can be imported); also fixed, kvrace's drop-in, and vLLM with a proposed remedy: "
        f"{', '.join(POLICIES)}. "
        "Without it: vLLM where it can be imported, else the reference scheduler.",
        callback=_not_empty,
        rich_help_panel=_SUBJECT,
    ),
]
Patch = Annotated[
    str | None,
    typer.Option(
        "--patch",
        metavar="FILE.diff",
        help="Apply this diff of vLLM's Python files to a private copy of vLLM, and take that one. The installed one is not "
        "touched. Code in the diff is run.",
        callback=_not_empty,
        rich_help_panel=_SUBJECT,
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="sync|async",
        help="One step in flight, or two (async scheduling). Without it: both.",
        callback=_not_empty,
        rich_help_panel=_SUBJECT,
    ),
]
Policy = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="NAME",
        help=f"What the reference scheduler does with the report of a transfer whose request is over: {', '.join(POLICIES)}. "
        "assert is what vLLM 0.16-0.33 does; 'kvrace prove --list' says what each means.",
        callback=_not_empty,
        rich_help_panel=_SUBJECT,
    ),
]
TwoSubjects = Annotated[
    list[str] | None,
    typer.Option(
        "--subject",
        metavar="vllm|reference|module:Class",
        help="Give it twice: the scheduler that is right by definition, and the one that is to do the same. vLLM's own, kvrace's "
        "drop-in scheduler, the reference scheduler, or a subclass of vLLM's (the current folder can be imported).",
        callback=_not_empty,
        rich_help_panel=_SUBJECT,
    ),
]
Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        metavar="assert|skip|wait_for_all",
        help="What a reference scheduler does with the report of a transfer whose request is over. One for each reference "
        "scheduler, in their order. Without it: assert.",
        callback=_not_empty,
        rich_help_panel=_SUBJECT,
    ),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        metavar="",
        help="Excuse nothing: the second has to do the same also where the first breaks a property, and after that.",
        rich_help_panel=_SUBJECT,
    ),
]
Contract = Annotated[
    list[str] | None,
    typer.Option(
        "--contract",
        metavar="NAME[,NAME]",
        help=f"What the connector may do: {', '.join(ALL_MEANINGS)}. 'kvrace check --list' says what each means. "
        f"Default: {EXACTLY_ONCE}.",
        callback=_not_empty,
        rich_help_panel=_SUBJECT,
    ),
]
Property = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        metavar="NAME[,NAME]",
        help=f"Check only these; may be given more than once. {', '.join(PROPERTY_NAMES)}.",
        callback=_not_empty,
        rich_help_panel=_SUBJECT,
    ),
]
Conformance = Annotated[
    str | None,
    typer.Option(
        "--conformance",
        metavar="NAME",
        help="Hold every step also against the specification with this policy (as --policy): wait_for_all is right, assert "
        "describes vLLM 0.16-0.33. A step it does not allow is shown as a divergence.",
        callback=_not_empty,
        rich_help_panel=_SUBJECT,
    ),
]
ScopeName = Annotated[
    str | None,
    typer.Option(
        "--scope",
        metavar="NAME|FILE.toml",
        help=f"A scope by name: {', '.join(NAMED_SCOPES)}. Default: {DEFAULT_SCOPE}. Or a file of your own, with the "
        "fields of a scope, as in spec/exploration.md.",
        callback=_not_empty,
        rich_help_panel=_SCOPE,
    ),
]
Requests = Annotated[
    str | None,
    typer.Option(
        "--requests",
        metavar="KIND[,KIND]",
        help=f"A scope of your own: the kind of each request ({', '.join(KINDS)}). The options below go with it.",
        callback=_not_empty,
        rich_help_panel=_SCOPE,
    ),
]
Blocks = Annotated[
    int | None,
    typer.Option(
        "--blocks",
        metavar="N",
        help="Blocks in the pool, without vLLM's null block. Default: just enough for all requests.",
        rich_help_panel=_SCOPE,
    ),
]
BlockSize = Annotated[
    int | None, typer.Option(metavar="N", help="Tokens in a block. Default: 4.", rich_help_panel=_SCOPE)
]
PromptBlocks = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="Full blocks in a prompt; one token comes on top. Default: 1.", rich_help_panel=_SCOPE
    ),
]
Prompts = Annotated[
    str | None,
    typer.Option(
        "--prompts",
        metavar="WORD[,WORD]",
        help="A prompt for each request, one letter a full block: 'ab,ac' begin with the same block. Instead of "
        "--prompt-blocks.",
        callback=_not_empty,
        rich_help_panel=_SCOPE,
    ),
]
TokenBudget = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Most tokens of one step: longer prompts come in chunks. Default: no limit.",
        rich_help_panel=_SCOPE,
    ),
]
Priorities = Annotated[
    str | None,
    typer.Option(
        "--priorities",
        metavar="N[,N]",
        help="A number from 0 to 9 for each request, the smallest goes first: vLLM's priority scheduling.",
        callback=_not_empty,
        rich_help_panel=_SCOPE,
    ),
]
OutputTokens = Annotated[
    int | None, typer.Option(metavar="N", help="Tokens a request generates. Default: 2.", rich_help_panel=_SCOPE)
]
PrefixSharing = Annotated[
    bool,
    typer.Option(
        "--prefix-sharing",
        metavar="",
        help="The prefix cache is on. Without --prompts, all requests then have one prompt.",
        rich_help_panel=_SCOPE,
    ),
]
EarlyStop = Annotated[
    bool,
    typer.Option("--early-stop", metavar="", help="Every sampled token may be a stop token.", rich_help_panel=_SCOPE),
]
SeparateEnds = Annotated[
    bool,
    typer.Option(
        "--separate-ends",
        metavar="",
        help="A transfer may end some time before it is reported.",
        rich_help_panel=_SCOPE,
    ),
]
EngineOrder = Annotated[
    bool,
    typer.Option(
        "--engine-order",
        metavar="",
        help="Only orders that the loop of vLLM's EngineCore can make. Goes with --scope as well.",
        rich_help_panel=_SCOPE,
    ),
]
TimeLimit = Annotated[
    float | None,
    typer.Option("--time-limit", metavar="SECONDS", help="Stop exploring after this time.", rich_help_panel=_LIMITS),
]
MaxStates = Annotated[
    int | None,
    typer.Option("--max-states", metavar="N", help="Stop exploring at this many states.", rich_help_panel=_LIMITS),
]
CallTimeout = Annotated[
    float,
    typer.Option(
        "--call-timeout",
        metavar="SECONDS",
        help="A scheduler call that takes longer hangs, and violates no-stuck.",
        rich_help_panel=_LIMITS,
    ),
]
Json = Annotated[
    str | None,
    typer.Option(
        "--json",
        metavar="FILE",
        help="Write the result as JSON; '-' writes it to standard output and the report to standard error.",
        callback=_not_empty,
        rich_help_panel=_OUTPUT,
    ),
]
Html = Annotated[
    str | None,
    typer.Option(
        "--html",
        metavar="FILE",
        help="Write the result as a web page that needs nothing else: verdicts, findings event by event, small state graphs.",
        callback=_not_empty,
        rich_help_panel=_OUTPUT,
    ),
]
Junit = Annotated[
    str | None,
    typer.Option(
        "--junit",
        metavar="FILE",
        help="Write the result as JUnit XML: a suite for each case, a test for each property.",
        callback=_not_empty,
        rich_help_panel=_OUTPUT,
    ),
]
Sarif = Annotated[
    str | None,
    typer.Option(
        "--sarif",
        metavar="FILE",
        help="Write the result as SARIF 2.1.0, for code scanning.",
        callback=_not_empty,
        rich_help_panel=_OUTPUT,
    ),
]
TraceFolder = Annotated[
    str,
    typer.Option(
        "--trace-dir",
        metavar="FOLDER",
        help="Where the order of each finding is written.",
        callback=_not_empty,
        rich_help_panel=_OUTPUT,
    ),
]
NoColor = Annotated[
    bool, typer.Option("--no-color", metavar="", help="No escape codes (as with NO_COLOR).", rich_help_panel=_OUTPUT)
]
RemedyNames = Annotated[
    list[str] | None,
    typer.Option(
        "--remedy",
        metavar="NAME",
        help=f"Only this one; may be given more than once. {', '.join(POLICIES)}.",
        callback=_not_empty,
        rich_help_panel=_SUBJECT,
    ),
]
ContractNames = Annotated[
    list[str] | None,
    typer.Option(
        "--contract",
        metavar="NAME[,NAME]",
        help=f"Only under this one; may be given more than once. {', '.join(MEANINGS)}.",
        callback=_not_empty,
        rich_help_panel=_SUBJECT,
    ),
]
MatrixSubject = Annotated[
    str,
    typer.Option(
        "--subject",
        metavar="vllm|reference",
        help="Whose scheduler the remedies change.",
        callback=_not_empty,
        rich_help_panel=_SUBJECT,
    ),
]
MatrixScope = Annotated[
    str | None,
    typer.Option(
        "--scope",
        metavar="NAME|FILE.toml",
        help=f"A scope by name: {', '.join(NAMED_SCOPES)}. Default: pair. Or a file of your own.",
        callback=_not_empty,
        rich_help_panel=_SCOPE,
    ),
]
ReleaseNames = Annotated[
    list[str] | None,
    typer.Option(
        "--release",
        metavar="VERSION",
        help="Only this release; may be given more than once. Without it: all that 'kvrace lab list' has.",
        callback=_not_empty,
        rich_help_panel=_SUBJECT,
    ),
]
FindingId = Annotated[
    str,
    typer.Option(
        "--finding",
        metavar="ID",
        help="The id of a finding, as 'kvrace matrix releases' shows it.",
        callback=_not_empty,
        rich_help_panel=_SUBJECT,
    ),
]
EveryRelease = Annotated[
    bool,
    typer.Option("--every", metavar="", help="Look at every release, and not only at halves.", rich_help_panel=_LIMITS),
]
ReleasesScope = Annotated[
    str | None,
    typer.Option(
        "--scope",
        metavar="NAME",
        help=f"A scope by name: {', '.join(NAMED_SCOPES)}. Default: seed.",
        callback=_not_empty,
        rich_help_panel=_SCOPE,
    ),
]
Results = Annotated[
    str,
    typer.Option(
        "--results",
        metavar="FOLDER",
        help="Where the results of each release are kept.",
        callback=_not_empty,
        rich_help_panel=_OUTPUT,
    ),
]
Fresh = Annotated[
    bool,
    typer.Option("--fresh", metavar="", help="Explore also what is kept already.", rich_help_panel=_OUTPUT),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        metavar="N",
        help="Explorations at a time, each in a process of its own. Default: the number of cores.",
        rich_help_panel=_LIMITS,
    ),
]
MutantsOf = Annotated[
    str,
    typer.Option(
        "--subject",
        metavar="reference|vllm",
        help="Where the faults are planted.",
        callback=_not_empty,
        rich_help_panel=_SUBJECT,
    ),
]
MutantPattern = Annotated[
    str,
    typer.Option(
        "--only",
        metavar="PATTERN",
        help="Only mutants whose name matches, with * and ?.",
        callback=_not_empty,
        rich_help_panel=_SUBJECT,
    ),
]
List = Annotated[
    bool,
    typer.Option(
        "--list",
        "--list-scopes",
        metavar="",
        help="List the named scopes, contracts, request kinds and properties, and exit.",
    ),
]
SuiteFolder = Annotated[
    str,
    typer.Option(
        "--out",
        metavar="FOLDER",
        help="Where the files are written: a folder that is new or empty.",
        callback=_not_empty,
        rich_help_panel=_OUTPUT,
    ),
]
ResetCost = Annotated[
    int,
    typer.Option(
        metavar="N",
        help="What a fresh scheduler costs, in scheduler calls. As measured on vLLM, it takes as long as 3 of them.",
        rich_help_panel=_OUTPUT,
    ),
]
LongestTour = Annotated[
    int,
    typer.Option(
        "--longest",
        metavar="N",
        help="Cut tours of more events; what is left goes on after a reset.",
        rich_help_panel=_OUTPUT,
    ),
]
TraceFile = Annotated[
    str,
    typer.Argument(
        callback=_not_empty, metavar="TRACE", help="A trace file that 'kvrace check' wrote.", show_default=False
    ),
]
OrderFile = Annotated[
    str,
    typer.Argument(
        callback=_not_empty,
        metavar="FILE",
        help="A trace file that 'kvrace check' wrote, or for pytest also a text form.",
        show_default=False,
    ),
]
Orders = Annotated[
    list[str],
    typer.Argument(
        callback=_not_empty,
        metavar="FILE",
        help="Trace files that 'kvrace check' wrote, text forms, and suites.",
        show_default=False,
    ),
]
Until = Annotated[
    int | None,
    typer.Option("--until", metavar="N", help="Only the first N events.", rich_help_panel=_LIMITS),
]
Rewrite = Annotated[
    bool,
    typer.Option(
        "--rewrite",
        metavar="",
        help="Write into each text form what happens now: beneath its events, and its finding. Not when it diverges.",
        rich_help_panel=_OUTPUT,
    ),
]
ExportAs = Annotated[
    str,
    typer.Option(
        "--as",
        metavar="text|mermaid|pytest",
        help="A text form to keep and edit, a diagram for an issue comment, or a test.",
        callback=_not_empty,
        rich_help_panel=_OUTPUT,
    ),
]
ExportTarget = Annotated[
    str | None,
    typer.Option(
        "--output",
        metavar="FILE",
        help="Write there. Without it: to standard output.",
        callback=_not_empty,
        rich_help_panel=_OUTPUT,
    ),
]
RelationRequests = Annotated[
    str,
    typer.Option(
        "--requests",
        metavar="KIND[,KIND]",
        help=f"The kind of each request: {', '.join(KINDS)}.",
        callback=_not_empty,
        show_default=False,
        rich_help_panel=_SCOPE,
    ),
]
RelationScheduler = Annotated[
    str,
    typer.Option(
        "--scheduler",
        metavar="sync|async",
        help="One step in flight, or two.",
        callback=_not_empty,
        rich_help_panel=_SCOPE,
    ),
]
RelationBlocks = Annotated[
    int | None,
    typer.Option(
        "--blocks", metavar="N", help="Blocks in the pool. Default: one for each request.", rich_help_panel=_SCOPE
    ),
]
RelationPolicy = Annotated[
    str,
    typer.Option(
        "--policy",
        metavar="NAME",
        help=f"What the scheduler does with the report of a transfer whose request is over: {', '.join(POLICIES)}.",
        callback=_not_empty,
        rich_help_panel=_SUBJECT,
    ),
]
RunSpin = Annotated[
    bool,
    typer.Option(
        "--run",
        metavar="",
        help="Run Spin on it and hold its figures against kvrace's own search, in place of writing the text.",
        rich_help_panel=_OUTPUT,
    ),
]
ProvedPolicy = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="NAME",
        help=f"What the scheduler does with the report of a transfer whose request is over: {', '.join(POLICIES)}. Without it: "
        "wait_for_all, and in short assert and skip.",
        callback=_not_empty,
        rich_help_panel=_PROVED,
    ),
]
Assume = Annotated[
    str | None,
    typer.Option(
        "--assume",
        metavar="NAME[,NAME]|none",
        help=f"What is assumed beyond the contract: {', '.join(ASSUMPTIONS)}. Without it: what the listed statement assumes "
        "(--list), else nothing.",
        callback=_not_empty,
        rich_help_panel=_PROVED,
    ),
]
PlayedOn = Annotated[
    str | None,
    typer.Option(
        "--subject",
        metavar="vllm|reference",
        help="Where the orders that refute a policy are played. Without it: on vLLM, or a subclass of it with the policy, "
        "where it can be imported, else on the reference scheduler.",
        callback=_not_empty,
        rich_help_panel=_PROVED,
    ),
]
Brief = Annotated[
    bool,
    typer.Option(
        "--brief", metavar="", help="One line for each action, not for each obligation.", rich_help_panel=_OUTPUT
    ),
]
ObligationTimeLimit = Annotated[
    float,
    typer.Option(
        "--time-limit",
        metavar="SECONDS",
        help="z3 gives an obligation up after this time; then nothing is proved.",
        rich_help_panel=_LIMITS,
    ),
]
ProofJson = Annotated[
    str | None,
    typer.Option(
        "--json",
        metavar="FILE",
        help="Write obligations, counterexamples and orders as JSON; '-' writes them to standard output and the report to standard "
        "error.",
        callback=_not_empty,
        rich_help_panel=_OUTPUT,
    ),
]
ListTheorems = Annotated[
    bool,
    typer.Option("--list", metavar="", help="List the statements and what each assumes, and exit."),
]
_DEPLOYMENT = "What is deployed"
KvTransferConfig = Annotated[
    list[str] | None,
    typer.Option(
        "--kv-transfer-config",
        metavar="JSON|FILE",
        help="As 'vllm serve' takes it, or the file that has it (@FILE as well). Without it: no connector, which assumes that "
        "vLLM is not given --kv-offloading-size either.",
        callback=_not_empty,
        rich_help_panel=_DEPLOYMENT,
    ),
]
SchedulerClass = Annotated[
    list[str] | None,
    typer.Option(
        "--scheduler-cls",
        metavar="PATH.CLASS",
        help="As 'vllm serve' takes it. Without it: the class that vLLM chooses. For a diffusion model that is another one, which "
        "was not checked: give it, vllm.v1.core.sched.diffusion_scheduler.DiffusionAsyncScheduler or DiffusionScheduler.",
        callback=_not_empty,
        rich_help_panel=_DEPLOYMENT,
    ),
]
EngineScheduling = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="sync|async",
        help="Whether asynchronous scheduling is off or on. Without it: the default, which is on, except on a CPU. vLLM turns it "
        "off for pooling models, some kinds of speculative decoding, and executors that cannot do it.",
        callback=_not_empty,
        rich_help_panel=_DEPLOYMENT,
    ),
]
