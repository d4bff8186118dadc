"""Turns of real transcripts: the time that Claude Code reports, caveats, plans, local commands."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from sqlite3 import Connection
from typing import Any

import pytest

from ctxdb.config import Config
from ctxdb.ingest.sync import sync
from ctxdb.progress import NullProgress
from ctxdb.store.connection import open_reader
from real_corpus import CORPUS, HAS_CORPUS

pytestmark = [pytest.mark.corpus, HAS_CORPUS]

# What these tests are about; a file without any of it is left out, for time.
ABOUT = (b"turn_duration", b"<local-command-caveat>", b"planContent", b'"local_command"')


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("turns")
    with tarfile.open(CORPUS) as archive:
        archive.extractall(folder, filter="data")
    for path in (folder / "projects").rglob("*.jsonl"):
        data = path.read_bytes()
        if not any(words in data for words in ABOUT):
            path.unlink()
    return folder / "projects"


@pytest.fixture(scope="module")
def conn(root: Path) -> Iterator[Connection]:
    made = Config(root.parent / "turns.db", (str(root),))
    sync(made, progress=NullProgress())
    with closing(open_reader(made.db_path)) as opened:
        yield opened


def entries(root: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(root.rglob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict):
                yield entry


def test_the_reported_times_of_all_turns_add_up_to_what_claude_code_says(
    root: Path, conn: Connection
) -> None:
    said = {e["uuid"]: e["durationMs"] for e in entries(root) if e.get("durationMs")}
    assert len(said) > 30
    found = conn.execute(
        "SELECT sum(agent_ms), sum(active_ms) FROM turns WHERE agent_ms IS NOT NULL"
    ).fetchone()
    assert found == (sum(said.values()), sum(said.values()))


def test_a_turn_lasts_no_longer_than_to_the_next_one_or_its_last_work(conn: Connection) -> None:
    rows = conn.execute(
        "SELECT t.started_at, t.ended_at, t.active_ms, t.agent_ms, (SELECT min(n.started_at)"
        "  FROM turns n WHERE n.session_id = t.session_id AND n.ordinal > t.ordinal) FROM turns t"
    ).fetchall()
    for started, ended, active, reported, following in rows:
        assert ended >= started
        until = max(ended, following or "~") if reported is not None else ended
        (span,) = conn.execute(
            "SELECT (julianday(?) - julianday(?)) * 86400000",
            (min(until, "9999-01-01"), started),
        ).fetchone()
        assert 0 <= active <= span + 1000


def test_no_day_has_more_hours_than_the_sessions_that_ran_in_it_could_have_worked(
    conn: Connection,
) -> None:
    days = conn.execute(
        "SELECT substr(started_at, 1, 10), sum(active_ms) / 3600000.0, count(DISTINCT session_id)"
        " FROM turns GROUP BY 1"
    ).fetchall()
    assert [day for day, hours, sessions in days if hours > 24 * sessions] == []


def test_every_caveat_is_in_the_turn_of_the_command_that_it_precedes(conn: Connection) -> None:
    found = conn.execute(
        "SELECT t.kind, abs(julianday(m.timestamp) - julianday(t.started_at)) * 86400 < 60"
        " FROM messages m LEFT JOIN turns t ON t.id = m.turn_id"
        " WHERE m.kind = 'meta' AND m.text LIKE '<local-command-caveat>%'"
    ).fetchall()
    assert len(found) > 10
    assert set(found) == {("command", 1)}


def test_nothing_in_a_session_that_begins_with_a_plan_is_before_the_first_request(
    conn: Connection,
) -> None:
    sessions = "(SELECT session_id FROM turns WHERE kind = 'plan' AND ordinal = 1)"
    found = conn.execute(
        "SELECT title, title_source, relation FROM sessions"
        f" WHERE id IN {sessions} ORDER BY started_at"
    ).fetchall()
    assert found == [
        (
            "Fix: output_filter not being applied when writing to entire/sessions",
            "plan",
            "plan",
        ),
        ("Plan: Use `mise run lint` in GitHub Actions", "plan", "plan"),
    ]
    for table in ("usage", "files_touched", "tool_uses"):
        rows = conn.execute(
            f"SELECT count(*), count(turn_id) FROM {table} WHERE session_id IN {sessions}"
            + (" AND operation <> 'snapshot'" if table == "files_touched" else "")
        )
        (all_rows, with_turn) = rows.fetchone()
        assert (table, all_rows > 0, with_turn) == (table, True, all_rows)


def test_commands_in_system_lines_are_turns(root: Path, conn: Connection) -> None:
    said = [
        e["uuid"]
        for e in entries(root)
        if e.get("subtype") == "local_command" and "<command-name>" in e["content"]
    ]
    found = conn.execute(
        "SELECT t.kind, substr(t.prompt, 1, 1) FROM messages m JOIN turns t"
        " ON t.message_id = m.id WHERE m.type = 'system'"
    ).fetchall()
    assert found == [("command", "/")] * len(set(said))
