"""What is enabled and what is refused are two readings of one relation: they agree on every state of small scopes."""

from __future__ import annotations

import itertools
from typing import get_args

import pytest

from kvmodel.allowed import enabled, refusal
from kvmodel.contract import ALL_MEANINGS, MEANINGS, Contract
from kvmodel.events import Abort, Add, Lose, Report, ReportKind, Schedule, TransferEnds, Update
from kvmodel.explorer import explore
from kvmodel.lockstep import Lockstep
from kvmodel.playback import OTHERS_MAX, play
from kvmodel.scope import Scope
from kvrace.reference.subject import ReferenceSubject

WHOLE = [Report(d, r, k) for d in ("load", "save") for r in "AB" for k in get_args(ReportKind)]
CANDIDATES = [
    Schedule(),
    *(event for r in "AB" for event in (Add(r), Add(r, claims=False), Abort(r))),
    *(event for r in "AB" for d in ("load", "save") for event in (TransferEnds(r, d), Lose(r, d))),
    *(Update(tuple(sorted(reports))) for n in range(3) for reports in itertools.combinations(WHOLE, n)),
    *(Update((), stops) for stops in (("A",), ("B",), ("A", "B"))),
    Add("H"),
    Update((Report("load", "H"),)),
]


_ALONE, _ENDING = Scope(("load_save",)), Scope(("save",), separate_ends=True, early_stop=True)
_PAIR = Scope(("load", "local"), "async", early_stop=True)


@pytest.mark.parametrize(
    ("scope", "contract"),
    [
        *((scope, contract) for scope in (_ALONE, _ENDING) for contract in ALL_MEANINGS),
        (_PAIR, "exactly-once"),
        *(pytest.param(_PAIR, contract, marks=pytest.mark.slow) for contract in MEANINGS if contract != "exactly-once"),
    ],
    ids=str,
)
def test_an_event_is_refused_exactly_when_it_is_not_enabled(scope: Scope, contract: str) -> None:
    force = Contract.parse(contract)
    walk = Lockstep(ReferenceSubject(scope, "wait_for_all"), force)
    start = walk.initial()
    states = [(start.world, start.observation.pending)]
    states += [
        (e.state.world, e.state.observation.pending) for e in explore(walk, start) if e.new and not e.state.crashed
    ]
    for world, pending in states:
        allowed = set(enabled(world, scope, force, pending))
        for event in {*CANDIDATES, *allowed}:
            why = refusal(world, scope, force, pending, event)
            assert (why is None) == (event in allowed), (event, why)


def test_a_scope_with_many_transfers_is_played_without_listing_every_set_of_reports() -> None:
    """Sixteen transfers have 65,536 sets of reports; asking whether one event is allowed must not list them."""
    scope = Scope(("load_save",) * 8)
    events = [*(Add(name) for name in scope.names), Schedule(), *(Abort(name) for name in scope.names)]
    everything = Update(tuple(sorted(Report(d, name) for name in scope.names for d in ("load", "save"))))
    frames, refused = play(ReferenceSubject(scope, "wait_for_all"), Contract(), [*events, everything, everything])
    assert len(frames) == len(events) + 2
    assert refused is not None and refused.guard == "no step is in flight"
    assert len(refused.others) <= OTHERS_MAX
