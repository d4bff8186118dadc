"""verify finds what is wrong, wherever it stands, and nothing where nothing is."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builder import World, fork, text
from ctxdb.config import Config
from ctxdb.demo import write_demo
from ctxdb.progress import NullProgress
from ctxdb.verify import VerifyReport, again, verify
from ctxdb.verify.compare import TABLES
from lab import Lab, lab
from snapshot import BOOKKEEPING, public_tables
from thinning import thinned
from world import run_python


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A database of all stories that the demo tells."""
    one = Lab(tmp_path_factory.mktemp("demo"))
    write_demo(one.root)
    one.put("odd/odd.jsonl", b"not JSON\n")
    one.sync()
    return one


@pytest.fixture
def changed(demo: Lab, tmp_path: Path) -> Iterator[SimpleNamespace]:
    """A copy of it, to be changed by hand."""
    path = tmp_path / "copy.db"
    shutil.copy(demo.db, path)
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        yield SimpleNamespace(
            conn=conn,
            verify=lambda: verify(Config(path, (str(demo.root),)), NullProgress()),
        )


@cache
def demo_files() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_demo(root)
        return {
            str(path.relative_to(root)): path.read_bytes()
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }


def checked(one: Lab, **how: bool) -> VerifyReport:
    return verify(one.config, NullProgress(), **how)


def two_sessions() -> tuple[World, Any, Any]:
    world = World()
    sessions = [world.session(), world.session()]
    for n, session in enumerate(sessions):
        session.prompt(f"question {n}")
        session.tool("Bash", {"command": f"echo {n}"}, str(n))
        session.reply(text(f"answer {n}"))
    return world, *sessions


@contextmanager
def synced(world: World) -> Iterator[Lab]:
    with lab() as one:
        world.write(one.root)
        one.sync()
        yield one


# -- what is right ---------------------------------------------------------------------------------


def test_the_demo_is_as_its_transcripts_say(demo: Lab) -> None:
    report = checked(demo)
    assert report.shown == []
    assert report.ok
    assert report.sessions_only_here == 0
    assert report.rows_made_again > report.stored


def test_a_transcript_that_has_grown_since_is_as_right_as_before() -> None:
    world, session, _ = two_sessions()
    with synced(world) as one:
        line = json.dumps(session.prompt("one more")).encode() + b"\n"
        name = next(name for name in world.contents() if session.session in name)
        one.append(name, line + b'{"half')
        one.put("other/new.jsonl", line)
        report = checked(one)
    assert report.shown == []
    assert (report.files, report.files_behind, report.files_new) == (2, 1, 1)
    assert report.ok


def test_an_unfinished_last_line_is_not_for_the_next_sync() -> None:
    world, session, _ = two_sessions()
    name = next(name for name in world.contents() if session.session in name)
    with synced(world) as one:
        one.append(name, b'{"half')
        report = checked(one)
    assert (report.files_behind, report.files_partial) == (0, 1)
    assert report.ok
    said = "\n".join(report.lines())
    assert "1 unfinished last line not counted" in said
    assert "next sync" not in said


def test_a_line_that_is_huge_is_compared_too() -> None:
    world, session, _ = two_sessions()
    session.prompt("long " * (1 << 20))
    with synced(world) as one:
        report = checked(one)
    assert report.shown == []
    assert report.ok
    assert report.not_made_again is None


