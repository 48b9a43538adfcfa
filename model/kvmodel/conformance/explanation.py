"""What a scheduler was seen to do in answer to one event, as moves of the relation.

An explanation names the moves that the observed change is made of. It does not judge them: a move whose guard is false is named
all the same, and so is one that is missing in what was observed. Where the order within one call cannot be seen, any order will do.
"""

from __future__ import annotations

from kvmodel.conformance.abstraction import Abstraction, phase_of
from kvmodel.events import Abort, Add, Schedule, Update
from kvmodel.relation.vocabulary import AT_ONCE, BEHIND_STEPS, CLAIMED, HIDDEN, NOTHING
from kvmodel.transition import Transition

Name = tuple[str, ...]
"""An action and its elements: ``("take", "A", "2")``. A report is named without the request it is taken for."""

Item = tuple[Name, ...]
"""Moves that belong together, in their order."""

Part = tuple[Item, ...]
"""Items in the order in which they are tried first; any order that works will do."""

REPORTS = {"due": "report", "duplicate": "report_again", "unsolicited": "report_unasked"}
LIVE = ("waiting", "loading", "running")


def explained(t: Transition, by: Abstraction, reclaims: bool) -> tuple[Part, ...]:
    """The moves that the observed change is made of, part by part. ``reclaims``: the scheduler may free held blocks by itself."""
    told = _Told(t, by, reclaims)
    match t.event:
        case Update() if t.response.crash:
            return told.crashed_update()
        case Add(name):
            return (((("add", name),),),)
        case Abort(name):
            return (told.ends([name]),)
        case Schedule():
            return told.schedule()
        case Update():
            return told.update()
    return ()


