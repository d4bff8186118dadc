"""Every transaction stamps the sessions whose rows it has changed: push sends only these."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from functools import lru_cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxdb.store import changes
from lab import Lab, lab
from snapshot import natural_keys, table_rows
from stories import Recipe, build, every_step, recipes
from test_order import DISTURBANCES, disturb, draw_steps, transcripts

if TYPE_CHECKING:
    from pathlib import Path

# Tables that push reads. Where a line is in its file is not sent, but for messages.byte_start.
TABLES = (
    "agents",
    "events",
    "files_touched",
    "git_operations",
    "history",
    "message_copies",
    "messages",
    "plans",
    "sessions",
    "todos",
    "tool_uses",
    "turns",
    "usage",
)
Rows = dict[str, list[str]]


@lru_cache(20_000)  # most rows are as they were before a sync
def sent_of(table: str, row: str) -> tuple[str, str]:
    """The session of a row, and what push would send of it."""
    values = eval(row)
    for name in ("source_file_id", "byte_length", "event_id"):
        values.pop(name, None)
    if table != "messages":
        values.pop("byte_start", None)
    if table == "sessions":  # its id is text
        values["session_id"] = values["id"]
    return values["session_id"] or "", f"{table} {values!r}"


def rows_of_sessions(db: Path) -> Rows:
    """All rows of each session, with what they say of other rows."""
    found: Rows = {}
    with closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as conn:
        keys = natural_keys(conn)
        projects = {
            id_: rest
            for id_, *rest in conn.execute("SELECT id, path, name, repo_path FROM projects")
        }
        keys["projects"] = projects
        keys["source_files"] = {}
        keys["events"] = {}
        for table in TABLES:
            for row in table_rows(conn, table, keys):
                session_id, sent = sent_of(table, row)
                found.setdefault(session_id, []).append(sent)
        for session_id, first in conn.execute("SELECT * FROM _shared_sessions"):
            found.setdefault(session_id, []).append(f"shared {first}")
    return {session_id: sorted(rows) for session_id, rows in found.items()}


def stamps(db: Path) -> dict[str, int]:
    with closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as conn:
        return dict(conn.execute("SELECT session_id, seq FROM _session_changes"))


class Watched:
    """A lab whose every sync is compared with what it has stamped."""

    def __init__(self, one: Lab) -> None:
        self.one = one
        self.rows = rows_of_sessions(one.db)
        self.last = 0

    def sync(self) -> None:
        self.one.sync()
        self.check()

    def check(self) -> None:
        now = rows_of_sessions(self.one.db)
        stamped = {name for name, seq in stamps(self.one.db).items() if seq > self.last}
        for session_id in sorted({*now, *self.rows} - stamped):
            before, after = self.rows.get(session_id, []), now.get(session_id, [])
            if before != after:
                gone, new = set(before) - set(after), set(after) - set(before)
                pytest.fail(f"{session_id} is not stamped: {gone} became {new}")
        self.rows = now
        self.last = max(stamps(self.one.db).values(), default=0)

    def content(self) -> object:
        return self.one.content()

    def must_verify(self) -> None:
        """The tests of order do."""


def grow(files: dict[str, bytes], steps: Iterable[tuple[str, bytes]]) -> None:
    with lab() as one, one.one_connection():
        watched = Watched(one)
        for name, data in files.items():
            if not name.endswith(".jsonl"):
                one.put(name, data)
        for name, data in steps:
            one.append(name, data)
            watched.sync()


@settings(max_examples=4, derandomize=True)
@given(recipes(), st.data())
def test_every_session_that_a_sync_changes_is_stamped(recipe: Recipe, data: st.DataObject) -> None:
    files = build(recipe).contents()
    grow(files, draw_steps(files, data))


def test_a_session_is_stamped_whose_snapshots_get_their_turn_from_another_session() -> None:
    files = build([("copy", 0, ["named_snapshots"]), ("sdk_fork", 0, [])]).contents()
    first, fork = transcripts(files)
    grow(files, [(fork, files[fork]), (first, files[first])])


def test_a_session_is_stamped_that_loses_a_result_to_another_session() -> None:
    recipe: Recipe = [
        ("copy", 0, ["advised", "beside"]),
        ("resume", 0, []),
        ("fork_twice", 0, []),
    ]
    files = build(recipe).contents()
    first, second_fork, resumed, fork = (
        transcript_of(files, of) for of in ("9e3779b1", "4540215f", "2e2ac0ea", "cc623a9b")
    )
    grow(files, [(name, files[name]) for name in (resumed, second_fork, first, fork)])


def transcript_of(files: dict[str, bytes], session: str) -> str:
    (name,) = (name for name in transcripts(files) if f"/{session}" in name)
    return name


@pytest.mark.crash
@pytest.mark.timeout(3600)
@settings(max_examples=600)
@given(recipes(), st.data())
def test_every_session_that_many_syncs_change_is_stamped(
    recipe: Recipe, data: st.DataObject
) -> None:
    files = build(recipe).contents()
    grow(files, draw_steps(files, data))


@settings(max_examples=6, derandomize=True)
@given(recipes(most_files=3), st.data())
def test_sessions_of_files_that_are_rewritten_or_deleted_are_stamped(
    recipe: Recipe, data: st.DataObject
) -> None:
    files = build(recipe).contents()
    names = transcripts(files)
    if not names:
        return
    with lab() as one:
        for name, content in files.items():
            one.put(name, content)
        watched = Watched(one)
        watched.sync()
        name = data.draw(st.sampled_from(names), label="file")
        how = data.draw(st.sampled_from(DISTURBANCES), label="how")
        cut = data.draw(st.integers(0, 5000), label="where")
        disturb(watched, one.root / name, files[name], how, cut)  # type: ignore[arg-type]
        watched.sync()


def must_stamp_every_step(syncs: int) -> None:
    """All files in so many syncs, the first file first and the last file first."""
    files = build(every_step()).contents()
    steps = [(name, files[name]) for name in transcripts(files)]
    at_once = -(-len(steps) // syncs)
    for order in (steps, steps[::-1]):
        with lab() as one:
            watched = Watched(one)
            for name, data in files.items():
                if not name.endswith(".jsonl"):
                    one.put(name, data)
            for n, (name, data) in enumerate(order, 1):
                one.append(name, data)
                if n % at_once == 0 or n == len(order):
                    watched.sync()


@pytest.mark.slow
def test_every_step_stamps_what_it_changes() -> None:
    must_stamp_every_step(8)


@pytest.mark.slow
def test_every_step_file_by_file_stamps_what_it_changes() -> None:
    must_stamp_every_step(10**6)


def test_a_sync_that_changes_nothing_stamps_nothing() -> None:
    files = build(every_step()).contents()
    with lab() as one:
        for name, content in files.items():
            one.put(name, content)
        one.sync()
        before = stamps(one.db)
        one.sync()
        assert before
        assert stamps(one.db) == before


@pytest.fixture
def conn() -> Iterable[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as conn:
        conn.execute("CREATE TABLE _session_changes (session_id TEXT PRIMARY KEY, seq INTEGER)")
        yield conn


def test_stamps_grow_even_if_the_clock_goes_back(
    conn: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes.stamp(conn, ["a"])
    first = changes.last_change(conn)
    monkeypatch.setattr(changes.time, "time_ns", lambda: 0)
    changes.stamp(conn, ["b", None])
    assert changes.last_change(conn) == first + 1
    after = changes.changed_after(conn, changes.Place(first, "a"), 10)
    assert after == [changes.Place(first + 1, ""), changes.Place(first + 1, "b")]
    assert changes.count_after(conn, changes.BEGINNING) == 3
    assert changes.changed_after(conn, after.pop(), 10) == []
