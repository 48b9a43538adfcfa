"""From the scope options to a list of scopes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kvmodel.errors import KvraceError, quoted
from kvmodel.named_scopes import named_scope
from kvmodel.scope import Scope
from kvrace.cli.options import DEFAULT_SCOPE
from kvrace.scopefile import SUFFIX, read_scopes
from kvrace.subjects import BOTH


@dataclass(frozen=True, slots=True)
class ScopeOptions:
    """The options as given; None and False are what was not given."""

    name: str | None
    requests: str | None
    blocks: int | None
    block_size: int | None = None
    prompt_blocks: int | None = None
    prompts: str | None = None
    output_tokens: int | None = None
    token_budget: int | None = None
    priorities: str | None = None
    prefix_sharing: bool = False
    early_stop: bool = False
    separate_ends: bool = False
    engine_order: bool = False

    def given(self) -> dict[str, Any]:
        """The fields of a Scope that an option sets and a named scope has set itself."""
        names = (
            "blocks",
            "block_size",
            "prompt_blocks",
            "prompts",
            "output_tokens",
            "token_budget",
            "priorities",
            "prefix_sharing",
            "early_stop",
            "separate_ends",
        )
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None and value is not False}

    def scopes(self) -> tuple[str, list[Scope]]:
        """The name to report and the cases, for both schedulers. Raises KvraceError for what does not go together."""
        given = self.given()
        if self.requests is None:
            if given:
                option = "--" + next(iter(given)).replace("_", "-")
                raise KvraceError(f"{option} goes with --requests; a named scope sets it itself")
            name = self.name or DEFAULT_SCOPE
            cases = read_scopes(Path(name)) if name.endswith(SUFFIX) else named_scope(name)
            return name, [replace(scope, engine_order=True) if self.engine_order else scope for scope in cases]
        if self.name is not None:
            raise KvraceError("--scope and --requests exclude each other: use a named scope or one of your own")
        for name, most in (("blocks", 128), ("token_budget", 2048)):
            if getattr(self, name) == 0:  # which is what a Scope takes for "not asked for"
                raise KvraceError(f"{name.replace('_', ' ')}: 0 is outside 1 to {most}")
        if self.prompts is not None:
            given["prompts"] = tuple(word.strip() for word in self.prompts.split(","))
        if self.priorities is not None:
            given["priorities"] = _numbers(self.priorities)
        kinds = tuple(kind.strip() for kind in self.requests.split(","))
        return "flags", [Scope(kinds, scheduling, engine_order=self.engine_order, **given) for scheduling in BOTH]


def _numbers(text: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if not (word.isascii() and word.isdecimal()) or len(word) > 1:
            raise KvraceError(f"--priorities {quoted(text)}: {quoted(word)} is not a number from 0 to 9")
    return tuple(map(int, words))
