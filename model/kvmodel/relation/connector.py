"""What the connector may do: end transfers and report them, as the contract in force allows.

A transfer touches its blocks until it is reported. That is the worst case: one that ends earlier touches them for a shorter time.
"""

from __future__ import annotations

from typing import Literal

from kvmodel.contract import Contract
from kvmodel.relation.policies import Policy
from kvmodel.relation.reports import addressed, addressed_to_nobody, hearing_checks, hearing_fence, hears
from kvmodel.relation.terms import Action, Change, Formula, Named
from kvmodel.relation.vocabulary import (
    ABSENT,
    LOAD,
    SAVE,
    b,
    c,
    claimed,
    computed,
    d,
    e,
    filled,
    giving_back,
    phase,
    q,
    r,
    reported,
    spoiled,
    touches,
    transfer,
    unasked,
    x,
)

RUNS = Named("the transfer runs", transfer(d, r), "KVConnectorBase_V1.get_finished")
WAS_REPORTED = Named("the transfer was reported", reported(d, r), "contract `duplicate`")
NEVER_CLAIMED = Named(
    "the connector never claimed its save", ~claimed(r) & ~phase.of(r).is_(ABSENT), "contract `unsolicited`"
)
IS_A_SAVE = Named("the report is one of a save", d.is_(SAVE), "contract `unsolicited`")

KnownReport = Literal["due", "duplicate", "unsolicited"]
"""The kinds of report that the relation has; those of further contracts are in :mod:`kvmodel.early`."""

REPORT_GUARDS: dict[KnownReport, tuple[Named, ...]] = {
    "due": (RUNS,),
    "duplicate": (WAS_REPORTED,),
    "unsolicited": (IS_A_SAVE, NEVER_CLAIMED),
}
"""What the connector itself must see to when it sends a report of each kind; a contract allows some of the kinds."""


def report_kinds(contract: Contract) -> tuple[KnownReport, ...]:
    """The kinds of report that the contract allows."""
    allowed: dict[KnownReport, bool] = {
        "due": True,
        "duplicate": contract.duplicate,
        "unsolicited": contract.unsolicited,
    }
    return tuple(kind for kind, is_allowed in allowed.items() if is_allowed)


def _over() -> tuple[Change, ...]:
    """The transfer is over: it touches nothing any more, and what a load brought is there unless it failed."""
    here: Formula = e.is_(d) & x.is_(r)
    return (
        Change(transfer, (e, x), transfer(e, x) & ~here),
        Change(touches, (e, x, c), touches(e, x, c) & ~here),
        Change(filled, (c,), filled(c) | (d.is_(LOAD) & touches(LOAD, r, c) & ~spoiled(r, c))),
        Change(reported, (e, x), reported(e, x) | here),
    )


def _once(may: tuple[Named, ...]) -> tuple[Named, ...]:
    return (
        (Named("report-once", RUNS.formula, "exactly-once: a report is the end of a transfer"),) if RUNS in may else ()
    )


def _to_known(name: str, policy: Policy, may: tuple[Named, ...], own: tuple[Change, ...], meaning: str) -> Action:
    """A report that the scheduler takes for one of request ``q``."""
    return Action(
        name, "connector", (d, r, q, giving_back), (*may, addressed(), hearing_fence(policy)), (*own, *hears(policy)), meaning,
        "Scheduler._update_from_kv_xfer_finished", (*_once(may), *hearing_checks(policy)),
    )  # fmt: skip


def _to_nobody(name: str, policy: Policy, may: tuple[Named, ...], own: tuple[Change, ...], meaning: str) -> Action:
    """A report for an id the scheduler does not know."""
    accepted = Named("no-crash", policy.accepts_unknown(d), "assert req_id in self.requests")
    return Action(
        name, "connector", (d, r), (*may, addressed_to_nobody()), own, meaning,
        "Scheduler._update_from_kv_xfer_finished", (*_once(may), accepted),
    )  # fmt: skip


def _both(
    name: str, policy: Policy, may: tuple[Named, ...], own: tuple[Change, ...], meaning: str
) -> tuple[Action, ...]:
    return (
        _to_known(name, policy, may, own, meaning),
        _to_nobody(f"{name}_unknown", policy, may, own, f"{meaning}; the scheduler knows no request of that id"),
    )


def load_fails() -> Action:
    here = x.is_(r) & c.is_(b)
    return Action(
        "load_fails",
        "connector",
        (r, b),
        (Named("the load runs there", touches(LOAD, r, b), "invalid_block_ids: blocks of a load"),),
        (
            Change(spoiled, (x, c), spoiled(x, c) | here),
            Change(computed, (x, c), computed(x, c) & ~here),
        ),
        "a block cannot be loaded; the scheduler counts no KV there and computes it, and the load is still reported",
        "KVConnectorBase_V1.get_block_ids_with_load_errors",
    )


def lose() -> Action:
    here: Formula = e.is_(d) & x.is_(r)
    return Action(
        "lose",
        "connector",
        (d, r),
        (RUNS,),
        (
            Change(transfer, (e, x), transfer(e, x) & ~here),
            Change(touches, (e, x, c), touches(e, x, c) & ~here),
        ),
        "a transfer ends and is never reported",
        "contract `lossy`",
    )


def invent() -> Action:
    return Action(
        "invent",
        "connector",
        (r,),
        (NEVER_CLAIMED,),
        (Change(unasked, (x,), unasked(x) | x.is_(r)),),
        "the connector sends a report of a save that it never claimed; the request may end before it is processed",
        "contract `unsolicited`",
    )


def _unsolicited(policy: Policy, in_time: bool) -> tuple[Action, ...]:
    """A report that was invented is processed. ``in_time``: its request has not ended with a claim since."""
    may: tuple[Named, ...] = (IS_A_SAVE, Named("the report is on its way", unasked(r), "contract `unsolicited`"))
    if in_time:
        may = (*may, Named("nothing was claimed since", ~claimed(r), "assumption `unasked-in-time`"))
    processed = (Change(unasked, (x,), unasked(x) & ~x.is_(r)),)
    return (
        invent(),
        *_both("report_unasked", policy, may, processed, "a report of a save that was never claimed is processed"),
    )


def _report(kind: KnownReport, policy: Policy, in_time: bool) -> tuple[Action, ...]:
    match kind:
        case "due":
            return _both("report", policy, REPORT_GUARDS[kind], _over(), "a transfer is over and reported")
        case "duplicate":
            return _both("report_again", policy, REPORT_GUARDS[kind], (), "a transfer is reported once more")
        case "unsolicited":
            return _unsolicited(policy, in_time)


def connector_actions(policy: Policy, contract: Contract, unasked_in_time: bool) -> tuple[Action, ...]:
    """What the connector may do under this contract."""
    reports = [action for kind in report_kinds(contract) for action in _report(kind, policy, unasked_in_time)]
    return (load_fails(), *reports, *((lose(),) if contract.lossy else ()))
