"""Several ranks in a world, and reports that come too early: what is allowed when, and who does not know of them."""

from __future__ import annotations

import pytest

from kvmodel.allowed import enabled, possible_reports, refusal
from kvmodel.conformance.judge import Judge
from kvmodel.contract import FURTHER, MEANINGS, Contract
from kvmodel.errors import KvraceError
from kvmodel.events import Abort, Add, Lose, Report, Schedule, TransferEnds, Update, parse_event
from kvmodel.port import ConnectorScript, DispatchedStep, Handover, LoadStarted, Response, ScheduledRequest
from kvmodel.relation.model import Model
from kvmodel.relation.policies import POLICIES
from kvmodel.rules import apply
from kvmodel.scope import LATER_FIELDS, Scope
from kvmodel.world import World, initial_world

TWO = Scope(("load_save",), ranks=2)
SCRIPT = {"A": ConnectorScript(4, "claimed")}


def _after_abort(scope: Scope, contract: Contract) -> World:
    """A request that was aborted while it loads: both its transfers run."""
    world = initial_world(1)
    world = apply(world, scope, contract, Add("A"), Response(), SCRIPT)
    loading = Response(DispatchedStep((), (), ()), loads=(LoadStarted("A", (1,), (1,), 4),))
    world = apply(world, scope, contract, Schedule(), loading, SCRIPT)
    return apply(world, scope, contract, Abort("A"), Response(handovers=(Handover("A", (1,)),)), SCRIPT)


def _after(world: World, event: str, scope: Scope, contract: Contract) -> World:
    assert refusal(world, scope, contract, True, parse_event(event)) is None
    return apply(world, scope, contract, parse_event(event), Response(), SCRIPT)


@pytest.mark.parametrize(
    "line",
    ["update load:A@1 load:A@2:late save:A@2:expired", "ends save:A@2", "lose load:A@1", "update load:A:late"],
)
def test_the_text_of_an_event_reads_back(line: str) -> None:
    assert str(parse_event(line)) == line


@pytest.mark.parametrize("line", ["update load:A@0", "update load:A@12", "lose load:A@1:late", "update load:A:sooner"])
def test_what_is_no_event_is_refused(line: str) -> None:
    with pytest.raises(KvraceError):
        parse_event(line)


def test_every_rank_reports_its_own_part_and_the_transfer_runs_until_the_last() -> None:
    world = _after_abort(TWO, Contract())
    parts = {(t.direction, t.rank) for t in world.transfers}
    assert parts == {(d, rank) for d in ("load", "save") for rank in (1, 2)}
    assert possible_reports(world, TWO, Contract()) == [
        Report(d, "A", "due", rank) for d in ("load", "save") for rank in (1, 2)
    ]
    world = _after(world, "update load:A@1 save:A@1 save:A@2", TWO, Contract())
    assert [(t.direction, t.rank) for t in world.transfers] == [("load", 2)]
    assert world.deviations == ()


def test_only_the_ranks_that_take_part_report() -> None:
    scope = Scope(("load_save",), ranks=3, ranks_reporting=2)
    assert {t.rank for t in _after_abort(scope, Contract()).transfers} == {1, 2}


def test_a_rank_repeats_only_what_it_has_reported() -> None:
    contract = Contract.parse("duplicate")
    world = _after(_after_abort(TWO, contract), "update load:A@1", TWO, contract)
    again = [report for report in possible_reports(world, TWO, contract) if report.kind == "duplicate"]
    assert again == [Report("load", "A", "duplicate", 1)]


@pytest.mark.parametrize(("contract", "early"), [("late", "load:A:late"), ("lease", "save:A:expired")])
@pytest.mark.parametrize("silent", [True, False])
def test_what_is_reported_too_early_runs_on_and_ends_in_silence_or_with_a_second_report(
    contract: str, early: str, silent: bool
) -> None:
    scope, force = Scope(("load_save",), "async"), Contract.parse(contract)
    transfer = early.rpartition(":")[0]
    world = _after_abort(scope, force)._replace(steps=_after_abort(scope, force).steps * 2)
    told = _after(world, f"update {early}", scope, force)
    assert [(t.told, t.claimed) for t in told.transfers if t.told] == [(early.rpartition(":")[2], False)]
    assert told.deviations == (contract,)
    assert refusal(told, scope, force, True, parse_event(f"update {transfer}")) is not None
    over = _after(told, f"ends {transfer}" if silent else f"update {transfer}:duplicate", scope, force)
    assert len(over.transfers) == 1 and not any(t.told for t in over.transfers)


def test_time_may_be_up_before_the_request_is_over_and_then_its_save_need_not_be_reported() -> None:
    scope, force = Scope(("save",)), Contract.parse("lease")
    world = apply(initial_world(1), scope, force, Add("A"), Response(), SCRIPT)
    step = DispatchedStep((ScheduledRequest("A", (1, 2), True, 0, 5, True),), (), ())
    world = apply(world, scope, force, Schedule(), Response(step), SCRIPT)
    world = _after(world, "update save:A:expired", scope, force)
    assert world.requests[0].lease_over
    world = apply(world, scope, force, Abort("A"), Response(handovers=(Handover("A", (1, 2)),)), SCRIPT)
    assert Lose("A", "save") in set(enabled(world, scope, force, True))
    assert Lose("A", "save") not in set(enabled(_after_abort(scope, force), scope, force, True))


def test_without_the_contracts_nothing_ends_after_its_report() -> None:
    world = _after_abort(TWO, Contract())
    assert not any(isinstance(event, TransferEnds | Lose) for event in enabled(world, TWO, Contract(), True))
    assert refusal(world, TWO, Contract(), True, Update((Report("load", "A", "late", 1),))) is not None


def test_new_fields_are_left_out_while_they_have_their_default() -> None:
    assert not set(Scope(("load",)).as_dict()) & set(LATER_FIELDS)
    scope = Scope(("load",), ranks=3, ranks_reporting=2, loads_again=True)
    assert Scope.from_dict(scope.as_dict()) == scope
    assert str(scope).endswith("3 ranks, 2 reporting · loads again")


@pytest.mark.parametrize("fields", [{"ranks": 2, "ranks_reporting": 3}, {"ranks_reporting": 1}, {"ranks": 10}])
def test_impossible_ranks_are_refused(fields: dict[str, int]) -> None:
    with pytest.raises(KvraceError):
        Scope(("load",), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", FURTHER)
def test_the_relation_refuses_a_contract_that_it_does_not_know(name: str) -> None:
    with pytest.raises(KvraceError, match=f"does not know contract `{name}`"):
        Model(POLICIES["wait_for_all"], Contract.parse(name))
    assert name not in MEANINGS


def test_the_relation_refuses_several_ranks() -> None:
    with pytest.raises(KvraceError, match="one rank only"):
        Judge("assert", TWO, Contract())
