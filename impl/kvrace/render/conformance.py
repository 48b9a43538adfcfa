"""How far a scheduler follows the specification: one line, and each divergence with the shortest order that shows it."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from kvrace.render.looks import INDENT, SIGNS, STYLES, count
from kvrace.render.swimlane import Legend, swimlane
from kvrace.result import Conformance, FoundDivergence

_EXCUSED = "all with a broken property, or from a state in which one of the relation is false"


def conformance_line(conformance: Conformance) -> Text:
    """How many transitions follow the specification, and what is wrong with the others."""
    judged = count(conformance.judged, "transition")
    policy = f"the specification with policy {conformance.policy}"
    if not conformance.divergences:
        line = Text(f"{SIGNS['holds']} conformance  {policy} allows all {judged}", STYLES["holds"])
    else:
        excused = count(conformance.excused, "transition")
        words = f"{excused} that break a property, or begin where one of the relation is false"
        if conformance.unexplained:
            sign, style = SIGNS["violated"], STYLES["violated"]
            more = f", and {words}" if conformance.excused else ""
            forbids = f"forbids {conformance.unexplained:,} of {judged} that break no property{more}"
        else:
            sign, style = SIGNS["holds"], STYLES["holds"]
            forbids = f"forbids only what is found above: of {judged}, {words}"
        line = Text(f"{sign} conformance  {policy} {forbids}", style)
    if conformance.not_judged:
        line.append(f"; {conformance.not_judged:,} were not judged, since a transfer was lost", "dim")
    return line


def divergence(found: FoundDivergence, number: str, width: int, legend: Legend) -> RenderableType:
    """One divergence: what the specification asks for, what was observed, the nearest step it allows, and the shortest order."""
    look = "violated" if found.unexplained else "incomplete"
    length = count(len(found.events), "event")
    head = Text.assemble(
        (f"{SIGNS[look]} divergence", STYLES[look]), f"  {number}  ", (length, "bold"), "  ", found.divergence.words
    )
    facts = [Text(f"{name:<9} {text}", "dim") for name, text in divergence_facts(found)]
    lanes = swimlane(found.frames, None, width - INDENT, None, legend)
    return Group(head, Padding(Group(*facts, lanes), (0, 0, 0, INDENT)))


def divergence_facts(found: FoundDivergence) -> list[tuple[str, str]]:
    """What every report says of a divergence, beside its words and its order: each fact with its name."""
    what = found.divergence
    seen = count(found.times, "transition")
    excuse = f"{found.unexplained:,} of which break no property" if found.unexplained else _EXCUSED
    facts = {
        "observed": what.observed,
        "allowed": what.nearest or "",
        "because": "; ".join(filter(None, (what.why, what.source))),
        "on": f"{seen}, {excuse} · {found.scope} · {found.identity.scheduler}",
    }
    return [(name, text) for name, text in facts.items() if text]


def divergence_text(found: FoundDivergence) -> str:
    """One divergence in plain lines."""
    facts = [f"{name} {text}" for name, text in divergence_facts(found)]
    order = [f"  {number}  {event}" for number, event in enumerate(found.events, start=1)]
    return "\n".join([found.divergence.words, *facts, "order", *order])
