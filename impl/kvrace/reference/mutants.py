"""The planted faults of the reference scheduler: which property has to catch each, and in which scope.

All but the policies themselves are planted into policy ``wait_for_all``, which holds every property under ``exactly-once``: so
the fault is the only one there is.
"""

from __future__ import annotations

from kvmodel.scope import Scope
from kvrace.mutants import Mutant
from kvrace.reference.faults import FAULTS, fault
from kvrace.reference.policies import POLICIES
from kvrace.reference.subject import ReferenceSubject

_LOCAL, _LOAD, _SAVE, _BOTH = Scope(("local",)), Scope(("load",)), Scope(("save",)), Scope(("load_save",))
_PRESSED = Scope(("local", "local"), blocks=4, block_size=2, output_tokens=3)
_PRESSED_LESS = Scope(("local", "local"), blocks=5, block_size=2, output_tokens=3)
_PRESSED_SAVES = Scope(("local", "save"), blocks=4, block_size=2, output_tokens=3)
_SHARED = Scope(("local", "local"), prefix_sharing=True)
_SHARED_THREE = Scope(("local", "local", "local"), prefix_sharing=True)
_FENCED = Scope(("local", "load"), "async")

_CAUGHT_BY: dict[str, tuple[str, Scope]] = {
    "skip-free": ("no-leak", _LOCAL),
    "free-twice": ("no-double-free", _LOCAL),
    "keep-request": ("no-leak", _SAVE),
    "forget-table-entry": ("no-leak", _LOAD),
    "keep-table": ("no-leak", _LOCAL),
    "drop-deferred-frees": ("no-leak", Scope(("local",), "async")),
    "defer-without-table": ("no-leak", Scope(("local",), "async")),
    "load-over-load": ("no-use-after-free", Scope(("load", "load"))),
    "load-over-save": ("no-use-after-free", Scope(("load", "save"))),
    "no-fence": ("no-use-after-free", _FENCED),
    "fence-one-step-early": ("no-use-after-free", Scope(("local", "load"), "async", output_tokens=3)),
    "abort-frees-loading": ("no-use-after-free", _LOAD),
    "ignore-claim": ("no-use-after-free", _SAVE),
    "share-uncounted": ("conservation", _SHARED),
    "share-left-in-pool": ("no-double-free", _SHARED),
    "pool-counter": ("no-double-free", _LOCAL),
    "evict-shared": ("conservation", _SHARED_THREE),
    "placeholder-twice": ("conservation", Scope(("save",), "async")),
    "preempted-keeps-blocks": ("no-stuck", _PRESSED),
    "preempted-loses-place": ("no-stuck", _PRESSED),
    "preempt-hang": ("no-stuck", _PRESSED_LESS),
    "no-room-check": ("no-crash", _PRESSED),
    "announce-other-blocks": ("handover", _SAVE),
    "free-at-first-report": ("no-use-after-free", _BOTH),
    "swap-reports": ("no-stuck", _LOAD),
    "one-report-only": ("no-stuck", _BOTH),
    "never-wake": ("no-stuck", _LOAD),
    "wake-too-early": ("no-premature-use", _LOAD),
    "offer-loading-blocks": ("no-premature-use", Scope(("load",), prefix_sharing=True)),
    "offer-aborted-load": ("no-premature-use", Scope(("load",), prefix_sharing=True)),
    "handover-wrong-blocks": ("handover", _SAVE),
    "handover-too-few-blocks": ("handover", _SAVE),
    "request-finished-twice": ("finish-once", _SAVE),
    "request-finished-never": ("finish-once", _LOCAL),
    "request-finished-early": ("finish-once", _PRESSED),
    "two-notices": ("finish-once", _SAVE),
    "no-notice": ("finish-once", _SAVE),
    "dismiss-twice": ("finish-once", _SAVE),
    "dismiss-never": ("finish-once", _SAVE),
    "abort-of-waiting-forgotten": ("finish-once", _LOCAL),
    "abort-of-held-repeats-end": ("finish-once", _SAVE),
    "abort-leaves-queue-entry": ("no-leak", _LOAD),
    "idle-with-load": ("no-stuck", _LOAD),
    "idle-with-held-blocks": ("no-stuck", _SAVE),
    "never-idle": ("no-stuck", _PRESSED),
    "raise-on-rare-order": ("no-crash", _PRESSED_SAVES),
}


def _planted(name: str, caught_by: str, scope: Scope) -> Mutant:
    breaks = (fault(name).__doc__ or "").strip()
    return Mutant(name, breaks, caught_by, lambda s: ReferenceSubject(s, "wait_for_all", name), scope)


def _policies() -> tuple[Mutant, ...]:
    return (
        Mutant(
            "policy-assert", "a report for an unknown request stops the engine", "no-crash", ReferenceSubject, _BOTH
        ),
        Mutant(
            "policy-skip",
            "a report for an unknown request is passed over, and the first report frees the blocks",
            "no-use-after-free",
            lambda s: ReferenceSubject(s, "skip"),
            _BOTH,
        ),
    )


MUTANTS: tuple[Mutant, ...] = (*_policies(), *(_planted(name, *row) for name, row in _CAUGHT_BY.items()))
"""The two policies that are wrong by themselves, then every planted fault."""

assert set(_CAUGHT_BY) == set(FAULTS) and "wait_for_all" in POLICIES
