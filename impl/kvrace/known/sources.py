"""Whether the vLLM on this machine has the text that was checked or read, found out from its files alone.

A release is known by its text and not by its number: an operator may run a patched one, or another build of the same release.
Compared is the text without empty lines and what ends lines, and for a symbol only its own lines, decorators and all, as if it
stood at the margin. Indentation counts: in Python it is meaning.
"""

from __future__ import annotations

import ast
from functools import cache
from hashlib import sha256
from pathlib import Path

SCHEDULER_FOLDER = "v1/core"
"""Below the folder of the package: the scheduler, the block pool and everything between them."""
SCHEDULER_FILES = ("v1/request.py",)
_LARGEST = 4_000_000
_Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def scheduler_digests(package: Path) -> dict[str, str]:
    """Of every file that decides what the scheduler answers, its digest, by its path below ``package``."""
    found = [*package.joinpath(SCHEDULER_FOLDER).rglob("*.py"), *(package / name for name in SCHEDULER_FILES)]
    texts = {path.relative_to(package).as_posix(): _text(path) for path in sorted(found)}
    return {name: _digest(text.split("\n")) for name, text in texts.items() if text is not None}


def symbol_digest(package: Path, place: str) -> str | None:
    """The digest of ``path:Class.method``, ``path:function``, ``path:NAME`` or ``path:register("name")`` below ``package``, or of a
    whole file, ``path``; None where it is not."""
    name, _, symbol = place.partition(":")
    if not symbol:
        text = _text(package / name)
        return None if text is None else _digest(text.split("\n"))
    return _definitions(package / name).get(symbol)


@cache
def _definitions(path: Path) -> dict[str, str]:
    """Every class and function of a file by its qualified name, with the digest of its lines; also what the module gives a name to,
    and its calls whose first argument is a text, as ``called("text")``."""
    text = _text(path)
    if text is None:
        return {}
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    lines, found = text.split("\n"), dict[str, str]()  # as Python counts them, not as str.splitlines does

    def enter(node: ast.AST, prefix: str) -> None:
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, _Definition):
                name = f"{prefix}{inner.name}"
                first = min([inner.lineno, *(decorator.lineno for decorator in inner.decorator_list)])
                margin = " " * inner.col_offset
                found[name] = _digest([line.removeprefix(margin) for line in lines[first - 1 : inner.end_lineno]])
                if isinstance(inner, ast.ClassDef):
                    enter(inner, f"{name}.")

    enter(tree, "")
    for node in tree.body:
        name = _name_of(node)
        if name:
            found[name] = _digest(lines[node.lineno - 1 : node.end_lineno])
    return found


def _name_of(node: ast.stmt) -> str:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
        case ast.Expr(value=ast.Call(func=called, args=[ast.Constant(value=str(first)), *_])):
            return f'{ast.unparse(called)}("{first}")'
    return ""


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8") if path.stat().st_size <= _LARGEST else None
    except (OSError, UnicodeDecodeError):
        return None


def _digest(lines: list[str]) -> str:
    text = "\n".join(line.rstrip() for line in lines if line.strip())
    return sha256(text.encode()).hexdigest()[:16]