# -- what is wrong ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    thinned(
        [
            "UPDATE usage SET output_tokens = output_tokens + 1 WHERE id = 3",
            "UPDATE usage SET session_id = (SELECT max(id) FROM sessions) WHERE id = 3",
            "UPDATE usage SET turn_id = NULL WHERE id = 3",
            "DELETE FROM usage WHERE id = 3",
            "UPDATE turns SET prompt = 'x' WHERE id = 2",
            "UPDATE turns SET ordinal = 99 WHERE id = 2",
            "UPDATE turns SET ended_at = NULL WHERE id = 2",
            "UPDATE sessions SET title = 'x' WHERE id = (SELECT min(id) FROM sessions)",
            "UPDATE sessions SET started_at = NULL WHERE id = (SELECT min(id) FROM sessions)",
            "UPDATE sessions SET relation = 'clear' WHERE relation IS NULL",
            "UPDATE agents SET status = 'unknown' WHERE id = 1",
            "UPDATE agents SET tool_use_id = 'toolu_x' WHERE id = 1",
            "DELETE FROM agents WHERE id = 1",
            "UPDATE files_touched SET lines_added = 77 WHERE operation = 'edit'",
            "UPDATE files_touched SET relative_path = 'x' WHERE id = 1",
            "DELETE FROM files_touched WHERE id = 1",
            (
                "INSERT INTO files_touched (session_id, path, operation) SELECT session_id, path,"
                " operation FROM files_touched WHERE id = 1"
            ),
            "UPDATE git_operations SET sha = 'x' WHERE sha IS NOT NULL",
            "DELETE FROM git_operations WHERE id = 1",
            "UPDATE tool_uses SET exit_code = 99 WHERE id = 1",
            "UPDATE tool_uses SET duration_ms = 1 WHERE id = 1",
            (
                "INSERT INTO tool_uses (tool_use_id, name, raw_name, status)"
                " VALUES ('toolu_x', 'Bash', 'Bash', 'ok')"
            ),
            "UPDATE messages SET turn_id = NULL WHERE id = 5",
            "UPDATE messages SET parent_uuid = NULL WHERE parent_uuid IS NOT NULL",
            "UPDATE messages SET agent_id = 'zzz' WHERE id = 5",
            "UPDATE message_copies SET message_id = 1",
            "UPDATE projects SET repo_path = '/x'",
            "UPDATE source_files SET session_id = 'x' WHERE id = 1",
            'UPDATE source_files SET "offset" = "offset" + 1 WHERE id = 1',
            'UPDATE source_files SET "offset" = "offset" - 50 WHERE id = 1',
            "UPDATE _file_marks SET mark = x'00' WHERE source_file_id = 1",
            "UPDATE sessions SET source_deleted_at = started_at",
            "INSERT OR IGNORE INTO _shared_sessions SELECT id, NULL FROM sessions",
            "UPDATE line_counts SET type = 'x' WHERE type = 'user'",
            "DELETE FROM ingest_errors",
            "DELETE FROM events WHERE id = 1",
            "UPDATE events SET session_id = 'x' WHERE id = 1",
            "UPDATE _message_lines SET block_keys = 'x' WHERE message_id = 5",
            "UPDATE _message_lines SET owner_flags = owner_flags + 64 WHERE message_id = 5",
            "DELETE FROM _message_lines WHERE message_id = 5",
            "UPDATE _copy_lines SET version = 'x'",
            "UPDATE _event_lines SET nth = nth + 1 WHERE event_id = 1",
            "UPDATE _tool_results SET file_lines_added = 77",
            (
                "INSERT INTO messages_fts (messages_fts, rowid, text, thinking)"
                " SELECT 'delete', id, text, thinking FROM messages WHERE text IS NOT NULL LIMIT 5"
            ),
            "INSERT INTO tool_uses_fts (rowid, target) VALUES (1, 'nonsense')",
        ],
        8,
    ),
)
def test_whatever_is_changed_is_found(changed: SimpleNamespace, change: str) -> None:
    before = changed.conn.total_changes
    changed.conn.execute(change)
    assert changed.conn.total_changes > before
    assert not changed.verify().ok


def test_every_column_is_compared_that_says_something(demo: Lab) -> None:
    with closing(sqlite3.connect(demo.db)) as conn:
        tables = {table.name: table for table in TABLES}
        public = {name for name in tables if not name.startswith("_")}
        assert public == set(public_tables(conn)) - {"schema_docs"}
        for name, table in tables.items():
            columns = {row[1] for row in conn.execute(f"PRAGMA table_info({name})")}
            # A transcript may have grown since; its bytes up to the offset are what counts.
            # An excerpt is masked by the rules that were on when it was read.
            said = {"size", "state", "root", "mark", "searched", "searched_mark", "excerpt"}
            assert set(table.ignored) - BOOKKEEPING <= said
            assert set(table.ignored) <= columns


# -- what is left ----------------------------------------------------------------------------------


def test_sessions_whose_transcripts_are_gone_are_left_out_and_the_others_compared() -> None:
    world, gone, kept = two_sessions()
    with synced(world) as one:
        next(one.root.glob(f"*/{gone.session}.jsonl")).unlink()
        one.sync()
        report = checked(one)
        assert report.shown == []
        assert (report.sessions_made_again, report.sessions_only_here) == (1, 1)
        with closing(sqlite3.connect(one.db)) as conn:
            conn.execute(
                "UPDATE usage SET output_tokens = 9999 WHERE session_id = ?", (gone.session,)
            )
            conn.commit()
            assert checked(one).ok
            conn.execute(
                "UPDATE usage SET output_tokens = 9999 WHERE session_id = ?", (kept.session,)
            )
            conn.commit()
        assert not checked(one).ok


