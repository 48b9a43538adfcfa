"""How a request comes and how it ends: by its client, by its last token, or by a load that failed."""

from __future__ import annotations

from kvmodel.contract import Contract
from kvmodel.relation.ownership import fence, gives_up, live, moves_to, once, same_id_known
from kvmodel.relation.policies import Policy
from kvmodel.relation.terms import TRUE, Action, Change, Choice, Named
from kvmodel.relation.vocabulary import (
    ABSENT,
    CLAIMED,
    GONE,
    HELD,
    HIDDEN,
    LOAD,
    LOADING,
    NOTHING,
    RUNNING,
    SAVE,
    WAITING,
    answer,
    arrived,
    awaited,
    c,
    claimed,
    computed,
    e,
    giving_back,
    phase,
    r,
    touches,
    transfer,
    x,
)


def add() -> Action:
    return Action(
        "add",
        "client",
        (r,),
        (
            Named("it is new", phase.of(r).is_(ABSENT), "a request that is sent again is another one"),
            Named("no known request has its id", ~same_id_known(r), "else vLLM asserts (since 0.15.1)"),
        ),
        (moves_to(r, WAITING),),
        "a client sends a request",
        "Scheduler.add_request",
        (Named("finish-once", phase.of(r).is_(ABSENT), "a request lives once"),),
    )


def answer_guards(contract: Contract) -> tuple[Named, ...]:
    """What the contract asks of the connector's answer at ``request_finished``."""
    honest = Named("the connector does not hide a save", ~answer.is_(HIDDEN), "KVConnectorBase_V1.request_finished")
    alone = Named(
        "load and save are never pending together", ~answer.is_(NOTHING) >> ~transfer(LOAD, r), "contract `single`"
    )
    return (*(() if contract.unclaimed else (honest,)), *((alone,) if contract.single else ()))


def _silence(policy: Policy) -> tuple[Named, ...]:
    """A connector that is not told of the end says nothing to it, and starts no save."""
    asked = policy.asks(r)
    if asked == TRUE:
        return ()
    return (Named("who is not asked does not answer", ~asked >> answer.is_(NOTHING), "policy `not_while_loading`"),)


def _ends(name: str, who: str, may: Named, contract: Contract, policy: Policy, meaning: str, source: str) -> Action:
    """The end of a request: the connector is told and answers, then the blocks stay or go."""
    load_runs = phase.of(r).is_(LOADING) & ~arrived(r)
    stays = load_runs | answer.is_(CLAIMED)
    saves = ~answer.is_(NOTHING)
    here = x.is_(r)
    return Action(
        name,
        who,
        (r, answer, giving_back),
        (may, *answer_guards(contract), *_silence(policy), fence(r, ~stays)),
        (
            Change(phase, (x,), Choice(here, Choice(stays, HELD, GONE), phase.of(x))),
            Change(
                awaited,
                (e, x),
                awaited(e, x) | (here & ((e.is_(LOAD) & load_runs) | (e.is_(SAVE) & answer.is_(CLAIMED)))),
            ),
            Change(arrived, (x,), arrived(x) & ~here),
            Change(claimed, (x,), claimed(x) | (here & answer.is_(CLAIMED))),
            Change(transfer, (e, x), transfer(e, x) | (here & e.is_(SAVE) & saves)),
            Change(touches, (e, x, c), touches(e, x, c) | (here & e.is_(SAVE) & saves & computed(r, c))),
            *gives_up(r, ~stays),
        ),
        meaning,
        source,
        (Named("finish-once", live(r) & policy.asks(r), "request_finished is called once"), once(r, ~stays)),
    )


def ends(contract: Contract, policy: Policy) -> tuple[Action, ...]:
    """The three ways in which a request ends."""
    return (
        _ends(
            "abort", "client", Named("it is not over", live(r), "Scheduler.finish_requests passes over what is over"), contract,
            policy, "the client is gone, at any moment; the connector answers at request_finished", "Scheduler.finish_requests",
        ),
        _ends(
            "stop", "engine", Named("it runs", phase.of(r).is_(RUNNING), "Scheduler.running"), contract,
            policy, "its last token came with the output of a step", "Scheduler.update_from_output",
        ),
        _ends(
            "fail", "engine", Named("it loads", phase.of(r).is_(LOADING), "status WAITING_FOR_REMOTE_KVS"), contract,
            policy, "its load failed and the policy for load failures is `fail`", "Scheduler._handle_invalid_blocks",
        ),
    )  # fmt: skip
