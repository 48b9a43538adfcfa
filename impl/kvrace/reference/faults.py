"""Schedulers with one planted fault each: who owns which block, and when it goes back.

Each class changes as little of the reference scheduler as makes the fault; its docstring is the fault in one line.
:mod:`kvrace.reference.mutants` says which property has to catch it.
"""

from __future__ import annotations

from kvmodel.errors import KvraceError, quoted
from kvmodel.port import DispatchedStep, ScheduledRequest
from kvrace.reference.pool import Block, BlockPool
from kvrace.reference.request import Request, Status
from kvrace.reference.scheduler import ReferenceScheduler

FAULTS: dict[str, type[ReferenceScheduler]] = {}
"""The faulty schedulers by name."""


def fault(name: str) -> type[ReferenceScheduler]:
    """The scheduler with the fault ``name``. Raises KvraceError for an unknown name."""
    import kvrace.reference.faults_in_calls  # noqa: F401 - the other half of the registry

    if name not in FAULTS:
        raise KvraceError(f"unknown mutant {quoted(name)}: use one of {', '.join(sorted(FAULTS))}")
    return FAULTS[name]


class FaultyScheduler(ReferenceScheduler):
    """A subclass with ``fault="name"`` joins the registry."""

    def __init_subclass__(cls, fault: str) -> None:
        super().__init_subclass__()
        FAULTS[fault] = cls


# Two transfers in one block.


class LoadOverLoad(FaultyScheduler, fault="load-over-load"):
    """a load is sent into a block that the running load of another request fills"""

    def start_load(self, request: Request, start: int, end: int) -> None:
        if self.holding:
            self._take_over(request, self.holding[0])
        super().start_load(request, start, end)

    def _take_over(self, request: Request, other: Request) -> None:
        table = self.tables.blocks_of[request.request_id]
        block = self.tables.blocks_of[other.request_id][0]
        self.pool.give_back(table[:1])
        block.references += 1
        table[0] = block


class LoadOverSave(LoadOverLoad, fault="load-over-save"):
    """a load is sent into a block that the running save of a request reads"""

    def start_load(self, request: Request, start: int, end: int) -> None:
        held = [
            other for other in self.requests.values() if other.awaited and self.tables.blocks_of.get(other.request_id)
        ]
        if held and held[0] is not request:
            self._take_over(request, held[0])
        ReferenceScheduler.start_load(self, request, start, end)


# Blocks that do not go back, or go back twice.


class SkipFree(FaultyScheduler, fault="skip-free"):
    """the blocks of an aborted request are forgotten instead of freed"""

    def free_blocks(self, request: Request) -> None:
        if request.status is Status.FINISHED_ABORTED:
            self.tables.end(request)
        else:
            super().free_blocks(request)


class FreeTwice(FaultyScheduler, fault="free-twice"):
    """the blocks of a request that ends by itself are freed once more"""

    def release(self, request: Request) -> None:
        blocks = list(self.tables.blocks_of.get(request.request_id, ()))
        super().release(request)
        if request.status is not Status.FINISHED_ABORTED:
            self.pool.give_back(blocks)


class KeepRequest(FaultyScheduler, fault="keep-request"):
    """a request whose blocks were held stays in the table of requests after they are freed"""

    def release(self, request: Request) -> None:
        held = request.request_id not in self.finished_ids
        super().release(request)
        if held:
            self.requests[request.request_id] = request


class ForgetTableEntry(FaultyScheduler, fault="forget-table-entry"):
    """an abort leaves the request in the table of loads that are over"""

    def abort(self, request_id: str) -> None:
        was_loaded = request_id in self.loaded
        super().abort(request_id)
        if was_loaded:
            self.loaded.add(request_id)


class KeepTable(FaultyScheduler, fault="keep-table"):
    """freed blocks stay in the block table of their request"""

    def free_blocks(self, request: Request) -> None:
        blocks = self.tables.blocks_of.get(request.request_id)
        super().free_blocks(request)
        if blocks:
            self.tables.blocks_of[request.request_id] = blocks


class DropDeferred(FaultyScheduler, fault="drop-deferred-frees"):
    """blocks that wait for a step are dropped when the step is over instead of freed"""

    def drain_deferred_frees(self) -> None:
        while self.deferred_frees and self.deferred_frees[0][0] <= self.processed_steps:
            self.deferred_frees.popleft()


class OnlyFirstDeferred(FaultyScheduler, fault="defer-without-table"):
    """of the blocks that wait for a step only the first one is remembered"""

    def free_blocks(self, request: Request) -> None:
        waiting = len(self.deferred_frees)
        super().free_blocks(request)
        if len(self.deferred_frees) > waiting:
            fence, blocks = self.deferred_frees.pop()
            self.deferred_frees.append((fence, blocks[:1]))


