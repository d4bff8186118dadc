"""Datasette's hooks, and nothing else. Works with Datasette 0.65 and 1.0.

It acts only if one of the open databases is ctxdb's. So a Datasette that serves other databases is
as it was.
"""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from datasette import NotFound, Response, hookimpl

from ctxdb.errors import CtxdbError, UsageError
from ctxdb.web import adapter_065, adapter_1
from ctxdb.web.facts import UNCOUNTED, Facts, read_facts
from ctxdb.web.links import Links
from ctxdb.web.ours import is_ours
from ctxdb.web.page import Arguments, Data, Missing, Page, Question, Redirect
from ctxdb.web.reading import Database
from ctxdb.web.routes import PREFIX, ROUTES
from ctxdb.web.safety import Gate
from ctxdb.web.templating import render, static_file, static_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctxdb.web.page import Answer
    from ctxdb.web.routes import Route

PAGES_AT_A_TIME = 4
FOREVER = "private, max-age=31536000, immutable"

_pages = ThreadPoolExecutor(PAGES_AT_A_TIME, thread_name_prefix="ctxdb-page")
_known_facts: WeakKeyDictionary[Any, dict[Path, tuple[int, Facts]]] = WeakKeyDictionary()
_databases: WeakKeyDictionary[Any, dict[Path, Database]] = WeakKeyDictionary()


def own_databases(datasette: Any) -> dict[str, Path]:
    """The open databases that ctxdb made: where each is, by the name that Datasette gives it."""
    return {
        name: Path(one.path)
        for name, one in datasette.databases.items()
        if one.path and is_ours(Path(one.path))
    }


def is_1_0(datasette: Any) -> bool:
    """Whether this is Datasette 1.0, which has other hooks."""
    return hasattr(datasette, "set_instance_metadata")


@hookimpl
def asgi_wrapper(datasette: Any) -> Callable[[Any], Any]:
    """Check Host and Origin, and send a Content-Security-Policy."""
    if not own_databases(datasette):
        return lambda app: app
    _print_no_texts()
    return lambda app: gate(datasette, _without_counts(datasette, app))


