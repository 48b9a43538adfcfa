"""What all pages are made with."""

from __future__ import annotations

import base64
import hashlib

import jinja2
from markupsafe import Markup

from kvrace.render.output import printable


def environment() -> jinja2.Environment:
    """The templates of all pages. Every value is escaped."""
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


def own(templates: jinja2.Environment, name: str) -> Markup:
    """One of the package's own files, as it goes into the page. None of them has anything to escape."""
    assert templates.loader is not None
    text, _, _ = templates.loader.get_source(templates, name)
    return Markup(text)


def allowed(text: str) -> str:
    """The name by which a Content-Security-Policy allows exactly this text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
