"""`ctxdb query` as a person and a script use it: real processes, on the demo's database."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ctxdb.demo import write_demo
from ctxdb.escape import width
from ctxdb.lock import WriterLock
from demo_db import demo_folder
from world import Done, run_ctxdb


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the demo database, which ctxdb asks."""
    path = tmp_path / "own/demo.db"
    path.parent.mkdir()
    shutil.copy(demo_folder() / "demo.db", path)
    monkeypatch.setenv("CTXDB_DB", str(path))
    return path


def ctxdb(*args: str | Path, **more: Any) -> Done:
    return run_ctxdb(*args, **more)


def query(*args: str, **more: Any) -> str:
    result = ctxdb("query", *args, **more)
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr
    return result.stdout


def refused(*args: str, code: int = 2) -> str:
    result = ctxdb("query", *args)
    assert result.returncode == code, result
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def test_a_view_in_every_format(db: Path) -> None:
    args = ("tool_stats", "--columns", "tool,calls", "--sort", "-calls,tool", "--limit", "3")
    objects = json.loads(query(*args, "--format", "json"))
    assert [list(one) for one in objects] == [["tool", "calls"]] * 3
    lines = query(*args, "--format", "jsonl").splitlines()
    assert [json.loads(line) for line in lines] == objects
    rows = list(csv.reader(io.StringIO(query(*args, "--format", "csv"))))
    assert rows == [["tool", "calls"], *([one["tool"], str(one["calls"])] for one in objects)]
    assert query(*args, "--format", "md").splitlines()[:2] == ["| tool | calls |", "| --- | ---: |"]
    table = query(*args).splitlines()
    assert [line.split() for line in table[2:]] == rows[1:]


