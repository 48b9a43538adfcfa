"""Why the exploration can be trusted: merging loses nothing, copies are exact, orders are deterministic."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from kvmodel.contract import Contract
from kvmodel.events import Event
from kvmodel.explorer import explore
from kvmodel.lockstep import Lockstep, Node, canonical_names
from kvmodel.playback import play
from kvmodel.scope import SCHEDULINGS, Scheduling, Scope, both_schedulers
from kvrace.vllm.subject import VllmSubject
from tests.real.helpers import broken, check_vllm

pytestmark = pytest.mark.vllm


def _shown(node: Node) -> tuple:
    """What can be seen of a state, with blocks renamed: world, observation, findings."""
    names = canonical_names(node.observation)
    seen = node.observation
    return (
        node.world.renamed(names),
        seen.phases,
        tuple((owner, tuple(names[b] for b in blocks)) for owner, blocks in seen.owned),
        tuple(sorted((names[block], count) for block, count in enumerate(seen.references))),
        tuple(names[block] for block in seen.free),
        tuple(names[block] for block in seen.held_back),
        seen.pending,
        tuple(finding.signature for finding in node.findings),
    )


def _up_to(scope: Scope, depth: int, merge: bool) -> tuple[set, int]:
    """Everything shown within ``depth`` events, and how many orders were played for it."""
    walk = Lockstep(VllmSubject(scope), Contract(), merge=merge)
    start = walk.initial()
    depths = {0: 0}
    shown, played = {_shown(start)}, 0
    for edge in explore(walk, start):
        if depths[edge.source] >= depth:
            break
        if edge.new:
            depths[edge.target] = depths[edge.source] + 1
        shown.add(_shown(edge.state))
        played += 1
    return shown, played


@pytest.mark.parametrize(
    ("scope", "depth"),
    [
        (Scope(("load_save",)), 9),
        (Scope(("load_save",), "async"), 8),
        (Scope(("load", "local")), 6),
        (Scope(("local", "load"), "async", blocks=2), 6),
        (Scope(("load", "save"), prefix_sharing=True), 7),
    ],
    ids=str,
)
def test_exploring_without_merging_shows_the_same(scope: Scope, depth: int) -> None:
    merged, fewer = _up_to(scope, depth, merge=True)
    unmerged, more = _up_to(scope, depth, merge=False)
    assert merged == unmerged
    assert more > 1.5 * fewer, "the comparison has to cover orders that merging leaves out"


@pytest.mark.slow
@pytest.mark.parametrize("scope", both_schedulers(Scope(("load", "save"))), ids=str)
def test_copies_are_exact_and_orders_are_deterministic(scope: Scope) -> None:
    """Every state reached by restoring a copy has the same key when its order is played from the start, twice."""
    walk = Lockstep(VllmSubject(scope), Contract())
    start = walk.initial()
    orders: dict[int, list[Event]] = {0: []}
    keys = {0: start.key}
    for edge in explore(walk, start):
        if edge.new:
            orders[edge.target] = [*orders[edge.source], edge.label]
            keys[edge.target] = edge.state.key
    again = Lockstep(VllmSubject(scope), Contract())
    for state in range(0, len(orders), 7):
        for _ in range(2):
            node = again.initial()
            for event in orders[state]:
                node = again.successor(node, event)
            assert node.key == keys[state], orders[state]


@pytest.mark.slow
@pytest.mark.parametrize(
    "scope", [Scope(("load_save",)), Scope(("load", "save")), Scope(("load", "local"), "async")], ids=str
)
def test_a_separate_end_of_transfers_changes_no_verdict(scope: Scope) -> None:
    """By default a transfer touches memory until its report, the worst case. Letting it end earlier finds nothing else."""
    from dataclasses import replace

    together, apart = check_vllm([scope]), check_vllm([replace(scope, separate_ends=True)])
    assert apart.transitions > together.transitions
    assert broken(together) == broken(apart)
    assert {v.signature for v in together.violations} == {v.signature for v in apart.violations}


def test_every_reported_order_is_replayed_on_a_fresh_scheduler() -> None:
    result = check_vllm([Scope(("load_save",))])
    for violation in result.violations:
        events = [frame.event for frame in violation.frames[1:]]
        frames, refused = play(VllmSubject(violation.scope), violation.contract, events)
        assert refused is None
        assert any(f.signature == violation.signature for f in frames[-1].findings)


_COUNT = """
import json
from kvmodel.scope import Scope, both_schedulers
from tests.real.helpers import check_vllm
result = check_vllm([*both_schedulers(Scope(("load_save", "local"))), Scope(("load", "save"), prefix_sharing=True)])
print(json.dumps([[c.states, c.transitions] for c in result.cases] + [[v.message, v.events] for v in result.violations]))
"""


@pytest.mark.slow
def test_results_do_not_depend_on_the_hash_seed() -> None:
    printed = []
    for seed in ("0", "1", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = subprocess.run(
            [sys.executable, "-c", _COUNT], env=environment, capture_output=True, text=True, check=True
        )
        printed.append(json.loads(run.stdout.splitlines()[-1]))
    assert printed[0] == printed[1] == printed[2]


@pytest.mark.slow
@pytest.mark.parametrize("scheduling", SCHEDULINGS)
def test_a_subclass_is_compared_by_exact_block_ids(scheduling: Scheduling) -> None:
    """A subclass may remember block ids in any form; renaming blocks could then merge states that differ."""
    from kvrace.vllm.api import load_api

    class Remembers(load_api().scheduler_class(scheduling)):
        def __init__(self, *args, **kwargs) -> None:
            super().__init__(*args, **kwargs)
            self.newest_blocks: dict[str, str] = {}

        def schedule(self, *args, **kwargs):
            output = super().schedule(*args, **kwargs)
            for new in output.scheduled_new_reqs:
                self.newest_blocks[new.req_id] = f"block {new.block_ids[0]}"
            return output

    scope = Scope(("load", "local"), scheduling)
    plain, remembering = check_vllm([scope]), check_vllm([scope], scheduler_class=Remembers)
    assert remembering.states > plain.states
    # What it remembers is a leak as well, and found without anybody having told kvrace of the table.
    assert broken(remembering) == {"no-leak"}
    assert "Remembers.newest_blocks" in remembering.violations[0].message


@pytest.mark.slow
def test_a_counter_that_grows_for_ever_is_named_and_can_be_left_out() -> None:
    """Statistics in a subclass keep every two states apart. The result says so and what to do; then the scope is exhausted."""
    from kvrace.check import Limits, check
    from kvrace.vllm.api import load_api

    class Counts(load_api().scheduler):
        num_updates = 0

        def update_from_output(self, *args, **kwargs):
            self.num_updates += 1
            return super().update_from_output(*args, **kwargs)

    class CountsForItself(Counts):
        kvrace_left_out = ("num_updates",)

    scope = Scope(("load",))
    endless = check(lambda s: VllmSubject(s, Counts), [scope], Contract(), limits=Limits(max_states=3000))
    assert endless.stopped == "state limit" and endless.verdict == "incomplete"
    assert any(
        "Counts.num_updates took" in note and "kvrace_left_out = ('num_updates',)" in note for note in endless.notes
    )
    exhausted = check_vllm([scope], scheduler_class=CountsForItself)
    assert exhausted.complete and broken(exhausted) == set()
    assert exhausted.notes == ("not compared, at the word of its class: CountsForItself.num_updates",)
