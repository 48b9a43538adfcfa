"""How far a scheduler follows the specification: one line, and each divergence with the shortest order that shows it."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from kvrace.render.looks import INDENT, SIGNS, STYLES, count
from kvrace.render.swimlane import Legend, swimlane
from kvrace.result import Conformance, FoundDivergence


def conformance_line(conformance: Conformance) -> Text:
    """How many transitions follow the specification, and what is wrong with the others."""
    judged = count(conformance.judged, "transition")
    policy = f"the specification with policy {conformance.policy}"
    if not conformance.divergences:
        line = Text(f"{SIGNS['holds']} conformance  {policy} allows all {judged}", STYLES["holds"])
    else:
        excused = count(conformance.excused, "transition")
        words = f"{excused} that break a property, or come after one is broken"
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
    what = found.divergence
    look = "violated" if found.unexplained else "incomplete"
    length = count(len(found.events), "event")
    head = Text.assemble(
        (f"{SIGNS[look]} divergence", STYLES[look]), f"  {number}  ", (length, "bold"), "  ", what.words
    )
    facts = [f"observed  {what.observed}"]
    if what.nearest:
        facts.append(f"allowed   {what.nearest}")
    if what.why or what.source:
        facts.append(f"because   {'; '.join(filter(None, (what.why, what.source)))}")
    seen = count(found.times, "transition")
    excuse = (
        f", {found.unexplained:,} of which break no property" if found.unexplained else ", each with a broken property"
    )
    facts.append(f"on {seen}{excuse} · {found.scope} · {found.identity.scheduler}")
    lanes = swimlane(found.frames, None, width - INDENT, None, legend)
    return Group(head, Padding(Group(*(Text(fact, "dim") for fact in facts), lanes), (0, 0, 0, INDENT)))
