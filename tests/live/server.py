"""A real ``vllm serve`` as a session of processes: started, waited for until it is healthy, ended whatever happens."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from kvmodel.errors import KvraceError

from .places import PACKAGES, ROOT

START_LIMIT = 480.0
"""Seconds a server may take until it is healthy."""
_END_LIMIT = 30.0
"""Seconds between SIGTERM and SIGKILL."""
_TRACKER, _TRACKER_LIMIT = b"resource_tracker", 5.0

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_TARGET_DEVICE": "cpu",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "VLLM_HOST_IP": "127.0.0.1",
}
FLAGS = (
    "--dtype float32 --max-model-len 512 --max-num-seqs 8 --block-size 32 --enforce-eager --no-enable-prefix-caching "
    "--shutdown-timeout 20"
)
"""Blocks of 16 tokens are refused on a CPU. Without a time to shut down, vLLM kills its engine before the scheduler's last word."""

_ERROR = re.compile(r"(?:\(\w+ pid=\d+\) (?:ERROR \S+ \S+ \[\S+\] )?)?([\w.]*(?:Error|Exception): .*)")


class ServerFailed(KvraceError):
    """A server did not start, or was not healthy in time."""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@dataclass
class Server:
    """One ``vllm serve``. Its log is in ``folder``, its sockets are in ``scratch``, which has a short path. ``scheduler`` is a
    class for ``--scheduler-cls``; empty: vLLM's own.
    """

    name: str
    model: Path
    folder: Path
    scratch: Path
    transfer: dict[str, Any]
    """The value of ``--kv-transfer-config``."""
    scheduler: str = ""
    blocks: int = 40
    """In the KV cache. Few: what is freed is soon used again."""
    environment: dict[str, str] = field(default_factory=dict)
    packages: tuple[Path, ...] = ()
    """More folders for the Python path."""
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    ready: bool = False
    """It was healthy once."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    @property
    def command(self) -> str:
        """The command as one would type it."""
        return shlex.join(["vllm", "serve", *self.arguments])

    @property
    def arguments(self) -> list[str]:
        """What follows ``vllm serve``."""
        chosen = ["--scheduler-cls", self.scheduler] if self.scheduler else []
        where = ["--host", "127.0.0.1", "--port", str(self.port), "--served-model-name", "tiny"]
        return [
            str(self.model),
            *where,
            *FLAGS.split(),
            "--num-gpu-blocks-override",
            str(self.blocks),
            *chosen,
            "--kv-transfer-config",
            json.dumps(self.transfer),
        ]

    def start(self) -> None:
        path = [ROOT, ROOT / "model", ROOT / "impl", PACKAGES, *self.packages, *sys.path[1:]]
        environment = {
            **os.environ,
            **ENVIRONMENT,
            "PYTHONPATH": os.pathsep.join(map(str, path)),
            "TMPDIR": str(self.scratch),
            **self.environment,
        }
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", *self.arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.scratch,
                env=environment,
                start_new_session=True,
            )

    async def until_healthy(self, client: httpx.AsyncClient) -> None:
        """Raises ServerFailed."""
        limit = time.monotonic() + START_LIMIT
        while time.monotonic() < limit:
            if not self.alive:
                raise ServerFailed(f"the server '{self.name}' ended while it started: {self.last_words()}")
            if await self.healthy(client):
                self.ready = True
                return
            await asyncio.sleep(0.5)
        raise ServerFailed(f"the server '{self.name}' was not healthy after {START_LIMIT:.0f} s: {self.last_words()}")

    async def healthy(self, client: httpx.AsyncClient) -> bool:
        try:
            return (await client.get(f"{self.url}/health", timeout=5)).status_code == 200
        except httpx.HTTPError:
            return False

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def logged(self, *words: str) -> list[str]:
        """The lines of the log with one of the words."""
        return [line for line in self._lines() if any(word in line for word in words)]

    def last_words(self) -> str:
        """The first error in the log (those after it come of it), else its last line."""
        errors = [match[1] for match in map(_ERROR.match, self._lines()) if match]
        lines = [line.strip() for line in self._lines() if line.strip()]
        return (errors[:1] or lines[-1:] or ["it said nothing"])[0]

    def _lines(self) -> list[str]:
        return self.log.read_text("utf-8", "replace").splitlines() if self.log.exists() else []


def stop_all(servers: Iterable[Server]) -> None:
    """End the sessions of all servers and wait until nothing of them is left. Only one that has served gets time for that."""
    servers = list(servers)
    sessions = {server.process.pid: server.process for server in servers if server.process is not None}
    for process in sessions.values():
        if process.poll() is None:
            process.terminate()  # the server ends its own children, and removes its shared memory
    _wait(sessions, _END_LIMIT if any(server.ready for server in servers) else _TRACKER_LIMIT)
    for spared in (_TRACKER, b""):  # Python's trackers remove what the killed leave in shared memory, then end
        for pid in members(sessions):
            with suppress(OSError):
                if not spared or spared not in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)
        _wait(sessions, _TRACKER_LIMIT)


def _wait(sessions: dict[int, subprocess.Popen[bytes]], limit: float) -> None:
    end = time.monotonic() + limit
    while members(sessions) and time.monotonic() < end:
        for process in sessions.values():
            process.poll()  # else it stays as a zombie
        time.sleep(0.1)


def members(sessions: Iterable[int]) -> list[int]:
    """The processes of these sessions that still run."""
    wanted, found = set(sessions), []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError, IndexError):  # it may end while we look
            state, _parent, _group, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(session) in wanted and state != "Z":
                found.append(int(entry.name))
    return found
