"""`ctxdb forget`: nothing of a session is left in any file, and it does not come back."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ctxdb.archive.archive_file import archive_path
from ctxdb.config import Config
from ctxdb.daemon_health import log_path
from ctxdb.ingest.sync import sync
from ctxdb.progress import NullProgress
from ctxdb.rebuild.rebuild import rebuild
from ctxdb.verify import verify
from kill_lab import EVERY_20TH, Saved, failures, kills
from private_lab import (
    FOLDER,
    OTHER,
    PRIVATE,
    SLUG,
    WORD,
    Home,
    dump,
    entries,
    found_in,
    make_home,
    write,
)
from quick_tables import copy_tables
from seen_files import Seen
from world import RUN, run_python


@pytest.fixture(autouse=True)
def _quick_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    copy_tables(monkeypatch)


@pytest.fixture
def private(home: Path, tmp_path: Path) -> Home:
    made = make_home(home / ".claude", tmp_path / "data" / "ctxdb.db")
    read(made)
    return made


def config(home: Home) -> Config:
    return Config(home.db, (str(home.projects),), archive=True)


def read(home: Home) -> None:
    """What `ctxdb sync` does, in this process: three times as fast."""
    assert sync(config(home), progress=NullProgress()).problems == []


def must_verify(home: Home) -> None:
    report = verify(config(home), NullProgress())
    assert (report.shown, report.ok) == ([], True)


def must_be_gone(home: Home) -> None:
    assert found_in(home.db.parent, WORD, PRIVATE, "00000007-0000") == []
    assert home.sessions() == [OTHER]
    must_verify(home)
    assert home.must("archive", "verify").returncode == 0


@pytest.mark.parametrize("is_sealed", [False, True])
def test_case_91_nothing_that_grep_finds_is_left_in_any_file(
    private: Home, is_sealed: bool
) -> None:
    if is_sealed:
        private.must("archive", "add")
    log = log_path(private.db)
    write(log, f"cannot read {private.projects}/{FOLDER}/{PRIVATE}.jsonl\nwatching\n".encode())
    write(private.db.with_name("ctxdb.db.before-rebuild"), WORD.encode())
    assert found_in(private.db.parent, WORD)
    done = private.must("forget", "--session", PRIVATE[:8], "--yes", "--json")
    told = json.loads(done.stdout)
    assert told["erased"]
    assert told["removed"]["history"] == 2
    assert WORD not in done.stdout + done.stderr
    must_be_gone(private)
    assert found_in(log.parent, PRIVATE) == []
    assert b"watching" in log.read_bytes()
    again = json.loads(private.must("sync", "--json").stdout)
    assert (again["lines_read"], again["new_files"], again["side_files"]) == (0, 0, 0)
    must_be_gone(private)


def test_a_forgotten_session_stays_out_whatever_comes_later(private: Home) -> None:
    private.must("forget", "--session", PRIVATE, "--yes")
    path = private.projects / FOLDER / f"{PRIVATE}.jsonl"
    with path.open("ab") as file:
        file.write(dump(entries(PRIVATE, WORD, 7)))
    more = {"display": f"again {WORD}", "timestamp": 1787565605000, "sessionId": PRIVATE}
    with (private.claude / "history.jsonl").open("ab") as file:
        file.write(dump([more]))
    write(private.claude / "todos" / f"{PRIVATE}-agent-{PRIVATE}.json", b'[{"content": "new"}]')
    write(private.claude / "plans" / f"{SLUG}.md", f"new {WORD}".encode())
    read(private)
    private.must("archive", "add")
    must_be_gone(private)
    # history.jsonl is written again, as a whole
    lines = (private.claude / "history.jsonl").read_bytes()
    (private.claude / "history.jsonl").unlink()
    write(private.claude / "history.jsonl", lines)
    read(private)
    must_be_gone(private)


def test_a_rebuild_keeps_it_out(private: Home) -> None:
    private.must("forget", "--session", PRIVATE, "--yes")
    report = rebuild(config(private), NullProgress())
    assert [one.table for one in report.changes.tables if one.differs] == []
    must_be_gone(private)


def test_the_sessions_that_stay_can_still_be_restored(private: Home) -> None:
    private.must("archive", "add")
    private.must("forget", "--session", PRIVATE, "--yes")
    path = private.projects / FOLDER / f"{OTHER}.jsonl"
    before = path.read_bytes()
    path.unlink()
    private.must("restore", OTHER)
    assert path.read_bytes() == before
    assert private.run("restore", PRIVATE).returncode != 0


IMPATIENT = f"""
from ctxdb.ingest.erase_forgotten import erase_forgotten
erase_forgotten.__kwdefaults__["wait"] = 0.2
{RUN}
"""


def test_a_reader_holds_up_the_erasing_and_the_next_sync_finishes_it(private: Home) -> None:
    with closing(sqlite3.connect(private.db, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sessions").fetchone()
        done = run_python(IMPATIENT, "--db", private.db, "forget", "--session", PRIVATE, "--yes")
        assert done.returncode == 1
        assert "Removed, not yet erased" in done.stdout
        assert "Traceback" not in done.stderr
        assert "not yet erased" in private.must("forget", "--list").stdout
        assert "old text is not yet erased" in private.must("status").stdout
    assert private.sessions() == [OTHER]
    read(private)
    must_be_gone(private)
    assert "not yet erased" not in private.must("forget", "--list").stdout
    assert "not yet erased" not in private.must("status").stdout


def test_sources_are_deleted_only_if_asked_for(private: Home) -> None:
    path = private.projects / FOLDER / f"{PRIVATE}.jsonl"
    private.must("forget", "--session", PRIVATE, "--yes")
    assert path.exists()
    short = private.must("forget", "--list").stdout.split()[0]
    private.must("forget", "--undo", short)
    read(private)
    assert private.sessions() == [OTHER, PRIVATE]
    private.must("forget", "--session", PRIVATE, "--yes", "--sources")
    assert not path.exists()
    left = [str(one) for one in private.claude.rglob("*") if PRIVATE in str(one) and one.is_file()]
    assert left == []
    assert (private.projects / FOLDER / f"{OTHER}.jsonl").exists()


def test_undo_lets_the_session_in_again(private: Home) -> None:
    before = private.rows("SELECT prompt FROM history ORDER BY 1")
    private.must("forget", "--session", PRIVATE, "--yes")
    listed = json.loads(private.must("forget", "--list", "--json").stdout)
    assert [one["messages"] for one in listed] == [6]
    assert PRIVATE[:8] not in str(listed)
    assert private.run("forget", "--undo", "zz").returncode == 2
    private.must("forget", "--undo", listed[0]["id"])
    read(private)
    assert private.sessions() == [OTHER, PRIVATE]
    private.must("forget", "--session", PRIVATE, "--yes")
    private.must("forget", "--undo", PRIVATE.upper())
    read(private)
    assert private.sessions() == [OTHER, PRIVATE]
    assert private.rows("SELECT prompt FROM history ORDER BY 1") == before
    assert private.rows("SELECT count(*) FROM plans") == [(2,)]
    must_verify(private)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--session", PRIVATE[:6]], [PRIVATE]),
        (["--session", PRIVATE, "--session", OTHER], [OTHER, PRIVATE]),
        (["--project", "tides"], [OTHER, PRIVATE]),
        (["--project", "tides", "--match", WORD], [PRIVATE]),
        (["--match", f"(?i){WORD.lower()}"], [PRIVATE]),
        (["--match", "no such words"], []),
        (["--before", "2026-08-24"], []),
        (["--before", "2026-09"], [OTHER, PRIVATE]),
    ],
)
def test_the_options_choose_sessions(private: Home, words: list[str], found: list[str]) -> None:
    done = private.must("forget", *words, "--dry-run", "--json")
    told = json.loads(done.stdout)
    assert sorted(one["id"] for one in told["sessions"]) == found
    assert private.sessions() == [OTHER, PRIVATE]


@pytest.mark.parametrize(
    "words",
    [[], ["--session", "nothing-like-it"], ["--match", "("], ["--session", PRIVATE]],
)
def test_what_is_not_clear_is_refused(private: Home, words: list[str]) -> None:
    done = private.run("forget", *words)
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    assert private.sessions() == [OTHER, PRIVATE]


def test_a_pattern_that_never_ends_is_given_up(
    private: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ctxdb.errors import UsageError
    from ctxdb.forget import choose

    monkeypatch.setattr(choose, "MATCH_SECONDS", 0.3)
    with closing(sqlite3.connect(private.db)) as conn:
        conn.execute("UPDATE messages SET text = ?", ("a" * 5000,))
        with pytest.raises(UsageError, match="simpler"):
            choose.choose(conn, choose.Wanted(pattern="(a+)+b"))


def test_forgetting_a_project_does_not_block_new_sessions(private: Home) -> None:
    private.must("forget", "--project", "tides", "--yes")
    assert private.sessions() == []
    new = "aaaa0000-0000-4000-8000-000000000001"
    write(private.projects / FOLDER / f"{new}.jsonl", dump(entries(new, "Fresh", 9)))
    read(private)
    assert private.sessions() == [new]


def test_a_fork_is_listed_and_forgotten_only_with_copies(private: Home) -> None:
    fork = "f0000000-0000-4000-8000-00000000000f"
    rows = [{**row, "sessionId": fork} for row in entries(PRIVATE, WORD, 7) if "sessionId" in row]
    write(private.projects / FOLDER / f"{fork}.jsonl", dump(rows))
    read(private)
    saved = private.db.parent.with_name("saved")
    shutil.copytree(private.db.parent, saved)
    told = private.must("forget", "--session", PRIVATE, "--dry-run").stderr
    assert f"Session {fork} (" in told
    assert "1 session would be forgotten." in told
    private.must("forget", "--session", PRIVATE, "--yes")
    assert private.sessions() == [OTHER, fork]
    assert private.rows(f"SELECT count(*) FROM messages WHERE session_id = '{fork}'") == [(4,)]
    must_verify(private)
    shutil.rmtree(private.db.parent)
    shutil.copytree(saved, private.db.parent)
    private.must("forget", "--session", PRIVATE, "--yes", "--with-copies")
    assert found_in(private.db.parent, WORD, PRIVATE, fork) == []
    must_be_gone(private)


def test_the_archive_of_a_forgotten_session_has_no_trace_in_its_log(private: Home) -> None:
    private.must("forget", "--session", PRIVATE, "--yes")
    for suffix in ("-wal", "-shm"):
        side = archive_path(private.db).with_name(f"ctxdb.db.archive{suffix}")
        assert not side.exists() or side.stat().st_size == 0


# -- backups ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_sealed", [False, True])
def test_backups_that_hold_a_session_are_named_and_the_next_backup_drops_it(
    private: Home, tmp_path: Path, is_sealed: bool
) -> None:
    if is_sealed:
        private.must("archive", "add")
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        private.must("backup", folder)
        assert found_in(folder, WORD)
    told = json.loads(private.must("forget", "--session", PRIVATE, "--yes", "--json").stdout)
    assert sorted(told["backups"]) == [str(first), str(second)]
    private.must("backup", first)
    assert found_in(first, WORD, PRIVATE) == []
    private.must("backup", "--verify", first)
    assert found_in(second, WORD)  # until its next backup


@pytest.mark.parametrize("is_sealed", [False, True])
def test_restoring_an_old_backup_does_not_bring_a_forgotten_session_back(
    private: Home, tmp_path: Path, is_sealed: bool
) -> None:
    if is_sealed:
        private.must("archive", "add")
    folder = tmp_path / "backup"
    private.must("backup", folder)
    private.must("forget", "--session", PRIVATE, "--yes")
    done = private.must("backup", "--restore", folder)
    assert "1 session of the backup, as you had it in the database before" in done.stdout
    must_be_gone(private)
    read(private)
    rebuild(config(private), NullProgress())
    must_be_gone(private)
    assert len(json.loads(private.must("forget", "--list", "--json").stdout)) == 1


def test_a_restore_without_a_database_says_that_forgotten_sessions_may_be_back(
    private: Home, tmp_path: Path
) -> None:
    folder = tmp_path / "backup"
    private.must("backup", folder)
    private.must("forget", "--session", PRIVATE, "--yes")
    for path in private.db.parent.iterdir():
        path.unlink()
    done = private.must("backup", "--restore", folder)
    assert "all 2 sessions of it are back" in done.stdout
    assert private.sessions() == [OTHER, PRIVATE]


# -- killed, or failing ----------------------------------------------------------------------------


def whole(home: Home) -> bool:
    """Whether the session is still there as a whole; else nothing of it is."""
    rows = home.rows(
        f"SELECT (SELECT count(*) FROM sessions WHERE id = '{PRIVATE}'),"
        f" (SELECT count(*) FROM messages WHERE session_id = '{PRIVATE}'),"
        " (SELECT count(*) FROM _forgotten)"
    )
    [(sessions, messages, tombstones)] = rows
    assert (sessions, messages, tombstones > 0) in ((1, 6, False), (0, 0, True)), rows
    return sessions == 1


def must_end_well(home: Home, moment: int) -> None:
    """After a kill or a failure, a sync brings all of it or none of it to an end."""
    __tracebackhide__ = True
    was_whole = whole(home)
    read(home)
    if was_whole:
        assert home.sessions() == [OTHER, PRIVATE], moment
        home.must("archive", "verify")
    else:
        assert found_in(home.db.parent, WORD, PRIVATE) == [], moment
        assert home.sessions() == [OTHER], moment


@EVERY_20TH
def test_killed_at_any_moment_a_session_is_whole_or_gone(private: Home, every: int) -> None:
    private.must("archive", "add")
    before = Saved(private.db.parent)
    command = ["--db", private.db, "forget", "--session", PRIVATE, "--yes"]
    seen = Seen()
    for moment in kills(every, command, before.put_back):
        if seen.is_new(private.db.parent):
            must_end_well(private, moment)
    must_be_gone(private)


@EVERY_20TH
def test_whatever_write_fails_a_session_is_whole_or_gone(private: Home, every: int) -> None:
    private.must("archive", "add")
    before = Saved(private.db.parent)
    command = ["--db", private.db, "forget", "--session", PRIVATE, "--yes"]
    step = every if every == 1 else every * 3  # it writes far more often than it runs statements
    seen = Seen()
    for failed in failures(step, command, before.put_back):
        if seen.is_new(private.db.parent):
            must_end_well(private, failed.moment)
    must_be_gone(private)
