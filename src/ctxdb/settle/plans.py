"""Plans of sessions, worked out again from stored calls, turns and files."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from ctxdb.claude.names import EXIT_PLAN_MODE
from ctxdb.claude.side_contents import PLAN, proposed_plan
from ctxdb.elsewhere import split_name
from ctxdb.rules.plans import Key, PlanFile, Planner, Proposal, plans_of
from ctxdb.settle.differences import write_differences
from ctxdb.settle.todos import LISTS
from ctxdb.side_rows import Plan
from ctxdb.store.insert import load
from ctxdb.store.lookup import first_column, json_list, look_up

_CALLS = (
    "SELECT t.session_id, t.input, r.plan, r.file_path, t.started_at"
    f" FROM j CROSS JOIN tool_uses t ON t.session_id = j.value AND {LISTS}"
    f" LEFT JOIN _tool_results r ON r.tool_id = t.id WHERE t.name = '{EXIT_PLAN_MODE}'"
)
_TURNS = (
    "SELECT t.session_id, t.prompt, t.started_at FROM j"
    " CROSS JOIN turns t ON t.session_id = j.value WHERE t.kind = 'plan'"
)
_SLUGS = "SELECT slug FROM j CROSS JOIN sessions s ON s.id = j.value WHERE slug IS NOT NULL"
_OLD_SLUGS = (
    "SELECT slug FROM j CROSS JOIN plans p ON p.session_id = j.value WHERE slug IS NOT NULL"
)
_ANY_FILE = "SELECT 1 FROM _side_files WHERE slug IS NOT NULL LIMIT 1"
_FILES = (
    "SELECT s.slug, s.path, s.content, s.at FROM j CROSS JOIN _side_files s ON s.slug = j.value"
    f" WHERE s.kind = '{PLAN}' AND s.content IS NOT NULL"
)
_SHARING = "SELECT s.id FROM j CROSS JOIN sessions s ON s.slug = j.value"
_SESSIONS = "SELECT s.id, s.slug, s.started_at FROM j CROSS JOIN sessions s ON s.id = j.value"
_STORED = (
    "WHERE t.session_id IN (SELECT value FROM json_each(?))"
    " OR t.slug IN (SELECT value FROM json_each(?)) AND t.source = 'file'"
)


def refresh_plans(
    conn: sqlite3.Connection, sessions: Iterable[str], slugs: Iterable[str] = ()
) -> None:
    """Work out the plans of these sessions again, and of those that share a slug with one."""
    names, named = set(sessions), set(slugs)
    if not names and not named:
        return
    if named or conn.execute(_ANY_FILE).fetchone():
        for sql in (_SLUGS, _OLD_SLUGS):
            named.update(first_column(look_up(conn, names, sql)))
        names.update(first_column(look_up(conn, named, _SHARING)))
    proposals = [
        Proposal(session_id, EXIT_PLAN_MODE, text, path, at)
        for session_id, tool_input, plan, path, at in look_up(conn, names, _CALLS)
        if (text := (proposed_plan(tool_input) or plan or "").strip())
    ]
    proposals += [
        Proposal(session_id, "planContent", text, None, at)
        for session_id, text, at in look_up(conn, names, _TURNS)
        if text.strip()
    ]
    files = []
    for slug, name, text, at in look_up(conn, named, _FILES):
        _, place = split_name(name)
        files.append(PlanFile(slug, place, text, at))
    stored: dict[Key, Plan] = {}
    for plan in load(conn, Plan, _STORED, (json_list(names), json_list(named))):
        path = plan.path if plan.source == "file" else None
        stored[(plan.session_id, path, plan.text)] = plan
    if proposals or files or stored:
        planners = [Planner(*values) for values in look_up(conn, names, _SESSIONS)]
        write_differences(conn, Plan, stored, plans_of(planners, proposals, files))