def test_a_table_that_a_limit_cuts_has_no_total(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    whole = query("daily_usage", "--since", "all")
    cut = query("daily_usage", "--since", "all", "--limit", "3")
    assert whole.splitlines()[-1].startswith("total ")
    assert "total " not in cut.splitlines()[-1]


def test_an_empty_answer_says_what_was_asked(db: Path) -> None:
    told = ctxdb("query", "file_history", "-p", "path", "no/such.file", "--no-sync").stderr
    assert told == "No rows: path no/such.file. No session has touched a file of that name.\n"


def test_an_empty_answer_about_a_file_names_files_like_it(db: Path) -> None:
    told = ctxdb("query", "last_edits", "-p", "path", "src/synk.ts", "--no-sync").stderr
    assert "did you mean sync.ts" in told
    assert told.count("\n") == 1


def test_an_empty_answer_about_a_day_says_which_and_where_the_newest_data_is(db: Path) -> None:
    told = ctxdb("query", "day", "-p", "day", "2031-W02-1", "--no-sync").stderr
    assert told.startswith("No rows: day 2031-W02-1, which is 2031-01-06. The newest data is of 20")
    told = ctxdb("query", "day", "-p", "day", "2031-01-06", "--no-sync").stderr
    assert told.startswith("No rows: day 2031-01-06. The newest data is of 20")


def test_a_database_without_sessions_says_so(tmp_path: Path) -> None:
    empty = tmp_path / "empty.db"
    (tmp_path / "none").mkdir()
    run_ctxdb("--db", empty, "sync", "--root", tmp_path / "none")
    told = run_ctxdb("--db", empty, "query", "daily_usage", "--no-sync").stderr
    assert told.startswith("No rows: the last 30 days")
    assert told.endswith(
        "No session was read yet: `ctxdb status` names the folders that are read.\n"
    )


def test_sql_with_values_and_from_standard_input(db: Path) -> None:
    sql = "SELECT name FROM tool_uses WHERE name = :n LIMIT 1"
    assert query(sql, "-p", "n", "Bash", "--format", "csv") == "name\nBash\n"
    assert query("-", "-p", "n", "Bash", "--format", "csv", input=sql) == "name\nBash\n"
    result = ctxdb("query", "-", input=" \n")
    assert (result.returncode, result.stdout) == (2, "")
    assert "nothing to answer" in result.stderr


def test_data_goes_to_stdout_and_all_else_to_stderr(db: Path) -> None:
    result = ctxdb("query", "prompts")
    assert result.stdout == ""
    assert "last 30 days" in result.stderr
    assert "--since all" in result.stderr
    found = json.loads(query("prompts", "--since", "all", "--format", "json"))
    assert len(found) > 10


def test_the_list_has_every_view_query_and_table_in_words(db: Path) -> None:
    from ctxdb.store import sql_files

    found = json.loads(query("--list", "--format", "json"))
    docs = query(
        "SELECT name FROM schema_docs WHERE kind = 'table' AND \"column\" = ''", "-f", "csv"
    )
    tables = docs.split()[1:]
    names = [*sql_files.names("view"), *sql_files.names("query")]
    assert [one["name"] for one in found][: len(names)] == names
    assert sorted(one["name"] for one in found if one["kind"] == "table") == tables
    names += tables
    assert all(one["question"] for one in found)
    told = query("--list", env=os.environ | {"COLUMNS": "70"})
    assert all(name in told for name in names)
    assert all(width(line) <= 70 for line in told.splitlines())


def test_one_of_the_list_in_full() -> None:
    told = query("--list", "ingest_health")
    assert "bytes_behind" in told
    assert "--since" in told
    assert "did you mean ingest_health" in refused("--list", "ingest_helth")
    # What a query wants to be told can be given as an option.
    told = query("--list", "standup")
    assert "Options: --since, --until, --project, --human, --session, --sort" in told


def test_what_a_table_has_is_told_as_the_database_tells_it(db: Path) -> None:
    told = query("--list", "tool_uses")
    sql = "SELECT \"column\", description FROM schema_docs WHERE name = 'tool_uses'"
    for column, words in csv.reader(io.StringIO(query(sql, "-f", "csv"))):
        if column != "column":
            assert words in told
            assert column in told
    assert "did you mean tool_uses" in refused("--list", "tool_use")


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["tool_stat"], "did you mean tool_stats"),
        (["daily_usage", "--since", "today", "--until", "3d"], "--until 3d ends before"),
        (["standup", "--model", "opus"], "only by --since, --until, --project, --human, --session"),
        (["tool_stats", "--columns", "cals"], "did you mean calls"),
        (["tool_stats", "--sort", "cals"], "did you mean calls"),
        (["prompts", "--since", "soon"], "7d"),
        (["prompts", "--project", "lantren"], "did you mean lantern"),
        (["prompts", "--session", "zzzz"], "no session"),
        (["SELEC 1"], "syntax error"),
        (["SELECT 1; SELECT 2"], "one statement"),
        (["DELETE FROM messages"], "only reading"),
        (["SELECT * FROM nowhere"], "no such table"),
        (["SELECT :x"], "-p x VALUE"),
        (["tool_stats", "--timeout", "0"], "--timeout"),
        (["tool_stats", "-p", "nope", "1"], "parameter or column"),
        (["tool_stats", "--limit", "99999999999999999999"], "--limit: 99999999999999999999 is too"),
        (["SELECT 1", "--limit", "99999999999999999999"], "--limit: 99999999999999999999 is too"),
        (["standup", "--limit", "99999999999999999999"], "--limit: 99999999999999999999 is too"),
        (["daily_usage", "--plot", "--format", "csv"], "--plot draws a chart and --format csv"),
        (["  "], "nothing to answer"),
        (["\n\t"], "nothing to answer"),
        ([" ; "], "nothing to answer"),
        (["/* SELECT 1 */"], "nothing to answer"),
    ],
)
def test_mistakes_are_said_in_one_line_and_exit_2(db: Path, args: list[str], hint: str) -> None:
    assert hint in refused(*args)


def test_an_unknown_option_or_format_exits_2(db: Path) -> None:
    assert ctxdb("query", "tool_stats", "--bogus").returncode == 2
    result = ctxdb("query", "tool_stats", "--format", "xml")
    assert result.returncode == 2
    assert "jsonl" in result.stderr


def test_case_78_what_takes_too_long_exits_1(db: Path) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    assert "0.3 seconds" in refused(endless, "--timeout", "0.3", code=1)


