"""Remedies as subclasses of vLLM's schedulers that can be named: ``--subject kvrace.vllm.remedies:SkipsUnknownReports``."""

from __future__ import annotations

from vllm.v1.core.sched.scheduler import Scheduler

from kvrace.vllm.mutants import skip_unknown_completions


class SkipsUnknownReports(skip_unknown_completions(Scheduler)):  # type: ignore[misc]
    """The remedy that is often proposed: a report for an unknown request is passed over."""
