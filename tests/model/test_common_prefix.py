"""What a step is told that all its requests have in common."""

from __future__ import annotations

import pytest

from kvmodel.common_prefix import strange_prefix
from kvmodel.errors import KvraceError
from kvmodel.events import Schedule
from kvmodel.lockstep import NOTHING
from kvmodel.port import DispatchedStep, Observation, ScheduledRequest
from kvmodel.scope import Scope
from kvmodel.transition import Broken, Transition
from kvmodel.world import Access, RequestState, Step, initial_world
from kvrace.reference.subject import ReferenceSubject

SCOPE = Scope(("local", "local"), prompts=("ab", "ac"), prefix_sharing=True, cascade=True)
TABLES = {"A": (1, 2, 3), "B": (1, 4, 5)}
SEEN = Observation((), (), (), (), (), (), 0, frozenset(), (), (), False)


def _judged(common: int, computed: int) -> Broken | None:
    scheduled = tuple(ScheduledRequest(name, (), False, computed, 10, True) for name in TABLES)
    accesses = tuple(Access(name, table, table[-1:], computed) for name, table in TABLES.items())
    world = initial_world(2)._replace(
        requests=tuple(RequestState(table=table) for table in TABLES.values()),
        steps=(Step(accesses, ("A", "B"), False),),
    )
    response = NOTHING._replace(step=DispatchedStep(scheduled, (), (), common))
    return strange_prefix(Transition(SCOPE, Schedule(), world, SEEN, response, world, SEEN))


@pytest.mark.parametrize(("common", "computed", "strange"), [(1, 9, ()), (2, 9, (2,)), (3, 9, (2,)), (0, 9, ())])
def test_blocks_that_are_said_to_be_common_are_those_of_every_request(
    common: int, computed: int, strange: tuple[int, ...]
) -> None:
    broken = _judged(common, computed)
    assert (() if broken is None else broken.blocks) == strange


def test_no_more_is_read_at_once_than_every_request_has_computed() -> None:
    assert _judged(2, 7) is None


def test_only_requests_that_may_share_blocks_have_some_in_common() -> None:
    with pytest.raises(KvraceError, match="prefix sharing"):
        Scope(("local", "local"), cascade=True)


def test_a_scheduler_that_says_nothing_of_it_is_not_asked() -> None:
    with pytest.raises(KvraceError, match="cascade"):
        ReferenceSubject(SCOPE)
