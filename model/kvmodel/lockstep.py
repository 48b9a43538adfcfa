"""The product of the world and a subject: each event is played on both, and the properties judge the result.

States are merged when their worlds and the subjects' fingerprints are equal up to a renaming of blocks. Blocks are renamed by
where they stand: first the request tables, then the blocks held back, then the pool in the order in which it will give them
out. A scheduler that treats block ids as opaque cannot tell two such states apart.
"""

from __future__ import annotations

import marshal
from collections.abc import Hashable, Sequence
from hashlib import blake2b
from typing import Any, TypeVar, cast

from kvmodel.allowed import enabled
from kvmodel.conformance.judge import Judge, Judged
from kvmodel.contract import Contract
from kvmodel.events import Event, Lose, TransferEnds
from kvmodel.failures import without_forgotten
from kvmodel.life import answers
from kvmodel.milestones import milestones_of
from kvmodel.port import Observation, Response, Subject
from kvmodel.properties import Finding, judge
from kvmodel.rules import apply, connector_script
from kvmodel.scope import Scope
from kvmodel.transition import Transition
from kvmodel.world import World, initial_world

NOTHING = Response()
Part = TypeVar("Part", bound=Hashable)


class Node:
    """One state of the product. The snapshot is dropped once the state is expanded."""

    __slots__ = (
        "conformance", "crashed", "findings", "hung", "key", "milestones", "observation", "response", "snapshot", "world",
    )  # fmt: skip

    def __init__(self, world: World, observation: Observation, response: Response, findings: list[Finding]) -> None:
        self.world = world
        self.observation = observation
        self.response = response
        self.findings = findings
        self.milestones: tuple[str, ...] = ()
        self.conformance: Judged | None = None
        self.crashed = response.crash is not None
        self.hung = response.crash is not None and response.crash.hang
        self.snapshot: Any = None
        self.key: Hashable = None

    @property
    def unexplained(self) -> bool:
        """The last transition diverges from the relation, breaks no property, and began in a state that breaks none."""
        judged = self.conformance
        return judged is not None and judged.divergence is not None and not (judged.broken_before or self.findings)


def canonical_names(seen: Observation) -> dict[int, int]:
    """New names for blocks, by where they stand: tables, held back, pool, and last the blocks that are nowhere."""
    names: dict[int, int] = {}
    for _, blocks in seen.owned:
        for block in blocks:
            names.setdefault(block, len(names))
    for block in seen.held_back:
        names.setdefault(block, len(names))
    for block in seen.free:
        names.setdefault(block, len(names))
    for block in range(len(seen.references)):
        names.setdefault(block, len(names))
    return names


class Lockstep:
    """A :class:`~kvmodel.explorer.System`: world and subject walk together.

    ``calls`` counts calls into the scheduler.

    With ``merge=False`` every order is its own state; only tests of the merging want that, in very small scopes. With
    ``keys=False`` nothing is copied and nodes have no keys, which is all that playing one order needs. With ``conformance`` every
    transition is also held against the relation.
    """

    def __init__(
        self,
        subject: Subject,
        contract: Contract,
        *,
        merge: bool = True,
        keys: bool = True,
        conformance: Judge | None = None,
    ) -> None:
        self.subject = subject
        self.scope: Scope = subject.scope
        self.contract = contract
        self.merge = merge
        self.conformance = conformance
        self.keys = keys
        self.calls = 0
        self._at: Node | None = None
        self._unmerged = 0
        self._parts: dict[Any, Any] = {}

    def initial(self) -> Node:
        """A fresh scheduler, before any event."""
        self.subject.start()
        node = Node(initial_world(len(self.scope.requests)), self.subject.observe(), NOTHING, [])
        self._capture(node)
        return node

    def again(self) -> Lockstep:
        """Another walk of the same subject from the start; its keys can be compared with those of this one."""
        return Lockstep(self.subject, self.contract, merge=self.merge)

    def leave(self) -> None:
        """Another scheduler was or will be played meanwhile: before the next event, everything is put back."""
        self._at = None

    def labels(self, node: Node) -> Sequence[Event]:
        if node.crashed:
            return ()
        return tuple(enabled(node.world, self.scope, self.contract, node.observation.pending))

    def successor(self, node: Node, event: Event) -> Node:
        """Play ``event`` in the state ``node``. Raises SubjectHang and UnknownSubject as the subject does."""
        if self._at is not node:
            assert self.keys, "without copies there is no way back"
            self.subject.restore(node.snapshot)
        self._at = None
        script = answers(connector_script(node.world, self.scope, self.contract), event)
        if isinstance(event, TransferEnds | Lose):
            response, seen = NOTHING, node.observation
        else:
            self.calls += 1
            response = self.subject.apply(event, script)
            seen = node.observation if response.crash else self.subject.observe()
        world = apply(node.world, self.scope, self.contract, event, response, script)
        if world.spoiled:
            world = without_forgotten(world, seen.cached, seen.free)
        transition = Transition(self.scope, event, node.world, node.observation, response, world, seen)
        reached = Node(world, seen, response, judge(transition))
        reached.milestones = milestones_of(transition)
        if self.conformance is not None:
            reached.conformance = self.conformance.judge(transition)
        if not reached.crashed:
            self._capture(reached)
        else:
            reached.key = ("crash", node.key, str(event))
        return reached

    def key(self, node: Node) -> Hashable:
        return node.key

    def _share(self, part: Part) -> Part:
        """The first object equal to ``part``: keys of many states then share their parts, which saves most of their memory."""
        return self._parts.setdefault(part, part)  # type: ignore[no-any-return]

    def _capture(self, node: Node) -> None:
        self._at = node
        if not self.keys:
            return
        names = canonical_names(node.observation)
        capture = self.subject.capture(names)
        if capture.exact_blocks:
            names = {block: block for block in names}
        node.snapshot = capture.snapshot
        world = node.world.renamed(names)
        shared = World(self._share(world.requests), self._share(world.steps), self._share(world.transfers), *world[3:])
        node.key = (shared, digest(capture.fingerprint))
        if not self.merge:
            self._unmerged += 1
            node.key = (self._unmerged, node.key)


def digest(fingerprint: Hashable) -> bytes:
    """128 bits of the fingerprint: a hundred times smaller, and two of 10^9 states collide with a chance below 10^-20.

    marshal version 2 writes equal plain values as equal bytes; later versions depend on reference counts.
    """
    return blake2b(marshal.dumps(cast(Any, fingerprint), 2), digest_size=16).digest()
