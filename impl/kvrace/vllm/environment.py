"""Import vLLM on a plain CPU, without GPU, network, weights or a compiled kernel, and make its configuration.

Nothing of vLLM is replaced. Three things are set before the scheduler is built: the platform (a CPU platform that does not look for
kernels), a model class registered in this process (else vLLM inspects the real one in a subprocess, which costs seconds), and
environment variables that keep it off the network.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from kvmodel.errors import KvraceError
from kvmodel.scope import REQUEST_NAMES, FailurePolicy, Scope
from kvrace.vllm import differences
from kvrace.vllm.engine import Engine
from kvrace.vllm.failures import failure_policy
from kvrace.watchdog import describe

_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_TARGET_DEVICE": "cpu",
    "VLLM_LOGGING_LEVEL": "ERROR",
}

_MODEL = {
    "architectures": ["OPTForCausalLM"],
    "model_type": "opt",
    "hidden_size": 16,
    "ffn_dim": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "vocab_size": 128,
    "max_position_embeddings": 2048,
    "word_embed_proj_dim": 16,
    "do_layer_norm_before": True,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 1,
}


class VllmUnavailable(KvraceError):
    """vLLM is missing, or its import fails. The message says which and what to do."""


@cache
def import_vllm() -> str:
    """Import vLLM once and return its version. Raises VllmUnavailable."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        import vllm

        differences.allow_known_names()
    except KeyboardInterrupt:
        raise
    except ModuleNotFoundError as error:
        if error.name == "vllm":
            raise VllmUnavailable(
                "vLLM is not installed here; 'pip install kvrace' into the environment that has it"
            ) from error
        raise VllmUnavailable(
            f"importing vLLM failed: no module named {error.name!r}; 'pip install {error.name}'"
        ) from error
    except BaseException as error:  # also SystemExit: kvrace says how it ends
        raise VllmUnavailable(
            f"importing vLLM failed: {describe(error)}; does 'python -c \"import vllm\"' work here?"
        ) from error
    _check_that_it_is_vllm(vllm)
    try:
        _use_plain_cpu_platform()
        _register_model()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise VllmUnavailable(f"preparing vLLM failed: {describe(error)}") from error
    logging.getLogger("vllm").setLevel(logging.CRITICAL)
    return str(vllm.__version__)


def _check_that_it_is_vllm(found: Any) -> None:
    """A folder ``vllm`` beside the user's files is a package to Python, and is found before the real one."""
    file = getattr(found, "__file__", None)
    if file is None:
        folders = ", ".join(map(str, getattr(found, "__path__", ()))) or "nowhere"
        raise VllmUnavailable(
            f"importing vLLM failed: 'vllm' is the plain folder {folders}, not the package; rename it, or run kvrace in another "
            "folder"
        )
    if not hasattr(found, "__version__"):
        raise VllmUnavailable(f"importing vLLM failed: {file} is not vLLM: it has no __version__")


def _use_plain_cpu_platform() -> None:
    import vllm.platforms
    from vllm.platforms.cpu import CpuPlatform

    class PlainCpuPlatform(CpuPlatform):
        """The real CPU platform looks for kernels, refuses small blocks and switches async scheduling off."""

        @classmethod
        def check_and_update_config(cls, vllm_config: Any) -> None:
            pass

        @classmethod
        def import_kernels(cls, *args: Any, **kwargs: Any) -> None:
            pass

    vllm.platforms._current_platform = PlainCpuPlatform()


def _register_model() -> None:
    import torch
    from vllm import ModelRegistry

    class OPTForCausalLM(torch.nn.Module):
        """Never run. vLLM only looks at which methods it has."""

        def __init__(self, *, vllm_config: Any, prefix: str = "") -> None:
            super().__init__()

        def embed_input_ids(self, input_ids: Any) -> None: ...

        get_input_embeddings = embed_input_ids

        def forward(self, input_ids: Any, positions: Any) -> None: ...

        def compute_logits(self, hidden_states: Any) -> None: ...

    ModelRegistry.register_model("OPTForCausalLM", OPTForCausalLM)


@cache
def model_folder() -> str:
    """A folder with a hand-written model configuration; removed when the process ends."""
    folder = tempfile.mkdtemp(prefix="kvrace-model-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    Path(folder, "config.json").write_text(json.dumps(_MODEL))
    return folder


def make_config(scope: Scope) -> Any:
    """A ``VllmConfig`` for the scope, with the scripted connector in both roles.

    One for all scopes that need the same: vLLM's configuration is not changed by a scheduler.
    """
    return _make_config(
        scope.scheduling == "async",
        scope.block_size,
        scope.prefix_sharing,
        scope.token_budget,
        bool(scope.priorities),
        scope.load_failures,
        Engine.of(scope),
    )


@cache
def _make_config(
    async_scheduling: bool,
    block_size: int,
    prefix_caching: bool,
    token_budget: int,
    by_priority: bool,
    load_failures: FailurePolicy,
    engine: Engine,
) -> Any:
    import_vllm()
    from vllm.config import (
        CacheConfig,
        DeviceConfig,
        KVTransferConfig,
        ModelConfig,
        SchedulerConfig,
        VllmConfig,
    )

    model = ModelConfig(model=model_folder(), skip_tokenizer_init=True, dtype="float32", seed=0)
    config = VllmConfig(
        model_config=model,
        device_config=DeviceConfig("cpu"),
        cache_config=CacheConfig(block_size=block_size, enable_prefix_caching=prefix_caching),
        scheduler_config=differences.scheduler_config(
            SchedulerConfig,
            async_scheduling,
            max_num_seqs=engine.max_requests or len(REQUEST_NAMES),
            max_num_batched_tokens=2048,
            max_model_len=2048,
            enable_chunked_prefill=True,
            policy="priority" if by_priority else "fcfs",
        ),
        kv_transfer_config=KVTransferConfig(
            kv_connector=engine.connector, kv_role="kv_both", **failure_policy(load_failures)
        ),
    )
    config.cache_config.block_size = block_size
    if token_budget:
        differences.set_token_budget(config, token_budget)
    engine.put_into(config)
    return config
