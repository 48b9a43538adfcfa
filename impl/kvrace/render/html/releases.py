"""The matrix of releases as one page that needs nothing but a browser."""

from __future__ import annotations

from pathlib import Path

import kvrace
from kvrace.releasematrix import ReleaseMatrix
from kvrace.render import releases
from kvrace.render.html.templating import allowed, environment, own
from kvrace.render.looks import SIGNS, count
from kvrace.render.terminal import ReplayCommand


def releases_page(matrix: ReleaseMatrix, folder: Path, replay: ReplayCommand) -> str:
    """The whole page: style is in it, and there is no script."""
    templates = environment()
    style = own(templates, "page.css")
    return templates.get_template("releases.html").render(
        matrix=matrix,
        findings=matrix.findings,
        names=releases.shown_properties(matrix),
        folder=folder,
        replay=replay,
        replay_line=releases.replay_line,
        version=kvrace.__version__,
        title=f"{count(len(matrix.releases), 'release')} of vLLM over {matrix.scope_name}",
        verdict=releases.verdict_line(matrix).plain,
        legend=releases.legend(matrix),
        rows=releases.rows,
        since=releases.since,
        order_text=releases.order_text,
        count=count,
        signs=SIGNS,
        policy=f"default-src 'none'; style-src {allowed(style)}; base-uri 'none'; form-action 'none'",
        style=style,
    )
