"""What is said when a scheduler does not do the same in the same order of events: then no verdict is given."""

from __future__ import annotations

from collections.abc import Sequence

from kvmodel.errors import KvraceError
from kvmodel.events import Event
from kvmodel.port import Subject


def not_the_same_twice(subject: Subject, what: str, order: Sequence[Event]) -> KvraceError:
    """The error to raise; ``what`` was different after ``order``."""
    after = ", ".join(map(str, order)) or "the start"
    return KvraceError(
        f"{subject.identity} does not behave the same twice: {what} after {after}. "
        "It keeps state outside the scheduler, or depends on time or chance; no verdict is given"
    )
