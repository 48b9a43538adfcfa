"""The port between the model and a real scheduler: what a subject is asked, what it answers, what it shows.

A subject never judges and never chooses an order. It plays one event on its scheduler and says what the scheduler did
(:class:`Response`) and what it looks like afterwards (:class:`Observation`).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Literal, NamedTuple, Protocol

from kvmodel.errors import KvraceError
from kvmodel.events import Event
from kvmodel.scope import Scope

SaveAnswer = Literal["none", "claimed", "hidden"]
NULL_BLOCK = 0
"""The number of the block that stands in a table where there is none: nobody owns it, and nothing may work on it."""


class SubjectHang(BaseException):
    """A call into the subject did not come back in time. Not an Exception, so that no subject can swallow it."""


class UnknownSubject(KvraceError):
    """The adapter does not know this scheduler: wrong API, or state it cannot copy. Never a verdict."""


class ConnectorScript(NamedTuple):
    """What the scripted connector answers about one request during the next call.

    ``load_tokens``: tokens it offers to load from position 0, 0 for none, None if it cannot say yet. ``save``: what happens at
    ``request_finished`` when blocks are handed over: nothing, a save that is claimed (True), or a save that is hidden (False
    although it runs).
    ``in_step``: the load is synchronous, a part of the step that is being scheduled. ``loading``: the blocks of the load that may
    fail in the next output.
    """

    load_tokens: int | None
    save: SaveAnswer
    in_step: bool = False
    loading: tuple[int, ...] = ()


class ScheduledRequest(NamedTuple):
    """One request in a dispatched step, as ``SchedulerOutput`` announces it to the workers.

    ``new_blocks`` replaces the workers' block table when ``replaces`` is set, else it is appended. ``start`` counts the tokens
    whose KV exists before the step, ``computed`` those whose KV exists once it is over. ``samples`` says that the step ends
    with a sampled token for the request. ``window_blocks`` are the new blocks of the window's table, and ``drafts`` is how many of
    the computed tokens are drafts.
    """

    request: str
    new_blocks: tuple[int, ...]
    replaces: bool
    start: int
    computed: int
    samples: bool
    window_blocks: tuple[int, ...] = ()
    drafts: int = 0


class DispatchedStep(NamedTuple):
    """What ``schedule()`` returned. ``dismissed`` is ``finished_req_ids``, the workers' notice that a request is over. ``common``:
    how many first blocks all its requests have in common (``num_common_prefix_blocks``); only filled in scopes with ``cascade``."""

    scheduled: tuple[ScheduledRequest, ...]
    preempted: tuple[str, ...]
    dismissed: tuple[str, ...]
    common: int = 0


class LoadStarted(NamedTuple):
    """``update_state_after_alloc`` with external tokens: a load into ``blocks`` begins; ``table`` is the whole block table, and
    ``window`` that of the sliding window. ``in_step``: it is part of the step that is being scheduled."""

    request: str
    blocks: tuple[int, ...]
    table: tuple[int, ...]
    computed: int
    window: tuple[int, ...] = ()
    in_step: bool = False


class Handover(NamedTuple):
    """``request_finished`` was called and named ``blocks``, and ``window`` as the table of the sliding window."""

    request: str
    blocks: tuple[int, ...]
    window: tuple[int, ...] = ()

    @property
    def named(self) -> tuple[int, ...]:
        """Every block that it names."""
        return self.blocks + tuple(block for block in self.window if block != NULL_BLOCK)


class Crash(NamedTuple):
    """An entry point raised, or (``hang``) did not come back. ``location`` is ``file:line in function`` of the innermost frame
    of the scheduler's code."""

    error: str
    location: str
    source: str
    hang: bool = False


class BlockMove(NamedTuple):
    """A block went back to the pool or lost an owner (``freed``), or got one (``given``). ``location`` is ``file:line in
    function``: the line of the scheduler's code that decided it."""

    block: int
    what: Literal["freed", "given"]
    location: str


class ResetAnswer(NamedTuple):
    """What ``reset_prefix_cache`` said, and which running requests it preempted. ``refusal``: the RuntimeError that it raised,
    which vLLM's engine hands to whoever asked, and goes on."""

    done: bool
    preempted: tuple[str, ...]
    refusal: Crash | None = None


