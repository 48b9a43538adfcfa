"""The drop-in scheduler on the real vLLM, call by call: what exploration has no events for."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kvmodel.events import Abort, Add, Report, Schedule, Update
from kvmodel.port import ConnectorScript
from kvmodel.scope import Scope
from kvrace.verified import VERIFIED_RELEASES, is_verified
from kvrace.vllm.ledger import Misreport, Misreports

pytestmark = pytest.mark.vllm
BOTH = {name: ConnectorScript(4, "claimed") for name in "AB"}


class Engine:
    """One drop-in scheduler, driven by events, with the connector's answers for requests that load and save."""

    def __init__(self, scope: Scope | None = None, scheduler_class: type | None = None) -> None:
        from kvrace.vllm.api import load_api
        from kvrace.vllm.fixed import FixedScheduler
        from kvrace.vllm.subject import VllmSubject

        self.api = load_api()
        self.scope = scope or Scope(("load_save", "load_save"))
        self.subject = VllmSubject(self.scope, scheduler_class or FixedScheduler)
        self.subject.start()

    @property
    def scheduler(self) -> Any:
        return self.subject.scheduler

    def play(self, *events: Any) -> list[Any]:
        responses = []
        for event in events:
            response = self.subject.apply(event, BOTH)
            assert response.crash is None, response.crash
            responses.append(response)
        return responses

    def request(self, index: int = 0) -> Any:
        return self.api.request_maker(self.scope, index)()

    def hold_a(self) -> None:
        """A is over, and both of its transfers run."""
        self.play(Add("A"), Schedule(), Abort("A"), Update())
        assert self.scheduler.ledger.awaited == {"A": {"load", "save"}}

    def free_blocks(self) -> int:
        return self.scheduler.kv_cache_manager.block_pool.get_num_free_blocks()


def reports(*reported: str) -> Update:
    return Update(tuple(Report(*word.split(":")) for word in reported))  # type: ignore[arg-type]


