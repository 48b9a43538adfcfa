"""A request as the reference scheduler keeps it."""

from __future__ import annotations

from enum import Enum, auto

from kvmodel.events import Direction


class Status(Enum):
    """Where a request stands. The names are those of vLLM's ``RequestStatus``."""

    WAITING = auto()
    WAITING_FOR_REMOTE_KVS = auto()
    RUNNING = auto()
    PREEMPTED = auto()
    FINISHED_STOPPED = auto()
    FINISHED_LENGTH_CAPPED = auto()
    FINISHED_ABORTED = auto()

    @property
    def finished(self) -> bool:
        return self.name.startswith("FINISHED")


class Request:
    """One request.

    ``num_computed_tokens`` counts tokens whose KV exists or is being made: dispatched steps and a running load count already.
    ``num_output_placeholders`` counts sampled tokens that are still on their way (two steps in flight only).
    ``num_cached_blocks`` counts the blocks, from the front of the table, that were offered to the prefix cache or came from it.
    ``last_step`` is the number of the newest step that works for the request. ``awaited`` names the transfers that were running
    when the request ended and that no report has come for; only policies that count reports keep it. ``held_for`` counts the steps
    since it ended; only policy ``reclaim`` keeps it.
    """

    def __init__(self, request_id: str, prompt: list[int], max_tokens: int, stop_token: int) -> None:
        self.request_id = request_id
        self.tokens = prompt
        self.num_prompt_tokens = len(prompt)
        self.max_tokens = max_tokens
        self.stop_token = stop_token
        self.status = Status.WAITING
        self.was_preempted = False
        self.num_computed_tokens = 0
        self.num_output_placeholders = 0
        self.num_cached_blocks = 0
        self.last_step = 0
        self.awaited: set[Direction] = set()
        self.held_for = 0

    @property
    def num_tokens(self) -> int:
        """Prompt and sampled tokens, without placeholders."""
        return len(self.tokens)

    def append(self, token: int) -> bool:
        """Take a sampled token; True when it was the last one (vLLM ``check_stop``)."""
        self.tokens.append(token)
        if token == self.stop_token:
            self.status = Status.FINISHED_STOPPED
        elif self.num_tokens - self.num_prompt_tokens >= self.max_tokens:
            self.status = Status.FINISHED_LENGTH_CAPPED
        return self.status.finished
