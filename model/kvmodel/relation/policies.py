"""Completion policies: what the scheduler does with a report. This is the disputed point; all else is common to them.

``assert``        vLLM 0.16.0 to 0.33.0: any report of a request that is over frees its blocks; a report for an unknown request
                  stops the engine
``skip``          the remedy that is often proposed: the same, but a report for an unknown request is passed over
``wait_for_all``  the blocks stay until every transfer has been reported that ran when the request ended; other reports
                  change nothing
"""

from __future__ import annotations

from typing import NamedTuple

from kvmodel.errors import KvraceError, quoted
from kvmodel.relation.terms import FALSE, TRUE, Formula, Term, forall
from kvmodel.relation.vocabulary import HELD, LOAD, LOADING, any_direction, awaited, phase


class Policy(NamedTuple):
    """``tolerates_unknown``: a report that names no known request is no error. ``counts``: blocks are freed by the last awaited
    report; else by the first report, whichever it is."""

    name: str
    meaning: str
    tolerates_unknown: bool
    counts: bool

    def frees(self, direction: Term, request: Term) -> Formula:
        """The report of this transfer frees the blocks of the request."""
        over = phase.of(request).is_(HELD)
        if not self.counts:
            return over
        last = forall(any_direction, awaited(any_direction, request) >> any_direction.is_(direction))
        return over & awaited(direction, request) & last

    def accepts(self, direction: Term, request: Term) -> Formula:
        """The scheduler does not raise at the report of this transfer for a known request."""
        if self.counts:
            return TRUE
        waits = direction.is_(LOAD) & phase.of(request).is_(LOADING)
        return phase.of(request).is_(HELD) | waits

    @property
    def accepts_unknown(self) -> Formula:
        """The scheduler does not raise at a report that names no known request."""
        return TRUE if self.tolerates_unknown else FALSE


POLICIES: dict[str, Policy] = {
    policy.name: policy
    for policy in (
        Policy(
            "assert",
            "any report frees a request that is over; one for an unknown request stops the engine",
            False,
            False,
        ),
        Policy(
            "skip", "any report frees a request that is over; one for an unknown request is passed over", True, False
        ),
        Policy(
            "wait_for_all", "the last report that is waited for frees the blocks; others change nothing", True, True
        ),
    )
}


def policy_named(name: str) -> Policy:
    """Raises KvraceError for a name that is not in ``POLICIES``."""
    if name not in POLICIES:
        raise KvraceError(f"unknown policy {quoted(name)}: use one of {', '.join(POLICIES)}")
    return POLICIES[name]
