"""What a generated test has to say otherwise for an older release of vLLM: that of the trace, since no vLLM is asked here."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kvmodel.errors import KvraceError
from kvrace.reproducer.piece import Piece, piece

_OLDEST = (0, 10, 2)
_BUDGET = re.compile(r"^            max_num_scheduled_tokens=(\d+),\n", re.MULTILINE)
_RUNNING = '        self.running = {}  # ("load", "A") -> block ids'
_SAVE_STARTS = re.compile(r'^        self\.running\["save", name\] = \w+\(block_ids\)$', re.MULTILINE)
_ONCE = """        if name in self.saved:  # a request that is over is ended a second time
            return False, None
        self.saved.add(name)
"""


def for_release(pieces: Iterable[Piece], release: str) -> list[Piece]:
    """The pieces of a test as that release wants them. Raises KvraceError for one that is too different."""
    numbers = tuple(int(number) for number in re.findall(r"\d+", release)[:3])
    if len(numbers) == 3 and numbers < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise KvraceError(f"tests without kvrace are for vLLM {oldest} and later, and this was found on {release}")
    if len(numbers) < 3:
        return list(pieces)
    older = [found._replace(code=_older(found.code, numbers), imports=_imports(found, numbers)) for found in pieces]
    return _with_arrays(older) if numbers == _ARRAYS_IN else older


def _older(code: str, release: tuple[int, ...]) -> str:
    if release <= (0, 16, 0):
        code = re.sub(r"^( +)pooling_params=None,$", r"\g<0>\n\1eos_token_id=None,", code, flags=re.MULTILINE)
        code = _with_the_only_budget(code)
    if release < (0, 16, 0):
        code = _SAVE_STARTS.sub(rf"{_ONCE}\g<0>", code).replace(_RUNNING, f"{_RUNNING}\n        self.saved = set()")
    if release <= (0, 13, 0):  # fields that have no default yet
        fields = r"\g<0>\n\1logprobs=None,\n\1prompt_logprobs_dict={},\n\1pooler_output=[],"
        code = re.sub(r"^( +)req_id_to_index=.*,$", fields, code, flags=re.MULTILINE)
    return _before_0_11_2(code, release) if release < (0, 11, 2) else code


_MISSING = (
    "            is_encoder_decoder=False,\n",
    "        block_size=BLOCK_SIZE,\n",  # of the scheduler, which reads its configuration
    ", kv_cache_config=None",
    ", kv_cache_config",
)
"""What the releases before 0.11.2 do not take. The order counts."""
_NO_LATENT_ATTENTION = """        block_size=BLOCK_SIZE,
        num_kv_heads=1,
        head_size=1,
        dtype=torch.float32,
        use_mla=False,
"""


def _before_0_11_2(code: str, release: tuple[int, ...]) -> str:
    for text in _MISSING:
        code = code.replace(text, "")
    asked = "scheduler.connector.get_finished_count() or " if release > (0, 10, 2) else ""
    code = code.replace(
        "KVOutputAggregator.from_connector(scheduler.connector, NUM_RANKS)", f"KVOutputAggregator({asked}NUM_RANKS)"
    )
    if release <= (0, 10, 2):
        code = re.sub(
            r"^        block_size=BLOCK_SIZE, num_kv_heads=.*\n", _NO_LATENT_ATTENTION, code, flags=re.MULTILINE
        )
    return code.replace("embed_input_ids", "get_input_embeddings")


def _imports(found: Piece, release: tuple[int, ...]) -> tuple[str, ...]:
    moved = {"vllm.utils.hashing:sha256": "vllm.utils:sha256"} if release < (0, 11, 2) else {}
    return tuple(moved.get(name, name) for name in found.imports)


_ARRAYS_IN = (0, 11, 2)
_ARRAYS = piece(
    '''
    def runner_output(**fields):
        """This release wants the sampled tokens of each request as an array."""
        fields["sampled_token_ids"] = list(map(numpy.array, fields["sampled_token_ids"]))
        return ModelRunnerOutput(**fields)
    ''',
    "numpy",
)


def _with_arrays(pieces: list[Piece]) -> list[Piece]:
    """Its only caller is ``model_output``, which stays behind what it calls."""
    at = next(at for at, found in enumerate(pieces) if "ModelRunnerOutput(" in found.code)
    caller = pieces[at]._replace(code=pieces[at].code.replace("ModelRunnerOutput(", "runner_output("))
    return [*pieces[:at], _ARRAYS, caller, *pieces[at + 1 :]]


def _with_the_only_budget(code: str) -> str:
    """A budget smaller than the number of requests is refused in a configuration of its own, so it is set afterwards."""
    found = _BUDGET.search(code)
    if found is None:
        return code
    afterwards = (
        f"    config.scheduler_config.max_num_batched_tokens = {found[1]}\n    config.cache_config.num_gpu_blocks"
    )
    return _BUDGET.sub("", code).replace("    config.cache_config.num_gpu_blocks", afterwards)
