"""Shared set-up: tests marked ``vllm`` need a real vLLM, those marked ``spin`` Spin and gcc, and say so where there is none."""

from __future__ import annotations

import os

import pytest

from kvrace.spin import missing
from kvrace.vllm.environment import VllmUnavailable, import_vllm

pytest_plugins = ["pytester"]


@pytest.fixture(scope="session")
def _real_vllm() -> str:
    try:
        return import_vllm()
    except VllmUnavailable as error:
        if os.environ.get("CI"):  # in CI a missing vLLM is a failure: a skipped test proves nothing
            raise
        pytest.skip(str(error))


@pytest.fixture(autouse=True)
def _vllm_where_marked(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("vllm"):
        request.getfixturevalue("_real_vllm")


@pytest.fixture(autouse=True)
def _spin_where_marked(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("spin") and missing() and not os.environ.get("CI"):  # as with vLLM
        pytest.skip(f"not installed: {', '.join(missing())} (Debian packages spin, gcc, libc6-dev)")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest test begins first: with two processes the other one has something to do meanwhile."""
    items.sort(key=lambda item: item.name != "test_tables_from_runs_of_the_stock_scheduler_are_fresh")
