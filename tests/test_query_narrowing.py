"""Every view that can be narrowed is narrowed rightly: the parts make up the whole."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import pytest

from ctxdb.query.statement import Ask, statement_for
from ctxdb.store import sql_files
from demo_db import demo_folder

# A night without work: no block, session or turn is on both sides of it.
BEFORE, AFTER = "2026-09-15", "2026-09-16"
# What can be added up, best first; without any of these each row counts.
ADDED = ("requests", "calls", "lines", "errors", "reads", "turns")


# Of each session: a plan, two to-dos, a prompt that no transcript has and a key that is not known.
MORE_ROWS = """
INSERT INTO plans (session_id, text, updated_at, source)
  SELECT id, '# Plan of ' || id, started_at, 'ExitPlanMode' FROM sessions;
INSERT INTO todos (session_id, subject, status, updated_at, source)
  SELECT id, 'first of ' || id, 'pending', started_at, 'TodoWrite' FROM sessions
  UNION ALL SELECT id, 'last of ' || id, 'completed', ended_at, 'TodoWrite' FROM sessions;
INSERT INTO history (timestamp, project_path, session_id, prompt)
  SELECT s.started_at, p.path, s.id, 'asked in ' || s.id
  FROM sessions s JOIN projects p ON p.id = s.project_id;
UPDATE messages SET extra = json_object('key of ' || session_id, 1)
  WHERE id IN (SELECT min(id) FROM messages WHERE timestamp IS NOT NULL GROUP BY session_id);
"""


@cache
def demo_with_more_rows() -> sqlite3.Connection:
    """The demo's database, with rows for views that are empty or nearly empty in the demo."""
    conn = sqlite3.connect(":memory:")
    with closing(sqlite3.connect(f"file:{demo_folder() / 'demo.db'}?mode=ro", uri=True)) as demo:
        demo.backup(conn)
    conn.executescript(MORE_ROWS)
    conn.execute("PRAGMA query_only = 1")
    return conn


@pytest.fixture
def db() -> sqlite3.Connection:
    return demo_with_more_rows()


def size(db: sqlite3.Connection, view: sql_files.SqlFile, **how: Any) -> int:
    statement = statement_for(Ask(view.name, **how), db)
    cursor = db.execute(statement.sql, statement.values)
    names = [column[0] for column in cursor.description]
    rows = cursor.fetchall()
    is_summed = any(one.table for one in view.filters["since"])
    for name in ADDED if is_summed and view.name != "replies" else ():  # its calls are names
        if name in names:
            return sum(row[names.index(name)] for row in rows)
    return len(rows)


def narrowed_by(option: str) -> list[sql_files.SqlFile]:
    return [view for view in sql_files.all_views() if option in view.filters]


@pytest.mark.parametrize("view", narrowed_by("since"), ids=lambda view: view.name)
def test_before_and_after_a_day_make_up_the_whole(
    db: sqlite3.Connection, view: sql_files.SqlFile
) -> None:
    whole = size(db, view, since="all")
    assert whole > 0 or view.name == "unpriced_models"  # every model of the demo has a price
    before = size(db, view, until=BEFORE)
    after = size(db, view, since=AFTER)
    if view.filters["since"] == view.filters["until"]:
        assert before + after == whole
    else:  # a row is of a stretch of time, and may reach into both
        assert before + after >= whole


@pytest.mark.parametrize("view", narrowed_by("session"), ids=lambda view: view.name)
def test_all_sessions_make_up_the_whole(db: sqlite3.Connection, view: sql_files.SqlFile) -> None:
    if "since" not in view.filters:
        pytest.skip("not of a period")
    sessions = [row[0] for row in db.execute("SELECT id FROM sessions")]
    parts = sum(size(db, view, since="all", session=session) for session in sessions)
    assert parts == size(db, view, since="all")


