"""``kvrace check --html``: the result as one page that needs nothing but a browser.

Style and script stand in the page, and its policy lets the browser run those two and fetch nothing. What a scheduler calls
itself and what it says when it raises are somebody else's words: templates escape every value.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence

import jinja2
from markupsafe import Markup

import kvrace
from kvmodel.contract import EXACTLY_ONCE, MEANINGS
from kvmodel.port import Identity
from kvmodel.properties import PROPERTIES
from kvrace.render import terminal
from kvrace.render.conformance import conformance_line, divergence_facts
from kvrace.render.html.graph import picture_of
from kvrace.render.html.order import order_of
from kvrace.render.looks import SIGNS, count
from kvrace.render.output import printable
from kvrace.render.plain import Traces
from kvrace.render.terminal import ReplayCommand
from kvrace.result import CheckResult
from kvrace.stategraph import STATES_MAX


def page(result: CheckResult, identities: Sequence[Identity], traces: Traces, replay: ReplayCommand) -> str:
    """The whole page. ``identities`` are the schedulers that were to be checked.

    Nothing but the seconds differs between two runs of the same check.
    """
    environment = _environment()
    style, script = _own(environment, "page.css"), _own(environment, "page.js")
    numbered = terminal.numbered(result)
    return environment.get_template("page.html").render(
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
        policy=f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'",
        style=style,
        script=script,
    )


def _scope_lines(result: CheckResult) -> list[str]:
    """A run that was cut short does not know the cases it never came to."""
    if len(result.cases) < result.cases_planned:
        return [f"{result.scope_name}: {len(result.cases)} of {count(result.cases_planned, 'case')} begun"]
    return terminal.scope_lines(result.scope_name, [case.scope for case in result.cases])


def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("kvrace.render.html"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _shown(value: object) -> object:
    """Text without the characters that are obeyed and not shown; what a template has made is left as it is."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _own(environment: jinja2.Environment, name: str) -> Markup:
    """One of the package's own files, as it goes into the page. None of them has anything to escape."""
    assert environment.loader is not None
    text, _, _ = environment.loader.get_source(environment, name)
    return Markup(text)


def _hash(text: str) -> str:
    """The name by which a Content-Security-Policy allows exactly this text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
