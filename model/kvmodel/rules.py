"""What each event does to the world, and what the scripted connector answers meanwhile. Which events are allowed is in
:mod:`kvmodel.allowed`."""

from __future__ import annotations

from kvmodel.accesses import dispatched
from kvmodel.contract import Contract
from kvmodel.drafts import settled
from kvmodel.early import EARLY, told_early
from kvmodel.events import (
    Abort,
    AbortAll,
    Add,
    AddAgain,
    Direction,
    Event,
    Lose,
    Pause,
    Report,
    Resume,
    Schedule,
    TransferEnds,
    Update,
)
from kvmodel.failures import blocks_at_risk, fail, loading, run, spoil
from kvmodel.life import after_reset, used_again, without
from kvmodel.port import ConnectorScript, DispatchedStep, LoadStarted, Response
from kvmodel.relation.in_world import may_save
from kvmodel.scope import Scope
from kvmodel.world import Access, Drafts, RequestState, Stage, Step, Transfer, World


def _loading(world: World, name: str) -> bool:
    return any(t.request == name and t.direction == "load" for t in world.transfers)


def connector_script(world: World, scope: Scope, contract: Contract) -> dict[str, ConnectorScript]:
    """What the scripted connector answers during the next scheduler call, request by request."""
    script = {}
    for index, (name, request) in enumerate(zip(scope.names, world.requests, strict=True)):
        load = scope.loads(index) and (not request.load_started or (scope.loads_again and not _loading(world, name)))
        save = (
            scope.saves(index)
            and not request.save_started
            and may_save(contract, request.claims)(world, name, index, "save")
        )
        script[name] = ConnectorScript(
            scope.loaded_tokens_of(index) if load else 0,
            ("claimed" if request.claims else "hidden") if save else "none",
            scope.loads_in_step(index),
            blocks_at_risk(world, scope, name) if scope.load_failures else (),
        )
    return script