class Log(logging.Handler):
    """What the drop-in logs, whatever vLLM or pytest do with its loggers."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def warnings(self) -> list[str]:
        return [record.getMessage() for record in self.records if record.levelno == logging.WARNING]

    @property
    def text(self) -> str:
        return "\n".join(record.getMessage() for record in self.records)


@pytest.fixture
def logged() -> Iterator[Log]:
    logger, log = logging.getLogger("vllm.kvrace"), Log()
    logger.addHandler(log)
    logger.setLevel(logging.INFO)
    yield log
    logger.setLevel(logging.NOTSET)
    logger.removeHandler(log)


@pytest.mark.parametrize("order", [("load:A", "save:A"), ("save:A", "load:A")])
def test_blocks_stay_until_the_second_report(order: tuple[str, str]) -> None:
    engine = Engine()
    everything = engine.free_blocks()
    engine.hold_a()
    engine.play(Schedule(), reports(order[0]))
    assert "A" in engine.scheduler.requests and engine.free_blocks() < everything
    engine.play(Schedule(), reports(order[1]))
    assert "A" not in engine.scheduler.requests and engine.free_blocks() == everything
    assert engine.scheduler.ledger.awaited == engine.scheduler.ledger.since == {}


def test_reports_that_nobody_waits_for_are_counted_and_logged_once(logged: Log) -> None:
    engine = Engine()
    engine.hold_a()
    engine.play(Schedule(), reports("load:A"), Schedule(), reports("load:A"), Schedule(), reports("load:A"))
    engine.play(Schedule(), reports("save:A"), Schedule(), reports("save:A"), Schedule(), reports("save:B"))
    assert engine.scheduler.misreports.counts == {
        Misreport("load", "held"): 2,
        Misreport("save", "unknown"): 2,
    }
    assert len(logged.warnings) == 2  # one for A, one for B, whom nobody knows
    assert "load of request A" in logged.warnings[0] and "not held for it: it is reported twice" in logged.warnings[0]
    assert "save of request B" in logged.warnings[1] and "no request of this id is known" in logged.warnings[1]


def test_a_report_for_a_running_request_changes_nothing() -> None:
    engine = Engine(Scope(("local",)))
    engine.subject.apply(Add("A"), {"A": ConnectorScript(0, "claimed")})
    script = {"A": ConnectorScript(0, "claimed")}
    engine.subject.apply(Schedule(), script)
    before = engine.free_blocks()
    answer = engine.subject.apply(reports("save:A", "load:A"), script)
    assert answer.crash is None and engine.free_blocks() == before
    assert not engine.scheduler.requests["A"].is_finished() and engine.scheduler.misreports.total == 2


def test_what_was_logged_does_not_fill_the_memory() -> None:
    from kvrace.vllm import ledger

    misreports, book = Misreports(), ledger.TransferLedger()
    for number in range(ledger._REMEMBERED + 10):
        misreports.note(f"request-{number}", Misreport("load", "unknown"))
        book.hold(f"request-{number}", {"load"}, 0.0)
        book.reclaim(f"request-{number}")
    assert len(misreports._logged) == len(book.late) == ledger._REMEMBERED
    assert misreports.total == ledger._REMEMBERED + 10


def test_a_connector_that_misreports_every_request_does_not_fill_the_log(
    monkeypatch: pytest.MonkeyPatch, logged: Log
) -> None:
    clock = Clock(monkeypatch)
    misreports = Misreports()
    for number in range(100):
        misreports.note(f"request-{number}", Misreport("load", "unknown"))
    assert len(logged.warnings) == 21 and "at most 20 a minute" in logged.warnings[-1]
    clock.now += 60
    misreports.note("another", Misreport("load", "unknown"))
    assert len(logged.warnings) == 22 and "(101 ignored in all)" in logged.warnings[-1]


def _replaced(output: Any) -> None:
    output.finished_sending = {"A"}


def _added(output: Any) -> None:
    output.finished_sending.add("A")


@pytest.mark.parametrize("reports_of_its_own", [_replaced, _added])
def test_a_connector_that_reports_by_itself_is_believed(reports_of_its_own: Any) -> None:
    """MoRIIOConnector puts a set of its own in the place of the workers': a report that came before the end of its request."""
    engine = Engine(Scope(("save",)))
    script = {"A": ConnectorScript(0, "claimed")}
    for event in (Add("A"), Schedule(), Update(), Schedule()):
        assert engine.subject.apply(event, script).crash is None
    connector = engine.scheduler.connector

    connector.update_connector_output = reports_of_its_own
    last = Update() if reports_of_its_own is _replaced else Update((Report("save", "B"),))
    answer = engine.subject.apply(last, script)  # the last token of A
    assert answer.crash is None and all(
        misreport.situation != "early" for misreport in engine.scheduler.misreports.counts
    )
    assert engine.scheduler.requests == {} and engine.scheduler.ledger.awaited == {}


def test_a_report_of_the_workers_in_the_call_that_claims_the_save_is_too_early() -> None:
    engine = Engine(Scope(("save",)))
    script = {"A": ConnectorScript(0, "claimed")}
    for event in (Add("A"), Schedule(), Update(), Schedule(), reports("save:A")):
        assert engine.subject.apply(event, script).crash is None
    assert engine.scheduler.misreports.counts == {Misreport("save", "early"): 1}
    assert engine.scheduler.ledger.awaited == {"A": {"save"}}


# An id that is used again.


