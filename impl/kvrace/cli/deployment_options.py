"""The options of ``kvrace doctor`` that say what is deployed, each with the words that ``--help`` shows."""

from __future__ import annotations

from typing import Annotated

import typer

from kvrace.cli.options import DEPLOYED, not_empty

KvTransferConfig = Annotated[
    list[str] | None,
    typer.Option(
        "--kv-transfer-config",
        metavar="JSON|FILE",
        help="As 'vllm serve' takes it, or the file that has it (@FILE as well). Without it: no connector, which assumes that "
        "vLLM is not given --kv-offloading-size either.",
        callback=not_empty,
        rich_help_panel=DEPLOYED,
    ),
]
SchedulerClass = Annotated[
    list[str] | None,
    typer.Option(
        "--scheduler-cls",
        metavar="PATH.CLASS",
        help="As 'vllm serve' takes it. Without it: the class that vLLM chooses. For a diffusion model that is another one, which "
        "was not checked: give it, vllm.v1.core.sched.diffusion_scheduler.DiffusionAsyncScheduler or DiffusionScheduler.",
        callback=not_empty,
        rich_help_panel=DEPLOYED,
    ),
]
EngineScheduling = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="sync|async",
        help="Whether asynchronous scheduling is off or on. Without it: the default, which is on, except on a CPU. vLLM turns it "
        "off for pooling models, some kinds of speculative decoding, and executors that cannot do it.",
        callback=not_empty,
        rich_help_panel=DEPLOYED,
    ),
]
