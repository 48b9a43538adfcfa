"""Named faults planted into the real scheduler by subclassing it, one at a time.

They show that each property fires on the real thing, not only on the reference scheduler. Every mutant is looked for in a
scope in which the stock scheduler breaks nothing, so what is found is the planted fault.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kvmodel.scope import Scope
from kvrace.mutants import Mutant
from kvrace.vllm.api import load_api
from kvrace.vllm.failure_faults import FAILURE_FAULTS
from kvrace.vllm.rank_faults import RANK_FAULTS
from kvrace.vllm.ranks import aggregator_class
from kvrace.vllm.subject import VllmSubject


def _only(reports: Any, received: set[str], sent: set[str]) -> Any:
    return type(reports)(finished_sending=sent, finished_recving=received)


def _aborts_free_at_once(base: type) -> type:
    class Mutated(base):
        def finish_requests(self, request_ids: Any, finished_status: Any) -> Any:
            # As if the load had been reported already.
            self.finished_recving_kv_req_ids.update(name for name in request_ids if name in self.requests)
            done = super().finish_requests(request_ids, finished_status)
            self.finished_recving_kv_req_ids.difference_update(request_ids)
            return done

    return Mutated


def _forgets_reports_of_loads(base: type) -> type:
    class Mutated(base):
        def _update_from_kv_xfer_finished(self, kv_connector_output: Any) -> None:
            live = {n for n in kv_connector_output.finished_recving or () if not self.requests[n].is_finished()}
            kept = set(kv_connector_output.finished_recving or ()) - live
            super()._update_from_kv_xfer_finished(
                _only(kv_connector_output, kept, set(kv_connector_output.finished_sending or ()))
            )

    return Mutated


def _swaps_reports(base: type) -> type:
    class Mutated(base):
        def _update_from_kv_xfer_finished(self, kv_connector_output: Any) -> None:
            received, sent = kv_connector_output.finished_recving, kv_connector_output.finished_sending
            super()._update_from_kv_xfer_finished(_only(kv_connector_output, set(sent or ()), set(received or ())))

    return Mutated


def _keeps_blocks(base: type) -> type:
    class Mutated(base):
        def _free_blocks(self, request: Any) -> None:
            del self.requests[request.request_id]

    return Mutated


def _frees_twice(base: type) -> type:
    class Mutated(base):
        def _free_blocks(self, request: Any) -> None:
            manager = self.kv_cache_manager.coordinator.single_type_managers[0]
            blocks = list(manager.req_to_blocks.get(request.request_id, ()))
            super()._free_blocks(request)
            self.kv_cache_manager.block_pool.free_blocks(blocks[:1])

    return Mutated


def _hands_over_nothing(base: type) -> type:
    class Mutated(base):
        def _connector_finished(self, request: Any) -> Any:
            return self.connector.request_finished(request, [])

    return Mutated


def _finishes_twice(base: type) -> type:
    class Mutated(base):
        def _connector_finished(self, request: Any) -> Any:
            super()._connector_finished(request)
            return super()._connector_finished(request)

    return Mutated


def _leaves_a_table_entry(base: type) -> type:
    class Mutated(base):
        def finish_requests(self, request_ids: Any, finished_status: Any) -> Any:
            done = super().finish_requests(request_ids, finished_status)
            self.finished_recving_kv_req_ids.update(request_ids)
            return done

    return Mutated


def _computes_before_the_load(base: type) -> type:
    class Mutated(base):
        def _handle_blocked_waiting_request(self, request: Any) -> Any:
            self.finished_recving_kv_req_ids.add(request.request_id)
            return super()._handle_blocked_waiting_request(request)

    return Mutated


def _caches_before_the_load(base: type) -> type:
    class Mutated(base):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            allocate = self.kv_cache_manager.allocate_slots
            self.kv_cache_manager.allocate_slots = lambda *a, **k: allocate(*a, **{**k, "delay_cache_blocks": False})

    return Mutated


def _has_no_fence(base: type) -> type:
    class Mutated(base):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.defer_block_free = False

    return Mutated


def _goes_idle_early(base: type) -> type:
    class Mutated(base):
        def has_requests(self) -> bool:
            return bool(self.has_unfinished_requests())

    return Mutated


def _counts_tokens_twice(base: type) -> type:
    class Mutated(base):
        def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
            for name, count in scheduler_output.num_scheduled_tokens.items():
                if name in self.requests:
                    self.requests[name].num_in_flight_tokens -= count
            return super().update_from_output(scheduler_output, model_runner_output)

    return Mutated


def _forgets_final_outputs(base: type) -> type:
    class Mutated(base):
        def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
            super().update_from_output(scheduler_output, model_runner_output)
            return {}

    return Mutated


def _holds_a_reference(base: type) -> type:
    class Mutated(base):
        def schedule(self, *args: Any, **kwargs: Any) -> Any:
            output = super().schedule(*args, **kwargs)
            for new in output.scheduled_new_reqs:
                self.kv_cache_manager.block_pool.blocks[new.block_ids[0][0]].ref_cnt += 1
            return output

    return Mutated


def _resets_without_a_word(base: type) -> type:
    class Mutated(base):
        def reset_prefix_cache(self, *args: Any, **kwargs: Any) -> bool:
            return True

    return Mutated


def _preempts_nobody(base: type) -> type:
    class Mutated(base):
        def reset_prefix_cache(self, reset_running_requests: bool = False, *args: Any) -> bool:
            done: bool = super().reset_prefix_cache(False, *args)
            if reset_running_requests and not done:
                raise RuntimeError("the prefix cache is in use")
            return done

    return Mutated


def _stays_paused(base: type) -> type:
    class Mutated(base):
        def set_pause_state(self, pause_state: Any) -> None:
            super().set_pause_state(max(pause_state, self.pause_state))

    return Mutated


def _frees_the_window_early(base: type) -> type:
    class Mutated(base):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            coordinator = self.kv_cache_manager.coordinator
            remove, requests = coordinator.remove_skipped_blocks, self.requests
            coordinator.remove_skipped_blocks = lambda name, tokens, *a, **k: remove(
                name, tokens + requests[name].num_in_flight_tokens, *a, **k
            )

    return Mutated


_PAIR = Scope(("load", "save"))
_PAIR_ASYNC = Scope(("load", "save"), "async")
_SHARED = Scope(("load", "local"), prefix_sharing=True)
_RESETS = Scope(("local", "save"), prefix_sharing=True, lifecycle=("reset_running",))
_PAUSES = Scope(("local",), lifecycle=("pause",))
_WINDOW = Scope(("local", "load"), "async", block_size=2, prompt_blocks=2, output_tokens=3, window=3, blocks=10)
_TIGHT = Scope(("local", "load"), "async", blocks=2)

_FAULTS: dict[str, tuple[Callable[[type], type], str, str, Scope]] = {
    "aborts-free-at-once": (
        _aborts_free_at_once,
        "an abort frees the blocks of a running load (vLLM <= 0.15.1)",
        "no-use-after-free",
        _PAIR,
    ),
    "forgets-reports-of-loads": (
        _forgets_reports_of_loads,
        "a finished load never wakes its request",
        "no-stuck",
        _PAIR,
    ),
    "swaps-reports": (
        _swaps_reports,
        "finished_sending and finished_recving are mixed up (vLLM #18211)",
        "no-crash",
        _PAIR,
    ),
    "keeps-blocks": (_keeps_blocks, "a request is forgotten and its blocks are not freed", "no-leak", _PAIR),
    "frees-twice": (_frees_twice, "the first block of a request is freed twice", "no-double-free", _PAIR),
    "hands-over-nothing": (_hands_over_nothing, "request_finished is told no blocks", "handover", _PAIR),
    "finishes-twice": (_finishes_twice, "request_finished is called twice", "finish-once", _PAIR),
    "leaves-a-table-entry": (
        _leaves_a_table_entry,
        "an abort leaves an entry in finished_recving_kv_req_ids",
        "no-leak",
        _PAIR,
    ),
    "computes-before-the-load": (
        _computes_before_the_load,
        "a request runs before its load is over",
        "no-premature-use",
        _PAIR,
    ),
    "caches-before-the-load": (
        _caches_before_the_load,
        "the prefix cache offers blocks whose load is not over",
        "no-premature-use",
        _SHARED,
    ),
    "has-no-fence": (
        _has_no_fence,
        "freed blocks go back while a dispatched step still writes them (vLLM <= 0.23.0)",
        "no-use-after-free",
        _TIGHT,
    ),
    "frees-the-window-early": (
        _frees_the_window_early,
        "blocks leave a sliding window while a step in flight reads them (vLLM <= 0.25.1)",
        "no-use-after-free",
        _WINDOW,
    ),
    "goes-idle-early": (
        _goes_idle_early,
        "the engine goes idle while blocks are held for a transfer",
        "no-stuck",
        _PAIR,
    ),
    "counts-tokens-twice": (_counts_tokens_twice, "tokens in flight are subtracted twice", "conservation", _PAIR),
    "forgets-final-outputs": (
        _forgets_final_outputs,
        "the client never hears that its request is over",
        "finish-once",
        _PAIR,
    ),
    "resets-without-a-word": (
        _resets_without_a_word,
        "a reset of the prefix cache says that it was done, and the cache is as it was",
        "no-premature-use",
        _RESETS,
    ),
    "preempts-nobody": (
        _preempts_nobody,
        "a reset that is to preempt running requests is refused because of them",
        "no-crash",
        _RESETS,
    ),
    "stays-paused": (_stays_paused, "a pause is never over", "no-stuck", _PAUSES),
    "holds-a-reference": (
        _holds_a_reference,
        "a reference is taken that no request owns",
        "conservation",
        _PAIR_ASYNC,
    ),
}
"""name -> (how the class is changed, what that breaks, the property meant to catch it, where to look)."""


def vllm_mutants() -> list[Mutant]:
    """The mutants of the vLLM that is installed here. Raises VllmUnavailable or UnknownSubject."""
    api = load_api()
    api.check_holds_for_loads("the planted faults are")
    mutants = []
    for name, (change, breaks, meant_for, scope) in (_FAULTS | FAILURE_FAULTS).items():
        changed = change(api.scheduler_class(scope.scheduling))
        mutants.append(Mutant(name, breaks, meant_for, partial(VllmSubject, scheduler_class=changed), scope))
    for name, (change, breaks, meant_for, scope) in RANK_FAULTS.items():
        changed = change(aggregator_class())
        mutants.append(Mutant(name, breaks, meant_for, partial(VllmSubject, aggregator=changed), scope))
    return mutants
