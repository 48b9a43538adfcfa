"""Play the tours of a suite file in one process, and say where what happens is not what was recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvmodel.port import Identity
from kvrace.check import rare_garbage_collection
from kvrace.replay import check_scheduling
from kvrace.subjects import SubjectChoice
from kvrace.suite import Departure, departure
from kvrace.suitefile import SuiteFile
from kvrace.watchdog import ending, watched


@dataclass(frozen=True, slots=True)
class SuiteReplay:
    """What became of a suite file: ``departing`` counts the tours in which something else happens than was recorded, ``first`` is
    the first of them; ``identity`` is the scheduler they were played on."""

    suite: SuiteFile
    identity: Identity
    departing: int
    first: Departure | None

    @property
    def exit_code(self) -> int:
        return 1 if self.departing else 0


def conform(
    suite: SuiteFile,
    choice: SubjectChoice,
    call_seconds: float,
    listen: Callable[[int, int], None] = lambda _done, _all: None,
) -> SuiteReplay:
    """Play every tour, each on a fresh scheduler. ``listen`` hears how many tours are done. Raises KvraceError when that cannot be
    done at all."""
    check_scheduling(suite.scope, choice)
    first: Departure | None = None
    departing = 0
    with (
        watched(ending(choice.make, call_seconds)(suite.scope), call_seconds) as subject,
        rare_garbage_collection(),
    ):
        for number, tour in enumerate(suite.tours, 1):
            listen(number - 1, len(suite.tours))
            found = departure(subject, suite.contract, tour, number)
            departing += found is not None
            first = first or found
        return SuiteReplay(suite, subject.identity, departing, first)
