"""Shared set-up: tests marked ``vllm`` need a real vLLM, those marked ``spin`` Spin and gcc, and say so where there is none."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest
from spec.runs import SHARED

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


def pytest_configure(config: pytest.Config) -> None:
    """The processes of one run of the tests share what several tests are made from (:mod:`spec.runs`)."""
    if not hasattr(config, "workerinput"):
        folder = os.environ[SHARED] = tempfile.mkdtemp(prefix="kvrace-runs-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests begin first, so that no process ends long before the others; what is made of their results comes later."""
    items.sort(key=lambda item: max((sum(mark.args) for mark in item.iter_markers("slow")), default=0), reverse=True)