def test_what_hangs_together_with_a_transcript_that_is_gone_is_left_out() -> None:
    world, parent, other = two_sessions()
    child = fork(parent, says_so=True, renew=True)
    child.prompt("and now?")
    with synced(world) as one:
        assert checked(one).sessions_made_again == 3
        next(one.root.glob(f"*/{parent.session}.jsonl")).unlink()
        one.sync()
        report = checked(one)
    assert report.shown == []
    assert (report.sessions_made_again, report.sessions_only_here) == (1, 2)
    assert other.session


def test_lines_that_a_rewritten_file_no_longer_has_are_kept_and_no_difference() -> None:
    world, session, _ = two_sessions()
    with synced(world) as one:
        path = next(one.root.glob(f"*/{session.session}.jsonl"))
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))
        one.sync()
        report = checked(one)
    assert report.shown == []
    assert (report.sessions_made_again, report.sessions_only_here) == (1, 1)


def test_only_the_roots_that_are_asked_for_are_compared(tmp_path: Path) -> None:
    world, _, _ = two_sessions()
    with synced(world) as one:
        config = Config(one.db, (str(tmp_path),))
        report = verify(config, NullProgress(), only_roots=True)
    assert (report.files, report.sessions_made_again, report.sessions_only_here) == (0, 0, 2)


# -- the second database ---------------------------------------------------------------------------


def test_the_second_database_goes_when_it_is_done_and_so_does_one_of_a_run_that_was_killed() -> (
    None
):
    world, _, _ = two_sessions()
    with synced(world) as one:
        left = one.db.parent / ".verifying-999999999"
        left.mkdir()
        (left / "again.db").write_bytes(b"private")
        assert checked(one).ok
        assert list(one.db.parent.glob(".verifying*")) == []


def test_without_room_for_a_second_database_the_lines_are_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, _, _ = two_sessions()
    monkeypatch.setattr(again.shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 10))
    with synced(world) as one:
        report = checked(one)
    assert report.ok
    assert report.not_made_again is not None
    assert "MB beside the database, 0 free" in report.not_made_again
    assert report.rows_made_again == 0
    assert any("was not compared" in line for line in report.lines())


def test_where_no_file_can_be_made_beside_the_database_the_lines_are_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, _, _ = two_sessions()

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError

    with synced(world) as one:
        monkeypatch.setattr(Path, "mkdir", refuse)
        monkeypatch.setattr(Path, "touch", refuse)
        report = checked(one)
    assert report.ok
    assert report.not_made_again is not None
    assert "cannot be written to" in report.not_made_again


def test_when_the_disk_is_full_in_the_end_the_lines_are_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, _, _ = two_sessions()

    def fill(*_: Any) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    monkeypatch.setattr(again, "_fill", fill)
    with synced(world) as one:
        report = checked(one)
    assert report.ok
    assert report.not_made_again is not None
    assert "disk is full" in report.not_made_again
    assert report.lines_read > 0


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGHUP])
def test_ended_from_outside_it_leaves_nothing_behind(
    demo: Lab, tmp_path: Path, ending: signal.Signals
) -> None:
    code = """
import os, signal, sys
from ctxdb.verify import again
ending = int(sys.argv.pop())
def fill(*_):
    os.kill(os.getpid(), ending)
    signal.pause()
again._fill = fill
from ctxdb.cli.main import main
main()
"""
    db = tmp_path / "own/ctxdb.db"
    db.parent.mkdir()
    shutil.copy(demo.db, db)
    done = run_python(code, "--db", db, "verify", "--root", demo.root, str(int(ending)))
    assert done.returncode == 128 + ending
    assert list(db.parent.glob(".verifying*")) == []


@settings(max_examples=1, derandomize=True)
@given(data=st.data())
def test_however_it_came_in_and_whatever_is_left_nothing_differs(data: st.DataObject) -> None:
    must_not_differ(data)


@pytest.mark.slow
@settings(max_examples=10, derandomize=True)
@given(data=st.data())
def test_however_it_came_in_nothing_differs_in_more_orders(data: st.DataObject) -> None:
    must_not_differ(data)


def must_not_differ(data: st.DataObject) -> None:
    files = demo_files()
    names = data.draw(st.permutations(sorted(files)), "order")
    with lab() as one:
        for n, name in enumerate(names):
            cut = data.draw(st.integers(0, len(files[name])), "cut")
            one.append(name, files[name][:cut])
            if n % 6 == 5:
                one.sync()
            one.append(name, files[name][cut:])
        one.sync()
        assert checked(one).shown == []
        for name in data.draw(st.sets(st.sampled_from(names), max_size=8), "deleted"):
            (one.root / name).unlink()
        one.sync()
        report = checked(one)
        assert report.shown == []
        assert report.ok