def test_a_request_with_the_id_of_a_held_one_waits_until_that_is_forgotten() -> None:
    engine = Engine()
    engine.hold_a()
    old, new = engine.scheduler.requests["A"], engine.request()
    engine.scheduler.add_request(new)
    assert engine.scheduler.requests["A"] is old and list(engine.scheduler.waiting) == []
    engine.play(Schedule(), reports("save:A"))
    assert engine.scheduler.requests["A"] is old and engine.scheduler.has_requests()
    engine.play(Schedule(), reports("load:A"))
    assert engine.scheduler.requests["A"] is new and list(engine.scheduler.waiting) == [new]
    assert engine.scheduler.resubmitted == {}
    # It lives as any other: it loads, runs, ends and is held.
    engine.play(Schedule(), reports("load:A"), Schedule(), Update(), Schedule(), Update())
    assert new.is_finished() and engine.scheduler.ledger.awaited == {"A": {"save"}}


def test_stock_dies_of_it() -> None:
    engine = Engine(scheduler_class=Engine().api.scheduler)
    engine.play(Add("A"), Schedule(), Abort("A"), Update())
    with pytest.raises(AssertionError, match="duplicate request id"):
        engine.scheduler.add_request(engine.request())


def test_the_connector_hears_of_it_when_it_begins() -> None:
    engine = Engine()
    engine.hold_a()
    heard: list[Any] = []
    engine.scheduler.connector.on_new_request = heard.append
    new = engine.request()
    engine.scheduler.add_request(new)
    assert heard == []
    engine.play(Schedule(), reports("load:A", "save:A"))
    assert heard == [new]


@pytest.mark.parametrize("names", [None, "A", ["A"], iter(("A",))], ids=["all", "name", "list", "iterator"])
def test_one_that_waits_for_its_id_can_be_aborted(names: Any) -> None:
    engine = Engine()
    engine.hold_a()
    new = engine.request()
    engine.scheduler.add_request(new)
    assert engine.scheduler.finish_requests(names, engine.api.aborted) == [new]
    assert new.status == engine.api.aborted and engine.scheduler.resubmitted == {}
    engine.play(Schedule(), reports("load:A", "save:A"))
    assert engine.scheduler.requests == {}


def test_one_that_waits_for_its_id_counts_as_unfinished_unless_the_engine_is_paused() -> None:
    from vllm.v1.core.sched.interface import PauseState

    engine = Engine()
    engine.hold_a()
    assert not engine.scheduler.has_unfinished_requests()
    engine.scheduler.add_request(engine.request())
    assert engine.scheduler.get_num_unfinished_requests() == 1
    for state in (PauseState.PAUSED_NEW, PauseState.PAUSED_ALL):
        engine.scheduler.set_pause_state(state)
        assert engine.scheduler.get_num_unfinished_requests() == 0


def test_several_clients_hear_of_one_that_never_began() -> None:
    engine = Engine()
    engine.scheduler.finished_req_ids_dict = defaultdict(set)
    engine.hold_a()
    new = engine.request()
    new.client_index = 1
    engine.scheduler.add_request(new)
    engine.scheduler.finish_requests("A", engine.api.aborted)
    assert engine.scheduler.finished_req_ids_dict[1] == {"A"}


def test_a_late_chunk_of_a_session_that_is_over_begins_no_new_one() -> None:
    """As in vLLM, which puts it where nobody looks any more."""
    engine = Engine()
    session, chunk = engine.request(), engine.request()
    session.resumable = chunk.resumable = True
    engine.scheduler.add_request(session)
    engine.play(Schedule(), Abort("A"), Update())
    assert session.is_finished() and "A" in engine.scheduler.requests
    engine.scheduler.add_request(chunk)
    assert engine.scheduler.resubmitted == {}
    engine.play(Schedule(), reports("load:A", "save:A"), Schedule(), Update())
    assert engine.scheduler.requests == {} and not engine.scheduler.has_requests()


def test_several_that_wait_for_one_id_take_turns() -> None:
    engine = Engine()
    engine.hold_a()
    first, second = engine.request(), engine.request()
    engine.scheduler.add_request(first)
    engine.scheduler.add_request(second)
    engine.play(Schedule(), reports("load:A", "save:A"))
    assert engine.scheduler.requests["A"] is first
    engine.scheduler.finish_requests("A", engine.api.aborted)  # both: an abort names an id
    assert second.is_finished() and engine.scheduler.resubmitted == {}


