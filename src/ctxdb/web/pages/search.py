"""Search everything that was said and done; hits in context, with the ranking of `ctxdb search`."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from ctxdb.query import period
from ctxdb.query.candidates import Wanted
from ctxdb.query.guard import naming_damaged_index
from ctxdb.query.hits import gather
from ctxdb.query.resolve import project_ids
from ctxdb.query.search import search
from ctxdb.session.find import find_session
from ctxdb.store.connection import open_reader
from ctxdb.web.choices import choices
from ctxdb.web.filters import filters_from
from ctxdb.web.page import Page

if TYPE_CHECKING:
    import sqlite3

    from ctxdb.query.hits import ShownSession
    from ctxdb.query.search import Found, Hit
    from ctxdb.web.filters import Filters
    from ctxdb.web.page import Question

MOST = 20  # sessions
SNIPPET = 260  # characters around what was found
KINDS = {
    "": "Everything",
    "human": "Prompts",
    "assistant": "Replies",
    "tool": "Tool calls",
    "thinking": "Thinking",
    "title": "Titles",
    "plan": "Plans",
    "todo": "To-dos",
}
_WHO = {"human": "Prompt", "assistant": "Reply", "tool": "Call", "title": "Title"}


def page(question: Question) -> Page:
    """Show the hits, or an empty form."""
    args = question.args
    text = args.get("q")
    filters = filters_from(args, question.now.date(), default="all")
    kind = args.get("kind") if args.get("kind") in KINDS else ""
    values: dict[str, Any] = {
        "title": "Search",
        "search_text": text,
        "filters": filters,
        "choices": choices(question.db),
        "kinds": KINDS,
        "kind": kind,
        "errors": bool(args.get("errors")),
        "session": args.get("session"),
        "groups": [],
        "found": None,
    }
    if text:
        # A search makes a temporary table of words, which a guarded connection refuses. It limits
        # its own time.
        with closing(open_reader(question.db.path)) as conn:
            wanted = _wanted(conn, question, filters, kind)
            with naming_damaged_index(question.db.path, by_index=True):
                found = search(conn, text, wanted)
                shown = gather(conn, found, SNIPPET)
        values["found"] = found
        values["groups"] = [_group(question, one) for one in shown]
        values["caveat"] = _caveat(found)
        values["suggestion"] = found.suggestion
        values["missing"] = ", ".join(found.missing[:10])
    return Page("search.html", values)


def _wanted(conn: sqlite3.Connection, question: Question, filters: Filters, kind: str) -> Wanted:
    session = question.args.get("session")
    return Wanted(
        since=None if filters.first is None else period.since(str(filters.first)),
        until=None if filters.first is None else period.until(str(filters.last)),
        projects=tuple(project_ids(conn, filters.project)) if filters.project else None,
        session=find_session(conn, session) if session else None,
        model=filters.model or None,
        kind=kind or None,
        errors=bool(question.args.get("errors")),
        limit=MOST,
    )


def _group(question: Question, one: ShownSession) -> dict[str, Any]:
    links = question.links
    is_known = one.started_at is not None or bool(one.cwd)
    args = {name: value for name in ("q", "kind") if (value := question.args.get(name))}
    return {
        "title": one.title or one.id,
        "project": one.project,
        "started_at": one.started_at,
        "url": links.session(one.id) if is_known else "",
        "more": one.more,
        "more_url": links.page("search", **args, session=one.id),
        "hits": [
            {
                "who": _who(shown.hit),
                "timestamp": shown.hit.timestamp,
                "turn": shown.hit.turn,
                "url": _hit_url(question, shown.hit) if is_known else "",
                "failed": shown.hit.status == "error",
                "agent": shown.hit.agent_id is not None,
                "pieces": shown.snippet.pieces,
            }
            for shown in one.hits
        ],
    }


def _who(hit: Hit) -> str:
    if hit.source == "tool":
        return hit.tool or "Call"
    return _WHO.get(hit.kind, hit.kind.replace("_", " ").capitalize())


def _hit_url(question: Question, hit: Hit) -> str:
    return question.links.session(hit.session_id, turn=hit.turn)


def _caveat(found: Found) -> str:
    """How the hits differ from what was asked for."""
    if found.forms:
        return f"Few hits: also searched for {', '.join(found.forms)}."
    if found.depth == "fields":
        return "Found only in the names of fields in tool inputs."
    if found.lossy and found.depth == "letters":
        texts = ", ".join(word.text for word in found.lossy)
        return f"Nothing has {texts} exactly as written, so its punctuation was ignored."
    return "There was no time to look at everything." if found.is_cut else ""
