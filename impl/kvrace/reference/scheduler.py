"""The reference scheduler: first come, first served, with vLLM's rules for who owns which KV block and when it goes back.

Its rules are facts of vLLM 0.32.0 ``vllm/v1/core/sched/scheduler.py`` and ``async_scheduler.py``; the methods below name the
symbol they follow. What no scope of kvrace can reach is left out: token budgets, partial prefill, drafts, encoders, priorities.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from kvmodel.events import Direction
from kvmodel.port import DispatchedStep, ScheduledRequest
from kvrace.reference.connector import ScriptedConnector
from kvrace.reference.policies import AssertPolicy
from kvrace.reference.pool import Block, BlockPool
from kvrace.reference.request import Request, Status
from kvrace.reference.tables import BlockTables


class ReferenceScheduler:
    """One scheduler. With ``overlapping`` two steps may be in flight, as under vLLM's ``AsyncScheduler``.

    A live request stands in exactly one of ``waiting``, ``holding`` (it waits and owns blocks: its load runs or is over) and
    ``running``. ``loaded`` names requests whose load was reported and not yet taken note of. ``finished_ids`` are the requests
    that ended since the last step; the next step announces them. ``requests`` also has the ended ones whose blocks must stay.
    """

    pool_class: type[BlockPool] = BlockPool

    def __init__(
        self,
        connector: ScriptedConnector,
        policy: AssertPolicy,
        *,
        usable_blocks: int,
        block_size: int,
        prefix_sharing: bool = False,
        overlapping: bool = False,
    ) -> None:
        self.connector = connector
        self.policy = policy
        self.overlapping = overlapping
        self.pool = self.pool_class(usable_blocks)
        self.tables = BlockTables(self.pool, block_size, prefix_sharing)
        self.requests: dict[str, Request] = {}
        self.waiting: list[Request] = []
        self.holding: list[Request] = []
        self.running: list[Request] = []
        self.loaded: set[str] = set()
        self.finished_ids: set[str] = set()
        # Steps are counted only where two can be in flight: else no step is in flight when a block goes back and is given out.
        self.scheduled_steps = 0
        self.processed_steps = 0
        self.deferred_frees: deque[tuple[int, tuple[Block, ...]]] = deque()

    # The entry points of the engine.

    def add_request(self, request: Request) -> None:
        self.requests[request.request_id] = request
        self.waiting.append(request)

    def abort(self, request_id: str) -> None:
        """``Scheduler.finish_requests``. A request that is unknown or already over is passed over."""
        request = self.requests.get(request_id)
        if request is None or request.status.finished:
            return
        load_runs = self.load_runs(request)
        self.loaded.discard(request_id)
        self.leave_queues(request)
        request.status = Status.FINISHED_ABORTED
        self.finish(request, load_runs)

    def abort_all(self) -> None:
        """``Scheduler.finish_requests(None)``."""
        for request_id in list(self.requests):
            self.abort(request_id)

    def schedule(self) -> DispatchedStep:
        """``Scheduler.schedule``: running requests first; nobody is admitted in a step in which somebody was preempted."""
        self.policy.before_schedule(self)
        scheduled: list[ScheduledRequest] = []
        preempted: list[str] = []
        self.schedule_running(scheduled, preempted)
        if not preempted:
            self.schedule_waiting(scheduled)
        step = DispatchedStep(tuple(scheduled), tuple(sorted(preempted)), tuple(sorted(self.finished_ids)))
        self.after_schedule(step)
        return step

    def update(
        self, step: DispatchedStep, tokens: Mapping[str, int], loads: Iterable[str], saves: Iterable[str]
    ) -> list[str]:
        """``Scheduler.update_from_output``: sampled tokens first, then the connector's reports.

        ``tokens`` has the sampled token of each request that got one. Returns the requests that are over by it: each is one
        final notice to its client.
        """
        if self.overlapping and step.scheduled:
            self.processed_steps += 1
            self.drain_deferred_frees()
        notices: list[str] = []
        for entry in step.scheduled:
            request = self.requests.get(entry.request)
            if request is not None and not request.status.finished and entry.request in tokens:
                self.take_token(request, tokens[entry.request], notices)
        self.take_reports(loads, saves)
        return notices

    def has_requests(self) -> bool:
        """``Scheduler.has_requests``: False lets the engine sleep until a request comes."""
        return bool(self.requests or self.finished_ids)

    # Scheduling.

    def schedule_running(self, scheduled: list[ScheduledRequest], preempted: list[str]) -> None:
        index = 0
        while index < len(self.running):
            request = self.running[index]
            count = self.tokens_to_compute(request)
            if count:
                tokens = request.num_computed_tokens + count
                if not self.make_room(request, tokens, preempted):
                    return
                taken = self.tables.grow(request, tokens)
                self.tables.offer(request, min(tokens, request.num_tokens))
                ids = tuple(block.block_id for block in taken)
                start, samples = request.num_computed_tokens, tokens >= request.num_tokens
                scheduled.append(ScheduledRequest(request.request_id, ids, False, start, tokens, samples))
            index += 1

    def tokens_to_compute(self, request: Request) -> int:
        """Nothing, too, when the tokens on their way are sure to be the last ones."""
        after_next = request.num_computed_tokens + 2 - request.num_output_placeholders
        if request.num_output_placeholders and after_next >= request.num_prompt_tokens + request.max_tokens:
            return 0
        return request.num_tokens + request.num_output_placeholders - request.num_computed_tokens

    def make_room(self, request: Request, tokens: int, preempted: list[str]) -> bool:
        """Preempt the request that came last until ``tokens`` tokens fit; False when they cannot be made to fit now.

        A victim whose blocks have to wait for a step would give no room, so it is left alone and nobody else is scheduled.
        """
        while self.tables.missing(request, tokens) > self.pool.free_count:
            victim = self.running[-1]
            if self.is_fenced(victim):
                return False
            self.running.pop()
            self.preempt(victim)
            preempted.append(victim.request_id)
            if victim is request:
                return False
        return True

    def preempt(self, request: Request) -> None:
        """``Scheduler._preempt_request``: all its KV is computed again. None of its tokens are on their way: see make_room."""
        self.free_blocks(request)
        request.status = Status.PREEMPTED
        request.was_preempted = True
        request.num_computed_tokens = 0
        request.num_output_placeholders = 0
        self.waiting.insert(0, request)

    def schedule_waiting(self, scheduled: list[ScheduledRequest]) -> None:
        """Who owns blocks comes first: behind a request that does not fit, its blocks would be lost to all. No overtaking."""
        for request in list(self.holding):
            if self.load_runs(request):
                continue
            if request.status is Status.WAITING_FOR_REMOTE_KVS:
                self.wake(request)
            if not self.admit(request, scheduled):
                return
        while self.waiting and self.admit(self.waiting[0], scheduled):
            pass

    def load_runs(self, request: Request) -> bool:
        return request.status is Status.WAITING_FOR_REMOTE_KVS and request.request_id not in self.loaded

    def wake(self, request: Request) -> None:
        """``Scheduler._update_waiting_for_remote_kv``: the load is over, and the prefix cache may offer what it brought."""
        self.tables.offer(request, request.num_computed_tokens)
        self.loaded.remove(request.request_id)
        request.status = Status.PREEMPTED if request.was_preempted else Status.WAITING

    def admit(self, request: Request, scheduled: list[ScheduledRequest]) -> bool:
        """Run a waiting request, or start its load; False when the pool has no room for it."""
        shared: list[Block] = []
        external = 0
        if request.num_computed_tokens == 0:
            shared = self.tables.find_shared(request)
            external = self.connector.matched_tokens(request.request_id, len(shared) * self.tables.block_size)
        local = request.num_computed_tokens + len(shared) * self.tables.block_size
        tokens = local + external if external else request.num_tokens
        if self.tables.missing(request, request.num_tokens, shared) > self.pool.free_count:
            return False
        if external and self.tables.missing(request, tokens, shared) > self.pool.free_count - self.reserved_blocks():
            return False
        self.tables.grow(request, tokens, shared)
        self.leave_queues(request)
        if external:
            self.start_load(request, local, tokens)
            return True
        self.tables.offer(request, tokens)
        request.status = Status.RUNNING
        request.num_computed_tokens = local
        self.running.append(request)
        scheduled.append(ScheduledRequest(request.request_id, self.tables.ids(request), True, local, tokens, True))
        return True

    def reserved_blocks(self) -> int:
        """What the requests whose load runs or is over need to run (``Scheduler._inflight_prefill_reserved_blocks``).

        A load cannot be preempted: loads that took the last blocks could wait for each other for ever.
        """
        return sum(self.tables.missing(request, request.num_tokens) for request in self.holding)

    def start_load(self, request: Request, start: int, end: int) -> None:
        request.status = Status.WAITING_FOR_REMOTE_KVS
        request.num_computed_tokens = end
        self.holding.append(request)
        self.connector.start_load(request.request_id, self.tables.ids(request), start, end)

    def after_schedule(self, step: DispatchedStep) -> None:
        """``Scheduler._update_after_schedule``: count the tokens now, so that the next step can be scheduled at once."""
        if self.overlapping and step.scheduled:
            self.scheduled_steps += 1
        for entry in step.scheduled:
            request = self.requests[entry.request]
            request.num_computed_tokens = entry.computed
            if self.overlapping:
                request.num_output_placeholders += 1
                request.last_step = self.scheduled_steps
        self.finished_ids = set()

    # Ends.

    def take_token(self, request: Request, token: int, notices: list[str]) -> None:
        over = request.append(token)
        if self.overlapping:
            request.num_output_placeholders -= 1
            self.tables.offer(request, request.num_computed_tokens - request.num_output_placeholders)
        if over:
            self.leave_queues(request)
            self.finish(request, load_runs=False)
            notices.append(request.request_id)

    def take_reports(self, loads: Iterable[str], saves: Iterable[str]) -> None:
        """``Scheduler._update_from_kv_xfer_finished``: what a report means is for the completion policy to say."""
        for request_id in loads:
            self.policy.load_reported(self, request_id)
        for request_id in saves:
            self.policy.save_reported(self, request_id)

    def leave_queues(self, request: Request) -> None:
        for queue in (self.waiting, self.holding, self.running):
            if request in queue:
                queue.remove(request)

    def finish(self, request: Request, load_runs: bool) -> None:
        """``Scheduler._free_request``: tell the connector, and keep the blocks if a transfer still needs them."""
        asked = self.policy.asks_while_loading or not load_runs
        claimed = asked and self.connector.request_finished(request.request_id, self.blocks_to_hand_over(request))
        running: tuple[tuple[bool, Direction], ...] = ((load_runs, "load"), (claimed, "save"))
        awaited = {direction for runs, direction in running if runs}
        self.finished_ids.add(request.request_id)
        if awaited:
            self.policy.held(request, awaited)
        else:
            self.release(request)

    def blocks_to_hand_over(self, request: Request) -> tuple[int, ...]:
        """The blocks that hold KV; a block that was taken for tokens to come is none of them (``_connector_finished``)."""
        return self.tables.ids(request)[: self.tables.blocks_for(request.num_computed_tokens)]

    def release(self, request: Request) -> None:
        """``Scheduler._free_blocks``: the one way out of ``requests``. Raises AssertionError for a request that is not over."""
        if not request.status.finished:
            raise AssertionError("the blocks of a request that is not over are to be freed")
        self.free_blocks(request)
        del self.requests[request.request_id]

    def is_fenced(self, request: Request) -> bool:
        """A step in flight may still write the request's blocks, and no load is ordered against steps."""
        return request.last_step > self.processed_steps

    def free_blocks(self, request: Request) -> None:
        """``Scheduler._free_request_blocks``: the last block first, now or once the steps in flight are processed."""
        fenced = self.is_fenced(request)
        blocks = self.tables.end(request)
        if not fenced:
            self.pool.give_back(reversed(blocks))
        elif blocks:
            self.deferred_frees.append((self.scheduled_steps, tuple(blocks)))

    def drain_deferred_frees(self) -> None:
        while self.deferred_frees and self.deferred_frees[0][0] <= self.processed_steps:
            _, blocks = self.deferred_frees.popleft()
            self.pool.give_back(reversed(blocks))
