"""Subclasses as people write them: faults that hide their state must be found, and right code must not be blamed.

Each hides the same fault, an early free under a save, behind state kept in another place; a copy or a key that misses that
place would merge the faulty states with sound ones. Found means: violated, or refused with the place named. Never `holds`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from kvmodel.errors import KvraceError
from kvmodel.scope import Scope
from tests.real.helpers import broken, check_vllm, orders

pytestmark = pytest.mark.vllm
SAVE = Scope(("save",))


def _stock() -> type:
    from kvrace.vllm.api import load_api

    return load_api().scheduler


def _warm(mark: Callable[[Any], None], is_warm: Callable[[Any], bool], **attributes: Any) -> type:
    """A scheduler that remembers its first finished step in some place, and from then on forgets that saves hold blocks."""
    base = _stock()

    def update_from_output(self, *args, **kwargs):
        answer = base.update_from_output(self, *args, **kwargs)
        mark(self)
        return answer

    def _connector_finished(self, request):
        hold, parameters = base._connector_finished(self, request)
        return hold and not is_warm(self), parameters

    methods = {"update_from_output": update_from_output, "_connector_finished": _connector_finished}
    return type("Warm", (base,), {**methods, **attributes})


class _Number(int):
    pass


class _Slotted:
    __slots__ = ("__hot",)

    def __init__(self) -> None:
        self.__hot = False

    def heat(self) -> None:
        self.__hot = True

    def is_hot(self) -> bool:
        return self.__hot


@dataclass(frozen=True, slots=True)
class _Frozen:
    hot: list[int] = field(default_factory=list)


def _in_a_closure() -> type:
    hot = False

    def mark(_self: Any) -> None:
        nonlocal hot
        hot = True

    return _warm(mark, lambda _self: hot)


def _attribute(make: Callable[[], Any], mark: Callable[[Any], None], is_warm: Callable[[Any], bool]) -> type:
    def __init__(self, *args, **kwargs):
        _stock().__init__(self, *args, **kwargs)
        self.kept = make()

    return _warm(mark, is_warm, __init__=__init__)


def _set(value: Any) -> Callable[[Any], None]:
    return lambda self: setattr(self, "kept", value)


PLACES: dict[str, Callable[[], type]] = {
    "attribute": lambda: _attribute(bool, _set(True), lambda self: self.kept),
    "class attribute": lambda: _warm(lambda self: self.done.add(1), lambda self: bool(self.done), done=set()),
    "closure": _in_a_closure,
    "bound method": lambda: _attribute(
        lambda: set().add, lambda self: self.kept(1), lambda self: bool(self.kept.__self__)
    ),
    "partial": lambda: _attribute(
        lambda: partial(print, [0]),
        lambda self: self.kept.args[0].__setitem__(0, 1),
        lambda self: self.kept.args[0] == [1],
    ),
    "private slot": lambda: _attribute(_Slotted, lambda self: self.kept.heat(), lambda self: self.kept.is_hot()),
    "frozen dataclass": lambda: _attribute(
        _Frozen, lambda self: self.kept.hot.__init__([1]), lambda self: bool(self.kept.hot)
    ),
    "subclass of int": lambda: _attribute(lambda: _Number(0), _set(_Number(1)), lambda self: self.kept == 1),
    "frozenset": lambda: _attribute(frozenset, _set(frozenset({1})), lambda self: bool(self.kept)),
    "counter of the scheduler": lambda: _warm(lambda self: None, lambda self: self.current_step > 0),
    "on the block pool": lambda: _warm(
        lambda self: setattr(self.kv_cache_manager.block_pool, "hot", True),
        lambda self: getattr(self.kv_cache_manager.block_pool, "hot", False),
    ),
    "generator": lambda: _attribute(
        lambda: iter(range(99)), lambda self: next(self.kept), lambda self: next(self.kept) > 0
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_fault_is_found_wherever_its_state_is_kept(place: str) -> None:
    try:
        # A counter of the scheduler that a subclass decides by makes states without end, and is found all the same.
        result = check_vllm([SAVE], scheduler_class=PLACES[place](), max_states=500)
    except KvraceError as refusal:
        assert place == "generator" and "cannot copy Warm.kept" in str(refusal)
        return
    assert "no-use-after-free" in broken(result)


def test_a_fault_that_needs_a_step_in_flight_to_be_remembered_is_found() -> None:
    """What a dispatched step says is state of its own: it comes back to the scheduler."""
    base = _stock()

    class ForgetsWhatWasDismissed(base):
        def update_from_output(self, scheduler_output, model_runner_output):
            answer = base.update_from_output(self, scheduler_output, model_runner_output)
            for name in scheduler_output.finished_req_ids:
                if name in self.requests:  # frees what is still held
                    self._free_blocks(self.requests[name])
            return answer

    assert "no-use-after-free" in broken(
        check_vllm([Scope(("save", "local"))], scheduler_class=ForgetsWhatWasDismissed)
    )


def test_a_block_given_to_a_writer_while_a_save_reads_it_is_found() -> None:
    """Counts are kept right, so that only who touches what shows the fault."""
    base = _stock()

    class GivesHeldBlocks(base):
        def schedule(self, *args, **kwargs):
            output = base.schedule(self, *args, **kwargs)
            tables = self.kv_cache_manager.coordinator.single_type_managers[0].req_to_blocks
            held = [name for name, request in self.requests.items() if request.is_finished() and tables.get(name)]
            for new in output.scheduled_new_reqs:
                if held:
                    mine, theirs = tables[new.req_id], tables[held[0]]
                    self.kv_cache_manager.block_pool.free_blocks([mine[0]])
                    theirs[0].ref_cnt += 1
                    mine[0] = theirs[0]
                    new.block_ids[0][0] = theirs[0].block_id
            return output

    found = orders(check_vllm([Scope(("save", "local"))], scheduler_class=GivesHeldBlocks), "no-use-after-free")
    assert "under a save" in found


@pytest.mark.parametrize("kind", ["dataclass", "tuples in a list", "values of a dict"])
def test_a_request_left_in_any_table_is_a_leak(kind: str) -> None:
    base = _stock()

    @dataclass
    class Ledger:
        rows: dict[str, int] = field(default_factory=dict)

    class Remembers(base):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.ledger: Any = {"dataclass": Ledger(), "tuples in a list": [], "values of a dict": {}}[kind]

        def add_request(self, request):
            super().add_request(request)
            if isinstance(self.ledger, Ledger):
                self.ledger.rows[request.request_id] = 1
            elif isinstance(self.ledger, list):
                self.ledger.append((1, request))
            else:
                self.ledger[len(self.ledger)] = request

    result = check_vllm([SAVE], scheduler_class=Remembers)
    assert broken(result) == {"no-leak"}
    assert "Remembers.ledger" in result.violations[0].message


@pytest.mark.parametrize("kind", [SystemExit, BaseException, ValueError, GeneratorExit])
def test_whatever_a_scheduler_raises_is_a_crash(kind: type[BaseException]) -> None:
    class Leaves(_stock()):
        def finish_requests(self, *args, **kwargs):
            raise kind("   ")

    result = check_vllm([SAVE], scheduler_class=Leaves)
    assert broken(result) == {"no-crash"}
    assert f"{kind.__name__}" in result.violations[0].message
    assert "test_subclasses.py" in (result.violations[0].location or "")


@pytest.mark.parametrize("method", ["schedule", "update_from_output"])
def test_an_answer_that_the_engine_cannot_use_is_a_crash(method: str) -> None:
    base = _stock()

    def silent(self, *args, **kwargs):
        getattr(base, method)(self, *args, **kwargs)

    result = check_vllm([SAVE], scheduler_class=type("Silent", (base,), {method: silent}))
    assert broken(result) == {"no-crash"}
    assert f"{method} returned NoneType" in result.violations[0].message


def test_a_subclass_that_cannot_be_made_is_one_line() -> None:
    class Needs(_stock()):
        def __init__(self, *args, **kwargs):
            raise RuntimeError("needs my configuration")

    with pytest.raises(KvraceError, match=r"constructing Needs failed: RuntimeError \(needs my configuration\)"):
        check_vllm([SAVE], scheduler_class=Needs)


def test_crashes_leave_other_properties_undecided_when_no_crash_is_not_asked_for() -> None:
    from kvmodel.contract import Contract
    from kvrace.check import check
    from kvrace.vllm.subject import VllmSubject

    class Always(_stock()):
        def schedule(self, *args, **kwargs):
            raise RuntimeError

    result = check(lambda s: VllmSubject(s, Always), [SAVE], Contract(), properties=("no-leak",))
    assert result.verdicts == {"no-leak": "incomplete"}
    assert "ended in a crash" in (result.stopped or "")


class TestRightCodeIsNotBlamed:
    """Schedulers that are right and different from stock."""

    def test_blocks_held_in_a_ledger_of_its_own(self) -> None:
        """Blocks leave the manager when a save begins and come back when it is reported, as deferred frees do."""
        base = _stock()

        class Ledger(base):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
                self.ledger: dict[str, list[Any]] = {}

            def _free_request(self, request, delay_free_blocks=False):
                answer = super()._free_request(request, delay_free_blocks)
                if request.request_id in self.requests:
                    self.ledger[request.request_id] = self.kv_cache_manager.pop_blocks_for_free(request)
                return answer

            def _free_blocks(self, request):
                super()._free_blocks(request)
                self.kv_cache_manager.block_pool.free_blocks(reversed(self.ledger.pop(request.request_id, [])))

        scopes = [Scope(("save",)), Scope(("save", "local")), Scope(("save", "save"), prefix_sharing=True)]
        assert broken(check_vllm(scopes, scheduler_class=Ledger)) == set()

    def test_no_blocks_handed_over_while_their_load_runs(self) -> None:
        """A block that a load still fills holds no KV yet, so there is nothing to hand over."""

        class Honest(_stock()):
            def _connector_finished(self, request):
                if request.request_id in self.requests and request.status.name == "FINISHED_ABORTED":
                    loading = request in self._inflight_prefills_before
                    if loading:
                        return self.connector.request_finished(request, [])
                return super()._connector_finished(request)

            def _free_request(self, request, delay_free_blocks=False):
                self._inflight_prefills_before = {request} if delay_free_blocks else set()
                answer = super()._free_request(request, delay_free_blocks)
                self._inflight_prefills_before = set()
                return answer

        assert broken(check_vllm([Scope(("load_save",))], scheduler_class=Honest)) == set()

    def test_waiting_for_both_reports_holds_everything(self) -> None:
        """The shape of a right fix: one entry for each unfinished transfer, blocks free when the last is reported."""
        base = _stock()

        class WaitsForBoth(base):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
                self.unfinished: dict[str, int] = {}

            def _free_request(self, request, delay_free_blocks=False):
                count = int(delay_free_blocks)
                finished = self._connector_finished

                def counting(which):
                    nonlocal count
                    hold, parameters = finished(which)
                    count += hold
                    return hold, parameters

                self._connector_finished = counting
                try:
                    answer = super()._free_request(request, delay_free_blocks)
                finally:
                    del self._connector_finished
                if count > 1:
                    self.unfinished[request.request_id] = count
                return answer

            def _free_blocks(self, request):
                left = self.unfinished.pop(request.request_id, 1) - 1
                if left:
                    self.unfinished[request.request_id] = left
                else:
                    super()._free_blocks(request)

        assert (
            broken(check_vllm([Scope(("load_save",)), Scope(("load_save", "local"))], scheduler_class=WaitsForBoth))
            == set()
        )


def test_the_test_module_is_where_the_faults_are() -> None:
    """Locations are looked up by file name above."""
    assert sys.modules[__name__].__file__.endswith("test_subclasses.py")


class TestBlocksThatCannotHoldWhatIsPutThere:
    """The counts of the pool agree, and yet KV is overwritten."""

    @staticmethod
    def _with_pool(get_new_blocks: Callable[[Any, type, int], list[Any]]) -> type:
        base = _stock()

        def __init__(self, *args, **kwargs):
            base.__init__(self, *args, **kwargs)
            pool = self.kv_cache_manager.block_pool
            stock = type(pool)
            given = {"get_new_blocks": lambda pool, count: get_new_blocks(pool, stock, count)}
            pool.__class__ = type(stock.__name__, (stock,), {**given, "__module__": stock.__module__})

        return type("OtherPool", (base,), {"__init__": __init__})

    def test_a_load_into_the_null_block(self) -> None:
        scheduler = self._with_pool(lambda pool, stock, count: [pool.null_block] * count)
        result = check_vllm([Scope(("load",))], scheduler_class=scheduler)
        assert "the load of A works on block 0, which nobody can own" in {v.message for v in result.violations}

    def test_a_block_for_two_places_of_one_table(self) -> None:
        def twice(pool, stock, count):
            blocks = stock.get_new_blocks(pool, -(-count // 2))
            for block in blocks[: count // 2]:
                block.ref_cnt += 1
            return sorted([*blocks, *blocks[: count // 2]], key=lambda block: block.block_id)

        result = check_vllm([Scope(("local",))], scheduler_class=self._with_pool(twice))
        assert "block 1 is twice in the table of A" in {v.message for v in result.violations}
