"""Planted faults in how a scheduler takes load failures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvmodel.scope import Scope


def _ignores_invalid_blocks(base: type) -> type:
    class Mutated(base):
        def _handle_invalid_blocks(self, *args: Any, **kwargs: Any) -> Any:
            return set()

    return Mutated


def _fails_in_silence(base: type) -> type:
    class Mutated(base):
        def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
            outputs = super().update_from_output(scheduler_output, model_runner_output)
            for batch in outputs.values():
                batch.outputs = [item for item in batch.outputs if str(item.finish_reason) != "error"]
            return outputs

    return Mutated


def _remembers_failures(base: type) -> type:
    class Mutated(base):
        def finish_requests(self, request_ids: Any, finished_status: Any) -> Any:
            failed = self.failed_recving_kv_req_ids.copy()
            done = super().finish_requests(request_ids, finished_status)
            self.failed_recving_kv_req_ids |= failed
            return done

    return Mutated


FAILURE_FAULTS: dict[str, tuple[Callable[[type], type], str, str, Scope]] = {
    "ignores-invalid-blocks": (
        _ignores_invalid_blocks,
        "blocks whose load has failed are computed with",
        "no-premature-use",
        Scope(("load",), load_failures="recompute"),
    ),
    "ignores-invalid-blocks-of-a-step": (
        _ignores_invalid_blocks,
        "the token of a step whose load has failed is delivered",
        "no-premature-use",
        Scope(("sync_load",), load_failures="fail"),
    ),
    "fails-in-silence": (
        _fails_in_silence,
        "the client of a request that failed with its load never hears of it",
        "finish-once",
        Scope(("load",), load_failures="fail"),
    ),
    "remembers-failures": (
        _remembers_failures,
        "an abort leaves an entry in failed_recving_kv_req_ids",
        "no-leak",
        Scope(("load",), load_failures="recompute"),
    ),
}
"""name -> (how the class is changed, what that breaks, the property meant to catch it, where to look)."""
