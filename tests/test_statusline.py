"""The status line is one line, whatever it is given, with the right numbers."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxdb.statusline.client_input import ClientInput, read_input
from ctxdb.statusline.line import FORMAT, NOTHING, status_line
from ctxdb.statusline.numbers import Numbers, Window
from demo_db import demo_folder

RUN = "from ctxdb.cli.main import main; main()"
NOW = datetime(2026, 8, 24, 22, 0, tzinfo=UTC)
WINDOW = Window(6.0, 120.0, NOW + timedelta(hours=2, minutes=5))
ALL = {
    "session_id": "5e551000-0000-4000-8000-00000000000a",
    "cost": {"total_cost_usd": 1.5},
    "context_window": {"used_percentage": 42.4, "context_window_size": 200000},
    "rate_limits": {
        "five_hour": {"used_percentage": 31, "resets_at": NOW.timestamp() + 3600},
        "seven_day": {"used_percentage": 9.6, "resets_at": NOW.timestamp() + 3600 * 30},
    },
}


def run(data: bytes, db: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", RUN, "--db", str(db), "statusline"],
        input=data,
        capture_output=True,
        check=False,
    )


def read(value: object) -> ClientInput:
    return read_input(json.dumps(value).encode())


def test_without_a_database_the_clients_numbers_are_shown() -> None:
    assert status_line(FORMAT, read(ALL), None, NOW) == (
        "$1.50 session | 5h 31%, 1h00 left | 42% context"
    )


def test_the_databases_cost_counts_once_it_knows_the_session() -> None:
    known = Numbers(session_cost=2.25, today_cost=10.0, window=WINDOW)
    assert status_line(FORMAT, read({"cost": {"total_cost_usd": 1.5}}), known, NOW) == (
        "$2.25 session | $10.00 today | 5h $6.00 ($3.00/h), 2h05 left"
    )


def test_the_clients_limits_count_more_than_the_estimate() -> None:
    known = Numbers(None, 10.0, WINDOW)
    line = status_line("{window} | {burn} | {week}", read(ALL), known, NOW)
    assert line == "5h 31%, 1h00 left | $3.00/h | 7d 10%, 1d06h left"


def test_parts_with_nothing_to_say_are_left_out_and_something_always_stays() -> None:
    assert status_line(FORMAT, ClientInput(), None, NOW) == NOTHING
    assert status_line("fixed | {session}", ClientInput(), None, NOW) == "fixed"


def test_a_reset_in_the_past_is_not_shown() -> None:
    client = ClientInput(window_percent=50, window_resets_at=NOW.timestamp() - 10)
    assert status_line("{window}", client, None, NOW) == "5h 50%"


def test_a_name_that_means_nothing_is_left_out() -> None:
    line = status_line("{session} {nonsense}", ClientInput(cost_usd=1.5), None, NOW)
    assert line == "$1.50"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
INPUTS = st.fixed_dictionaries(
    {},
    optional={
        "session_id": VALUES,
        "cost": VALUES | st.fixed_dictionaries({"total_cost_usd": VALUES}),
        "context_window": VALUES | st.fixed_dictionaries({"used_percentage": VALUES}),
        "rate_limits": VALUES
        | st.fixed_dictionaries(
            {"five_hour": st.fixed_dictionaries({"used_percentage": VALUES, "resets_at": VALUES})}
        ),
    },
)


@given(INPUTS | VALUES)
def test_any_json_gives_one_line(value: object) -> None:
    line = status_line(FORMAT, read(value), Numbers(1.0, 2.0, WINDOW), NOW)
    assert line.strip()
    assert line.isprintable()


@given(st.binary())
def test_any_bytes_give_one_line(data: bytes) -> None:
    assert status_line(FORMAT, read_input(data), None, NOW).strip()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xff\x00 not json", id="no JSON"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(json.dumps(ALL).encode(), id="all fields"),
    ],
)
@pytest.mark.parametrize("exists", [True, False])
def test_the_command_prints_one_line_and_exits_0(data: bytes, exists: bool, home: Path) -> None:
    db = demo_folder() / "demo.db" if exists else home / "none.db"
    done = run(data, db)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.count(b"\n") == 1
    assert done.stdout.strip()


def test_a_damaged_database_or_setting_does_not_matter(home: Path) -> None:
    bad = home / "bad.db"
    bad.write_bytes(b"not a database, but a file" * 100)
    assert run(b"{}", bad).returncode == 0
    config = home / ".config/ctxdb/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("statusline = 3\n")
    assert run(b"{}", bad).stdout == b"ctxdb\n"


def test_without_a_daemon_the_tail_of_this_transcript_is_read(home: Path) -> None:
    root = home / ".claude/projects/-work-tides"
    root.mkdir(parents=True)
    session = "5e551000-0000-4000-8000-00000000000a"
    transcript, other = root / f"{session}.jsonl", root / f"{session[:-1]}b.jsonl"

    def line(number: int) -> str:
        entry = {
            "type": "user",
            "uuid": f"5e551000-0000-4000-8000-0000000000{number:02d}",
            "sessionId": session,
            "timestamp": "2026-08-24T22:43:22.764Z",
            "message": {"role": "user", "content": f"number {number}"},
        }
        return json.dumps(entry) + "\n"

    def stored() -> int:
        with closing(sqlite3.connect(db)) as conn:
            (found,) = conn.execute("SELECT count(*) FROM messages").fetchone()
        return int(found)

    transcript.write_text(line(1))
    db = home / ".local/share/ctxdb/ctxdb.db"
    subprocess.run([sys.executable, "-c", RUN, "sync"], check=True, capture_output=True)
    transcript.write_text(line(1) + line(2))
    other.write_text(line(3))
    asked = json.dumps({"session_id": session, "transcript_path": str(transcript)}).encode()
    assert run(asked, db).returncode == 0
    until = time.monotonic() + 120
    while stored() < 2 and time.monotonic() < until:
        time.sleep(0.1)
    assert stored() == 2  # and nothing of the other file
    outside = json.dumps({"transcript_path": "/etc/passwd"}).encode()
    assert run(outside, db).returncode == 0


def test_the_format_is_a_setting(home: Path) -> None:
    config = home / ".config/ctxdb/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('statusline = "cost {session}"\n')
    assert run(json.dumps(ALL).encode(), home / "none.db").stdout == b"cost $1.50\n"
