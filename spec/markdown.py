"""Tables in Markdown."""

from __future__ import annotations


def markdown_table(head: list[str], rows: list[list[str]]) -> str:
    """A table with its head; bars inside of cells are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"
