"""The page as the command line writes it; the fixtures are those of the command line's own tests."""

from __future__ import annotations

from tests.cli.conftest import a_clean_terminal, kvrace

__all__ = ["a_clean_terminal", "kvrace"]
