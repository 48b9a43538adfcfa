"""The events of the engine's life on a real scheduler: which releases have the calls, and how they are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvmodel.events import AbortAll, AddAgain, Pause, Reset, Resume
from kvmodel.life import LifeEvent
from kvmodel.port import Crash, ResetAnswer, UnknownSubject
from kvmodel.scope import Scope
from kvrace.capture_rules import CaptureRules, leave_out
from kvrace.vllm.api import Api
from kvrace.vllm.differences import takes

ENTRY_POINTS: dict[type, str] = {
    AddAgain: "add_request",
    AbortAll: "finish_requests",
    Reset: "reset_prefix_cache",
    Pause: "set_pause_state",
    Resume: "set_pause_state",
}
"""The method of the scheduler that an event calls."""


def check_life(scope: Scope, api: Api) -> None:
    """Raises UnknownSubject for a scope with a call that this release of vLLM does not have."""
    can = {
        "abort_all": bool(api.pause_states),  # both came with 0.17
        "pause": bool(api.pause_states),
        "reset_running": takes(api.scheduler.reset_prefix_cache, "reset_running_requests"),
        "lookup": api.may_ask_later,
    }
    for word in scope.lifecycle:
        if not can.get(word, True):
            raise UnknownSubject(f"vLLM {api.version} has no {word.replace('_', ' ')}: leave it out of the scope")


def life_rules(rules: CaptureRules, api: Api, scope: Scope) -> CaptureRules:
    """A request that is preempted again and again takes new blocks each time. 0.17.1 to 0.25.1 keep the ids of all blocks that were
    ever taken in a list, which is read only for models whose new blocks are to be zeroed: with it no state would come again."""
    if "reset_running" in scope.lifecycle:
        reason = "ids of blocks to be zeroed, which no scope's model needs; it grows for ever"
        rules.attributes[api.single_type_manager, "new_block_ids"] = (leave_out, reason)
    return rules


def play_life(
    scheduler: Any, event: LifeEvent, api: Api, again: Callable[[str], Any], crash: Callable[[BaseException], Crash]
) -> ResetAnswer | None:
    """Make the call that ``event`` stands for. ``again`` makes a request anew; ``crash`` says where an error was raised."""
    match event:
        case AddAgain(name):
            scheduler.add_request(again(name))
        case AbortAll():
            scheduler.finish_requests(None, api.aborted)
        case Pause(mode):
            scheduler.set_pause_state(api.pause_states["PAUSED_NEW" if mode == "new" else "PAUSED_ALL"])
        case Resume():
            scheduler.set_pause_state(api.pause_states["UNPAUSED"])
        case Reset(running):
            return _reset(scheduler, running, crash)
    return None


def _reset(scheduler: Any, running: bool, crash: Callable[[BaseException], Crash]) -> ResetAnswer:
    before = [request.request_id for request in scheduler.running]
    done, refusal = False, None
    try:
        done = bool(scheduler.reset_prefix_cache(True) if running else scheduler.reset_prefix_cache())
    except RuntimeError as error:  # how a release says that it cannot, and its engine goes on
        refusal = crash(error)
    still = {request.request_id for request in scheduler.running}
    return ResetAnswer(done, tuple(sorted(name for name in before if name not in still)), refusal)
