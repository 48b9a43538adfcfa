"""`python -m tests.live`: a real vLLM server under clients that leave. `make live` installs what it needs first."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from kvmodel.errors import KvraceError
from kvrace.cli.interrupt import end_as_with_ctrl_c

from .drive import Settings
from .model import make_model
from .places import PACKAGES, ROOT
from .report import lines, write_json
from .runs import PLANS, Plan, Run, make
from .server import Server, stop_all

_STATUS = {"shown": 0, "skipped": 0, "not shown": 1, "undetermined": 3}


def _arguments() -> argparse.Namespace:
    names = [plan.name for plan in PLANS]
    parser = argparse.ArgumentParser(
        prog="python -m tests.live",
        description="Start real vLLM servers with a tiny random model, let clients come and leave, and say what was seen.",
        epilog="Exit status: 0 all is shown (or skipped for a reason), 1 something is not, 2 usage or environment error, "
        "3 undetermined: what had to happen for a verdict did not. Logs of the servers stay in --folder.",
    )
    parser.add_argument(
        "runs", nargs="*", metavar="RUN", help=f"which runs to make; all if none is named: {', '.join(names)}"
    )
    parser.add_argument("--requests", type=_positive, default=200, help="requests for each run (default: 200)")
    parser.add_argument(
        "--seed", type=int, default=1, help="of the model, the prompts and what clients do (default: 1)"
    )
    parser.add_argument(
        "--at-once", type=_positive, default=2, help="runs at the same time, 3 GB of memory each (default: 2)"
    )
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "build/live", help="for logs and records (default: build/live)"
    )
    parser.add_argument(
        "--json", type=Path, default=ROOT / "build/live.json", help="the result (default: build/live.json)"
    )
    chosen = parser.parse_args()
    if unknown := [name for name in chosen.runs if name not in names]:
        parser.error(f"no such run: {', '.join(unknown)}; there are {', '.join(names)}")
    return chosen


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least 1")
    return int(text)


async def _make_all(plans: list[Plan], settings: Settings, at_once: int, started: list[Server]) -> list[Run]:
    gate = asyncio.Semaphore(at_once)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, signal.raise_signal, signal.SIGINT)

    async def one(plan: Plan) -> Run:
        async with gate:
            run = await make(plan, settings, started)
            print("\n".join(lines(run)), flush=True)
            return run

    return await asyncio.gather(*map(one, plans))


def main() -> None:
    end_as_with_ctrl_c()
    chosen = _arguments()
    if not PACKAGES.is_dir():
        sys.exit(_error(f"{PACKAGES} is missing; make live makes it"))
    plans = [plan for plan in PLANS if not chosen.runs or plan.name in chosen.runs]
    started: list[Server] = []
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kvrace-live-") as scratch:
        try:
            settings = _prepared(chosen, Path(scratch))
            print(
                f"seed {chosen.seed}, {chosen.requests} requests a run, logs in {_shown(settings.folder)}", flush=True
            )
            runs = asyncio.run(_make_all(plans, settings, chosen.at_once, started))
            seconds = round(time.monotonic() - begun, 1)
            write_json(chosen.json, {"seed": chosen.seed, "requests": chosen.requests, "seconds": seconds}, runs)
        except KeyboardInterrupt:
            sys.exit(_error("interrupted", status=130))
        except (KvraceError, OSError) as error:
            sys.exit(_error(str(error)))
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)  # nothing is left running, however often one presses Ctrl-C
            stop_all(started)
    print(f"{len(runs)} runs in {seconds:.0f} s; {_shown(chosen.json)}")
    statuses = {_STATUS[run.verdict] for run in runs}
    sys.exit(1 if 1 in statuses else max(statuses))


def _prepared(chosen: argparse.Namespace, scratch: Path) -> Settings:
    """Make the model, and an empty folder for the logs. Raises OSError."""
    folder = chosen.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    for old in [*folder.glob("*.log"), *folder.glob("*.jsonl")]:
        old.unlink()
    make_model(scratch / "model", chosen.seed)
    return Settings(scratch / "model", folder, scratch, chosen.seed, chosen.requests)


def _shown(path: Path) -> str:
    return os.path.relpath(path)


def _error(text: str, status: int = 2) -> int:
    print(f"error: {text}", file=sys.stderr)
    return status


if __name__ == "__main__":
    main()
