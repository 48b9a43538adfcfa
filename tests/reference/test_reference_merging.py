"""Merging and snapshots lose nothing: merged against unmerged exploration, and snapshots against replays from the start."""

from __future__ import annotations

from collections.abc import Hashable

import pytest
from reference_walks import shown

from kvmodel.contract import Contract
from kvmodel.events import Event
from kvmodel.explorer import explore
from kvmodel.lockstep import Lockstep, Node
from kvmodel.playback import play
from kvmodel.scope import Scope
from kvrace.reference.subject import ReferenceSubject

TIGHT = {"blocks": 4, "block_size": 2, "output_tokens": 3}
CASES = [
    ("assert", Scope(("load_save",)), 9),
    ("wait_for_all", Scope(("load_save",), "async"), 8),
    ("assert", Scope(("local", "load"), "async"), 6),
    ("wait_for_all", Scope(("local", "local"), **TIGHT), 9),  # type: ignore[arg-type]
    ("assert", Scope(("load", "save"), prefix_sharing=True), 6),
]


def merged(policy: str, scope: Scope, depth: int) -> tuple[set[Hashable], set[Hashable]]:
    """What every order of up to ``depth`` events shows and breaks, by the explorer."""
    walk = Lockstep(ReferenceSubject(scope, policy), Contract())
    start = walk.initial()
    depths = {0: 0}
    seen, broken = {shown(start)}, set[Hashable]()
    for edge in explore(walk, start):
        if depths[edge.source] == depth:
            break
        if edge.new:
            depths[edge.target] = depths[edge.source] + 1
        seen.add(shown(edge.state))
        broken.update((depths[edge.source] + 1, finding.signature) for finding in edge.state.findings)
    return seen, shortest(broken)


def unmerged(
    policy: str, scope: Scope, depth: int
) -> tuple[set[Hashable], set[Hashable], dict[Hashable, set[Hashable]]]:
    """The same by playing every order; and for each key how the states with that key go on."""
    walk = Lockstep(ReferenceSubject(scope, policy), Contract())
    layer: list[Node] = [walk.initial()]
    seen, broken = {shown(layer[0])}, set[Hashable]()
    ways: dict[Hashable, set[Hashable]] = {}
    for number in range(1, depth + 1):
        following: list[Node] = []
        for node in layer:
            onward = []
            for event in walk.labels(node):
                reached = walk.successor(node, event)
                following.append(reached)
                seen.add(shown(reached))
                broken.update((number, finding.signature) for finding in reached.findings)
                onward.append((event, reached.crashed or reached.key, tuple(f.signature for f in reached.findings)))
            ways.setdefault(node.key, set()).add(tuple(onward))
        layer = following
    return seen, shortest(broken), ways


def shortest(broken: set[Hashable]) -> set[Hashable]:
    """Of each signature the smallest number of events."""
    best: dict[Hashable, int] = {}
    for events, signature in sorted(broken):  # type: ignore[type-var, misc]
        best.setdefault(signature, events)  # type: ignore[has-type]
    return set(best.items())


@pytest.mark.parametrize(("policy", "scope", "depth"), CASES, ids=str)
def test_merging_hides_no_state_and_no_finding(policy: str, scope: Scope, depth: int) -> None:
    seen, broken = merged(policy, scope, depth)
    all_seen, all_broken, ways = unmerged(policy, scope, depth)
    assert seen == all_seen
    assert broken == all_broken
    # States with one key go on alike: the same events, to the same keys, with the same findings.
    assert [key for key, onward in ways.items() if len(onward) > 1] == []


@pytest.mark.parametrize(
    ("policy", "scope"),
    [
        ("assert", Scope(("load_save",))),
        ("wait_for_all", Scope(("load_save", "local"))),
        pytest.param("assert", Scope(("local", "load"), "async", **TIGHT), marks=pytest.mark.slow),  # type: ignore[arg-type]
        ("assert", Scope(("local", "load"), prefix_sharing=True)),
    ],
    ids=str,
)
def test_every_transition_replayed_from_the_start_leads_to_the_same_state(policy: str, scope: Scope) -> None:
    walk = Lockstep(ReferenceSubject(scope, policy), Contract())
    again = ReferenceSubject(scope, policy)
    orders: dict[int, tuple[Event, ...]] = {0: ()}
    for edge in explore(walk, walk.initial()):
        order = (*orders[edge.source], edge.label)
        if edge.new:
            orders[edge.target] = order
        frames, refused = play(again, Contract(), order)
        assert refused is None
        assert frames[-1].world == edge.state.world
        assert frames[-1].observation == edge.state.observation
        assert frames[-1].response == edge.state.response
        if not edge.state.crashed:
            replayed = Lockstep(again, Contract())
            replayed._capture(node := Node(frames[-1].world, frames[-1].observation, frames[-1].response, []))
            assert node.key == edge.state.key