@pytest.mark.parametrize("view", narrowed_by("project"), ids=lambda view: view.name)
def test_all_projects_make_up_the_whole(db: sqlite3.Connection, view: sql_files.SqlFile) -> None:
    if "since" not in view.filters:
        pytest.skip("not of a period")
    names = {row[0] for row in db.execute("SELECT name FROM projects")}
    parts = sum(size(db, view, since="all", project=name) for name in names)
    assert parts == size(db, view, since="all")


@pytest.mark.parametrize("view", narrowed_by("model"), ids=lambda view: view.name)
def test_all_models_make_up_the_whole(db: sqlite3.Connection, view: sql_files.SqlFile) -> None:
    models = [row[0] for row in db.execute("SELECT DISTINCT model FROM usage")]
    assert not any(a != b and a in b for a in models for b in models)
    parts = sum(size(db, view, since="all", model=model) for model in models)
    whole = size(db, view, since="all")
    # Rows that name several models, or that no request belongs to.
    assert parts == whole if view.filters["model"][0].table else parts >= whole // 2


@pytest.mark.parametrize(
    "how",
    [{"model": "haiku"}, {"since": AFTER}, {"until": BEFORE, "model": "opus"}, {"session": "last"},
     {"until": BEFORE, "project": "lantern"}],
    ids=str,
)  # fmt: skip
def test_a_session_costs_the_same_from_both_sides(
    db: sqlite3.Connection, how: dict[str, Any]
) -> None:
    names = ("requests", "total_tokens", "output_tokens", "cost_usd", "cost_own_usd")

    def found(view: str) -> dict[str, list[Any]]:
        of_all = rows(db, view, **{"since": "all"} | how)
        return {row["session_id"]: [row[name] for name in names] for row in of_all}

    overview = {id_: sums for id_, sums in found("sessions_overview").items() if sums[0]}
    assert overview
    assert overview == found("usage_by_session")


