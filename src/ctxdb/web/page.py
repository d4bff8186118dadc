"""What a page gets and what it returns; no page knows Datasette, HTTP or files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from ctxdb.web.links import Links
    from ctxdb.web.reading import Database


@dataclass(frozen=True, slots=True)
class Arguments:
    """The query string of a URL. Of a name that is given twice, `get` returns the last value."""

    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def get(self, name: str, default: str = "") -> str:
        """The value, without spaces around it."""
        found = self.values.get(name)
        return found[-1].strip() if found else default

    def all(self, name: str) -> tuple[str, ...]:
        """All values of this name."""
        return self.values.get(name, ())

    def number(self, name: str, default: int, most: int) -> int:
        """A whole number from 0 to `most`; the default if it is not one."""
        text = self.get(name)
        return min(int(text), most) if text.isascii() and text.isdecimal() else default


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a page."""

    db: Database
    links: Links  # URLs of other pages, and of rows and SQL in Datasette
    now: datetime  # local time, with its zone
    parts: Mapping[str, str] = field(default_factory=dict)  # the named groups of the route
    args: Arguments = field(default_factory=Arguments)


@dataclass(frozen=True, slots=True)
class Page:
    """What a page shows: a template of templates/, and the values in it."""

    template: str
    values: Mapping[str, Any]
    status: int = 200


@dataclass(frozen=True, slots=True)
class Data:
    """An answer for a script: JSON."""

    values: Any
    status: int = 200


@dataclass(frozen=True, slots=True)
class Redirect:
    """Another URL of this server."""

    url: str


Answer = Page | Data | Redirect
PageFunction = Callable[[Question], Answer]


class Missing(Exception):
    """There is no such thing; the text says what was looked for."""
