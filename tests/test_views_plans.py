"""Views are quick because they go by indexes: SQLite says which, on a database of some size."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from ctxdb.query.statement import Ask, statement_for
from ctxdb.store import sql_files
from viewlab import demo_database

if TYPE_CHECKING:
    from collections.abc import Iterator

SINCE = "2026-10-15"  # few rows are younger, should SQLite look
# What ANALYZE finds in 500 MB of transcripts: table, index, rows and rows per key.
STATISTICS = """
_usage_lines|_usage_lines|96019 1 1
_usage_lines|_usage_lines_request_key|96019 3
agents|agents_tool_use_id|3969 2
agents|agents_turn_id|3969 3
agents|sqlite_autoindex_agents_1|3969 3 1
files_touched|files_touched_path|18630 58 19
files_touched|files_touched_project_id|18630 381
files_touched|files_touched_session_id|18630 8 3 2 2 2 2
files_touched|files_touched_snapshot|3570 3 2 1
files_touched|files_touched_timestamp|18630 22
files_touched|files_touched_tool_id|18630 2
files_touched|files_touched_turn_id|18630 6 3 2 2
git_operations|git_operations_session_id|861 2
git_operations|git_operations_tool_id|861 1
git_operations|git_operations_turn_id|861 2
message_copies|message_copies_message_id|4336 1
message_copies|message_copies_session_id|4336 26 21 1
message_copies|message_copies_source_file_id|4336 27 1
message_copies|message_copies_uuid|4336 1
messages|messages_agent|6972 16 9 1
messages|messages_notices|3570 1190 447 22
messages|messages_said|28438 5 5 1
messages|messages_session_id|179204 51 46 1
messages|messages_source_file_id|179204 46 1
messages|messages_timestamp|179204 22
messages|messages_turn_id|179204 29 1 1 1
messages|messages_uuid|179204 1
prices|prices_model|28 2
projects|sqlite_autoindex_projects_1|79 1
sessions|sessions_parent_session_id|3572 56
sessions|sessions_project_id|3572 46
sessions|sessions_started_at|3572 21 1
sessions|sqlite_autoindex_sessions_1|3572 1
source_files|source_files_agent_id|546 21
source_files|source_files_ino|4095 1
source_files|source_files_session_id|4095 2
source_files|sqlite_autoindex_source_files_1|4095 1
tool_uses|tool_uses_agent|2688 10 7
tool_uses|tool_uses_duration|52104 1271 28 28 21
tool_uses|tool_uses_message_id|52104 1
tool_uses|tool_uses_name|52104 1271 21
tool_uses|tool_uses_not_ok|2626 657 21
tool_uses|tool_uses_result_message_id|52104 1
tool_uses|tool_uses_failed_session|1701 3
tool_uses|tool_uses_failed_turn|1701 2
tool_uses|tool_uses_session_id|52104 17 1
tool_uses|tool_uses_tool_use_id|52104 1 1
tool_uses|tool_uses_turn_id|52104 11 4 4
tool_uses|tool_uses_outputs|280 2 1
turns|turns_message_id|6323 1
turns|turns_session_id|6323 2 1 1
turns|turns_source_file_id|6323 2 1
turns|turns_started_at|6323 21
usage|sqlite_autoindex_usage_1|47551 1
usage|usage_session_id|47551 14
usage|usage_timestamp|47551 21
usage|usage_turn_id|47551 9
"""
SESSION = "d8e892db-75e7-4f8c-8c25-c15daeb22915"


@pytest.fixture(scope="module")
def conn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(demo_database(tmp_path_factory.mktemp("plans")))) as db:
        db.execute("ANALYZE")  # makes the table; its rows would be those of the demo
        for (table,) in db.execute(
            "SELECT name FROM sqlite_schema WHERE name LIKE 'sqlite_stat%'"
        ).fetchall():  # some builds of SQLite keep samples in a second one
            db.execute(f"DELETE FROM {table}")
        rows = [line.rsplit("|", 2) for line in STATISTICS.strip().splitlines()]
        db.executemany(
            "INSERT INTO sqlite_stat1 VALUES (?, ?, ?)",
            [(table, index or None, numbers) for table, index, numbers in rows],
        )
        db.execute("ANALYZE sqlite_schema")
        yield db


def plan(conn: sqlite3.Connection, sql: str) -> str:
    return "\n".join(row[3] for row in conn.execute(f"EXPLAIN QUERY PLAN {sql}"))


@pytest.mark.parametrize(
    ("view", "column", "index"),
    [
        ("bash_commands", "started_at", "tool_uses_name (name=? AND started_at>?)"),
        ("tool_errors", "started_at", "tool_uses_not_ok (status=? AND started_at>?)"),
        ("file_history", "timestamp", "files_touched_timestamp (timestamp>?)"),
        ("turns_overview", "started_at", "turns_started_at (started_at>?)"),
        ("replies", "timestamp", "usage_timestamp (timestamp>?)"),
        ("prompts", "timestamp", "turns_started_at (started_at>?)"),
    ],
)
def test_a_period_goes_by_the_index_of_time_and_nothing_is_sorted(
    conn: sqlite3.Connection, view: str, column: str, index: str
) -> None:
    found = plan(conn, f"SELECT * FROM {view} WHERE {column} >= '{SINCE}'")
    assert index in found
    if view in ("bash_commands", "tool_errors", "file_history"):
        assert "TEMP B-TREE" not in found


@pytest.mark.parametrize(
    ("view", "table", "column", "index"),
    [
        ("file_activity", "files_touched", "timestamp", "files_touched_timestamp (timestamp>?)"),
        ("activity_by_hour", "_costs", "timestamp", "usage_timestamp (timestamp>?)"),
        ("mcp_stats", "tool_uses", "started_at", "(name>? AND name<?)"),
        ("turns_overview", "turns", "started_at", "turns_started_at (started_at>?)"),
        ("turns_overview", "turns", "started_at", "usage_turn_id (turn_id=?)"),
        ("sessions_overview", "sessions", "ended_at", "usage_session_id (session_id=?)"),
        ("sessions_overview", "sessions", "ended_at", "files_touched_session_id (session_id=?)"),
    ],
)
def test_a_view_that_adds_up_is_narrowed_by_an_index_before_it_adds(
    conn: sqlite3.Connection, view: str, table: str, column: str, index: str
) -> None:
    found = sql_files.find(view)
    assert found is not None
    narrowed = f"(SELECT * FROM main.{table} WHERE {column} >= '{SINCE}')"
    how = "MATERIALIZED" if table == "_costs" else "NOT MATERIALIZED"  # as `ctxdb query` does
    sql = f"WITH {table} AS {how} {narrowed} SELECT * FROM (\n{found.sql}\n)"
    assert index in plan(conn, sql)


@pytest.mark.parametrize("view", ["conversation", "replies", "prompts", "session_messages"])
def test_one_session_is_found_without_reading_the_others(
    conn: sqlite3.Connection, view: str
) -> None:
    found = plan(conn, f"SELECT * FROM {view} WHERE session_id = '{SESSION}'")
    for table in ("SCAN m", "SCAN u", "SCAN turns", "SCAN t"):
        assert f"{table} " not in f"{found} ".replace("\n", " ")


@pytest.mark.parametrize(
    ("view", "index"),
    [
        ("compactions", "messages_notices"),
        ("interruptions", "messages_notices"),
        ("api_errors", "messages_notices"),
        ("tool_errors", "tool_uses_not_ok"),
        ("turns_overview", "messages_said"),
        ("turns_overview", "COVERING INDEX tool_uses_turn_id"),
        ("turns_overview", "tool_uses_failed_turn"),
        ("turns_overview", "COVERING INDEX files_touched_turn_id"),
        ("sessions_overview", "COVERING INDEX tool_uses_session_id"),
        ("sessions_overview", "tool_uses_failed_session"),
        ("sessions_overview", "COVERING INDEX files_touched_session_id"),
        ("tool_stats", "COVERING INDEX tool_uses_duration"),
        ("subagent_runs", "tool_uses_agent"),
        ("subagent_runs", "tool_uses_outputs (session_id=? AND target=?)"),
        ("subagent_runs", "events_type (type=? AND timestamp=?)"),
    ],
)
def test_what_is_rare_or_only_counted_is_not_read_whole(
    conn: sqlite3.Connection, view: str, index: str
) -> None:
    assert index in plan(conn, f"SELECT * FROM {view}")


@pytest.mark.parametrize("view", ["sessions_overview", "turns_overview"])
def test_rows_with_long_texts_come_in_order_and_are_not_sorted(
    conn: sqlite3.Connection, view: str
) -> None:
    found = conn.execute(f"EXPLAIN QUERY PLAN SELECT * FROM {view}").fetchall()
    assert not [row[3] for row in found if row[1] == 0 and "ORDER BY" in row[3]]


OF_REQUESTS = [
    view.name
    for view in sql_files.all_views()
    if sql_files.Filter("_costs", "timestamp") in view.filters.get("since", ())
    and view.one_row_per is None  # others look up the requests of each row
]


@pytest.mark.parametrize("name", OF_REQUESTS)
def test_a_period_of_requests_goes_by_the_index_of_time(
    conn: sqlite3.Connection, name: str
) -> None:
    asked = statement_for(Ask(name, since=SINCE), conn)
    rows = conn.execute(f"EXPLAIN QUERY PLAN {asked.sql}", asked.values)
    found = "\n".join(row[3] for row in rows)
    assert "usage_timestamp (timestamp>?)" in found
    assert "SCAN u USING" not in found


def test_a_period_of_windows_reads_no_requests_but_theirs(conn: sqlite3.Connection) -> None:
    asked = statement_for(Ask("usage_blocks", since=SINCE), conn)
    rows = conn.execute(f"EXPLAIN QUERY PLAN {asked.sql}", asked.values)
    found = [row[3] for row in rows]
    assert "SEARCH u USING INDEX usage_quarter (<expr>>? AND <expr><?)" in found
    assert not [step for step in found if step.startswith("SCAN u")]


@pytest.mark.parametrize("view", ["conversation", "session_messages"])
def test_messages_are_not_read_into_an_index_for_the_query(
    conn: sqlite3.Connection, view: str
) -> None:
    conn.execute("DELETE FROM sqlite_stat1 WHERE tbl = 'message_copies'")  # as after some syncs
    conn.execute("ANALYZE sqlite_schema")
    found = plan(conn, f"SELECT * FROM {view} LIMIT 100")
    assert "SEARCH m USING AUTOMATIC" not in found
    assert "BLOOM FILTER ON m" not in found
