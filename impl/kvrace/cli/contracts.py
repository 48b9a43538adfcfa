"""From ``--contract`` to the one contract of a run."""

from __future__ import annotations

from collections.abc import Sequence

from kvmodel.contract import EXACTLY_ONCE, Contract
from kvmodel.errors import KvraceError


def contract_of(given: Sequence[str] | None) -> Contract:
    """What was asked for; exactly-once if nothing was. Raises KvraceError for an unknown name, and when ``--contract`` is given
    more than once: the last one would silently win."""
    named = given or [EXACTLY_ONCE]
    if len(named) > 1:
        raise KvraceError(
            f"--contract is given {len(named)} times: there is one contract; names combine in it, as in --contract duplicate,lossy"
        )
    return Contract.parse(named[0])
