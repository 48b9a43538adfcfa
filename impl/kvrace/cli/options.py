"""The options that several commands have, and those of trace files, each with the words that ``--help`` shows."""

from __future__ import annotations

from typing import Annotated, TypeVar

import typer

from kvmodel.contract import ALL_MEANINGS, EXACTLY_ONCE
from kvmodel.errors import KvraceError
from kvmodel.properties import PROPERTY_NAMES
from kvmodel.relation.policies import POLICIES

_Given = TypeVar("_Given")


def not_empty(context: typer.Context, parameter: typer.CallbackParam, given: _Given) -> _Given:
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


SUBJECT, SCOPE, LIMITS, OUTPUT = "What is checked", "Over which scope", "When to stop", "What is written"
PROVED, DEPLOYED = "What is proved", "What is deployed"
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
        callback=not_empty,
        rich_help_panel=SUBJECT,
    ),
]
Patch = Annotated[
    str | None,
    typer.Option(
        "--patch",
        metavar="FILE.diff",
        help="Apply this diff of vLLM's Python files to a private copy of vLLM, and take that one. The installed one is not "
        "touched. Code in the diff is run.",
        callback=not_empty,
        rich_help_panel=SUBJECT,
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="sync|async",
        help="One step in flight, or two (async scheduling). Without it: both.",
        callback=not_empty,
        rich_help_panel=SUBJECT,
    ),
]
Policy = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="NAME",
        help=f"What the reference scheduler does with the report of a transfer whose request is over: {', '.join(POLICIES)}. "
        "assert is what vLLM 0.16-0.33 does; 'kvrace prove --list' says what each means.",
        callback=not_empty,
        rich_help_panel=SUBJECT,
    ),
]
TwoSubjects = Annotated[
    list[str] | None,
    typer.Option(
        "--subject",
        metavar="vllm|vllm==VERSION|reference|module:Class",
        help="Give it twice: the scheduler that is right by definition, and the one that is to do the same. vLLM's own, that of a "
        "release, kvrace's drop-in scheduler, the reference scheduler, or a subclass of vLLM's (the current folder can be "
        "imported). Both are of one release: 'kvrace matrix releases' compares releases.",
        callback=not_empty,
        rich_help_panel=SUBJECT,
    ),
]
Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        metavar="assert|skip|wait_for_all",
        help="What a reference scheduler does with the report of a transfer whose request is over. One for each reference "
        "scheduler, in their order. Without it: assert.",
        callback=not_empty,
        rich_help_panel=SUBJECT,
    ),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        metavar="",
        help="Excuse nothing: the second has to do the same also where the first breaks a property, and after that.",
        rich_help_panel=SUBJECT,
    ),
]
Contract = Annotated[
    list[str] | None,
    typer.Option(
        "--contract",
        metavar="NAME[,NAME]",
        help=f"What the connector may do: {', '.join(ALL_MEANINGS)}. 'kvrace check --list' says what each means. "
        f"Default: {EXACTLY_ONCE}.",
        callback=not_empty,
        rich_help_panel=SUBJECT,
    ),
]
Property = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        metavar="NAME[,NAME]",
        help=f"Check only these; may be given more than once. {', '.join(PROPERTY_NAMES)}.",
        callback=not_empty,
        rich_help_panel=SUBJECT,
    ),
]
Conformance = Annotated[
    str | None,
    typer.Option(
        "--conformance",
        metavar="NAME",
        help="Hold every step also against the specification with this policy (as --policy): wait_for_all is right, assert "
        "describes vLLM 0.16-0.33. A step it does not allow is shown as a divergence.",
        callback=not_empty,
        rich_help_panel=SUBJECT,
    ),
]
TimeLimit = Annotated[
    float | None,
    typer.Option("--time-limit", metavar="SECONDS", help="Stop exploring after this time.", rich_help_panel=LIMITS),
]
MaxStates = Annotated[
    int | None,
    typer.Option("--max-states", metavar="N", help="Stop exploring at this many states.", rich_help_panel=LIMITS),
]
CallTimeout = Annotated[
    float,
    typer.Option(
        "--call-timeout",
        metavar="SECONDS",
        help="A scheduler call that takes longer hangs, and violates no-stuck.",
        rich_help_panel=LIMITS,
    ),
]
Json = Annotated[
    str | None,
    typer.Option(
        "--json",
        metavar="FILE",
        help="Write the result as JSON; '-' writes it to standard output and the report to standard error.",
        callback=not_empty,
        rich_help_panel=OUTPUT,
    ),
]
Html = Annotated[
    str | None,
    typer.Option(
        "--html",
        metavar="FILE",
        help="Write the result as a web page that needs nothing else: verdicts, findings event by event, small state graphs.",
        callback=not_empty,
        rich_help_panel=OUTPUT,
    ),
]
Junit = Annotated[
    str | None,
    typer.Option(
        "--junit",
        metavar="FILE",
        help="Write the result as JUnit XML: a suite for each case, a test for each property.",
        callback=not_empty,
        rich_help_panel=OUTPUT,
    ),
]
Sarif = Annotated[
    str | None,
    typer.Option(
        "--sarif",
        metavar="FILE",
        help="Write the result as SARIF 2.1.0, for code scanning.",
        callback=not_empty,
        rich_help_panel=OUTPUT,
    ),
]
TraceFolder = Annotated[
    str,
    typer.Option(
        "--trace-dir",
        metavar="FOLDER",
        help="Where the order of each finding is written.",
        callback=not_empty,
        rich_help_panel=OUTPUT,
    ),
]
NoColor = Annotated[
    bool, typer.Option("--no-color", metavar="", help="No escape codes (as with NO_COLOR).", rich_help_panel=OUTPUT)
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
        callback=not_empty,
        rich_help_panel=OUTPUT,
    ),
]
ResetCost = Annotated[
    int,
    typer.Option(
        metavar="N",
        help="What a fresh scheduler costs, in scheduler calls. As measured on vLLM, it takes as long as 3 of them.",
        rich_help_panel=OUTPUT,
    ),
]
LongestTour = Annotated[
    int,
    typer.Option(
        "--longest",
        metavar="N",
        help="Cut tours of more events; what is left goes on after a reset.",
        rich_help_panel=OUTPUT,
    ),
]
TraceFile = Annotated[
    str,
    typer.Argument(
        callback=not_empty, metavar="TRACE", help="A trace file that 'kvrace check' wrote.", show_default=False
    ),
]
OrderFile = Annotated[
    str,
    typer.Argument(
        callback=not_empty,
        metavar="FILE",
        help="A trace file that 'kvrace check' wrote, or for pytest also a text form.",
        show_default=False,
    ),
]
Orders = Annotated[
    list[str],
    typer.Argument(
        callback=not_empty,
        metavar="FILE",
        help="Trace files that 'kvrace check' wrote, text forms, and suites.",
        show_default=False,
    ),
]
Until = Annotated[
    int | None,
    typer.Option("--until", metavar="N", help="Only the first N events.", rich_help_panel=LIMITS),
]
Rewrite = Annotated[
    bool,
    typer.Option(
        "--rewrite",
        metavar="",
        help="Write into each text form what happens now: beneath its events, and its finding. Not when it diverges.",
        rich_help_panel=OUTPUT,
    ),
]
ExportAs = Annotated[
    str,
    typer.Option(
        "--as",
        metavar="text|mermaid|pytest",
        help="A text form to keep and edit, a diagram for an issue comment, or a test.",
        callback=not_empty,
        rich_help_panel=OUTPUT,
    ),
]
ExportTarget = Annotated[
    str | None,
    typer.Option(
        "--output",
        metavar="FILE",
        help="Write there. Without it: to standard output.",
        callback=not_empty,
        rich_help_panel=OUTPUT,
    ),
]
