"""What the tests of random orders share."""

from __future__ import annotations

import os
from functools import cache

from hypothesis import settings

from kvmodel.port import Subject
from kvmodel.profiles import PROFILES
from kvmodel.scope import Scope
from kvmodel.strategies import scopes
from kvrace.reference.subject import ReferenceSubject
from kvrace.subjects import choose_subject
from kvrace.vllm.subject import VllmSubject

STEPS = 10_000 * (20 if os.environ.get("KVRACE_PROFILE") == "nightly" else 1)
"""Steps that must be silent where everything holds: in CI, and with ``--kvrace-profile nightly``."""
FROM_NOTHING = settings(PROFILES["ci"], max_examples=1_000, database=None)
"""Always the same runs, and no example database to remember a failing one."""
REFERENCE_SCOPES = scopes(token_budgets=False, priorities=False)


@cache
def vllm(scope: Scope) -> Subject:
    return VllmSubject(scope)


@cache
def fixed(scope: Scope) -> Subject:
    return choose_subject("fixed", None).make(scope)


@cache
def reference(policy: str, scope: Scope) -> Subject:
    return ReferenceSubject(scope, policy)