# Reports that never come.


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("kvrace.vllm.fixed.time.monotonic", lambda: self.now)


def test_blocks_are_held_for_ever_and_the_log_says_so(monkeypatch: pytest.MonkeyPatch, logged: Log) -> None:
    clock = Clock(monkeypatch)
    engine = Engine()
    engine.hold_a()
    held = engine.free_blocks()
    for _ in range(15):
        clock.now += 50
        engine.play(Schedule(), Update())
    assert engine.free_blocks() == held and engine.scheduler.has_requests()
    assert (
        len(logged.warnings) == 2
    )  # after 650 and 750 seconds: from ten minutes on, not more often than once a minute
    assert "blocks of 1 finished requests have been held" in logged.warnings[0]
    assert logged.warnings[0].endswith("request A, 650 s, load and save.")


def test_reclaiming_is_asked_for_and_frees_after_that_time(monkeypatch: pytest.MonkeyPatch, logged: Log) -> None:
    monkeypatch.setenv("KVRACE_FIXED_RECLAIM_AFTER", "30")
    clock = Clock(monkeypatch)
    engine = Engine()
    everything = engine.free_blocks()
    engine.hold_a()
    clock.now += 29
    engine.play(Schedule(), reports("load:A"))
    assert engine.free_blocks() < everything
    clock.now += 1
    engine.play(Schedule(), Update())
    assert engine.free_blocks() == everything and engine.scheduler.counts["reclaimed"] == 1
    assert "without a report of its save" in logged.text and "touches blocks of other requests" in logged.text
    # The report that comes all the same is known to be late.
    engine.play(Add("B"), Schedule(), reports("save:A"))
    assert engine.scheduler.misreports.counts == {Misreport("save", "late"): 1} and engine.scheduler.ledger.late == {}


def test_a_resubmitted_request_begins_when_its_id_is_reclaimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVRACE_FIXED_RECLAIM_AFTER", "0.5")
    clock = Clock(monkeypatch)
    engine = Engine()
    engine.hold_a()
    new = engine.request()
    engine.scheduler.add_request(new)
    clock.now += 1
    (step, _) = engine.play(Schedule(), Update())
    assert [scheduled.request for scheduled in step.loads] == ["A"] and engine.scheduler.requests["A"] is new


def test_totals_are_logged_while_blocks_are_held_once_a_minute(monkeypatch: pytest.MonkeyPatch, logged: Log) -> None:
    clock = Clock(monkeypatch)
    engine = Engine()
    engine.play(Schedule(), Update())
    assert "were held" not in logged.text
    engine.hold_a()
    for _ in range(13):
        clock.now += 10
        engine.play(Schedule(), Update())
    assert logged.text.count("1 requests were held for their transfers, 1 are still held") == 3


def test_the_late_report_of_a_reclaimed_request_is_not_of_the_one_that_has_its_id_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KVRACE_FIXED_RECLAIM_AFTER", "0.5")
    clock = Clock(monkeypatch)
    engine = Engine()
    engine.hold_a()
    engine.scheduler.add_request(engine.request())
    clock.now += 1
    engine.play(Schedule(), Update())  # the first life is reclaimed, the second one waits for its load
    engine.play(Schedule(), reports("load:A"))  # of the first life
    assert engine.scheduler.finished_recving_kv_req_ids == set()
    engine.play(Schedule(), reports("load:A"), Schedule(), Update(), Schedule(), Update())
    assert engine.scheduler.ledger.awaited == {"A": {"save"}}
    held = engine.free_blocks()
    engine.play(Schedule(), reports("save:A"))  # of the first life
    assert engine.free_blocks() == held
    engine.play(Schedule(), reports("save:A"))
    assert engine.free_blocks() > held and engine.scheduler.misreports.counts == {
        Misreport("load", "late"): 1,
        Misreport("save", "late"): 1,
    }


