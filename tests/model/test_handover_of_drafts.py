"""What counts as the KV of a request whose last step accepted more drafts than it may have tokens."""

from __future__ import annotations

import pytest

from kvmodel.drafts import kv_tokens
from kvmodel.events import Update
from kvmodel.port import Observation, Response
from kvmodel.scope import Scope
from kvmodel.transition import Transition
from kvmodel.world import Access, Drafts, RequestState, Stage, Step, World

SCOPE = Scope(("local",), block_size=2, output_tokens=5, drafts=2, window=2)
NOTHING_SEEN = Observation((), (), (), (), (), (), 0, frozenset(), (), (), True)


@pytest.mark.parametrize(
    ("start", "accepted", "tokens"), [(4, 0, 5), (4, 2, 7), (5, 2, 7), (6, 2, 7), (6, 1, 7), (6, 0, 7)]
)
def test_tokens_that_are_cut_off_have_no_kv(start: int, accepted: int, tokens: int) -> None:
    """The request ends with 3 + 5 tokens, of which the last is never computed: 7 have KV, however many more a step computed."""
    table = tuple(range(1, 6))
    request = RequestState(Stage.LIVE, known=True, table=table, computed=start + 3)
    step = Step((Access("A", table, table, start),), ("A",), cleanup=False, drafts=(Drafts("A", 2),))
    world = World((request,), (step,))
    event = Update(drafts=(("A", accepted),) if accepted else ())
    assert kv_tokens("A", Transition(SCOPE, event, world, NOTHING_SEEN, Response(), world, NOTHING_SEEN)) == tokens
