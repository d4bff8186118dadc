"""Our own Jinja environment: it escapes everything, and knows the units of the pages."""

from __future__ import annotations

import hashlib
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from ctxdb import __version__
from ctxdb import render as ctxdb_render
from ctxdb.escape import safe
from ctxdb.web import units

if TYPE_CHECKING:
    from ctxdb.web.links import Links
    from ctxdb.web.page import Page

_FOLDER = Path(__file__).parent
STATIC = _FOLDER / "static"
RENDERED = Path(ctxdb_render.__file__).with_name("rendered.css")
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


@cache
def _environment(*, for_site: bool = False) -> Environment:
    templates = _FOLDER / "templates"
    made = Environment(
        # A site of files has a frame of its own.
        loader=FileSystemLoader([templates / "site", templates] if for_site else templates),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    for name in ("money", "tokens", "count", "share", "duration", "hours", "size"):
        made.filters[name] = getattr(units, name)
    return made


def _shown(value: Any) -> Any:
    """Show characters that hide or turn text as escapes; Jinja escapes markup after this."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else safe(value)


def render(page: Page, links: Links, now: datetime, *, for_site: bool = False) -> str:
    """The text of a page."""
    template = _environment(for_site=for_site).get_template(page.template)
    shared = {
        "links": links,
        "now": now,
        "ctxdb_version": __version__,
        "static": partial(static_url, links),
        "when": partial(when, now=now),
        "ago": partial(units.ago, now=now),
    }
    return template.render({**shared, **page.values})


def when(timestamp: str | None, now: datetime) -> Markup:
    """A <time> element: short and local, with the full time in its title."""
    short = units.short_time(timestamp, now)
    if not short:
        return Markup("")
    full = units.full_time(timestamp)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        escape(timestamp or ""), full, short
    )


def static_url(links: Links, name: str) -> str:
    """The URL of a file in static/, which changes when the file does."""
    return links.page(f"static/{name}", v=_digest(name))


@cache
def _digest(name: str) -> str:
    return hashlib.sha256(_path(name).read_bytes()).hexdigest()[:16]


def _path(name: str) -> Path:
    """Where a file is; the style of rendered transcripts is beside what renders them."""
    return RENDERED if name == RENDERED.name else STATIC / name


def static_file(name: str) -> tuple[bytes, str, str] | None:
    """The bytes, type and digest of a file in static/; None if there is none of that name."""
    path = _path(name)
    known = {RENDERED.name, *(one.name for one in STATIC.iterdir() if one.is_file())}
    if name not in known or path.suffix not in TYPES:
        return None
    return path.read_bytes(), TYPES[path.suffix], _digest(name)
