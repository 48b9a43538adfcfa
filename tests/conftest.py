"""Shared set-up: tests marked ``vllm`` need a real vLLM, and say so where there is none."""

from __future__ import annotations

import os

import pytest

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
