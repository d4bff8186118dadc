"""Which URL shows which page: one list."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

from ctxdb.web.page import PageFunction

PREFIX = "/-/ctxdb"


class Route(NamedTuple):
    """A URL below PREFIX, as a regular expression, and the page that answers it."""

    pattern: str  # its named groups become Question.parts
    page: str  # a module of ctxdb.web.pages, which has the function `page`; or module:function

    @property
    def regex(self) -> str:
        """The whole path."""
        return f"^{PREFIX}{self.pattern}$"

    def load(self) -> PageFunction:
        """Import the function. Modules are imported when their page is first asked for."""
        module, _, name = self.page.partition(":")
        found: PageFunction = getattr(import_module(f"ctxdb.web.pages.{module}"), name or "page")
        return found


ROUTES = (
    Route(r"/?", "dashboard"),
    Route(r"/session/(?P<id>[^/]+)", "session"),
    Route(r"/session/(?P<id>[^/]+)/turn/(?P<turn>[0-9c]+)", "session:turn"),
    Route(r"/session/(?P<id>[^/]+)/calls", "session:calls"),
    Route(r"/session/(?P<id>[^/]+)/agent", "session:agent"),
    Route(r"/session/(?P<id>[^/]+)/live", "session:live"),
    Route(r"/session/(?P<id>[^/]+)/find", "session:find"),
    Route(r"/rows/(?P<view>\w+)", "rows"),
    Route(r"/sessions", "sessions"),
    Route(r"/search", "search"),
    Route(r"/file", "file"),
    Route(r"/project", "group:project"),
    Route(r"/model", "group:model"),
    Route(r"/commit", "commit:commit"),
    Route(r"/pr", "commit:pull_request"),
    Route(r"/ask", "ask:index"),
    Route(r"/ask/(?P<name>\w+)", "ask"),
)
