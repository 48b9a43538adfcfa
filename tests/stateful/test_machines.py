"""State machines as users write them: on their classes, with their rules, and with their mistakes."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial

import pytest
from hypothesis import settings
from hypothesis.stateful import invariant

from kvmodel.contract import Contract
from kvmodel.coverage import Coverage
from kvmodel.errors import KvraceError
from kvmodel.events import Abort, Add, Update, parse_event
from kvmodel.playback import play
from kvmodel.reduce import reduce
from kvmodel.scope import Scope
from kvmodel.stateful import PropertyBroken, state_machine
from kvrace.reference.subject import ReferenceSubject
from kvrace.testing import SchedulerMachine, VerdictError, check_scheduler, scopes
from tests.stateful.helpers import FROM_NOTHING


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class OnReference(SchedulerMachine):
    scheduler = "reference"
    scopes = Scope(("load_save",))
    profile = "ci"


@pytest.mark.vllm
@pytest.mark.parametrize("base", ["Scheduler", pytest.param("AsyncScheduler", marks=pytest.mark.slow)])
def test_a_class_that_plays_one_scheduling_only_is_shrunk_within_it(base: str) -> None:
    from vllm.v1.core.sched import async_scheduler, scheduler

    kind = getattr(async_scheduler if base == "AsyncScheduler" else scheduler, base)

    class Mine(SchedulerMachine):
        scheduler = type("Mine", (kind,), {"__module__": __name__})
        properties = ("no-use-after-free",)
        scopes = scopes(kinds=("load_save", "local"), most_requests=3)

    with pytest.raises(VerdictError, match="4 events") as raised:
        Mine.run(FROM_NOTHING)
    assert "_update_from_kv_xfer_finished" in str(raised.value), "the line of code behind it"


@pytest.mark.slow
@pytest.mark.vllm
def test_a_hang_is_found_shortened_and_told() -> None:
    from vllm.v1.core.sched.scheduler import Scheduler

    class Hangs(Scheduler):
        def update_from_output(self, *arguments):
            while self.requests and next(iter(self.requests.values())).is_finished():
                pass
            return super().update_from_output(*arguments)

    class Mine(SchedulerMachine):
        scheduler = Hangs
        call_timeout = 0.5

    with pytest.raises(VerdictError, match="no-stuck"):
        Mine.run(FROM_NOTHING)


@pytest.mark.parametrize("wrong", [("no_crash",), ("no-crash", "no-usage"), ()])
def test_properties_that_are_none_are_refused(wrong: tuple[str, ...]) -> None:
    class Mine(OnReference):
        properties = wrong

    with pytest.raises(KvraceError, match="unknown property"):
        Mine.run()


def test_a_failure_of_the_users_own_and_an_interrupt_stay_what_they_are() -> None:
    def machine(error: BaseException) -> type[SchedulerMachine]:
        class Mine(OnReference):
            properties = ("no-stuck",)

            @invariant()
            def stays_calm(self) -> None:
                if self.node.world.transfers:
                    raise error

        return Mine

    with pytest.raises(RuntimeError, match="my own"):
        machine(RuntimeError("my own")).run(FROM_NOTHING)
    with pytest.raises(KeyboardInterrupt):
        machine(KeyboardInterrupt()).run(FROM_NOTHING)


@pytest.mark.parametrize(
    ("event", "guard"),
    [(Abort("A"), "A was not added"), (Update(), "no step is in flight"), (Add("B"), "no request B")],
)
def test_an_event_that_is_not_allowed_is_never_played(event, guard: str) -> None:
    class Mine(OnReference):
        @invariant()
        def impossible(self) -> None:
            if len(self._frames) == 1:
                self.play(event)

    with pytest.raises(KvraceError, match=guard):
        Mine.run(FROM_NOTHING)


def test_a_profile_is_inherited_and_else_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    class Child(OnReference):
        pass

    class Plain(SchedulerMachine):
        pass

    assert Child.profile == "ci"
    monkeypatch.setenv("KVRACE_PROFILE", "nightly")
    assert Plain.default_profile() == "nightly"
    monkeypatch.setenv("KVRACE_PROFILE", "weekly")
    with pytest.raises(KvraceError, match="KVRACE_PROFILE=weekly"):
        Plain.run()


def test_the_profiles_are_the_same_where_ci_is_set() -> None:
    program = (
        "from kvmodel.profiles import PROFILES as p; print([(p[n].derandomize, p[n].database is None) for n in p])"
    )
    for ci in ("", "1"):
        environment = {**os.environ, "CI": ci}
        shown = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        assert shown.stdout == "[(False, False), (True, True), (False, False)]\n"


def test_each_run_has_a_subject_of_its_own() -> None:
    """So that machines in several threads do not meet in one scheduler."""
    scope = Scope(("local",))
    with OnReference.open_subject(scope) as one, OnReference.open_subject(scope) as other:
        one.start()
        one.apply(Add("A"), {})
        other.start()
        assert [subject.observe().phases for subject in (one, other)] == [(("A", "WAITING"),), ()]


def test_what_breaks_without_the_connectors_doing_is_the_schedulers() -> None:
    """An order that also lost a report, which the crash did not need."""
    scope, lossy = Scope(("load_save", "save")), Contract.parse("lossy")
    words = [
        "add B",
        "schedule",
        "add A",
        "abort B",
        "update",
        "lose save:B",
        "schedule",
        "abort A",
        "update load:A save:A",
    ]
    make = partial(ReferenceSubject, policy="assert")
    events = [parse_event(word) for word in words]
    frames, refused = play(make(scope), lossy, events)
    assert refused is None
    finding = frames[-1].findings[0]
    assert finding.blame == "connector"
    short = reduce(make, lossy, make(scope), events, finding)
    assert short is not None
    assert (short.finding.blame, len(short.events)) == ("scheduler", 4)


def test_a_subject_that_cannot_play_the_scopes_gets_those_it_can() -> None:
    class Mine(SchedulerMachine):
        """The reference scheduler has no token budget and no priorities."""

        scheduler = "reference"
        scopes = scopes(most_requests=2)
        contract = "single"

    Mine.run(settings(FROM_NOTHING, max_examples=30))


def test_several_scopes_may_be_given() -> None:
    seen = Coverage()
    where = [Scope(("local",)), Scope(("save",), "async")]
    state_machine(ReferenceSubject, where, coverage=seen).run(settings(FROM_NOTHING, max_examples=20))
    assert seen.reached["two-steps"] > 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"properties": "no-crush"}, "unknown property 'no-crush'"),
        ({"properties": []}, "no property was given"),
        ({"scope": []}, "no scope was given"),
        ({"time_limit": -1}, "time_limit -1: must be more than 0 seconds"),
        ({"call_timeout": float("nan")}, "call_timeout nan"),
        ({"max_states": 0}, "max_states 0: must be 1 or more"),
        ({"contract": "loose"}, "unknown contract 'loose'"),
        ({"scope": "tiny"}, "unknown scope 'tiny'"),
    ],
)
def test_what_cannot_be_checked_is_refused(arguments: dict, words: str) -> None:
    with pytest.raises(KvraceError, match=words):
        check_scheduler("reference", **arguments)


def test_a_failing_machine_of_the_model_has_the_order_in_its_text() -> None:
    with pytest.raises(PropertyBroken, match="add A\n  schedule\n  abort A\n  update"):
        state_machine(ReferenceSubject, Scope(("load_save",))).run(FROM_NOTHING)