def test_shutting_down_says_what_was_seen(logged: Log) -> None:
    engine = Engine()
    engine.hold_a()
    engine.play(Schedule(), reports("save:B"))
    engine.scheduler.shutdown()
    assert "1 requests were held for their transfers, 1 are still held, 0 were reclaimed; 1 reports were ignored" in (
        logged.text
    )


# Starting.


def test_another_release_is_refused_unless_one_insists(monkeypatch: pytest.MonkeyPatch) -> None:
    from kvmodel.errors import KvraceError

    monkeypatch.setattr("kvrace.vllm.fixed.vllm_version", "0.34.0")
    with pytest.raises(KvraceError, match=r"verified against vLLM 0\.32\.0 and 0\.33\.0, and this is 0\.34\.0"):
        Engine()
    monkeypatch.setenv("KVRACE_FIXED_ANY_RELEASE", "1")
    Engine().hold_a()


def test_builds_of_a_release_are_that_release() -> None:
    assert VERIFIED_RELEASES and all(is_verified(release) for release in VERIFIED_RELEASES)
    assert is_verified("0.33.0+cu129") and not is_verified("0.33.1") and not is_verified("0.33.0rc1")


@pytest.mark.parametrize("given", ["soon", "0", "-1", "nan", "inf"])
def test_a_time_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    from kvmodel.errors import KvraceError

    monkeypatch.setenv("KVRACE_FIXED_RECLAIM_AFTER", given)
    with pytest.raises(KvraceError, match="give a number of seconds, more than 0"):
        Engine()


@pytest.mark.parametrize(
    ("scheduling", "given", "fitting"),
    [("async", "FixedScheduler", "FixedAsyncScheduler"), ("sync", "FixedAsyncScheduler", "FixedScheduler")],
)
def test_the_class_for_the_other_scheduling_is_refused(scheduling: Any, given: str, fitting: str) -> None:
    import kvrace.vllm.fixed
    from kvmodel.errors import KvraceError

    with pytest.raises(KvraceError, match=rf"use --scheduler-cls kvrace\.vllm\.fixed\.{fitting} "):
        Engine(Scope(("load_save",), scheduling), getattr(kvrace.vllm.fixed, given))


def test_a_diffusion_model_is_refused() -> None:
    from kvmodel.errors import KvraceError

    engine = Engine()
    engine.subject._config.diffusion_config = SimpleNamespace(canvas_length=None)
    try:
        with pytest.raises(KvraceError, match="needs vLLM's scheduler for diffusion"):
            engine.subject.start()
    finally:
        engine.subject._config.diffusion_config = None


def test_a_hold_for_an_encoder_cache_ends_as_in_vllm() -> None:
    """vLLM keeps no account of it: the first report frees. Ours is not to hold it for ever."""
    engine = Engine(Scope(("local", "local")))
    quiet = {name: ConnectorScript(0, "none") for name in "AB"}

    class EncoderCacheConnector:
        def __getattr__(self, _name: str) -> Any:
            return lambda *_args, **_kwargs: False

        def request_finished(self, _request: Any) -> tuple[bool, None]:
            return True, None

    for event in (Add("A"), Schedule(), Update()):
        engine.subject.apply(event, quiet)
    engine.scheduler.ec_connector = EncoderCacheConnector()
    engine.subject.apply(Abort("A"), quiet)
    engine.scheduler.ec_connector = None
    assert engine.scheduler.requests["A"].is_finished() and engine.scheduler.ledger.awaited == {}
    engine.subject.apply(Schedule(), quiet)
    assert engine.subject.apply(reports("save:A"), quiet).crash is None
    assert engine.scheduler.requests == {} and engine.scheduler.misreports.total == 0
