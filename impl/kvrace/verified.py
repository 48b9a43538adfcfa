"""The releases of vLLM that kvrace's drop-in scheduler was verified against. Imports nothing, so that anything may read it."""

VERIFIED_RELEASES = ("0.32.0", "0.33.0")
"""The releases in which every order of the scopes of the main job was played on the drop-in (`tests/real/test_fixed.py`)."""


def is_verified(version: str) -> bool:
    """Whether this is one of the releases, whatever it was built for: ``0.33.0+cu129`` is 0.33.0."""
    return version.partition("+")[0] in VERIFIED_RELEASES
