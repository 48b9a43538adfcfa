"""The named runs: which servers each starts, what it has to show, and the verdict on what was seen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from kvmodel.errors import KvraceError

from .drive import ASSERTION, Seen, Settings
from .nixl import NotHere, drive_pair, nixl_pair
from .server import Server, stop_all
from .slow import drive, slow_server

FIXED = "kvrace.vllm.fixed.FixedScheduler"
"""On a CPU vLLM runs it in lock-step as well."""
SKIPS = "kvrace.vllm.remedies.SkipsUnknown"

Verdict = Literal["shown", "not shown", "undetermined", "skipped"]


@dataclass(frozen=True)
class Plan:
    """A run before it is made: its servers, and what has to be seen of them."""

    name: str
    shows: str
    servers: Callable[[Settings], list[Server]]
    """Raises NotHere."""
    drive: Callable[[list[Server], Settings], Awaitable[Seen]]
    judge: Callable[[Seen], tuple[Verdict, list[str]]]


@dataclass
class Run:
    """What came of a run. ``undetermined`` is never a pass: what had to happen for a verdict did not happen."""

    name: str
    shows: str
    verdict: Verdict = "undetermined"
    reasons: list[str] = field(default_factory=list)
    seen: dict[str, Any] = field(default_factory=dict)
    answers: list[str] = field(default_factory=list)
    """The answers to all prompts before any client left; every run has to have the same."""
    commands: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    """What the scheduler under test logged."""
    seconds: float = 0.0


async def make(plan: Plan, settings: Settings, started: list[Server]) -> Run:
    """Make one run. Its servers are put on ``started``, and ended here, whatever happens."""
    run, begun = Run(plan.name, plan.shows), time.monotonic()
    servers: list[Server] = []
    seen = None
    try:
        servers = plan.servers(settings)
        started.extend(servers)
        for server in servers:
            server.start()
        run.commands = [server.command for server in servers]
        seen = await plan.drive(servers, settings)
    except KvraceError as error:
        run.reasons = [str(error)]
    except NotHere as error:
        run.verdict, run.reasons = "skipped", [str(error)]
    finally:
        await asyncio.to_thread(stop_all, servers)
    run.said = [line for server in servers for line in server.logged("kvrace: ", "The KV connector reports")]
    if seen is not None:
        run.verdict, run.reasons = plan.judge(seen)
        run.seen, run.answers = seen.facts(), list(seen.answers.values())
    run.seconds = round(time.monotonic() - begun, 1)
    return run


def _judged(problems: list[str]) -> tuple[Verdict, list[str]]:
    return ("not shown" if problems else "shown"), problems


def _exercised(seen: Seen) -> list[str]:
    """What is missing for the run to mean anything."""
    case = "aborted during the load, and claimed"
    return [] if seen.connector[case] else [f"no request was {case}"]


def engine_dies(seen: Seen) -> tuple[Verdict, list[str]]:
    """By the assertion, and by nothing else."""
    if seen.healthy:
        return "undetermined", ["the engine did not die within these requests"]
    if not (seen.logged_the(ASSERTION) and seen.logged_the("EngineDeadError")):
        return "undetermined", [f"the server ended, and its log does not have both '{ASSERTION}' and EngineDeadError"]
    return "shown", []


def _lives_on(seen: Seen) -> list[str]:
    problems = []
    if not seen.healthy:
        problems.append(f"the server is not healthy at the end: {seen.last_words}")
    if seen.wrong:
        problems.append(f"{len(seen.wrong)} clients got a wrong answer")
    if seen.counts["failed"]:
        problems.append(f"{seen.counts['failed']} clients that stayed got no answer: {seen.failures}")
    problems += [f"{name} at the end: {found}" for name, found in seen.after.items() if found is None or not found.idle]
    return problems


def all_is_well(seen: Seen) -> tuple[Verdict, list[str]]:
    """The server lives, the answers are right, nothing stays in use, no content of a block was changed."""
    if unproven := _exercised(seen):
        return "undetermined", unproven
    return _judged(_lives_on(seen) + ([f"{seen.corrupted} transfers corrupted"] if seen.corrupted else []))


def corruption_shows(seen: Seen) -> tuple[Verdict, list[str]]:
    """The server lives, and the worker side saw blocks of running transfers change."""
    if not seen.healthy:
        return "not shown", [f"the server is not healthy at the end: {seen.last_words}"]
    if not seen.corrupted:
        return "undetermined", [*_exercised(seen), "no block of a transfer that was under way changed"]
    return "shown", []


def the_pair_is_well(seen: Seen) -> tuple[Verdict, list[str]]:
    """Both servers live, the answers are those of local computing, nothing stays in use."""
    if not seen.connector["loads"]:
        return "undetermined", ["no answer came by a load"]
    problems = _lives_on(seen)
    late = seen.connector["fetches after the lease"]
    if late and seen.wrong and len(problems) == 1:
        return "undetermined", [
            *problems,
            f"{late} fetches came after NIXL's lease had run out: the machine is too busy",
        ]
    return _judged(problems)


def _slow(
    name: str,
    shows: str,
    judge: Callable[[Seen], tuple[Verdict, list[str]]],
    scheduler: str = "",
    watched: bool = False,
) -> Plan:
    return Plan(name, shows, lambda settings: [slow_server(name, scheduler, watched, settings)], drive, judge)


# The longest run begins first.
PLANS = [
    Plan(
        "nixl-pair",
        "a prefill and a decode server over NIXL, the drop-in on both: as drop-in",
        lambda settings: nixl_pair(FIXED, settings),
        drive_pair,
        the_pair_is_well,
    ),
    _slow("stock", "vLLM's own scheduler: the engine dies, and every client with it", engine_dies),
    _slow(
        "drop-in",
        "the server lives, every client that stays gets the right answer, nothing stays in use",
        all_is_well,
        FIXED,
    ),
    _slow(
        "skip-watched",
        "a scheduler that skips unknown reports: blocks change under transfers",
        corruption_shows,
        SKIPS,
        True,
    ),
    _slow("drop-in-watched", "as drop-in, and no block changes under a transfer", all_is_well, FIXED, True),
]
