"""The planted faults of kvrace/vllm/mutants.py as classes that an import path names, so that reproducers can name them too.

Needs kvrace: only for tests that show which faults a reproducer notices.
"""

from __future__ import annotations

from kvmodel.scope import Scope
from kvrace.vllm.api import load_api
from kvrace.vllm.mutants import _FAULTS

SCOPES: dict[str, Scope] = {}
"""Where each class is looked at."""

for _name, (_change, _, _, _scope) in _FAULTS.items():
    _class = "".join(word.capitalize() for word in _name.split("-"))
    SCOPES[_class] = _scope
    _base = _change(load_api().scheduler_class(_scope.scheduling))
    globals()[_class] = type(_class, (_base,), {"__module__": __name__, "__qualname__": _class})
