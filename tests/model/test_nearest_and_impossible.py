"""What is allowed instead of an event that is not, and which orders no scheduler can play."""

from __future__ import annotations

import random

import pytest

from kvmodel.allowed import enabled, refusal
from kvmodel.contract import Contract
from kvmodel.events import Abort, Add, Event, Lose, Report, Schedule, TransferEnds, Update, parse_event
from kvmodel.impossible import impossible
from kvmodel.lockstep import Lockstep
from kvmodel.nearest import nearest
from kvmodel.playback import play
from kvmodel.scope import Scope
from kvmodel.world import Stage, initial_world
from kvrace.reference.subject import ReferenceSubject

SCOPES = [
    (Scope(("load_save", "local")), "exactly-once"),
    (Scope(("load_save", "save"), "async", early_stop=True), "unclaimed,duplicate,unsolicited"),
    (Scope(("load", "save"), separate_ends=True), "lossy,duplicate"),
    (Scope(("load", "load_save"), "async", engine_order=True, output_tokens=3, block_size=2, blocks=4), "single,lossy"),
]


def _candidates(scope: Scope) -> list[Event]:
    reports = [
        Report(d, r, k) for d in ("load", "save") for r in scope.names for k in ("due", "duplicate", "unsolicited")
    ]
    return [
        Schedule(),
        Update(),
        *(event for r in (*scope.names, "H") for event in (Add(r), Add(r, claims=False), Abort(r))),
        *(event for r in scope.names for d in ("load", "save") for event in (TransferEnds(r, d), Lose(r, d))),
        *(Update((report,)) for report in reports),
        *(Update(tuple(sorted({a, b}))) for a in reports[:4] for b in reports[4:]),
        *(Update((), (name,)) for name in scope.names),
    ]


def _walk(scope: Scope, contract: Contract, choice: random.Random, steps: int) -> list[Event]:
    """A random order that the reference scheduler plays."""
    walk = Lockstep(ReferenceSubject(scope, choice.choice(["wait_for_all", "skip"])), contract)
    node, order = walk.initial(), []
    for _ in range(steps):
        labels = walk.labels(node)
        if not labels:
            break
        order.append(choice.choice(labels))
        node = walk.successor(node, order[-1])
    return order


@pytest.mark.parametrize(("scope", "contract"), SCOPES, ids=str)
def test_what_was_played_is_never_called_impossible(scope: Scope, contract: str) -> None:
    choice = random.Random(7)
    for _ in range(60):
        order = _walk(scope, Contract.parse(contract), choice, 40)
        assert impossible(scope, Contract.parse(contract), order) is None, order


@pytest.mark.parametrize(("scope", "contract"), SCOPES, ids=str)
def test_what_is_called_impossible_is_refused_there_at_the_latest(scope: Scope, contract: str) -> None:
    choice, force = random.Random(11), Contract.parse(contract)
    called = 0
    for _ in range(150):
        order = _walk(scope, force, choice, 12)
        order.insert(choice.randrange(len(order) + 1), choice.choice(_candidates(scope)))
        found = impossible(scope, force, order)
        if found is not None:
            called += 1
            _, refused = play(ReferenceSubject(scope, "wait_for_all"), force, order)
            assert refused is not None and refused.place <= found[0]
    assert called > 30, "an event at a random place is often impossible"


IMPOSSIBLE = {
    "add B": "the scope has no request B",
    "add A / add A": "A was already added",
    "add A / add A unclaimed": "contract `unclaimed` is not in force",
    "add A unclaimed": "contract `unclaimed` is not in force",
    "abort A": "A was not added",
    "add A / abort A / abort A": "A was already aborted",
    "add A / update": "no step is in flight",
    "add A / schedule / schedule": "1 of 1 steps are already in flight",
    "add A / schedule / update load:A": "the connector has no due load of A to report here",
    "add A / schedule / update save:A / schedule / update save:A": "the connector has no due save of A to report here",
    "add A / schedule / update save:A:duplicate": "the connector has no duplicate save of A to report here",
    "add A / schedule / update save:A:unsolicited": "the connector has no unsolicited save of A to report here",
    "add A / schedule / update stop:A": "no stop token can come for A",
    "add A / ends save:A": "the scope has no separate transfer ends",
    "add A / lose save:A": "contract `lossy` is not in force",
}


@pytest.mark.parametrize("order", IMPOSSIBLE)
def test_the_reason_names_the_place(order: str) -> None:
    events = [parse_event(line) for line in order.split(" / ")]
    assert impossible(Scope(("save",)), Contract(), events) == (len(events) - 1, IMPOSSIBLE[order])


@pytest.mark.parametrize(("scope", "contract"), SCOPES, ids=str)
def test_the_nearest_event_is_allowed_and_like_the_refused_one(scope: Scope, contract: str) -> None:
    choice, force = random.Random(3), Contract.parse(contract)
    walk = Lockstep(ReferenceSubject(scope, "wait_for_all"), force)
    node = walk.initial()
    for _ in range(60):
        state = (node.world, scope, force, node.observation.pending)
        allowed = list(enabled(*state))
        for event in _candidates(scope):
            if refusal(*state, event) is None:
                continue
            instead = nearest(*state, event)
            assert instead in (allowed or [None])
            if isinstance(event, Update) and any(isinstance(other, Update) for other in allowed):
                assert isinstance(instead, Update)
                possible = [r for r in event.reports if refusal(*state, Update((r,))) is None]
                ids = {(report.direction, report.request) for report in instead.reports}
                assert ids >= {(report.direction, report.request) for report in possible}
            same = [
                o
                for o in allowed
                if type(o) is type(event) and getattr(o, "request", 0) == getattr(event, "request", 1)
            ]
            assert not same or instead in same
        node = walk.successor(node, choice.choice(allowed)) if allowed and choice.random() < 0.95 else walk.initial()


def test_where_nothing_is_allowed_nothing_is_near() -> None:
    scope = Scope(("local",))
    world = initial_world(1)
    over = world._replace(requests=(world.requests[0]._replace(stage=Stage.OVER, abort_sent=True),))
    assert nearest(over, scope, Contract(), False, Schedule()) is None


def test_an_update_without_a_step_is_nearest_to_a_schedule() -> None:
    _, refused = play(ReferenceSubject(Scope(("local",)), "skip"), Contract(), [Add("A"), Update()])
    assert refused is not None
    assert (refused.nearest, refused.others) == (Schedule(), (Abort("A"),))
