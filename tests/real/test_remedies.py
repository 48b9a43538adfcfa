"""Each proposed remedy on the real scheduler: what it breaks, pinned, and that it does what its completion policy says."""

from __future__ import annotations

import pytest
from spec.remedy_tables import all_remedies

from kvmodel.contract import MEANINGS, Contract
from kvmodel.events import parse_event
from kvmodel.named_scopes import named_scope
from kvmodel.playback import play
from kvmodel.relation.policies import POLICIES
from kvmodel.scope import Scope
from kvrace.check import check
from kvrace.matrix import Explorer, Place, length, matrix
from kvrace.result import CheckResult
from kvrace.subjects import BUILT_IN, choose_subject
from kvrace.vllm.remedies import REMEDIES

pytestmark = pytest.mark.vllm
RACE = named_scope("seed")

CRASH, LEAK, FREED, STUCK, TOLD = "no-crash", "no-leak", "no-use-after-free", "no-stuck", "finish-once"
EARLY = {FREED: "4 scheduler", STUCK: "6 scheduler"}
_LOST = {LEAK: "7 connector", STUCK: "3 connector"}
_LOST_TOO = {LEAK: "7 connector", STUCK: "6 scheduler, 3 connector"}
BROKEN: dict[str, dict[str, dict[str, str]]] = {
    "assert": {
        "exactly-once": {CRASH: "4 scheduler", **EARLY},
        "single": {},
        "unclaimed": {CRASH: "4 scheduler", **EARLY},
        "duplicate": {CRASH: "4 scheduler, 5 connector", **EARLY},
        "unsolicited": {CRASH: "4 scheduler, 3 connector", **EARLY},
        "lossy": {CRASH: "4 scheduler", **EARLY, **_LOST_TOO},
    },
    "skip_sends": {
        "exactly-once": {CRASH: "6 scheduler", **EARLY},
        "single": {},
        "unclaimed": {CRASH: "6 scheduler", **EARLY},
        "duplicate": {CRASH: "6 scheduler, 5 connector", **EARLY},
        "unsolicited": {CRASH: "6 scheduler, 3 connector", **EARLY},
        "lossy": {CRASH: "6 scheduler", **EARLY, **_LOST_TOO},
    },
    "skip": {
        "exactly-once": EARLY,
        "single": {},
        "unclaimed": EARLY,
        "duplicate": {CRASH: "5 connector", **EARLY},
        "unsolicited": {CRASH: "3 connector", **EARLY},
        "lossy": {**EARLY, **_LOST_TOO},
    },
    "tolerate": {
        "exactly-once": EARLY,
        "single": {},
        "unclaimed": EARLY,
        "duplicate": EARLY,
        "unsolicited": EARLY,
        "lossy": {**EARLY, **_LOST_TOO},
    },
    "not_while_loading": {
        "exactly-once": {TOLD: "6 scheduler"},
        "single": {TOLD: "6 scheduler"},
        "unclaimed": {CRASH: "6 connector", FREED: "4 connector", TOLD: "6 scheduler"},
        "duplicate": {CRASH: "5 connector", FREED: "6 connector", STUCK: "6 connector", TOLD: "6 scheduler"},
        "unsolicited": {CRASH: "3 connector", FREED: "4 connector", STUCK: "6 connector", TOLD: "6 scheduler"},
        "lossy": {**_LOST, TOLD: "6 scheduler"},
    },
    "wait_for_both": {
        "exactly-once": {},
        "single": {},
        "unclaimed": {CRASH: "4 connector", FREED: "4 connector"},
        "duplicate": {CRASH: "5 connector"},
        "unsolicited": {CRASH: "3 connector", FREED: "7 connector", STUCK: "9 connector"},
        "lossy": _LOST,
    },
    "wait_for_all": {
        "exactly-once": {},
        "single": {},
        "unclaimed": {FREED: "4 connector"},
        "duplicate": {},
        "unsolicited": {},
        "lossy": _LOST,
    },
    "reclaim": {
        "exactly-once": EARLY,
        "single": {FREED: "6 scheduler", STUCK: "8 scheduler"},
        "unclaimed": EARLY,
        "duplicate": {CRASH: "5 connector", **EARLY},
        "unsolicited": {CRASH: "3 connector", **EARLY},
        "lossy": {**EARLY, **_LOST_TOO},
    },
}
"""What is violated: events of the shortest orders, and blame."""


