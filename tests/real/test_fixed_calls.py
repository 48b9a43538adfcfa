"""The drop-in scheduler on the real vLLM, call by call: what exploration has no events for."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from kvmodel.events import Abort, Add, Report, Schedule, Update
from kvmodel.port import ConnectorScript
from kvmodel.scope import Scope
from kvrace.verified import VERIFIED_RELEASES, is_verified

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
    from kvrace.vllm.ledger import Misreport

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

    misreports = ledger.Misreports()
    for number in range(ledger._REMEMBERED + 10):
        misreports.note(f"request-{number}", ledger.Misreport("load", "unknown"))
    assert len(misreports._logged) == ledger._REMEMBERED and misreports.total == ledger._REMEMBERED + 10


def test_a_connector_that_keeps_early_reports_itself_is_believed() -> None:
    """MoRIIOConnector puts a set of its own in the place of the workers': a report that came before the end of its request."""
    engine = Engine(Scope(("save",)))
    script = {"A": ConnectorScript(0, "claimed")}
    for event in (Add("A"), Schedule(), Update(), Schedule()):
        assert engine.subject.apply(event, script).crash is None
    connector = engine.scheduler.connector

    def keeps(output: Any) -> None:
        output.finished_sending = {"A"}

    connector.update_connector_output = keeps
    answer = engine.subject.apply(Update(), script)  # the last token of A
    assert answer.crash is None and engine.scheduler.misreports.total == 0
    assert engine.scheduler.requests == {} and engine.scheduler.ledger.awaited == {}


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
    for _ in range(5):
        clock.now += 50
        engine.play(Schedule(), Update())
    assert engine.free_blocks() == held and engine.scheduler.has_requests()
    assert len(logged.warnings) == 2  # after 150 and 250 seconds: not more often than once a minute
    assert "blocks of 1 finished requests have been held" in logged.warnings[0]
    assert logged.warnings[0].endswith("request A, 150 s, load and save.")


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
    # The report that comes all the same is one for an unknown request.
    engine.play(Add("B"), Schedule(), reports("save:A"))
    assert engine.scheduler.misreports.total == 1


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


def test_the_class_for_lock_step_is_refused_where_steps_overlap() -> None:
    from kvmodel.errors import KvraceError

    with pytest.raises(KvraceError, match=r"use --scheduler-cls kvrace\.vllm\.fixed\.FixedAsyncScheduler"):
        Engine(Scope(("load_save",), "async"))


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
