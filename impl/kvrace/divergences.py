"""The divergences of one exploration: each kind with a shortest order, counted, and replayed before it is reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvmodel.conformance.divergence import Divergence
from kvmodel.conformance.judge import Judge
from kvmodel.contract import Contract
from kvmodel.events import Event
from kvmodel.lockstep import Lockstep, Node
from kvmodel.playback import frame_of
from kvmodel.port import Subject
from kvrace.determinism import not_the_same_twice
from kvrace.result import Conformance, FoundDivergence


@dataclass(slots=True)
class _Diverged:
    """One kind of divergence: a shortest order to it, to one that no broken property explains if there is one, and how often."""

    divergence: Divergence
    order: list[Event]
    times: int = 0
    unexplained: int = 0


class Divergences:
    """Collects them while a scope is explored. ``policy`` is the completion policy of the relation; raises KvraceError for an
    unknown one."""

    def __init__(self, subject: Subject, contract: Contract, policy: str) -> None:
        self.subject, self.contract = subject, contract
        self.judge = Judge(policy, subject.scope, contract)
        self._found: dict[tuple[str, str, str], _Diverged] = {}
        self._judged = self._not_judged = 0

    def note(self, node: Node, order: Callable[[], list[Event]]) -> None:
        """``node`` was reached by the events of ``order``, which is only asked for where it is new."""
        judged = node.conformance
        assert judged is not None
        self._judged += judged.followed
        self._not_judged += not judged.followed
        if judged.divergence is None:
            return
        signature = judged.divergence.signature
        known = self._found.get(signature)
        if known is None or (node.unexplained and not known.unexplained):
            times = 0 if known is None else known.times
            known = self._found[signature] = _Diverged(judged.divergence, order(), times)
        known.times += 1
        known.unexplained += node.unexplained

    def confirmed(self) -> Conformance:
        """What was found, each order replayed. Raises KvraceError when one does not diverge again."""
        found = tuple(self._confirmed(diverged) for diverged in self._found.values())
        return Conformance(self.judge.policy, self._judged, self._not_judged, found)

    def _confirmed(self, diverged: _Diverged) -> FoundDivergence:
        walk = Lockstep(self.subject, self.contract, keys=False, conformance=self.judge)
        node = walk.initial()
        frames = [frame_of(None, node)]
        for event in diverged.order:
            node = walk.successor(node, event)
            frames.append(frame_of(event, node))
        again = node.conformance.divergence if node.conformance else None
        if again is None or again.signature != diverged.divergence.signature:
            what = f"'{diverged.divergence.words}' did not come again"
            raise not_the_same_twice(self.subject, what, diverged.order)
        return FoundDivergence(
            again,
            diverged.times,
            diverged.unexplained,
            self.subject.scope,
            self.subject.identity,
            self.contract,
            tuple(frames),
        )
