"""Reproducers: a recorded order as one pytest file that needs vLLM and pytest, and nothing of kvrace.

A reproducer drives a scheduler as vLLM's own unit tests do: requests, calls, hand-made outputs, a connector stub, an assertion.
"""

from kvrace.reproducer.source import pytest_source

__all__ = ["pytest_source"]
