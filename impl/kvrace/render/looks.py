"""What all reports on the terminal have in common: signs and colours of verdicts, and how things are counted."""

from __future__ import annotations

STYLES: dict[str, str] = {"holds": "green", "violated": "bold red", "incomplete": "yellow"}
SIGNS: dict[str, str] = {"holds": "✓", "violated": "✗", "incomplete": "?"}
INDENT = 2


def count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
