"""Links of a site of files: to its own pages; to nothing where only a server could answer."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ctxdb.web.links import Links

if TYPE_CHECKING:
    from collections.abc import Mapping

NOWHERE = "nowhere:"
FILES = "files"  # the folder of styles and scripts
SESSIONS = "session"  # the folder of sessions
_NO_LINK = re.compile(rf'\s(?:href|action)="{NOWHERE}[^"]*"')
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


def session_file(session_id: str, number: int = 1) -> str:
    """The name of a page of a session."""
    name = _UNSAFE.sub("_", session_id)[:100]
    return f"{name}.html" if number == 1 else f"{name}-{number}.html"


def without_dead_links(html: str) -> str:
    """The page, in which links that lead nowhere are only text."""
    return _NO_LINK.sub("", html)


@dataclass(frozen=True, slots=True)
class SiteLinks(Links):
    """Links between files; `up` leads from the page to the top of the site."""

    up: str = ""
    sessions: frozenset[str] = field(default_factory=frozenset)  # that have a page

    def page(self, name: str = "", /, **args: object) -> str:  # noqa: ARG002
        """The dashboard, the list of sessions, a file of styles; no other page exists."""
        if name.startswith("static/"):
            return f"{self.up}{FILES}/{name.removeprefix('static/')}"
        return {"": f"{self.up}index.html", "sessions": f"{self.up}sessions.html"}.get(
            name, NOWHERE
        )

    def session(self, session_id: str, *, turn: int | None = None) -> str:
        """The page of a session, if the site has it."""
        if session_id not in self.sessions:
            return NOWHERE
        anchor = "" if turn is None else f"#turn-{turn}"
        return f"{self.up}{SESSIONS}/{session_file(session_id)}{anchor}"

    def table(self, table: str, **filters: object) -> str:  # noqa: ARG002
        """Nothing: there is no database."""
        return NOWHERE

    def sql(self, sql: str, values: Mapping[str, object] | None = None) -> str:  # noqa: ARG002
        """Nothing: there is no database."""
        return NOWHERE