class _Draft:
    """A world under change: the response of the scheduler is folded in piece by piece, then :meth:`finish` freezes it."""

    def __init__(self, world: World, scope: Scope, contract: Contract) -> None:
        self.scope, self.contract = scope, contract
        self.before = world
        self.requests = list(world.requests)
        self.steps = world.steps
        self.transfers = list(world.transfers)
        self.settled = world.settled
        self.ended_again = False
        self.deviations = set(world.deviations)
        self.spoiled = dict(world.spoiled)
        self.paused, self.again, self.earlier = world.paused, world.again, list(world.earlier)

    def change(self, name: str, **changes: object) -> None:
        index = self.scope.names.index(name)
        self.requests[index] = self.requests[index]._replace(**changes)  # type: ignore[arg-type]

    def request(self, name: str) -> RequestState:
        return self.requests[self.scope.names.index(name)]

    def notice(self, name: str) -> None:
        """The client learns that the request is over, by its own abort or by a final output."""
        self.change(name, stage=Stage.OVER, notices=min(2, self.request(name).notices + 1), load_started=False)

    def dispatch(self, step: DispatchedStep, loads: tuple[LoadStarted, ...]) -> None:
        for name in step.preempted:
            self.change(name, table=(), window_table=(), computed=0)
        for name in step.dismissed:
            self.change(name, dismissals=min(2, self.request(name).dismissals + 1), known=False)
        accesses = []
        in_step = {load.request: load for load in loads if load.in_step}
        for entry in step.scheduled:
            told, access = dispatched(self.request(entry.request), entry, self.steps, self.scope)
            self.requests[self.scope.names.index(entry.request)] = told
            accesses.append(self.with_load(access, in_step[entry.request]) if entry.request in in_step else access)
        samples = tuple(sorted(entry.request for entry in step.scheduled if entry.samples))
        drafts = tuple(sorted(Drafts(entry.request, entry.drafts) for entry in step.scheduled if entry.drafts))
        if self.spoiled:
            run(accesses, self.spoiled, self.scope, {entry.request: entry.computed for entry in step.scheduled})
        self.steps = (*self.steps, Step(tuple(sorted(accesses)), samples, self.before.quiescent, drafts))

    def with_load(self, access: Access, load: LoadStarted) -> Access:
        """What a step touches for a request that it begins to load."""
        for block in load.blocks:
            self.spoiled.pop(block, None)
        return loading(access, load, self.scope)

    def end(self, of: Report | TransferEnds | Lose) -> None:
        """The transfer is over, and nothing more is to be said of it."""
        self.transfers = [t for t in self.transfers if not t.named_by(of.request, of.direction, of.rank)]

    def report(self, report: Report) -> None:
        if report.kind == "earlier":
            self.earlier = without(self.earlier, report)
        elif report.kind == "due":
            self.end(report)
            if self.contract.duplicate:
                left = tuple(d for d in self.request(report.request).repeatable if d != report.direction)
                self.change(report.request, repeatable=(*left, report.direction))
        elif report.kind in EARLY:
            if any(t.named_by(report.request, report.direction, report.rank) for t in self.transfers):
                self.transfers = told_early(self.transfers, report)
            else:
                self.change(report.request, lease_over=True)
            self.deviations.add(EARLY[report.kind])
        elif any(t.told and t.named_by(report.request, report.direction, report.rank) for t in self.transfers):
            self.end(report)
        elif report.kind == "duplicate":
            left = tuple(d for d in self.request(report.request).repeatable if d != report.direction)
            self.change(report.request, repeatable=left)
            self.deviations.add("duplicate")
        else:
            self.change(report.request, unsolicited_sent=True)
            self.deviations.add("unsolicited")

    def fail(self, event: Update) -> None:
        failed = {failure.request: failure for failure in event.failures}
        self.transfers = [
            fail(t, failed[t.request]) if t.direction == "load" and t.request in failed else t for t in self.transfers
        ]
        world = spoil(self.before, self.scope, event.failures)
        self.steps, self.spoiled = world.steps, dict(world.spoiled)

    def update(self, event: Update) -> None:
        if event.failures:
            self.fail(event)
        processed = self.steps[0]
        self.steps = self.steps[1:]
        if processed.drafts:
            self.requests, self.steps = settled(processed, self.steps, self.requests, event.drafts, self.scope)
        for report in event.reports:
            self.report(report)
        self.transfers = [t._replace(wait=max(0, t.wait - 1)) for t in self.transfers]
        self.earlier = [t._replace(wait=max(0, t.wait - 1)) for t in self.earlier]
        self.settled = self.settled or (processed.cleanup and not self.steps)

    def start(self, name: str, direction: Direction, blocks: tuple[int, ...], wait: int, claimed: bool) -> None:
        self.transfers += [
            Transfer(name, direction, blocks, wait, over=False, claimed=claimed, rank=rank)
            for rank in self.scope.rank_numbers
        ]

    def add_again(self, name: str) -> None:
        self.again = tuple(sorted((*self.again, name)))
        self.earlier += [t for t in self.transfers if t.request == name]
        self.transfers = [t for t in self.transfers if t.request != name]
        index = self.scope.names.index(name)
        self.requests[index] = used_again(self.requests[index])

    def abort_all(self) -> None:
        for name in self.scope.names:
            if self.request(name).stage == Stage.LIVE:
                self.notice(name)

    def absorb(self, response: Response, script: dict[str, ConnectorScript]) -> None:
        if response.reset is not None:
            self.requests = after_reset(self.requests, self.scope.names, response.reset)
        for load in response.loads:
            if load.in_step:
                self.change(load.request, load_started=True)
                continue
            for block in load.blocks:
                self.spoiled.pop(block, None)
            told = {"table": load.table, "window_table": load.window, "computed": load.computed}
            self.change(load.request, load_started=True, **told)
            self.start(load.request, "load", load.blocks, len(self.before.steps), claimed=True)
        for handover in response.handovers:
            name = handover.request
            self.ended_again = self.ended_again or self.request(name).finished_calls > 0
            # What the workers were told of the request matters no longer: forgetting it merges states.
            calls = min(2, self.request(name).finished_calls + 1)
            self.change(name, finished_calls=calls, table=(), window_table=(), computed=0)
            answer = script[name].save
            if answer != "none" and handover.blocks and not self.request(name).save_started:
                self.change(name, save_started=True)
                self.start(name, "save", handover.named, 0, claimed=answer == "claimed")
                if answer == "hidden":
                    self.deviations.add("unclaimed")
        for name in response.notices:
            self.notice(name)

    def finish(self) -> World:
        world = World(
            tuple(self.requests),
            self.steps,
            tuple(sorted(self.transfers)),
            self.settled,
            tuple(sorted(self.deviations)),
            self.paused,
            self.again,
            tuple(sorted(self.earlier)),
            tuple(sorted(self.spoiled.items())),
        )
        if world.quiescent and not self.ended_again:
            return world
        # Something began anew, or a request ended a second time: a step scheduled before that is no cleanup step for it.
        return world._replace(settled=False, steps=tuple(step._replace(cleanup=False) for step in world.steps))


def apply(
    world: World, scope: Scope, contract: Contract, event: Event, response: Response, script: dict[str, ConnectorScript]
) -> World:
    """The world after ``event``, given what the scheduler did and what the connector had to answer by ``script``."""
    draft = _Draft(world, scope, contract)
    match event:
        case Add(name, claims):
            draft.change(name, stage=Stage.LIVE, claims=claims)
        case AddAgain(name):
            draft.add_again(name)
        case AbortAll():
            draft.abort_all()
        case Pause(mode):
            draft.paused = mode
        case Resume():
            draft.paused = None
        case Abort(name):
            draft.change(name, abort_sent=True)
            if draft.request(name).stage == Stage.LIVE:
                draft.notice(name)
        case TransferEnds(name, direction, rank):
            ended = next(t for t in draft.transfers if t.named_by(name, direction, rank))
            draft.transfers = [t._replace(over=True) if t is ended else t for t in draft.transfers]
            if ended.told:
                draft.end(event)
        case Lose():
            draft.end(event)
            draft.deviations.add("lossy" if contract.lossy else "lease")
        case Schedule():
            if response.step:
                draft.dispatch(response.step, response.loads)
        case Update():
            draft.update(event)
    draft.absorb(response, script)
    return draft.finish()