class Response(NamedTuple):
    """What the scheduler did in answer to one event.

    Only a subject that ``records`` fills two of them: ``moves`` in their order, and ``called``, the entry points that were called,
    each as ``file:line in function`` of its definition; the last of them says whether anything is pending. ``delivered`` are the
    requests whose clients got tokens, and is only filled in scopes in which loads fail.
    """

    step: DispatchedStep | None = None
    loads: tuple[LoadStarted, ...] = ()
    handovers: tuple[Handover, ...] = ()
    notices: tuple[str, ...] = ()
    crash: Crash | None = None
    moves: tuple[BlockMove, ...] = ()
    called: tuple[str, ...] = ()
    reset: ResetAnswer | None = None
    delivered: tuple[str, ...] = ()


class Observation(NamedTuple):
    """What a scheduler shows after an event. Block ids are the scheduler's own.

    ``phases``: the status of each request it still knows. ``queues``: request ids by queue, in its order. ``owned``: each
    request's block table, and with a sliding window what its other table owns after that. ``held_back``: blocks that are held
    for later, for a dispatched step (vLLM ``deferred_frees``) or in a place of a subclass's own. ``references``: reference
    count by block id, the null block's entry is None. ``free``: the pool's free blocks in the order they will be given out.
    ``free_count``: the pool's own counter of them. ``cached``: blocks the prefix cache offers. ``tables``: request ids in
    per-request tables, by table name, once no step is in flight. ``negative``: names of bookkeeping counters below zero.
    ``pending``: ``has_requests()``.
    """

    phases: tuple[tuple[str, str], ...]
    queues: tuple[tuple[str, tuple[str, ...]], ...]
    owned: tuple[tuple[str, tuple[int, ...]], ...]
    held_back: tuple[int, ...]
    references: tuple[int | None, ...]
    free: tuple[int, ...]
    free_count: int
    cached: frozenset[int]
    tables: tuple[tuple[str, tuple[str, ...]], ...]
    negative: tuple[str, ...]
    pending: bool


class Capture(NamedTuple):
    """An exact copy of a subject's state, and a key that holds everything in it that can influence the future.

    Two captures with equal ``fingerprint`` behave alike up to a renaming of blocks. When ``exact_blocks`` is set, the
    fingerprint cannot stand a renaming (a subclass keeps numbers that may be block ids) and block ids are compared as they are.
    """

    snapshot: Any
    fingerprint: Hashable
    exact_blocks: bool


class AppliedPatch(NamedTuple):
    """A diff that a scheduler was changed with: the name of its file, and the beginning of the SHA-256 of what is in it."""

    file: str
    digest: str

    def __str__(self) -> str:
        return f"{self.file} ({self.digest})"


class Identity(NamedTuple):
    """Who was checked: printed beside every verdict."""

    name: str
    version: str
    scheduler: str
    patch: AppliedPatch | None = None

    @property
    def release(self) -> str:
        """The version, and what it was patched with."""
        return self.version if self.patch is None else f"{self.version} + {self.patch}"

    def __str__(self) -> str:
        return f"{self.name} {self.release} {self.scheduler}".replace("  ", " ")


class Subject(Protocol):
    """A scheduler behind the port. One subject plays one scope; ``start`` begins again with a fresh scheduler.

    While ``records`` is set, responses say which lines of the scheduler's code moved blocks; that is slow and changes nothing.
    """

    scope: Scope
    records: bool

    @property
    def identity(self) -> Identity: ...

    @property
    def location(self) -> str:
        """Where the scheduler is defined: ``file:line in class``."""
        ...

    def start(self) -> None: ...

    def apply(self, event: Event, script: dict[str, ConnectorScript]) -> Response:
        """Play one event. A scheduler's exception is an answer (``Response.crash``), not an error."""
        ...

    def observe(self) -> Observation: ...

    def capture(self, names: dict[int, int]) -> Capture:
        """Copy the state; ``names`` renames blocks in the fingerprint. Raises UnknownSubject for state it cannot copy."""
        ...

    def restore(self, snapshot: Any) -> None: ...

    def notes(self, exhausted: bool) -> tuple[str, ...]:
        """What a reader of the verdict should know of how states were compared, one line each."""
        ...