def test_a_session_that_a_period_cuts_has_what_was_done_in_it(db: sqlite3.Connection) -> None:
    whole = {row["session_id"]: row for row in rows(db, "sessions_overview")}
    (longest,) = (row for row in whole.values() if row["seconds"] == max(
        one["seconds"] for one in whole.values() if one["turns"] > 1))  # fmt: skip
    turns = rows(db, "turns_overview", session=longest["session_id"], since="all")
    middle = sorted(turn["started_at"] for turn in turns)[len(turns) // 2]
    parts = [
        row
        for how in ({"until": middle}, {"since": middle})
        for row in rows(db, "sessions_overview", session=longest["session_id"], **how)
    ]
    assert len(parts) == 2
    for name in ("turns", "tools", "errors", "lines_added", "lines_removed", "requests",
                 "total_tokens", "cost_usd"):  # fmt: skip
        assert sum(row[name] for row in parts) == pytest.approx(longest[name]), name
    for name in ("title", "started_at", "ended_at", "seconds", "subagents"):
        assert [row[name] for row in parts] == [longest[name]] * 2
    assert all(row["turns"] < longest["turns"] for row in parts)


def test_only_models_that_are_asked_for_are_named(db: sqlite3.Connection) -> None:
    found = rows(db, "sessions_overview", model="haiku")
    assert found
    assert all("haiku" in name for row in found for name in row["models"].split(", "))


def test_a_period_of_projects_has_what_was_done_in_it(db: sqlite3.Connection) -> None:
    whole = rows(db, "projects_overview")
    parts = [
        rows(db, "projects_overview", until=BEFORE),
        rows(db, "projects_overview", since=AFTER, until="2026-09-30"),
        rows(db, "projects_overview", since="2026-10-01"),
    ]
    added = ("turns", "days_active", "lines_added", "lines_removed", "commits", "requests",
             "requests_not_final", "total_tokens", "output_tokens", "cost_usd")  # fmt: skip
    for project in whole:
        of_it = [row for part in parts for row in part if row["repo_path"] == project["repo_path"]]
        for name in added:
            assert sum(row[name] for row in of_it) == pytest.approx(project[name]), name
        assert all(row["sessions"] and row["requests"] for row in of_it)
    assert len(parts[0]) < len(whole)


@pytest.mark.parametrize("how", [{"since": AFTER}, {"until": BEFORE}], ids=str)
def test_a_project_costs_the_same_from_both_sides(
    db: sqlite3.Connection, how: dict[str, Any]
) -> None:
    names = ("worktrees", "sessions", "requests", "total_tokens", "cost_usd")

    def found(view: str) -> list[Any]:
        by_id = sorted(rows(db, view, **how), key=lambda row: row["repo_path"])
        return [row[name] for row in by_id for name in names]

    assert found("projects_overview") == pytest.approx(found("usage_by_project"))


# -- canned queries --------------------------------------------------------------------------------

LIMITED = [
    one for one in sql_files.all_queries() if "limit" in {param.name for param in one.params}
]


@pytest.mark.parametrize("query", LIMITED, ids=lambda query: query.name)
def test_a_query_is_narrowed_before_it_takes_its_first_rows(query: sql_files.SqlFile) -> None:
    assert query.filters
    assert all(one.table for filters in query.filters.values() for one in filters)


def rows(db: sqlite3.Connection, name: str, **how: Any) -> list[dict[str, Any]]:
    statement = statement_for(Ask(name, **how), db)
    cursor = db.execute(statement.sql, statement.values)
    return [dict(zip((c[0] for c in cursor.description), row, strict=True)) for row in cursor]


def test_the_most_expensive_turn_of_each_project_is_found(db: sqlite3.Connection) -> None:
    whole = rows(db, "turns_overview", since="all")
    for project in {row["project"] for row in whole}:
        (found,) = rows(db, "expensive_turns", since="all", project=project, limit=1)
        costs = [row["cost_usd"] or 0 for row in whole if row["project"] == project]
        assert found["project"] == project
        assert found["cost_usd"] == pytest.approx(max(costs))


GIVEN = {"path": "src", "text": "shelf", "since": "all", "least": "1"}


@pytest.mark.parametrize("query", LIMITED, ids=lambda query: query.name)
def test_a_query_is_sorted_and_filtered_before_it_takes_its_first_rows(
    db: sqlite3.Connection, query: sql_files.SqlFile
) -> None:
    names = {param.name for param in query.params}
    given = {name: text for name, text in GIVEN.items() if name in names}
    whole = rows(db, query.name, params=given | {"limit": "-1"})
    assert len(whole) > 1
    for column in query.columns:
        (first,) = rows(db, query.name, params=given, sort=f"-{column}", limit=1)
        values = [row[column] for row in whole if row[column] is not None]
        assert first[column] == max(values, default=None)
        last = whole[-1][column]
        if isinstance(last, str) and column not in names:
            (row,) = rows(db, query.name, params=given | {column: last}, limit=1)
            assert row[column] == last


def test_where_it_is_filtered_a_query_gives_as_many_rows_as_it_says(
    db: sqlite3.Connection,
) -> None:
    (default,) = (param.default for query in LIMITED if query.name == "slowest_calls"
                  for param in query.params if param.name == "limit")  # fmt: skip
    whole = rows(db, "slowest_calls", params={"limit": "-1"})
    assert len(whole) > int(default or 0)
    for given, expected in (({}, int(default or 0)), ({"limit": "4"}, 4), ({"limit": "-1"}, None)):
        found = rows(db, "slowest_calls", params=given, sort="target")
        assert len(found) == (len(whole) if expected is None else expected)
    assert len(rows(db, "slowest_calls", params={"limit": "4"}, sort="target", limit=2)) == 2
    assert len(rows(db, "slowest_calls", params={"limit": "2"}, sort="target", limit=4)) == 2
    # Filters alone leave the order as it is.
    found = rows(db, "slowest_calls", params={"status": "ok", "limit": "3"})
    assert found == [row for row in whole if row["status"] == "ok"][:3]


@pytest.mark.parametrize(
    "query",
    [one for one in sql_files.all_queries() if "project" in one.filters],
    ids=lambda query: query.name,
)
def test_a_query_can_be_asked_of_one_project_and_one_session(
    db: sqlite3.Connection, query: sql_files.SqlFile
) -> None:
    given = {param.name: "%" for param in query.params if param.default is None}
    if query.name == "around_pr":
        given = {"pr": "58"}
    for how in ({"project": "lantern"}, {"session": "last"}):
        for row in rows(db, query.name, params=given, **how):
            assert row.get("project", "lantern") == "lantern" or "session" in how


def test_the_period_that_a_query_takes_by_itself_is_said(db: sqlite3.Connection) -> None:
    def note(name: str, **how: Any) -> str:
        return statement_for(Ask(name, **how), db).note

    def day(days: int) -> str:
        return f"{datetime.now().astimezone() - timedelta(days=days):%Y-%m-%d}"

    more = "; --since all shows everything."
    assert note("expensive_turns") == f"Showing the last 30 days (since {day(30)}){more}"
    assert note("standup") == f"Showing since {day(1)}{more}"
    assert note("expensive_turns", since="7d") == f"Showing since {day(7)}."
    assert note("expensive_turns", params={"since": "7d"}) == f"Showing since {day(7)}."
    assert note("files_together") == ""


@pytest.mark.parametrize(
    ("how", "said"), [({"session": "last"}, ""), ({"until": "2026-09"}, "until 2026-09-30")]
)
def test_a_query_takes_no_period_where_something_narrower_is_asked(
    db: sqlite3.Connection, how: dict[str, Any], said: str
) -> None:
    statement = statement_for(Ask("expensive_turns", **how), db)
    assert statement.note == (f"Showing {said}." if said else "")
    assert db.execute(statement.sql, statement.values).fetchall()


# -- the first rows --------------------------------------------------------------------------------

ROW_BY_ROW = [view for view in sql_files.all_views() if view.one_row_per]


HOW: tuple[dict[str, Any], ...] = (
    {},
    {"until": BEFORE},
    {"since": AFTER},
    {"project": "lantern"},
    {"session": "last"},
    {"model": "sonnet"},
    {"sort": "-cost_usd"},
    {"params": {"project": "lantern"}},
)


def check_first_rows(
    db: sqlite3.Connection, view: sql_files.SqlFile, limits: tuple[int, ...], how: dict[str, Any]
) -> None:
    if "model" in how and "model" not in view.filters:
        pytest.skip("says nothing of models")
    if "sort" in how and "cost_usd" not in view.columns:
        how = {"sort": "-session_id,updated_at"}
    how = {"since": "all"} | how
    whole = rows(db, view.name, **how)
    assert whole
    for limit in limits:
        assert rows(db, view.name, limit=limit, **how) == whole[:limit], (
            f"sql/{view.name}.sql: `-- one row per:` must name the table with one row for each row"
            " of the view, and the ORDER BY of the view"
        )


@pytest.mark.parametrize("view", ROW_BY_ROW, ids=lambda view: view.name)
@pytest.mark.parametrize("how", [HOW[0], HOW[3], HOW[6]], ids=str)
def test_the_first_rows_are_those_of_the_whole_answer(
    db: sqlite3.Connection, view: sql_files.SqlFile, how: dict[str, Any]
) -> None:
    check_first_rows(db, view, (3,), how)


@pytest.mark.slow
@pytest.mark.parametrize("view", ROW_BY_ROW, ids=lambda view: view.name)
@pytest.mark.parametrize("how", HOW, ids=str)
def test_the_first_rows_are_those_of_every_answer(
    db: sqlite3.Connection, view: sql_files.SqlFile, how: dict[str, Any]
) -> None:
    check_first_rows(db, view, (1, 3, 1000), how)


@pytest.mark.parametrize("view", ROW_BY_ROW, ids=lambda view: view.name)
def test_for_the_first_rows_no_more_is_read(
    db: sqlite3.Connection, view: sql_files.SqlFile
) -> None:
    assert view.one_row_per is not None
    statement = statement_for(Ask(view.name, since="all", limit=5), db)
    assert statement.sql.startswith(f'WITH "{view.one_row_per.table}" AS MATERIALIZED (SELECT')
