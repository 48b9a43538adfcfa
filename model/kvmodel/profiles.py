"""How long random runs go on: settings for Hypothesis by name.

Nothing is registered with Hypothesis, whose profiles belong to the user's project.
"""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

from kvmodel.errors import KvraceError, quoted

_COMMON = {
    # Orders are made short by kvmodel.reduce, which knows what an event is.
    "phases": (Phase.explicit, Phase.reuse, Phase.generate),
    # How long a step takes is the scheduler's and the machine's business; kvrace has a watchdog for calls that hang.
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
}
PROFILES: dict[str, settings] = {
    "dev": settings(max_examples=60, stateful_step_count=30, **_COMMON),  # type: ignore[arg-type]
    "ci": settings(max_examples=400, stateful_step_count=50, derandomize=True, print_blob=True, **_COMMON),  # type: ignore[arg-type]
    "nightly": settings(max_examples=10_000, stateful_step_count=80, print_blob=True, **_COMMON),  # type: ignore[arg-type]
}
"""``dev``: seconds, random, and what failed is kept in Hypothesis' example database and tried first. ``ci``: the same runs every
time. ``nightly``: hours, random, with the database."""


def profile(name: str) -> settings:
    """The settings of a profile. Raises KvraceError for an unknown name."""
    if name not in PROFILES:
        raise KvraceError(f"unknown profile {quoted(name)}: use one of {', '.join(PROFILES)}")
    return PROFILES[name]
