"""Days and hours are those of the machine that reads, whatever the transcripts were written in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from builder import World, text
from lab import lab

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ASK = """
import json, sqlite3, sys
conn = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
print(json.dumps([conn.execute(sql).fetchall() for sql in sys.argv[2:]]))
"""
HOURS = "SELECT weekday, hour, turns, requests FROM activity_by_hour"
DAYS = "SELECT days_active FROM overview"
OF_PROJECT = "SELECT days_active FROM projects_overview"
FAILURES = "SELECT day, errors FROM api_errors"


@pytest.fixture(scope="module")
def db() -> Iterator[Path]:
    """Half past six in the evening of 8 March 2026 in UTC, a Sunday, and ten hours later."""
    with lab() as one:
        world = World()
        t = world.session()
        t.prompt("late", timestamp="2026-03-08T18:30:00.000Z")
        t.reply(text("yes"), timestamp="2026-03-08T18:31:00.000Z")
        t.prompt("early", timestamp="2026-03-09T04:40:00.000Z")
        t.reply(text("yes"), timestamp="2026-03-09T04:41:00.000Z")
        t.system("api_error", error={"status": 529}, timestamp="2026-03-08T18:32:00.000Z")
        world.write(one.root)
        one.sync()
        yield one.db


@pytest.mark.parametrize(
    ("zone", "hours", "days", "failed"),
    [
        ("UTC", [["Mon", 4, 1, 1], ["Sun", 18, 1, 1]], 2, "2026-03-08"),
        # 5:30 ahead: it is after midnight already.
        ("IST-5:30", [["Mon", 0, 1, 1], ["Mon", 10, 1, 1]], 1, "2026-03-09"),
        # 9 hours behind: both are on the same Sunday.
        ("AKST9", [["Sun", 9, 1, 1], ["Sun", 19, 1, 1]], 1, "2026-03-08"),
    ],
)
def test_the_clock_is_that_of_the_reader(
    db: Path, zone: str, hours: list[list[object]], days: int, failed: str
) -> None:
    asked = [HOURS, DAYS, OF_PROJECT, FAILURES]
    answer = subprocess.run(
        [sys.executable, "-c", ASK, db, *asked],
        env={**os.environ, "TZ": zone},
        capture_output=True,
        check=True,
    ).stdout
    assert json.loads(answer) == [hours, [[days]], [[days]], [[failed, 1]]]


DAY = """
import json, sqlite3, sys
from ctxdb.query.statement import Ask, statement_for
conn = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
asked = [statement_for(Ask("day", params={"day": day}), conn) for day in sys.argv[2:]]
rows = [conn.execute(one.sql, one.values).fetchall() for one in asked]
print(json.dumps([[[row[0], row[2]] for row in of_day] for of_day in rows]))
"""


@pytest.mark.parametrize(
    ("zone", "first", "second"),
    [
        ("UTC", [["18:30:00", "late"]], [["04:40:00", "early"]]),
        ("IST-5:30", [], [["00:00:00", "late"], ["10:10:00", "early"]]),
        ("AKST9", [["09:30:00", "late"], ["19:40:00", "early"]], []),
        ("NZDT-13", [], [["07:30:00", "late"], ["17:40:00", "early"]]),
        # The clock goes forward on that day, which has 23 hours.
        ("EST5EDT,M3.2.0,M11.1.0", [["14:30:00", "late"]], [["00:40:00", "early"]]),
    ],
)
def test_a_day_is_one_of_the_readers_clock(
    db: Path, zone: str, first: list[object], second: list[object]
) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", DAY, db, "2026-03-08", "2026-03-09"],
        env={**os.environ, "TZ": zone},
        capture_output=True,
        check=True,
    ).stdout
    assert json.loads(answer) == [first, second]


def test_a_day_in_the_middle_of_a_long_turn_is_a_day_of_work() -> None:
    with lab() as one:
        world = World()
        t = world.session()
        t.prompt("go on until it is done", timestamp="2026-03-02T09:00:00.000Z")
        for day in range(2, 7):
            t.reply(text("still at it"), timestamp=f"2026-03-0{day}T12:00:00.000Z")
        t.prompt("and now?", timestamp="2026-03-08T12:00:00.000Z")  # without an answer
        world.write(one.root)
        one.sync()
        for view in ("overview", "projects_overview"):
            assert one.rows(f"SELECT days_active FROM {view}") == [(6,)]