def test_head_ends_it_silently(db: Path) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    with subprocess.Popen(
        [sys.executable, "-m", "ctxdb", "query", endless, "--format", "csv", "--timeout", "900"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"i\n"
        process.stdout.close()
        assert process.stderr.read() == b""


def test_an_interrupt_ends_it_with_130_and_no_word(db: Path) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    with subprocess.Popen(
        [sys.executable, "-m", "ctxdb", "query", endless, "--format", "csv", "--timeout", "900"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"i\n"
        process.send_signal(signal.SIGINT)
        _, told = process.communicate()
    assert (process.returncode, told) == (130, b"")


def on_a_terminal(*args: str, columns: int, **more: str) -> list[str]:
    """What a terminal of that width shows."""
    import fcntl
    import struct
    import termios

    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environ = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR")}
    with subprocess.Popen(
        [sys.executable, "-m", "ctxdb", "query", *args],
        stdout=child,
        stderr=subprocess.DEVNULL,
        env=environ | {"TERM": "xterm"} | more,
    ):
        os.close(child)
        shown = b""
        while True:
            try:
                part = os.read(parent, 65536)
            except OSError:  # Linux: the other end is closed
                break
            if not part:
                break
            shown += part
    os.close(parent)
    return shown.decode().splitlines()


def test_on_a_terminal_the_table_fits_and_is_colored_unless_told_otherwise(db: Path) -> None:
    args = ("prompts", "--since", "all")
    lines = on_a_terminal(*args, columns=72)
    assert lines[0].startswith("\x1b[1m")
    plain = on_a_terminal(*args, columns=72, NO_COLOR="1")
    assert not any("\x1b" in line for line in plain)
    assert max(map(width, plain)) <= 72
    assert len(plain) > 10


def test_in_a_pipe_there_is_no_color(db: Path) -> None:
    assert "\x1b" not in query("tool_stats", env=os.environ | {"TERM": "xterm"})


def test_charts(db: Path) -> None:
    week = query("activity_by_hour", "--since", "all", "--plot").splitlines()
    assert week[0] == "turns by weekday and hour"
    bars = query("tool_stats", "--plot", "--columns", "tool,calls").splitlines()
    assert bars[0] == "calls by tool"
    assert "█" in bars[1]


def test_hostile_titles_steer_no_terminal_in_any_format(db: Path) -> None:
    evil = "\x1b]52;c;aGk=\x07\x9b2J\u202egnp.exe\x7f\r\n=1+1"
    with closing(sqlite3.connect(db)) as conn:
        conn.execute("UPDATE sessions SET title = ?, first_prompt = '=1+1'", (evil,))
        conn.commit()
    for format_ in ("table", "json", "jsonl", "csv", "md"):
        out = query("sessions", "-c", "title,first_prompt", "--format", format_)
        assert out.replace("\n", "").isprintable(), format_
    assert "'=1+1" in query("sessions", "-c", "first_prompt", "--format", "csv")
    assert "\n=1+1" in query("sessions", "-c", "first_prompt", "--format", "csv", "--raw")


# -- freshness ----------------------------------------------------------------------------------


@pytest.fixture
def live(home: Path) -> Path:
    """Transcripts where Claude Code puts them, synced; returns a transcript."""
    write_demo(home / ".claude/projects")
    assert ctxdb("sync", "--quiet").returncode == 0
    return min((home / ".claude/projects").rglob("*.jsonl"))


def add_line(path: Path) -> None:
    line = {
        "type": "user",
        "uuid": "00000000-0000-4000-8000-00000000abcd",
        "timestamp": "2026-03-01T10:00:00.000Z",
        "message": {"role": "user", "content": "a new line about lighthouses"},
    }
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")


FOUND = "SELECT count(*) AS n FROM messages WHERE text LIKE '%about lighthouses'"


def test_what_is_new_is_in_the_answer_unless_no_sync(live: Path) -> None:
    add_line(live)
    assert query(FOUND, "--no-sync", "--format", "csv") == "n\n0\n"
    result = ctxdb("query", FOUND, "--format", "csv")
    assert (result.stdout, result.stderr) == ("n\n1\n", "")


def test_while_another_process_writes_it_answers_and_says_that_it_is_stale(
    live: Path, home: Path
) -> None:
    add_line(live)
    os.utime(live, (1, 1))
    with WriterLock(home / ".local/share/ctxdb/ctxdb.db"):
        result = ctxdb("query", FOUND, "--format", "csv")
    assert (result.returncode, result.stdout) == (0, "n\n0\n")
    assert "Another process is writing" in result.stderr


def test_somebody_else_s_database_is_never_synced_with_mine(live: Path, db: Path) -> None:
    before = db.read_bytes()
    add_line(live)
    assert query(FOUND, "--format", "csv") == "n\n0\n"
    assert db.read_bytes() == before


def test_without_a_database_the_first_question_makes_it(home: Path) -> None:
    write_demo(home / ".claude/projects")
    result = ctxdb("query", "SELECT count(*) > 10 AS n FROM messages", "--format", "csv")
    assert result.stdout == "n\n1\n"
    assert "this once" in result.stderr


def test_a_named_database_that_is_not_there_is_not_made(home: Path, tmp_path: Path) -> None:
    write_demo(home / ".claude/projects")
    result = ctxdb("--db", tmp_path / "typo.db", "query", "overview")
    assert result.returncode == 1
    assert "no database yet" in result.stderr
    assert not (tmp_path / "typo.db").exists()


def test_a_database_of_another_version_answers_with_its_own_views(db: Path) -> None:
    with closing(sqlite3.connect(db)) as conn:
        conn.execute("DROP VIEW tool_stats")
        conn.execute(
            'CREATE VIEW "tool_stats" AS\n-- Which?\n--   tool: it\n'
            "SELECT name AS tool FROM tool_uses"
        )
        conn.execute("DROP VIEW commits")
        conn.execute("DROP TABLE git_operations")
        conn.execute("UPDATE _meta SET value = 'other' WHERE key = 'schema'")
        conn.commit()
    assert query("tool_stats", "--limit", "1", "--format", "csv").splitlines()[0] == "tool"
    told = refused("commits", code=1)
    assert "another version of ctxdb" in told
    assert "sync --root" in told


def test_a_model_that_was_never_used_is_an_error_not_an_empty_answer(db: Path) -> None:
    how = ("daily_usage", "--since", "all", "--model", "sonet-5", "--format")
    for format_ in ("table", "csv"):
        assert "no model 'sonet-5'; did you mean claude-sonnet-5" in refused(*how, format_)
    result = ctxdb("query", *how, "json")
    assert (result.returncode, result.stdout) == (2, "")
    assert json.loads(result.stderr)["error"] == {
        "code": "usage_error",
        "message": "no model 'sonet-5'",
        "hint": "did you mean claude-sonnet-5?",
    }
    # A model that was used, only not then.
    assert query("daily_usage", "--since", "2020", "--until", "2020", "--model", "sonnet") == ""


def test_what_is_no_database_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a database at all")
    for path, code in ((tmp_path / "notes.txt", 1), (tmp_path, 2)):
        done = ctxdb("--db", path, "query", "overview")
        assert done.returncode == code
        assert done.stderr.startswith(f"Error: {path}: ")
        assert done.stderr.count("\n") == 1


def test_a_session_that_is_not_there_is_a_mistake_for_a_query_too(db: Path) -> None:
    for how in (("--session", "zzz"), ("-p", "session", "zzz")):
        assert "no session begins with 'zzz'" in refused("session_changes", *how)
    args = ("session_changes", "--format", "csv")
    assert query(*args, "--session", "8e52") == query(*args, "-p", "session", "8E52")


def test_the_slowest_calls_of_a_tool_whatever_its_case(db: Path) -> None:
    assert query("slowest_calls", "-p", "tool", "bash") == query("slowest_calls") != ""


def test_a_month_is_no_day(db: Path) -> None:
    assert "'2026-02' is not a day" in refused("day", "-p", "day", "2026-02")
