"""Completion policies: what the scheduler does with a report. This is the disputed point; all else is common to them.

Each is a design that was proposed in public, or what vLLM does; spec/fixes.md says by whom.

``assert``             vLLM 0.16.0 to 0.33.0: any report of a request that is over frees its blocks; a report for an unknown request
                       stops the engine
``skip_sends``         the same, but a report of a save for an unknown request is passed over
``skip``               so is a report of a load
``tolerate``           as ``skip``, and a report for a request that neither waits for it nor is over changes nothing
``not_while_loading``  as ``assert``, but the connector is not told of a request that ends while its load runs
``wait_for_both``      the blocks stay until the load and the save have been reported that were pending when the request ended; a
                       report for an unknown request stops the engine
``wait_for_all``       the same, and other reports change nothing
``reclaim``            as ``skip``, and the scheduler frees the blocks by itself when it has waited for long enough
"""

from __future__ import annotations

from typing import NamedTuple

from kvmodel.errors import KvraceError, quoted
from kvmodel.relation.terms import TRUE, Element, Formula, Term, disjunction, forall
from kvmodel.relation.vocabulary import HELD, LOAD, LOADING, SAVE, any_direction, arrived, awaited, phase

_BOTH = (LOAD, SAVE)


class Policy(NamedTuple):
    """``passes_over``: a report of a transfer in these directions that names no known request is no error. ``passes_over_live``:
    nor is one for a known request that neither waits for it nor is over. ``counts``: blocks are freed by the last awaited report;
    else by the first report, whichever it is. ``asks_while_loading``: the connector is told of a request that ends while its load
    runs. ``reclaims``: blocks that are held may be freed without a report."""

    name: str
    meaning: str
    passes_over: tuple[Element, ...] = ()
    passes_over_live: bool = False
    counts: bool = False
    asks_while_loading: bool = True
    reclaims: bool = False

    def frees(self, direction: Term, request: Term) -> Formula:
        """The report of this transfer frees the blocks of the request."""
        over = phase.of(request).is_(HELD)
        if not self.counts:
            return over
        last = forall(any_direction, awaited(any_direction, request) >> any_direction.is_(direction))
        return over & awaited(direction, request) & last

    def accepts(self, direction: Term, request: Term) -> Formula:
        """The scheduler does not raise at the report of this transfer for a known request."""
        if self.passes_over_live:
            return TRUE
        waits = direction.is_(LOAD) & phase.of(request).is_(LOADING)
        return phase.of(request).is_(HELD) | waits

    def accepts_unknown(self, direction: Term) -> Formula:
        """The scheduler does not raise at a report of this transfer that names no known request."""
        if self.passes_over == _BOTH:
            return TRUE
        return disjunction(direction.is_(one) for one in self.passes_over)

    def asks(self, request: Term) -> Formula:
        """The connector is told when the request ends now."""
        return TRUE if self.asks_while_loading else ~(phase.of(request).is_(LOADING) & ~arrived(request))


POLICIES: dict[str, Policy] = {
    policy.name: policy
    for policy in (
        Policy("assert", "any report frees a request that is over; one for an unknown request stops the engine"),
        Policy(
            "skip_sends",
            "any report frees a request that is over; of those for an unknown request, a save's is passed over and a load's stops "
            "the engine",
            (SAVE,),
        ),
        Policy("skip", "any report frees a request that is over; one for an unknown request is passed over", _BOTH),
        Policy(
            "tolerate",
            "any report frees a request that is over; one for any other request that does not wait for it is passed over",
            _BOTH,
            passes_over_live=True,
        ),
        Policy(
            "not_while_loading",
            "as `assert`, but the connector is not told of a request that ends while its load runs",
            asks_while_loading=False,
        ),
        Policy(
            "wait_for_both",
            "the last report that is waited for frees the blocks; one for an unknown or a live request stops the engine",
            counts=True,
        ),
        Policy(
            "wait_for_all",
            "the last report that is waited for frees the blocks; others change nothing",
            _BOTH,
            passes_over_live=True,
            counts=True,
        ),
        Policy(
            "reclaim",
            "as `skip`, and blocks that are held are freed after a time without any report",
            _BOTH,
            reclaims=True,
        ),
    )
}


def policy_named(name: str) -> Policy:
    """Raises KvraceError for a name that is not in ``POLICIES``."""
    if name not in POLICIES:
        raise KvraceError(f"unknown policy {quoted(name)}: use one of {', '.join(POLICIES)}")
    return POLICIES[name]
