"""The table of known answers: what was reported, and what kvrace found on every sampled release."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

from spec.known_answers.expected import Answer, answers
from spec.markdown import markdown_table

MEASURED = Path(__file__).with_name("measured.json")
_WORDS = {
    "violated": "found",
    "differently": "found, by another order",
    "hidden": "hidden behind another finding",
    "holds": "clean",
    "incomplete": "not exhausted",
    "refused": "cannot be asked",
}


def measured() -> dict[str, dict[str, dict[str, Any]]]:
    """What ``python -m spec.known_answers`` wrote: by release, oldest first, and by id."""
    read: dict[str, dict[str, dict[str, Any]]] = json.loads(MEASURED.read_text(encoding="utf-8"))
    return read


def known_answers() -> str:
    """One row for each answer."""
    rows = [_row(answer) for answer in answers()]
    head = ["bug", "reported in", "found as", "scope and contract", "shortest order", "on the sampled releases"]
    return markdown_table(head, rows)


def _row(answer: Answer) -> list[str]:
    found_as = f"`{answer.property}`" + (f", {answer.shape}" if answer.shape else "")
    found_as += f", in `{answer.function}`" if answer.function else ""
    title = f"**{answer.id}** {answer.title}" + (f" ({answer.note})" if answer.note else "")
    where = f"{answer.scope}; `{answer.contract}`"
    return [title, ", ".join(answer.threads), found_as, where, "<br>".join(answer.order), _by_release(answer)]


def _by_release(answer: Answer) -> str:
    """``found 0.9.2 to 0.15.1, clean 0.16.0 to 0.33.0``: neighbours with the same verdict together."""
    verdicts = [(release, results[answer.id]["verdict"]) for release, results in measured().items()]
    parts = []
    for verdict, group in groupby(verdicts, key=lambda pair: pair[1]):
        releases = [release for release, _ in group]
        span = releases[0] if len(releases) == 1 else f"{releases[0]} to {releases[-1]}"
        parts.append(f"{_WORDS[verdict]}: {span}")
    return "<br>".join(parts)