# Blocks that go back too early.


class NoFence(FaultyScheduler, fault="no-fence"):
    """blocks are freed at once although a step in flight may write them"""

    def is_fenced(self, request: Request) -> bool:
        return False if request.status.finished else super().is_fenced(request)


class FenceOneEarly(FaultyScheduler, fault="fence-one-step-early"):
    """blocks that wait for a step are freed when the step before it is over"""

    def drain_deferred_frees(self) -> None:
        self.processed_steps += 1
        super().drain_deferred_frees()
        self.processed_steps -= 1


class AbortFreesLoading(FaultyScheduler, fault="abort-frees-loading"):
    """an abort frees the blocks a load still writes (vLLM up to 0.15.1)"""

    def finish(self, request: Request, load_runs: bool) -> None:
        super().finish(request, load_runs=False)


class IgnoreClaim(FaultyScheduler, fault="ignore-claim"):
    """the connector's True at request_finished is not heeded: the blocks are freed under the save"""

    def finish(self, request: Request, load_runs: bool) -> None:
        super().finish(request, load_runs)
        if request.awaited == {"save"}:
            request.awaited.clear()
            self.release(request)


# Counts and the free list.


class SharePool(BlockPool):
    def share(self, block: Block) -> None:
        before = block.references
        super().share(block)
        block.references = max(1, before)


class ShareUncounted(FaultyScheduler, fault="share-uncounted"):
    """a second owner of a shared block is not counted"""

    pool_class = SharePool


class LeaveInPool(BlockPool):
    def share(self, block: Block) -> None:
        block.references += 1


class ShareLeftInPool(FaultyScheduler, fault="share-left-in-pool"):
    """a shared block without an owner gets one and stays in the free list"""

    pool_class = LeaveInPool


class LoseCount(BlockPool):
    def give_back(self, blocks: object) -> None:
        before = self.free_count
        super().give_back(blocks)  # type: ignore[arg-type]
        self.free_count = before + (self.free_count > before)


class PoolCounter(FaultyScheduler, fault="pool-counter"):
    """the pool's counter goes up by one however many blocks come back"""

    pool_class = LoseCount


class EvictShared(BlockPool):
    def take(self, count: int) -> list[Block]:
        taken = super().take(count)
        for index, block in enumerate(taken):
            for other in self.blocks[1:]:
                if other.references > 1 and other not in taken:
                    taken[index] = other
                    other.references = 1
                    self.give_back([block])
                    break
        return taken


class EvictSharedBlock(FaultyScheduler, fault="evict-shared"):
    """a block that two requests share is given to a third owner as if it were free"""

    pool_class = EvictShared


class PlaceholderTwice(FaultyScheduler, fault="placeholder-twice"):
    """a sampled token that ends its request takes two placeholders away"""

    def take_token(self, request: Request, token: int, notices: list[str]) -> None:
        super().take_token(request, token, notices)
        if request.status.finished:
            request.num_output_placeholders -= 1


# Preemption.


class PreemptedKeepsBlocks(FaultyScheduler, fault="preempted-keeps-blocks"):
    """a preempted request keeps its blocks"""

    def preempt(self, request: Request) -> None:
        blocks = self.tables.blocks_of.pop(request.request_id, [])
        super().preempt(request)
        self.tables.blocks_of[request.request_id] = blocks


class PreemptedLosesPlace(FaultyScheduler, fault="preempted-loses-place"):
    """a preempted request is put into no queue"""

    def preempt(self, request: Request) -> None:
        super().preempt(request)
        self.waiting.remove(request)


class PreemptHang(FaultyScheduler, fault="preempt-hang"):
    """a request that stands last looks for a victim behind it for ever"""

    def make_room(self, request: Request, tokens: int, preempted: list[str]) -> bool:
        while self.tables.missing(request, tokens) > self.pool.free_count and self.running[-1] is request:
            pass
        return super().make_room(request, tokens, preempted)


class NoRoomCheck(FaultyScheduler, fault="no-room-check"):
    """a running request takes blocks without asking whether there are any"""

    def make_room(self, request: Request, tokens: int, preempted: list[str]) -> bool:
        return True


class StepSummary(FaultyScheduler, fault="announce-other-blocks"):
    """an admitted request is announced to the workers with its blocks in reverse order"""

    def schedule(self) -> DispatchedStep:
        step = super().schedule()
        return step._replace(scheduled=tuple(_reversed(entry) for entry in step.scheduled))


def _reversed(entry: ScheduledRequest) -> ScheduledRequest:
    return entry._replace(new_blocks=entry.new_blocks[::-1]) if entry.replaces else entry
