"""A page as a tree, read strictly, and pages made without the command line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

from kvmodel.contract import Contract
from kvmodel.properties import PROPERTY_NAMES
from kvmodel.scope import Scope
from kvrace.check import check
from kvrace.render.html import page
from kvrace.render.terminal import ReplayCommand
from kvrace.result import CheckResult
from kvrace.subjects import choose_subject

_VOID = {"meta", "br", "img", "link", "input", "hr"}


@dataclass
class Element:
    """``parts`` are texts and elements in their order."""

    tag: str
    attributes: dict[str, str]
    parts: list[Element | str] = field(default_factory=list)

    def __iter__(self) -> Iterator[Element]:
        """This element and all within it."""
        yield self
        for part in self.parts:
            if isinstance(part, Element):
                yield from part

    def all(self, tag: str, **wanted: str) -> list[Element]:
        """Elements by name, class (``of``) and attributes; ``_`` stands for ``-``."""
        of = wanted.pop("of", "")
        return [
            e
            for e in self
            if e.tag == tag
            and (not of or of in e.attributes.get("class", "").split())
            and all(e.attributes.get(name.replace("_", "-")) == value for name, value in wanted.items())
        ]

    def one(self, tag: str, **wanted: str) -> Element:
        (found,) = self.all(tag, **wanted)
        return found

    @property
    def text(self) -> str:
        """As a reader sees it: blanks are one blank."""
        return " ".join("".join(self._texts()).split())

    def _texts(self) -> Iterator[str]:
        for part in self.parts:
            if isinstance(part, str):
                yield part
            else:
                yield from part._texts()
                yield " " if part.tag in ("td", "th", "tr", "p", "dd", "dt", "div") else ""


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"an attribute twice in {self.get_starttag_text()}"
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].parts.append(element)
        if tag not in _VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert any(e.tag == "svg" for e in self.open), "only SVG closes elements like this"
        self.open[-1].parts.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().tag == tag, f"</{tag}> at {self.getpos()} closes something else"

    def handle_data(self, data: str) -> None:
        self.open[-1].parts.append(data)


def parse(text: str) -> Element:
    """The tree of a page. Fails on anything that is not closed in the order in which it was opened."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == [reader.root]
    return reader.root


def result_of(*scopes: Scope, policy: str = "assert", contract: str = "exactly-once") -> CheckResult:
    """A check of the reference scheduler."""
    choice = choose_subject("reference", policy)
    return check(choice.make, scopes, Contract.parse(contract), properties=PROPERTY_NAMES)


def page_of(result: CheckResult) -> str:
    """The page of a result, as if traces had been written."""
    traces = {violation: Path(f"kvrace-traces/{n}.itf.json") for n, violation in enumerate(result.violations)}
    return page(result, [case.identity for case in result.cases], traces, ReplayCommand())
