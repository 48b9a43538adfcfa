"""What a generated test has to say otherwise for an older release of vLLM: that of the trace, since no vLLM is asked here."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kvmodel.errors import KvraceError
from kvrace.reproducer.piece import Piece

_OLDEST = (0, 12, 0)
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
    return [piece if len(numbers) < 3 else piece._replace(code=_older(piece.code, numbers)) for piece in pieces]


def _older(code: str, release: tuple[int, ...]) -> str:
    if release <= (0, 16, 0):
        code = re.sub(r"^( +)pooling_params=None,$", r"\g<0>\n\1eos_token_id=None,", code, flags=re.MULTILINE)
        code = _with_the_only_budget(code)
    if release < (0, 16, 0):
        code = _SAVE_STARTS.sub(rf"{_ONCE}\g<0>", code).replace(_RUNNING, f"{_RUNNING}\n        self.saved = set()")
    if release <= (0, 13, 0):  # fields that have no default yet
        fields = r"\g<0>\n\1logprobs=None,\n\1prompt_logprobs_dict={},\n\1pooler_output=[],"
        code = re.sub(r"^( +)req_id_to_index=.*,$", fields, code, flags=re.MULTILINE)
    return code


def _with_the_only_budget(code: str) -> str:
    """A budget smaller than the number of requests is refused in a configuration of its own, so it is set afterwards."""
    found = _BUDGET.search(code)
    if found is None:
        return code
    afterwards = (
        f"    config.scheduler_config.max_num_batched_tokens = {found[1]}\n    config.cache_config.num_gpu_blocks"
    )
    return _BUDGET.sub("", code).replace("    config.cache_config.num_gpu_blocks", afterwards)
