"""How long random runs go on: settings for Hypothesis by name.

Nothing is registered with Hypothesis, whose profiles belong to the user's project.
"""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from kvmodel.errors import KvraceError, quoted

_DATABASE = DirectoryBasedExampleDatabase(Path(".hypothesis", "examples"))
"""Where Hypothesis itself keeps what failed."""


def _profile(max_examples: int, steps: int, *, same_every_time: bool = False) -> settings:
    """Every setting is given: else the user's default profile, or the one that Hypothesis takes in CI, would decide it."""
    return settings(
        max_examples=max_examples,
        stateful_step_count=steps,
        derandomize=same_every_time,
        database=None if same_every_time else _DATABASE,
        # Orders are made short by kvmodel.reduce, which knows what an event is.
        phases=(Phase.explicit, Phase.reuse, Phase.generate),
        # How long a step takes is the scheduler's and the machine's business; kvrace has a watchdog for calls that hang.
        deadline=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
        verbosity=Verbosity.normal,
        backend="hypothesis",
    )


PROFILES: dict[str, settings] = {
    "dev": _profile(60, 30),
    "ci": _profile(400, 50, same_every_time=True),
    "nightly": _profile(10_000, 80),
}
"""``dev``: seconds, random, and what failed is kept in Hypothesis' example database and tried first. ``ci``: the same runs every
time. ``nightly``: hours, random, with the database."""


def profile(name: str) -> settings:
    """The settings of a profile. Raises KvraceError for an unknown name."""
    if name not in PROFILES:
        raise KvraceError(f"unknown profile {quoted(name)}: use one of {', '.join(PROFILES)}")
    return PROFILES[name]
