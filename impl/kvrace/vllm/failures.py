"""Load failures as vLLM is told of them, and what its releases know of that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvmodel.events import Failure
from kvmodel.failures import failed_blocks
from kvmodel.port import ConnectorScript, UnknownSubject
from kvmodel.scope import FailurePolicy, Scope

if TYPE_CHECKING:
    from kvrace.vllm.api import Api


def put_failures(output: Any, failures: tuple[Failure, ...], script: dict[str, ConnectorScript]) -> None:
    """Into a ``KVConnectorOutput``: ``invalid_block_ids``, and ``failed_recving`` for what is reported by id."""
    for failure in failures:
        if failure.part == "id":
            output.failed_recving.add(failure.request)
        else:
            output.invalid_block_ids.update(failed_blocks(failure, script[failure.request].loading))


def failure_policy(policy: FailurePolicy) -> dict[str, str]:
    """Arguments of ``KVTransferConfig``: the policy, or nothing where no load fails. Releases before 0.13.0 always recompute."""
    from vllm.config import KVTransferConfig

    known = "kv_load_failure_policy" in KVTransferConfig.__dataclass_fields__
    return {"kv_load_failure_policy": policy} if policy and known else {}


def check_failures_known(api: Api, scope: Scope) -> None:
    """Raises UnknownSubject for a scope whose load failures this release of vLLM has no words for."""
    if not scope.load_failures:
        return
    from vllm.v1 import outputs

    fields = getattr(getattr(outputs, "KVConnectorOutput", None), "__dataclass_fields__", {})  # 0.9.2 has no such class
    for is_needed, known, what in (
        (True, "invalid_block_ids" in fields, "load failures (invalid_block_ids, since 0.11.2)"),
        (scope.failed_ids, "failed_recving" in fields, "failed loads by id (failed_recving, since 0.30.0)"),
        (
            scope.load_failures == "fail",
            bool(failure_policy("fail")),
            "policy 'fail' (kv_load_failure_policy, since 0.13.0)",
        ),
    ):
        if is_needed and not known:
            raise UnknownSubject(f"vLLM {api.version} has no {what}: leave it out of the scope")
