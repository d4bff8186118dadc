"""A file: every time it was read or changed, by which prompt, with diffs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from ctxdb.claude.names import FILE_PATH_KEYS
from ctxdb.claude.stored_data import json_value, readable_input
from ctxdb.render.diff import diff
from ctxdb.session.call_inputs import line_diff
from ctxdb.web import units
from ctxdb.web.page import Missing, Page

if TYPE_CHECKING:
    from ctxdb.web.page import Question
    from ctxdb.web.reading import Row

PAGE = 100  # touches
MOST_DIFF = 20_000  # characters of a change
CHANGES = ("create", "write", "edit", "notebook_edit", "delete")

_TOUCHES = """
SELECT f.timestamp, f.operation, f.succeeded, f.lines_added, f.lines_removed, f.agent_id,
  f.session_id, s.title, t.ordinal, substr(t.prompt, 1, 400) AS prompt, u.input
FROM files_touched f
LEFT JOIN sessions s ON s.id = f.session_id
LEFT JOIN turns t ON t.id = f.turn_id
LEFT JOIN tool_uses u ON u.id = f.tool_id AND f.operation IN ('edit', 'write', 'create')
WHERE f.path = :path AND f.operation <> 'snapshot' AND (:all OR f.operation <> 'read')
ORDER BY f.timestamp DESC, f.id DESC
LIMIT :limit OFFSET :offset
"""
_SUMS = """
SELECT count(*) AS touches, count(DISTINCT session_id) AS sessions, max(relative_path) AS relative,
  sum(operation = 'read' AND succeeded IS 1) AS reads,
  sum(operation NOT IN ('read', 'mention') AND succeeded IS 1) AS edits,
  coalesce(sum(CASE WHEN succeeded THEN lines_added END), 0) AS added,
  coalesce(sum(CASE WHEN succeeded THEN lines_removed END), 0) AS removed,
  min(timestamp) AS first_at, max(timestamp) AS last_at, max(project_id) AS project_id
FROM files_touched WHERE path = :path AND operation <> 'snapshot'
"""
_NEAR = """
SELECT path, count(*) AS touches FROM files_touched
WHERE instr('/' || path || '/', '/' || trim(:path, '/') || '/') > 0 AND operation <> 'snapshot'
GROUP BY path ORDER BY touches DESC LIMIT 50
"""


def page(question: Question) -> Page:
    """Show the file at a path; a part of a path lists the files that it may mean."""
    path = question.args.get("path")
    if not path:
        raise Missing("Which file? Give its path: /-/ctxdb/file?path=...")
    db, links = question.db, question.links
    (sums,) = db.sql(_SUMS, {"path": path})
    if not sums["touches"]:
        return _near(question, path)
    with_reads = question.args.get("reads") == "1"
    number = question.args.number("page", 0, 10_000)
    wanted = {"path": path, "all": with_reads, "limit": PAGE + 1, "offset": number * PAGE}
    found = db.together(
        {
            "touches": lambda: db.sql(_TOUCHES, wanted),
            "cost": lambda: db.ask("cost_of_file", params={"path": path}),
            "together": lambda: db.ask("files_together", params={"path": path}),
        }
    )
    touches = found["touches"]
    cost = [row for row in found["cost"] if row["path"] == path]
    return Page(
        "file.html",
        {
            "title": units.short_path(sums["relative"] or path),
            "path": path,
            "sums": sums,
            "cost": cost[0] if cost else None,
            "touches": [_touch(question, row, path) for row in touches[:PAGE]],
            "with_reads": with_reads,
            "toggle": links.page("file", path=path, reads="" if with_reads else "1"),
            "older": links.page("file", path=path, reads=with_reads and 1, page=number + 1)
            if len(touches) > PAGE
            else "",
            "together": found["together"][:8],
            "sql": links.rows("file_history", is_path=path, since="all"),
            "cost_sql": links.rows("cost_of_file", p_path=path),
        },
    )


def _near(question: Question, path: str) -> Page:
    rows = question.db.sql(_NEAR, {"path": path})
    if not rows:
        raise Missing(f"No session has read or changed {path!r}. The path may be a part of one.")
    return Page("files.html", {"title": "Files", "path": path, "rows": rows})


def _touch(question: Question, row: Row, path: str) -> dict[str, Any]:
    prompt = " ".join((row["prompt"] or "").split())
    return {
        **row,
        "prompt": prompt,
        "url": question.links.session(row["session_id"], turn=row["ordinal"])
        if row["session_id"]
        else "",
        "is_change": row["operation"] in CHANGES,
        "changes": _changes(row["input"], path),
    }


def _changes(text: str | None, path: str) -> list[Markup]:
    """The changes of a call as HTML; a call that writes a whole file shows all of it as new."""
    fields = json_value(text or "")
    if not isinstance(fields, dict):
        return []
    named = next((fields[key] for key in FILE_PATH_KEYS if fields.get(key)), None)
    if isinstance(named, str) and named != path:
        return []
    try:
        _, edits = readable_input(fields)
        signed = [line_diff(*edit) for edit in edits]
        content = fields.get("content")
        if not signed and isinstance(content, str):
            signed = [line_diff("", content)]
    except RecursionError:
        return []
    return [Markup(diff(_cut(one))) for one in signed]  # noqa: S704 - diff escapes every text


def _cut(text: str) -> str:
    if len(text) <= MOST_DIFF:
        return text
    whole, _, _ = text[:MOST_DIFF].rpartition("\n")
    return whole