def _without_counts(datasette: Any, app: Any) -> Any:
    """Leave out the number of rows on pages of views whose counting would take seconds."""
    base = datasette.setting("base_url").rstrip("/")

    async def asked(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            _, _, view = scope["path"].removeprefix(base).strip("/").partition("/")
            query = scope.get("query_string", b"")
            if view in UNCOUNTED and b"_nocount" not in query:
                scope = {**scope, "query_string": b"&".join(filter(None, (query, b"_nocount=1")))}
        await app(scope, receive, send)

    return asked


def _print_no_texts() -> None:
    """Where rich is installed, Datasette prints the local variables of every failed request.

    These have transcript texts in them. (And a 404 becomes a 500, because rich finds no error to
    print.)
    """
    handler: Any = import_module("datasette.handle_exception")
    if hasattr(handler, "rich"):
        handler.rich = None


def gate(datasette: Any, app: Any) -> Gate:
    """The checks around an application, with the hosts that the configuration allows."""
    given = datasette.plugin_config("ctxdb") or {}
    hosts = given.get("hosts") or ()
    allowed = tuple(map(str, hosts)) if isinstance(hosts, list | tuple) else (str(hosts),)
    return Gate(app, allowed, datasette.setting("base_url"))


@hookimpl
def get_metadata(datasette: Any) -> dict[str, Any]:
    """Titles and descriptions, for Datasette 0.65."""
    made: dict[str, Any] = {"databases": {}}
    for name, path in own_databases(datasette).items():
        made["databases"] |= adapter_065.metadata(_facts(datasette, path), name)["databases"]
    return made if made["databases"] else {}


@hookimpl
def canned_queries(datasette: Any, database: str) -> dict[str, Any]:
    """Canned queries, for Datasette 0.65."""
    found = own_databases(datasette)
    return adapter_065.queries(_facts(datasette, found[database])) if database in found else {}


@hookimpl
def startup(datasette: Any) -> Callable[[], Any]:
    """Titles, descriptions and queries, for Datasette 1.0."""

    async def tell() -> None:
        if is_1_0(datasette):
            for database, path in own_databases(datasette).items():
                await adapter_1.tell(datasette, _facts(datasette, path), database)

    return tell


@hookimpl
def extra_js_urls(datasette: Any) -> list[str]:
    """Ctrl-K, and short columns first, on Datasette's own pages."""
    if not own_databases(datasette):
        return []
    return [static_url(_links(datasette), "datasette.js")]


@hookimpl
def menu_links(datasette: Any) -> list[dict[str, str]]:
    """Lead from Datasette's pages to ours."""
    if not own_databases(datasette):
        return []
    links = _links(datasette)
    pages = (("Dashboard", links.page()), ("Sessions", links.page("sessions")))
    return [{"href": url, "label": name} for name, url in pages]


@hookimpl
def register_routes(datasette: Any) -> list[tuple[str, Callable[..., Any]]]:
    """Our pages, and the files that they need."""
    if not own_databases(datasette):
        return []
    pages = [(route.regex, _view(route)) for route in ROUTES]
    return [(rf"^{PREFIX}/static/(?P<name>[\w.-]+)$", _static), *pages]


def _facts(datasette: Any, path: Path) -> Facts:
    """The facts of a database, read once for as long as it is the same file."""
    kept = _known_facts.setdefault(datasette, {})
    stamp = _stamp(path)
    known = kept.get(path)
    if known is None or known[0] != stamp:
        known = kept[path] = (stamp, read_facts(path))
    _, facts = known
    return facts


def _stamp(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def _links(datasette: Any, name: str = "") -> Links:
    return Links(
        database=datasette.databases[name].route if name else "",
        base=datasette.setting("base_url").rstrip("/"),
        query_path="/-/query" if is_1_0(datasette) else "",
    )


def _view(route: Route) -> Callable[..., Any]:
    async def view(datasette: Any, request: Any) -> Response:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(_pages, _answer, datasette, request, route)

    return view


def _answer(datasette: Any, request: Any, route: Route) -> Response:
    found = own_databases(datasette)
    if not found:
        raise NotFound("no database of ctxdb is open")
    (name, path), *_ = found.items()
    links = _links(datasette, name)
    now = datetime.now().astimezone()
    question = Question(
        db=_database(datasette, path),
        links=links,
        now=now,
        parts=request.url_vars,
        args=Arguments({key: tuple(request.args.getlist(key)) for key in request.args}),
    )
    try:
        answer: Answer = route.load()(question)
    except Missing as e:
        answer = _problem("There is nothing here", str(e), 404)
    except UsageError as e:
        answer = _problem("This cannot be answered", str(e), 400)
    except CtxdbError as e:
        answer = _problem("The database cannot be read", str(e), 503)
    return _response(answer, links, now)


def _problem(what: str, why: str, status: int) -> Page:
    return Page("problem.html", {"title": what, "why": why}, status)


def _response(answer: Answer, links: Links, now: datetime) -> Response:
    fresh = {"cache-control": "no-store"}
    match answer:
        case Redirect(url):
            return Response.redirect(url)
        case Data(values, status):
            text = json.dumps(values, ensure_ascii=True)
            return Response(text, status=status, content_type="application/json", headers=fresh)
        case Page():
            return Response.html(render(answer, links, now), status=answer.status, headers=fresh)


def _database(datasette: Any, path: Path) -> Database:
    kept = _databases.setdefault(datasette, {})
    if path not in kept:
        kept[path] = Database(path)
    return kept[path]


def close(datasette: Any) -> None:
    """Close the connections of our pages."""
    for one in _databases.pop(datasette, {}).values():
        one.close()


async def _static(request: Any) -> Response:
    found = static_file(request.url_vars["name"])
    if found is None:
        raise NotFound("no such file")
    body, kind, digest = found
    is_this = request.args.get("v") == digest
    headers = {"cache-control": FOREVER if is_this else "no-cache"}
    return Response(body.decode(), content_type=kind, headers=headers)
