"""A backup can be made while a daemon writes, killed at any moment, checked, and put back."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from ctxdb.archive.archive_file import archive_path, open_archive
from ctxdb.archive.seal import seal_projects
from ctxdb.backup.check import check_backup
from ctxdb.backup.make import BackupReport, make_backup
from ctxdb.backup.put_back import put_back
from ctxdb.config import Config
from ctxdb.errors import BackupError, DamagedDatabase, LockHeld
from ctxdb.ingest.sync import sync
from ctxdb.lock import WriterLock
from ctxdb.progress import NullProgress
from ctxdb.store.connection import open_reader
from ctxdb.store.known_backups import backups_with, known_backups
from kill_lab import EVERY_20TH, Saved, failures, kills
from live_lab import has, inside, until
from seen_files import Seen
from world import (
    NOBODY,
    OTHER_SESSION,
    SESSION,
    World,
    as_nobody,
    line,
    lines,
    public_world,
    run_ctxdb,
)

NOW, LATER = "2026-08-24T22:00:00.000Z", "2026-08-25T22:00:00.000Z"


def read(world: World) -> None:
    """Sync with the archive."""
    sync(Config(world.db, (str(world.root),), archive=True), progress=NullProgress())


def back_up(world: World, folder: Path, now: str = NOW) -> BackupReport:
    return make_backup(world.db, folder, now, NullProgress())


def seal(world: World) -> None:
    with closing(open_archive(world.db)) as conn:
        seal_projects(conn, LATER, quiet_since="9999", smallest=0)


def rows(path: Path, sql: str = "SELECT uuid FROM messages ORDER BY 1") -> list[str]:
    with closing(sqlite3.connect(path)) as conn:
        return [row for (row,) in conn.execute(sql)]


def archived(db: Path) -> dict[str, int]:
    with closing(sqlite3.connect(archive_path(db))) as conn:
        return dict(conn.execute("SELECT path, size FROM files").fetchall())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "copies" / "ctxdb"


@pytest.fixture
def filled(world: World) -> World:
    world.write(lines(0, 1, 2))
    read(world)
    return world


def test_a_backup_holds_database_and_archive_and_is_private(filled: World, folder: Path) -> None:
    report = back_up(filled, folder)
    assert (report.pieces_copied, report.problems) == (1, [])
    assert rows(folder / "ctxdb.db") == rows(filled.db)
    assert archived(folder / "ctxdb.db") == archived(filled.db)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {"-wal", "-shm", "-journal"}.isdisjoint(p.suffix for p in folder.iterdir())
    assert check_backup(folder, NullProgress()).ok


def test_only_what_is_new_in_the_archive_is_copied_and_what_was_replaced_is_dropped(
    filled: World, folder: Path
) -> None:
    back_up(filled, folder)
    assert back_up(filled, folder, LATER).pieces_copied == 0
    filled.write(line(9, sessionId=OTHER_SESSION), filled.file("-work-moon/other.jsonl"))
    read(filled)
    again = back_up(filled, folder, LATER)
    assert (again.pieces_copied, again.pieces_dropped) == (1, 0)
    seal(filled)
    sealed = back_up(filled, folder, LATER)
    assert (sealed.pieces_copied, sealed.pieces_dropped) == (2, 2)
    assert archived(folder / "ctxdb.db") == archived(filled.db)
    assert check_backup(folder, NullProgress()).ok


def test_a_backup_is_made_while_a_daemon_writes(world: World, folder: Path) -> None:
    world.write(lines(0))
    with inside(world):
        has(world, 1)
        for n in range(1, 6):
            world.append(line(n))
            back_up(world, folder)
            assert check_backup(folder, NullProgress()).ok
        has(world, 6)
        until(lambda: len(rows(world.db)) == 6)
        back_up(world, folder)
    assert rows(folder / "ctxdb.db") == rows(world.db)


def test_the_database_remembers_its_backups_and_which_hold_a_session(
    filled: World, folder: Path, tmp_path: Path
) -> None:
    back_up(filled, folder)
    filled.write(line(9, sessionId=OTHER_SESSION), filled.file("-work-moon/other.jsonl"))
    read(filled)
    back_up(filled, tmp_path / "second", LATER)
    with closing(open_reader(filled.db)) as conn:
        names = [one.folder for one in known_backups(conn)]
        assert names == [str(tmp_path / "second"), str(folder)]
        assert [one.folder for one in backups_with(conn, [OTHER_SESSION])] == names[:1]
        assert [one.folder for one in backups_with(conn, [SESSION])] == names
        shutil.rmtree(folder)
        assert [one.folder for one in backups_with(conn, [SESSION])] == names[:1]


def test_a_backup_is_put_back_and_what_was_there_is_kept(filled: World, folder: Path) -> None:
    back_up(filled, folder)
    filled.append(lines(3, 4))
    read(filled)
    newer = rows(filled.db)
    done = put_back(folder, filled.db, "then", NullProgress())
    assert len(rows(filled.db)) == 3
    assert done.moved_to is not None
    aside = Path(done.moved_to)
    assert rows(aside / filled.db.name) == newer
    assert archived(aside / filled.db.name)[str(filled.main)] == filled.main.stat().st_size
    assert not list(filled.db.parent.glob("*.restoring"))
    read(filled)
    assert rows(filled.db) == newer
    assert archived(filled.db)[str(filled.main)] == filled.main.stat().st_size


def test_after_a_restore_a_sync_reads_what_only_the_archive_has(
    filled: World, folder: Path
) -> None:
    back_up(filled, folder)
    older = {name: (folder / name).read_bytes() for name in ("ctxdb.db", "backup.json")}
    filled.append(lines(3, 4))
    filled.write(line(9, sessionId=OTHER_SESSION), filled.file("-work-moon/other.jsonl"))
    read(filled)
    wanted = rows(filled.db)
    back_up(filled, folder, LATER)
    for name, data in older.items():  # as if it was killed before the database got its name
        (folder / name).write_bytes(data)
    shutil.rmtree(filled.root)
    filled.root.mkdir()
    put_back(folder, filled.db, "then", NullProgress())
    assert len(rows(filled.db)) == 3
    read(filled)
    assert rows(filled.db) == wanted


def test_a_backup_is_put_back_where_nothing_is(filled: World, folder: Path, tmp_path: Path) -> None:
    back_up(filled, folder)
    target = tmp_path / "new" / "ctxdb.db"
    assert put_back(folder, target, "then", NullProgress()).moved_to is None
    assert rows(target) == rows(filled.db)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_a_database_that_is_written_to_is_not_replaced(filled: World, folder: Path) -> None:
    back_up(filled, folder)
    with WriterLock(filled.db), pytest.raises(LockHeld):
        put_back(folder, filled.db, "then", NullProgress())
    assert len(rows(filled.db)) == 3


def test_a_damaged_database_does_not_replace_the_last_good_backup(
    filled: World, folder: Path
) -> None:
    back_up(filled, folder)
    before = (folder / "ctxdb.db").read_bytes()
    with closing(sqlite3.connect(filled.db)) as conn:
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (root,) = conn.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'messages'"
        ).fetchone()
        (size,) = conn.execute("PRAGMA page_size").fetchone()
    with filled.db.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xff" * 300)
    with pytest.raises(DamagedDatabase, match=r"is damaged.*`ctxdb rebuild`"):
        back_up(filled, folder, LATER)
    assert (folder / "ctxdb.db").read_bytes() == before
    assert check_backup(folder, NullProgress()).ok


@pytest.mark.parametrize("name", ["ctxdb.db", "ctxdb.db.archive"])
def test_damage_in_a_backup_is_found_and_it_is_not_put_back(
    filled: World, folder: Path, name: str
) -> None:
    filled.append(b"".join(line(n, os.urandom(3000).hex()) for n in range(10, 30)))
    read(filled)
    back_up(filled, folder)
    data = bytearray((folder / name).read_bytes())
    data[len(data) // 2 : len(data) // 2 + 200] = b"\xee" * 200
    (folder / name).write_bytes(data)
    checked = check_backup(folder, NullProgress())
    assert not checked.ok
    with pytest.raises(BackupError, match="the backup is damaged, nothing was restored"):
        put_back(folder, filled.db, "then", NullProgress())
    assert len(rows(filled.db)) == 23


def test_the_backup_of_another_database_is_not_overwritten(
    filled: World, folder: Path, tmp_path: Path
) -> None:
    back_up(filled, folder)
    other = World(tmp_path / "other-projects", tmp_path / "other/ctxdb.db")
    other.write(lines(7))
    other.sync()
    with pytest.raises(BackupError, match=r"holds a backup of .*/data/ctxdb\.db"):
        back_up(other, folder)
    with pytest.raises(BackupError, match="holds the database itself"):
        back_up(other, other.db.parent)
    shutil.copytree(other.db.parent, tmp_path / "copied")
    with pytest.raises(BackupError, match="holds a database that is no backup"):
        back_up(filled, tmp_path / "copied")


def test_the_copy_of_an_archive_that_was_lost_is_kept(filled: World, folder: Path) -> None:
    back_up(filled, folder)
    had = archived(folder / "ctxdb.db")
    for path in filled.db.parent.glob("*.archive*"):
        path.unlink()
    filled.main.unlink()
    filled.write(line(9, sessionId=OTHER_SESSION), filled.file("-work-moon/other.jsonl"))
    read(filled)
    (problem,) = back_up(filled, folder, LATER).problems
    assert problem.endswith("the copy of the earlier one is " + str(folder / "ctxdb.db.archive.1"))
    shutil.copy(folder / "ctxdb.db.archive.1", folder / "x.archive")
    assert archived(folder / "x") == had


def test_a_link_or_a_folder_of_others_is_refused(filled: World, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(BackupError, match="is not a folder"):
        back_up(filled, tmp_path / "link")
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "open/notes.txt").write_text("not of a backup")
    with pytest.raises(BackupError, match="others can read it"):
        back_up(filled, tmp_path / "open")


def test_the_commands_speak_json(filled: World, folder: Path) -> None:
    made = json.loads(filled.cli("backup", folder, "--json").stdout)
    assert made["pieces_copied"] == 1
    checked = json.loads(filled.cli("backup", "--verify", folder, "--json").stdout)
    assert (checked["ok"], checked["sessions"]) == (True, 1)
    done = json.loads(filled.cli("backup", "--restore", folder, "--json").stdout)
    assert done["moved"] == ["ctxdb.db", "ctxdb.db.archive"]
    nothing = filled.cli("backup", "--verify", folder.parent)
    assert nothing.returncode == 1
    assert "there is no backup" in nothing.stderr


def half_write_archive(folder: Path) -> None:
    """Leave what a backup leaves that is killed while it commits: half a change, and its journal.

    The files are copied while the change goes on, so no process holds a lock on the copies.
    """
    copy = folder / "ctxdb.db.archive"
    aside = folder.with_name("aside")
    shutil.copytree(folder, aside)
    with closing(sqlite3.connect(aside / copy.name, isolation_level=None)) as conn:
        conn.execute("PRAGMA cache_size = 1")
        conn.execute("PRAGMA cache_spill = 1")
        conn.execute("BEGIN IMMEDIATE")
        conn.execute("UPDATE frames SET data = zeroblob(length(data))")
        conn.execute("CREATE TABLE more AS SELECT zeroblob(20000) AS x FROM frames")
        for name in (copy.name, f"{copy.name}-journal"):
            shutil.copy(aside / name, folder / name)
        conn.execute("ROLLBACK")
    shutil.rmtree(aside)
    with (
        closing(sqlite3.connect(f"file:{copy}?mode=ro", uri=True)) as conn,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        conn.execute("SELECT * FROM sqlite_master")


def test_a_backup_is_good_whose_archive_was_half_written(filled: World, folder: Path) -> None:
    back_up(filled, folder)
    half_write_archive(folder)
    done = filled.cli("backup", "--verify", folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "The backup is intact." in done.stdout


def test_a_backup_whose_archive_was_half_written_is_restored(filled: World, folder: Path) -> None:
    back_up(filled, folder)
    wanted = rows(filled.db)
    half_write_archive(folder)
    for path in filled.db.parent.iterdir():
        path.unlink()
    done = filled.cli("backup", "--restore", folder)
    assert done.returncode == 0, done
    assert rows(filled.db) == wanted
    archived = run_ctxdb("--db", filled.db, "archive", "verify")
    assert archived.returncode == 0, archived


def test_the_next_backup_goes_on_where_the_archive_was_half_written(
    filled: World, folder: Path
) -> None:
    back_up(filled, folder)
    filled.append(lines(3))
    read(filled)
    half_write_archive(folder)
    assert back_up(filled, folder, LATER).problems == []
    assert check_backup(folder, NullProgress()).ok


def test_a_journal_of_a_damaged_copy_does_not_harm_the_new_one(filled: World, folder: Path) -> None:
    back_up(filled, folder)
    half_write_archive(folder)
    (folder / "ctxdb.db.archive").write_bytes(b"not a database " * 1000)
    assert back_up(filled, folder, LATER).problems == []
    assert not (folder / "ctxdb.db.archive-journal").exists()
    assert check_backup(folder, NullProgress()).ok


def test_what_was_half_written_and_cannot_be_undone_is_told(filled: World) -> None:
    with public_world() as world:
        folder = world.db.parent / "backup"
        back_up(filled, folder)
        half_write_archive(folder)
        for path in (*folder.iterdir(), folder):
            path.chmod(0o500 if path == folder else 0o400)
            if os.geteuid() == 0:
                os.chown(path, NOBODY, NOBODY)
        [told] = as_nobody(lambda: check_backup(folder, NullProgress()).damage)
    assert "copy the folder to where you can write" in told


def test_what_a_restore_moved_aside_is_named_when_a_session_in_it_is_forgotten(
    filled: World, folder: Path
) -> None:
    back_up(filled, folder)
    moved_to = put_back(folder, filled.db, "then", NullProgress()).moved_to
    done = run_ctxdb("--db", filled.db, "forget", "--session", SESSION, "--yes")
    assert done.returncode == 0, done
    assert f"moved aside still holds them: {moved_to}. Delete it." in done.stdout


@EVERY_20TH
def test_a_backup_that_is_killed_leaves_a_good_one(filled: World, folder: Path, every: int) -> None:
    back_up(filled, folder)
    filled.append(lines(3))
    read(filled)
    seal(filled)
    saved, source = Saved(folder), Saved(filled.db.parent)

    def prepare() -> None:
        saved.put_back()
        source.put_back()

    seen = Seen()
    for moment in kills(every, ["--db", filled.db, "backup", folder], prepare):
        if not seen.is_new(folder, filled.db.parent):
            continue
        checked = check_backup(folder, NullProgress())
        assert checked.ok, (moment, checked)
        assert len(rows(folder / "ctxdb.db")) in (3, 4)
        assert len(rows(filled.db)) == 4
    assert len(rows(folder / "ctxdb.db")) == 4
    assert check_backup(folder, NullProgress()).ok


@EVERY_20TH
def test_a_write_that_fails_leaves_a_good_backup(filled: World, folder: Path, every: int) -> None:
    back_up(filled, folder)
    filled.append(lines(3))
    read(filled)
    saved, source = Saved(folder), Saved(filled.db.parent)

    def prepare() -> None:
        saved.put_back()
        source.put_back()

    seen = Seen()
    for failed in failures(every, ["--db", filled.db, "backup", folder], prepare):
        if not seen.is_new(folder, filled.db.parent):
            continue
        checked = check_backup(folder, NullProgress())
        assert checked.ok, (failed, checked)
        assert len(rows(filled.db)) == 4


@EVERY_20TH
def test_a_restore_of_a_backup_that_is_killed_loses_nothing(
    filled: World, folder: Path, every: int
) -> None:
    back_up(filled, folder)
    filled.append(lines(3))
    read(filled)
    source = Saved(filled.db.parent)
    command = ["--db", filled.db, "backup", "--restore", folder]
    seen = Seen()
    for moment in kills(every, command, source.put_back):
        if not seen.is_new(filled.db.parent):
            continue
        there = [*filled.db.parent.rglob("ctxdb.db")]
        assert 4 in [len(rows(path)) for path in there], moment
        assert filled.cli("backup", "--restore", folder).returncode == 0
        assert len(rows(filled.db)) == 3
