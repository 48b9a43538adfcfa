"""``kvrace check --html``: the result as one page that needs nothing but a browser.

Style and script stand in the page, and its policy lets the browser run those two and fetch nothing. What a scheduler calls
itself and what it says when it raises are somebody else's words: templates escape every value.
"""

from __future__ import annotations

from collections.abc import Sequence

import kvrace
from kvmodel.contract import EXACTLY_ONCE, MEANINGS
from kvmodel.port import Identity
from kvmodel.properties import PROPERTIES
from kvrace.render import terminal
from kvrace.render.conformance import conformance_line, divergence_facts
from kvrace.render.html.graph import picture_of
from kvrace.render.html.order import order_of
from kvrace.render.html.templating import allowed, environment, own
from kvrace.render.looks import SIGNS, count
from kvrace.render.plain import Traces
from kvrace.render.terminal import ReplayCommand
from kvrace.result import CheckResult
from kvrace.stategraph import STATES_MAX


def page(result: CheckResult, identities: Sequence[Identity], traces: Traces, replay: ReplayCommand) -> str:
    """The whole page. ``identities`` are the schedulers that were to be checked.

    Nothing but the seconds differs between two runs of the same check.
    """
    templates = environment()
    style, script = own(templates, "page.css"), own(templates, "page.js")
    numbered = terminal.numbered(result)
    return templates.get_template("page.html").render(
        result=result,
        version=kvrace.__version__,
        verdict_line=terminal.verdict_line(result, identities).plain,
        who=f"{identities[0].name} {identities[0].release}".strip(),
        schedulers=list(dict.fromkeys(identity.scheduler for identity in identities)),
        scope_lines=_scope_lines(result),
        contract_lines=[*terminal.contract_lines(result.contract), f"{EXACTLY_ONCE} means: {MEANINGS[EXACTLY_ONCE]}"],
        effort=terminal.effort_line(result),
        never=terminal.never_reached(result),
        rules={rule.name: rule for rule in PROPERTIES},
        orders=[order_of(number, v, traces.get(v), replay) for number, v in enumerate(numbered, start=1)],
        pictures={
            number: picture_of(case.graph)
            for number, case in enumerate(result.cases, start=1)
            if case.graph is not None
        },
        too_large=[case.states for case in result.cases if case.graph is None],
        conformance=conformance_line(result.conformance).plain if result.conformance else "",
        divergence_facts=divergence_facts,
        states_max=STATES_MAX,
        bound=terminal.bound,
        count=count,
        signs=SIGNS,
        policy=f"default-src 'none'; style-src {allowed(style)}; script-src {allowed(script)}; base-uri 'none'; form-action 'none'",
        style=style,
        script=script,
    )


def _scope_lines(result: CheckResult) -> list[str]:
    """A run that was cut short does not know the cases it never came to."""
    if len(result.cases) < result.cases_planned:
        return [f"{result.scope_name}: {len(result.cases)} of {count(result.cases_planned, 'case')} begun"]
    return terminal.scope_lines(result.scope_name, [case.scope for case in result.cases])
