"""The environment's truth: which requests exist, what dispatched steps and running transfers touch, what was reported.

Immutable and hashable. The world knows nothing of how a scheduler decides; it learns what the scheduler did from a
:class:`~kvmodel.port.Response` and keeps the physical side of it. :mod:`kvmodel.rules` says how it changes.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from kvmodel.events import Direction, PauseMode

LATER_FIELDS = frozenset(
    {
        "rank", "told", "lease_over", "window_blocks", "drafts", "window", "window_table", "loaded", "garbage", "failed", "in_step",
        "common",
    }
)  # fmt: skip
"""Fields of records, here and in the port, that came after traces were written: a trace leaves them out while they have their
default."""


class Stage(IntEnum):
    """A request as its client sees it."""

    ABSENT = 0
    LIVE = 1
    OVER = 2


class RequestState(NamedTuple):
    """One request. ``table`` and ``computed`` are what the workers were told, not what the scheduler keeps for itself, and so is
    ``window_table``, that of the sliding window;
    ``known`` says that the workers were told of the request and not yet that it is over.

    Counters of notices stop at 2: more than one is wrong, how many more does not matter.
    """

    stage: Stage = Stage.ABSENT
    claims: bool = True
    abort_sent: bool = False
    known: bool = False
    load_started: bool = False
    save_started: bool = False
    table: tuple[int, ...] = ()
    computed: int = 0
    notices: int = 0
    finished_calls: int = 0
    dismissals: int = 0
    repeatable: tuple[Direction, ...] = ()
    unsolicited_sent: bool = False
    lease_over: bool = False
    """The time of its save was up before the save began (contract ``lease``)."""
    window_table: tuple[int, ...] = ()


class Access(NamedTuple):
    """The blocks a dispatched step reads or writes for one request, and those of them that it writes.

    ``start`` counts the tokens whose KV the request had before the step computed anything, and ``loaded`` those of them that the
    step itself loads, just before ``start``.
    """

    request: str
    blocks: tuple[int, ...]
    written: tuple[int, ...]
    start: int
    loaded: int = 0


class Drafts(NamedTuple):
    """How many drafts of a request a step verifies."""

    request: str
    many: int


class Step(NamedTuple):
    """A dispatched step. ``samples`` names the requests that get a token from it; ``cleanup`` says that it was scheduled when
    every request was already over and every transfer reported; ``drafts`` how many drafts it verifies for which requests.
    ``garbage``: the requests for which it computed with KV that is not there, since a load failed while it was in flight
    (:mod:`kvmodel.failures`)."""

    accesses: tuple[Access, ...]
    samples: tuple[str, ...]
    cleanup: bool
    drafts: tuple[Drafts, ...] = ()
    garbage: tuple[str, ...] = ()


class Transfer(NamedTuple):
    """A transfer that has not been reported. It touches its blocks until it is ``over``.

    ``wait``: how many steps dispatched earlier must still be processed before a report can come; a load is announced to the
    workers with a step, so no output of an earlier step can carry its report. ``claimed``: the scheduler was told of it, and not
    yet that it is over. ``rank``: whose part of the transfer this is; each rank has one of its own. ``told``: it was reported
    although it runs, and how (contracts ``late`` and ``lease``). ``failed``: a load that was reported to have failed, and is not
    yet reported as over.
    """

    request: str
    direction: Direction
    blocks: tuple[int, ...]
    wait: int
    over: bool
    claimed: bool
    rank: int = 0
    told: str = ""
    failed: bool = False

    @property
    def label(self) -> str:
        """``load of A``, and whose part of it."""
        return f"{self.direction} of {self.request}" + (f" on rank {self.rank}" if self.rank else "")

    def named_by(self, request: str, direction: Direction, rank: int) -> bool:
        """Whether an event or a report speaks of it."""
        return (self.request, self.direction, self.rank) == (request, direction, rank)


class World(NamedTuple):
    """``settled``: everything is over and the engine has since completed a step it could clean up in.
    ``deviations``: the weakenings of the contract that were made use of so far. ``paused``: how the engine is paused.
    ``again``: ids that are in use a second time. ``earlier``: transfers for the first request of such an id. ``spoiled``: the
    blocks whose KV is not what a failed load should have brought, each with how many tokens at its beginning are right."""

    requests: tuple[RequestState, ...]
    steps: tuple[Step, ...] = ()
    transfers: tuple[Transfer, ...] = ()
    settled: bool = False
    deviations: tuple[str, ...] = ()
    paused: PauseMode | None = None
    again: tuple[str, ...] = ()
    earlier: tuple[Transfer, ...] = ()
    spoiled: tuple[tuple[int, int], ...] = ()

    @property
    def quiescent(self) -> bool:
        """Every request that came is over and no transfer is left to report."""
        return not self.unreported and all(request.stage != Stage.LIVE for request in self.requests)

    @property
    def unreported(self) -> tuple[Transfer, ...]:
        """Every transfer that was not reported, also for the earlier request of an id."""
        return self.transfers + self.earlier if self.earlier else self.transfers

    def renamed(self, names: dict[int, int]) -> World:
        """The same world with other block ids: what :func:`canonical_names` makes comparable."""
        return self._replace(
            requests=tuple(_renamed_tables(r, names) if r.table else r for r in self.requests),
            steps=tuple(
                step._replace(accesses=tuple(_renamed_access(a, names) for a in step.accesses)) for step in self.steps
            ),
            transfers=_renamed_transfers(self.transfers, names),
            earlier=_renamed_transfers(self.earlier, names),
            spoiled=tuple(sorted((names[b], good) for b, good in self.spoiled)),
        )


def _renamed_transfers(transfers: tuple[Transfer, ...], names: dict[int, int]) -> tuple[Transfer, ...]:
    return tuple(t._replace(blocks=tuple(names[b] for b in t.blocks)) for t in transfers)


def _renamed_tables(request: RequestState, names: dict[int, int]) -> RequestState:
    table, window = tuple([names[b] for b in request.table]), tuple([names[b] for b in request.window_table])
    return request._replace(table=table, window_table=window)


def _renamed_access(access: Access, names: dict[int, int]) -> Access:
    blocks, written = tuple([names[b] for b in access.blocks]), tuple([names[b] for b in access.written])
    return Access(access.request, blocks, written, access.start, access.loaded)


def initial_world(requests: int) -> World:
    return World(tuple(RequestState() for _ in range(requests)))
