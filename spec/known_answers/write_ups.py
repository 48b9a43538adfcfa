"""What spec/findings.md says of each finding that is written up: prose by hand, everything else from what was measured."""

from __future__ import annotations

import json
import re
import textwrap
import tomllib
from dataclasses import dataclass
from pathlib import Path

from spec.known_answers.expected import Answer, answers
from spec.known_answers.table import measured
from spec.markdown import markdown_table

from kvrace.lab.catalogue import catalogue

FILE = Path(__file__).with_name("write_ups.toml")
EXPORTED = Path(__file__).with_name("exported.json")


@dataclass(frozen=True, slots=True)
class WriteUp:
    """One finding. ``answers``: the ids under which it was measured. ``reported``: where, and what became of it; empty where no
    report was seen. ``why``, ``consequence`` and ``fix`` are empty where the page has a section of its own."""

    title: str
    answers: tuple[str, ...]
    reported: str
    why: str = ""
    consequence: str = ""
    fix: str = ""

    @property
    def measured(self) -> list[Answer]:
        by_id = {answer.id: answer for answer in answers()}
        return [by_id[name] for name in self.answers]

    @property
    def link(self) -> str:
        """The title as a link to its heading, which GitHub names so."""
        slug = re.sub(r"[^\w\- ]", "", self.title.lower()).replace(" ", "-")
        return f"[{self.title}](#{slug})"


def write_ups() -> list[WriteUp]:
    """In the order of the file."""
    read = tomllib.loads(FILE.read_text(encoding="utf-8"))["write_up"]
    return [WriteUp(**{**one, "answers": tuple(one["answers"])}) for one in read]


def exported() -> dict[str, dict[str, str]]:
    """What became of the exported tests, by id and release: ``fails``, ``passes``, or why the order cannot be exported."""
    seen: dict[str, dict[str, str]] = json.loads(EXPORTED.read_text(encoding="utf-8"))
    return seen


def finding_list() -> str:
    """The table at the top of the page."""
    newest = catalogue()[-1].version
    rows = []
    for one in write_ups():
        found = one.measured
        properties = dict.fromkeys(f"`{answer.property}`" for answer in found)
        last = {answer.has_it[1] for answer in found}
        rows.append(
            [
                one.link,
                ", ".join(properties),
                "<br>".join(dict.fromkeys(f"{first} to {last}" for first, last in (answer.has_it for answer in found))),
                "yes" if newest in last else "no",
                one.reported or "not as far as was seen",
            ]
        )
    return markdown_table(["finding", "property", "releases", f"open in {newest}", "reported"], rows)


def not_reported() -> str:
    return _blocks([one for one in write_ups() if not one.reported])


def reported() -> str:
    return _blocks([one for one in write_ups() if one.reported and one.why])


def _blocks(chosen: list[WriteUp]) -> str:
    return "\n\n".join(map(_block, chosen)) + "\n"


def _block(one: WriteUp) -> str:
    lines = [f"### {one.title}", ""]
    for answer in one.measured:
        last = answer.has_it[1]
        lines += [
            _item(f"**{answer.id}**: `{answer.property}`, blame {answer.blame}, contract `{answer.contract}`."),
            _item(f"Releases: {_releases(answer)}.", 1),
            _item(f"Scope: {answer.scope}.", 1),
            _item(f"Order: {_order(answer)}.", 1),
            _item(f"Line that decided it, in {last}: `{measured()[last][answer.id]['location']}`.", 1),
            _item(f"Seen: replayed from its trace file; {_shown(answer)}.", 1),
        ]
    for word, text in (("Why", one.why), ("Consequence", one.consequence), ("What would fix it", one.fix)):
        lines.append(_item(f"**{word}.** {text}"))
    lines.append(_item(f"**Reported.** {one.reported or 'Not as far as was seen'}."))
    return "\n".join(lines)


def _item(text: str, level: int = 0) -> str:
    """One item of a list; ``level`` says how deep."""
    indent = "  " * level
    return textwrap.fill(
        " ".join(text.split()),
        132,
        initial_indent=f"{indent}* ",
        subsequent_indent=f"{indent}  ",
        break_on_hyphens=False,
    )


def _order(answer: Answer) -> str:
    events = measured()[answer.has_it[1]][answer.id]["order"]
    before, loop = events, []
    if answer.shape == "never at rest":
        before, loop = events[: len(answer.order)], events[len(answer.order) :]
    said = ", ".join(f"`{event}`" for event in before)
    return said + (f", then for ever {', '.join(f'`{event}`' for event in loop)}" if loop else "")


def _releases(answer: Answer) -> str:
    first, last = answer.has_it
    after = f"gone in {answer.gone_in}" if answer.gone_in else "still there"
    refused = [version for version, said in measured().items() if said[answer.id]["verdict"] == "refused"]
    before = f", cannot be asked before {first}" if refused and refused[-1] == _before(first) else ""
    return f"{first} to {last}, {after}{before}"


def _before(version: str) -> str:
    """The sampled release before this one."""
    order = list(measured())
    return order[order.index(version) - 1]


def _shown(answer: Answer) -> str:
    """Whether it was seen without kvrace."""
    seen = exported()[answer.id]
    verdicts = [f"{verdict} on {version}" for version, verdict in seen.items() if verdict in ("fails", "passes")]
    return f"the exported test {' and '.join(verdicts)}" if verdicts else "it cannot be exported as a test"


WRITE_UP_TABLES = {"finding-list": finding_list, "not-reported": not_reported, "reported": reported}