def test_every_policy_is_a_remedy_and_a_subject() -> None:
    assert tuple(REMEDIES) == tuple(POLICIES) == tuple(BROKEN)
    assert set(POLICIES) < BUILT_IN


_FAST = ("skip",)


@pytest.mark.parametrize(
    "remedy", [pytest.param(name, marks=[] if name in _FAST else pytest.mark.slow) for name in REMEDIES]
)
def test_what_a_remedy_breaks_under_each_contract(remedy: str) -> None:
    made = matrix(Explorer("vllm", "seed"), [remedy], list(MEANINGS), RACE) if remedy in _FAST else all_remedies()
    assert made.complete
    found = {
        contract: {
            name: ", ".join(f"{length(one)} {one.blame}" for one in made.shortest(Place(remedy, contract), name))
            for name in made.violated(Place(remedy, contract))
        }
        for contract in MEANINGS
    }
    assert found == BROKEN[remedy]
    crashes, _, normal = made.plan(remedy)
    assert crashes.verdict == ("violated" if remedy in ("assert", "skip_sends") else "holds")
    assert normal.verdict == ("violated" if remedy == "reclaim" else "holds")


def _conforming(remedy: str, contract: str, scopes: list[Scope]) -> CheckResult:
    make = choose_subject(remedy, None).make
    return check(make, scopes, Contract.parse(contract), conformance=remedy)


@pytest.mark.parametrize(
    "contract",
    [pytest.param(name, marks=[] if name == "exactly-once" else pytest.mark.slow) for name in MEANINGS],
)
@pytest.mark.parametrize("remedy", REMEDIES)
def test_a_remedy_does_what_its_policy_says(remedy: str, contract: str) -> None:
    conformance = _conforming(remedy, contract, RACE).conformance
    assert conformance is not None and conformance.judged
    diverging = {found.divergence.short for found in conformance.divergences}
    if (remedy, contract) == ("wait_for_all", "unsolicited"):
        # The drop-in knows that a report is too early which comes in the call that claims its save; the relation has no calls.
        assert diverging == {"`phase` after `report_unasked save`"}
    else:
        assert diverging == set()


@pytest.mark.slow
@pytest.mark.parametrize("remedy", REMEDIES)
def test_beside_another_request_a_remedy_breaks_the_same_and_does_what_its_policy_says(remedy: str) -> None:
    result = _conforming(remedy, "exactly-once", named_scope("pair"))
    assert result.complete and result.conformance is not None and result.conformance.divergences == ()
    assert {name for name, verdict in result.verdicts.items() if verdict != "holds"} == BROKEN[remedy][
        "exactly-once"
    ].keys()


def test_another_policy_is_told_apart() -> None:
    """What conforms to everything would prove nothing."""
    found = check(choose_subject("reclaim", None).make, RACE[:1], Contract(), conformance="skip").conformance
    assert found is not None
    assert "`phase` after `schedule`" in {one.divergence.short for one in found.divergences}


def test_reclaiming_gives_blocks_back_that_a_lost_report_would_keep_for_ever() -> None:
    """`no-leak` looks one step after everything is over; the deadline comes one step later."""
    order = ["add A", "schedule", "update load:A", "abort A", "lose save:A", *["schedule", "update"] * 2]
    left = {}
    for remedy in ("wait_for_all", "reclaim"):
        subject = choose_subject(remedy, None).make(RACE[0])
        frames, refused = play(subject, Contract.parse("lossy"), [parse_event(text) for text in order])
        assert refused is None
        left[remedy] = RACE[0].blocks - frames[-1].observation.free_count
    assert left == {"wait_for_all": 1, "reclaim": 0}
