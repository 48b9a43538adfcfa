"""The options that say over which scope is checked, each with the words that ``--help`` shows."""

from __future__ import annotations

from typing import Annotated

import typer

from kvmodel.named_scopes import NAMED_SCOPES
from kvmodel.scope import KINDS
from kvrace.cli.options import DEFAULT_SCOPE, SCOPE, not_empty

ScopeName = Annotated[
    str | None,
    typer.Option(
        "--scope",
        metavar="NAME|FILE.toml",
        help=f"A scope by name: {', '.join(NAMED_SCOPES)}. Default: {DEFAULT_SCOPE}. Or a file of your own, with the "
        "fields of a scope, as in spec/exploration.md.",
        callback=not_empty,
        rich_help_panel=SCOPE,
    ),
]
Requests = Annotated[
    str | None,
    typer.Option(
        "--requests",
        metavar="KIND[,KIND]",
        help=f"A scope of your own: the kind of each request ({', '.join(KINDS)}). The options below go with it.",
        callback=not_empty,
        rich_help_panel=SCOPE,
    ),
]
Blocks = Annotated[
    int | None,
    typer.Option(
        "--blocks",
        metavar="N",
        help="Blocks in the pool, without vLLM's null block. Default: just enough for all requests.",
        rich_help_panel=SCOPE,
    ),
]
BlockSize = Annotated[
    int | None, typer.Option(metavar="N", help="Tokens in a block. Default: 4.", rich_help_panel=SCOPE)
]
PromptBlocks = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="Full blocks in a prompt; one token comes on top. Default: 1.", rich_help_panel=SCOPE
    ),
]
Prompts = Annotated[
    str | None,
    typer.Option(
        "--prompts",
        metavar="WORD[,WORD]",
        help="A prompt for each request, one letter a full block: 'ab,ac' begin with the same block. Instead of "
        "--prompt-blocks.",
        callback=not_empty,
        rich_help_panel=SCOPE,
    ),
]
TokenBudget = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Most tokens of one step: longer prompts come in chunks. Default: no limit.",
        rich_help_panel=SCOPE,
    ),
]
Priorities = Annotated[
    str | None,
    typer.Option(
        "--priorities",
        metavar="N[,N]",
        help="A number from 0 to 9 for each request, the smallest goes first: vLLM's priority scheduling.",
        callback=not_empty,
        rich_help_panel=SCOPE,
    ),
]
OutputTokens = Annotated[
    int | None, typer.Option(metavar="N", help="Tokens a request generates. Default: 2.", rich_help_panel=SCOPE)
]
PrefixSharing = Annotated[
    bool,
    typer.Option(
        "--prefix-sharing",
        metavar="",
        help="The prefix cache is on. Without --prompts, all requests then have one prompt.",
        rich_help_panel=SCOPE,
    ),
]
EarlyStop = Annotated[
    bool,
    typer.Option("--early-stop", metavar="", help="Every sampled token may be a stop token.", rich_help_panel=SCOPE),
]
SeparateEnds = Annotated[
    bool,
    typer.Option(
        "--separate-ends",
        metavar="",
        help="A transfer may end some time before it is reported.",
        rich_help_panel=SCOPE,
    ),
]
EngineOrder = Annotated[
    bool,
    typer.Option(
        "--engine-order",
        metavar="",
        help="Only orders that the loop of vLLM's EngineCore can make. Goes with --scope as well.",
        rich_help_panel=SCOPE,
    ),
]
