"""Engines that are more than one group of blocks and the steps that their scheduling has by itself: what vLLM's configuration says
of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from kvmodel.errors import KvraceError
from kvmodel.scope import Scope

_DRAFT = 6


class Engine(NamedTuple):
    """``steps`` in flight, 0 for what the scheduling has by itself; ``drafts`` of a step; whether there is a sliding ``window``;
    ``max_requests`` that run at a time, 0 for as many as there are."""

    steps: int
    drafts: int
    window: bool
    max_requests: int

    @classmethod
    def of(cls, scope: Scope) -> Engine:
        return cls(scope.steps, scope.drafts, scope.window > 0, scope.max_requests)

    @property
    def connector(self) -> str:
        """The name of the scripted connector. Raises KvraceError where vLLM has no connectors for more than one group of blocks."""
        from kvrace.vllm.connector import CONNECTOR_NAME, GROUPS_CONNECTOR_NAME, ScriptedGroupsConnector

        if self.window and ScriptedGroupsConnector is None:
            raise KvraceError("this vLLM has no connector for more than one group of blocks: leave out window")
        return GROUPS_CONNECTOR_NAME if self.window else CONNECTOR_NAME

    def put_into(self, config: Any) -> None:
        """Set what vLLM would refuse on a machine without the devices. Raises KvraceError where this vLLM cannot do it."""
        if (
            self.drafts
        ):  # first: vLLM asks whether the model of the environment could be split over the stages of a pipeline
            _put_drafts(config, self.drafts)
        if self.steps:
            _put_steps(config, self.steps)


def _put_steps(config: Any, steps: int) -> None:
    """A pipeline of as many stages as give so many steps in flight: with asynchronous scheduling that depends on the runner."""
    asynchronous = bool(config.scheduler_config.async_scheduling)
    if steps == (2 if asynchronous else 1):
        return
    for stages in (steps, steps - 1):
        config.parallel_config.pipeline_parallel_size = stages
        if getattr(config, "max_concurrent_batches", steps) == steps:
            return
    raise KvraceError(f"no pipeline of this vLLM has {steps} steps in flight")


def _put_drafts(config: Any, drafts: int) -> None:
    """Drafts that come from the request's own tokens need no model."""
    from vllm.config import SpeculativeConfig

    config.speculative_config = SpeculativeConfig(
        method="ngram",
        num_speculative_tokens=drafts,
        prompt_lookup_max=1,
        prompt_lookup_min=1,
        target_model_config=config.model_config,
        target_parallel_config=config.parallel_config,
    )


def propose_drafts(scheduler: Any, names: tuple[str, ...], drafts: int) -> None:
    """What EngineCore does after a step of a synchronous scheduler: it hands over what the workers drafted for the next one. An
    asynchronous scheduler plans for drafts by itself."""
    if scheduler.scheduler_config.async_scheduling or not names:
        return
    from vllm.v1.outputs import DraftTokenIds

    scheduler.update_draft_token_ids(DraftTokenIds(list(names), [[_DRAFT] * drafts for _ in names]))
