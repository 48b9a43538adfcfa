"""What is said of two checked sides. Here they are policies of the reference scheduler, of which it is known what each breaks."""

from __future__ import annotations

import json

import pytest

from kvmodel.contract import Contract
from kvmodel.scope import Scope
from kvrace.check import Limits, check
from kvrace.patchdiff import Checked, PatchDiff
from kvrace.reference.subject import ReferenceSubject
from kvrace.render.output import plain
from kvrace.render.patchdiff import report
from kvrace.render.patchdiff_json import patch_diff_json

SCOPE = Scope(("load_save",))
ALL = Limits()


def _side(policy: str, limits: Limits = ALL, fault: str | None = None) -> Checked:
    def make(scope: Scope) -> ReferenceSubject:
        return ReferenceSubject(scope, policy, fault)

    return Checked((make(SCOPE).identity,), check(make, [SCOPE], Contract(), limits=limits))


def _told(before: Checked, after: Checked) -> tuple[int, list[tuple[str, str]], str]:
    """The exit status, the fate of each finding, and the report as one line."""
    found = PatchDiff(before, after)
    data = json.loads(patch_diff_json(found, {}, {}))
    assert data["exit_code"] == found.exit_code
    fates = [(one["fate"], one["property"]) for one in data["findings"]]
    return found.exit_code, fates, " ".join(plain(report(found, {}, 100), 100).split())


def test_findings_are_gone_with_what_mends_them() -> None:
    status, fates, text = _told(_side("assert"), _side("wait_for_all"))
    assert (status, {fate for fate, _ in fates}) == (0, {"gone"})
    assert {name for _, name in fates} == {"no-crash", "no-use-after-free", "no-stuck"}
    assert "✓ the patch breaks nothing on reference" in text
    assert text.endswith("5 findings: 5 gone; over the one case, exhausted")


def test_findings_are_new_with_what_breaks_something() -> None:
    status, fates, text = _told(_side("wait_for_all"), _side("assert"))
    assert (status, {fate for fate, _ in fates}) == (1, {"new"})
    assert "✗ the patch breaks something on reference" in text
    assert text.endswith("5 findings: 5 new; over the one case, exhausted")


def test_a_finding_that_stays_is_the_same_one_and_what_is_gone_is_said_beside_it() -> None:
    status, fates, text = _told(_side("assert"), _side("skip"))
    assert status == 0
    assert sorted(fates) == [
        ("gone", "no-crash"),
        ("gone", "no-crash"),
        ("still there", "no-stuck"),
        ("still there", "no-use-after-free"),
        ("still there", "no-use-after-free"),
    ]
    assert text.endswith("5 findings: 3 still there, 2 gone; over the one case, exhausted")


@pytest.mark.parametrize(("before", "after"), [("assert", "wait_for_all"), ("wait_for_all", "assert")])
def test_nothing_is_new_or_gone_by_what_a_limit_cut_off(before: str, after: str) -> None:
    few = Limits(max_states=2)
    sides = (_side(before, ALL if before == "assert" else few), _side(after, ALL if after == "assert" else few))
    status, fates, text = _told(*sides)
    assert (status, {fate for fate, _ in fates}) == (3, {"not decided"})
    assert "? incomplete on reference" in text
    assert "not exhausted: the state limit was reached" in text


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [
        ("no-leak", "forget-table-entry", "skip-free"),
        ("finish-once", "two-notices", "dismiss-twice"),
        ("finish-once", "dismiss-twice", "no-notice"),
        ("no-stuck", "idle-with-held-blocks", "idle-with-load"),
    ],
)
def test_another_fault_against_the_same_property_is_new(rule: str, before: str, after: str) -> None:
    status, fates, _ = _told(_side("wait_for_all", fault=before), _side("wait_for_all", fault=after))
    assert status == 1
    assert {("gone", rule), ("new", rule)} <= set(fates)
    assert "still there" not in {fate for fate, name in fates if name == rule}