class _Told:
    """The differences between the two sides of a transition, put into moves."""

    def __init__(self, t: Transition, by: Abstraction, reclaims: bool) -> None:
        self.t, self.by, self.reclaims = t, by, reclaims
        names = t.scope.names
        then, now = dict(t.seen_before.phases), dict(t.seen.phases)
        self.then = {n: phase_of(r, then.get(n)) for n, r in zip(names, t.before.requests, strict=True)}
        self.now = {n: phase_of(r, now.get(n)) for n, r in zip(names, t.after.requests, strict=True)}
        self.had = {name: dict.fromkeys(filter(by.knows, blocks)) for name, blocks in t.seen_before.owned}
        self.has = {name: dict.fromkeys(filter(by.knows, blocks)) for name, blocks in t.seen.owned}

    # Ends and reports.

    def ends(self, names: list[str]) -> Part:
        """Requests that were not over, each with the end that the event brings about."""
        word = "abort" if isinstance(self.t.event, Abort) else "stop"
        return tuple(
            (*self.offers(name), (word, name, self.answer(name), self.giving_back(name)))
            for name in names
            if self.then[name] in LIVE
        )

    def answer(self, name: str) -> str:
        """What the connector has said at request_finished: it shows in the save that began."""
        began = [t for t in self.t.after.transfers if (t.request, t.direction) == (name, "save")]
        if not began or any((t.request, t.direction) == (name, "save") for t in self.t.before.transfers):
            return NOTHING.name
        return CLAIMED.name if began[0].claimed else HIDDEN.name

    def giving_back(self, name: str) -> str:
        given_up = self.had.get(name, {}).keys() - self.has.get(name, {}).keys()
        behind = given_up and all(block in self.t.seen.held_back for block in given_up)
        return BEHIND_STEPS.name if behind else AT_ONCE.name

    def reports(self) -> Part:
        """Loads first, then saves, as vLLM takes them."""
        assert isinstance(self.t.event, Update)
        return tuple(
            ((REPORTS[report.kind], report.direction, report.request, self.giving_back(report.request)),)
            for report in sorted(self.t.event.reports)
        )

    # Calls of the engine.

    def update(self) -> tuple[Part, ...]:
        """The step is over, held blocks go back, blocks are offered, requests end, and then the reports are taken."""
        over = [name for name in self.then if self.then[name] in LIVE and self.now[name] not in LIVE]
        going_on = [name for name in self.then if name not in over]
        offered = tuple(item for name in going_on if (item := self.offers(name)))
        return (*self.output(), (*self.given_back(), *offered, *self.ends(over), *self.reports(), *self.reclaimed()))

    def crashed_update(self) -> tuple[Part, ...]:
        """As far as it shows in what a call has done that did not come back: requests that ended, then the reports."""
        over = [handover.request for handover in self.t.response.handovers]
        return (*self.output(), self.ends(over), self.reports())

    def output(self) -> tuple[Part, ...]:
        """The step is over. What its output carries was sent before the scheduler looks at any of it."""
        assert isinstance(self.t.event, Update)
        unasked = (report.request for report in self.t.event.reports if report.kind == "unsolicited")
        return (((("process", "1"),),), tuple((("invent", name),) for name in unasked))

    def schedule(self) -> tuple[Part, ...]:
        step = str(len(self.t.before.steps) + 1)
        preempted = tuple((("preempt", name, self.giving_back(name)),) for name in self.preempted())
        live = [name for name in self.by_service() if self.now[name] in LIVE]
        served = tuple(item for name in live if (item := self.service(name, step)))
        begun = ((("build", step),),)
        return ((*self.given_back(), *self.reclaimed(), *preempted), begun, served, ((("dispatch", step),),))

    def preempted(self) -> list[str]:
        """Requests that have given their blocks up and are not over."""
        said = self.t.response.step.preempted if self.t.response.step else ()
        return [
            name
            for name in self.then
            if self.now[name] in LIVE
            and (name in said or self.then[name] == "running" != self.now[name] or self.has_lost_all(name))
        ]

    def has_lost_all(self, name: str) -> bool:
        had, has = self.had.get(name, {}), self.has.get(name, {})
        return bool(had) and not had.keys() & has.keys()

    def given_back(self) -> Part:
        held = dict.fromkeys(filter(self.by.knows, self.t.seen_before.held_back))
        return tuple((("give_back", str(block)),) for block in held if block not in self.t.seen.held_back)

    def reclaimed(self) -> Part:
        """Requests that were held and are forgotten, without any report for them."""
        if not self.reclaims:
            return ()
        reported = {report.request for report in self.t.event.reports} if isinstance(self.t.event, Update) else set()
        gone = [name for name in self.then if (self.then[name], self.now[name]) == ("held", "gone")]
        return tuple((("reclaim", name, self.giving_back(name)),) for name in gone if name not in reported)

    def by_service(self) -> list[str]:
        """The requests in the order in which a scheduler most likely looked at them: who ran comes first."""
        return sorted(self.then, key=lambda name: self.then[name] != "running")

    def service(self, name: str, step: str) -> Item:
        """What one request got in a ``schedule``: woken up, blocks, a load or a place in the step, and its blocks offered."""
        t = self.t
        entry = next((e for e in t.response.step.scheduled if e.request == name), None) if t.response.step else None
        load = next((item for item in t.response.loads if item.request == name), None)
        table = list(self.has.get(name, ()))
        anew = name in self.preempted()
        kept: dict[int, None] = {} if anew else self.had.get(name, {})
        # What stands in the table before the first new token is KV that the prefix cache has offered.
        shared = 0
        if load is not None:
            shared = next((place for place, block in enumerate(table) if block in load.blocks), 0)
        elif entry is not None and entry.replaces:
            shared = entry.start // t.scope.block_size
        moves: list[Name] = []
        if self.then[name] == "loading" and self.now[name] != "loading":
            moves.append(("wake", name))
        for place, block in enumerate(table):
            if block not in kept:
                moves.append(("share" if place < shared else "take", name, str(block)))
        if load is not None:
            moves.append(("start_load", name))
        if self.now[name] == "running" and (anew or self.then[name] != "running"):
            moves.append(("admit", name))
        access = next((a for a in t.after.steps[-1].accesses if a.request == name), None) if entry is not None else None
        if access is not None:
            moves += [("compute", step, name, str(block)) for block in access.written if self.by.knows(block)]
        return (*moves, *self.offers(name))

    def offers(self, name: str) -> Item:
        """The blocks of a request that the prefix cache offers now and did not before, or that were given out anew."""
        t = self.t
        after = self.has.get(name) or self.had.get(name, {})
        fresh = after.keys() - self.had.get(name, {}).keys()
        new = [
            block
            for block in after
            if block in t.seen.cached
            and (block not in t.seen_before.cached or self._given_out_anew(name, block, fresh))
        ]
        return tuple(("offer", name, str(block)) for block in new)

    def _given_out_anew(self, name: str, block: int, fresh: set[int]) -> bool:
        """The block was offered with other contents, went to ``name``, and is offered with its contents."""
        if block not in fresh:
            return False
        step = self.t.response.step
        entry = next((e for e in step.scheduled if e.request == name), None) if step else None
        return entry is not None and list(self.has[name]).index(block) >= entry.start // self.t.scope.block_size
