"""What only the archive has is read by the same code as any file."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from ctxdb.archive.archive_file import archive_path
from ctxdb.config import Config
from ctxdb.demo import write_demo
from ctxdb.ingest.from_archive import look_at_archive_again
from ctxdb.ingest.sync import sync
from ctxdb.progress import NullProgress
from ctxdb.store.connection import open_writer
from lab import must_equal
from snapshot import content
from world import OTHER_SESSION, World, lines, texts

if TYPE_CHECKING:
    from pathlib import Path

    from ctxdb.ingest.report import SyncReport


def archiving(world: World) -> SyncReport:
    return sync(world.config._replace(archive=True), progress=NullProgress())


def without_states(found: dict[str, list[str]]) -> dict[str, list[str]]:
    """What was read, whether or not the files are still there."""
    return {
        name: [row.replace("'state': 'missing'", "'state': 'ok'") for row in rows]
        for name, rows in found.items()
    }


def remove_database(db: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        db.with_name(db.name + suffix).unlink(missing_ok=True)


def test_a_deleted_database_comes_back_from_the_archive_alone(home: Path) -> None:
    write_demo(home / ".claude/projects")
    config = Config(home / "data/ctxdb.db", (str(home / ".claude/projects"),), archive=True)
    sync(config, progress=NullProgress())
    before = without_states(content(config.db_path))
    remove_database(config.db_path)
    shutil.rmtree(home / ".claude")
    report = sync(config, progress=NullProgress())
    assert report.from_archive > 10
    assert report.problems == []
    must_equal(before, without_states(content(config.db_path)))
    again = sync(config, progress=NullProgress())
    assert (again.lines_read, again.from_archive, again.problems) == (0, 0, [])


def test_lines_that_only_an_older_generation_has_get_their_rows(world: World) -> None:
    world.write(lines(0, 1, 2, 3))
    archiving(world)
    world.write(lines(0, 1, 7))
    archiving(world)
    before = world.ask("SELECT text, byte_start, byte_length FROM messages ORDER BY text")
    world.main.unlink()
    remove_database(world.db)
    archiving(world)
    assert world.texts() == texts([0, 1, 2, 3, 7])
    after = world.ask("SELECT text, byte_start, byte_length FROM messages ORDER BY text")
    assert after == before
    assert [one < 0 for _, _, one in after] == [False, False, True, True, False]


def test_an_older_generation_of_a_file_that_is_still_there_is_read_too(world: World) -> None:
    world.write(lines(0, 1, 2, 3))
    archiving(world)
    world.write(lines(0, 1, 7))
    archiving(world)
    world.append(lines(8))
    remove_database(world.db)
    archiving(world)
    assert world.texts() == texts([0, 1, 2, 3, 7, 8])
    assert archiving(world).lines_read == 0


def test_an_older_copy_of_the_database_gets_what_the_archive_has_more(world: World) -> None:
    world.write(lines(0, 1))
    archiving(world)
    older = world.db.read_bytes()
    world.append(lines(2, 3))
    other = world.write(lines(10, sessionId=OTHER_SESSION), world.file(f"p/{OTHER_SESSION}.jsonl"))
    archiving(world)
    remove_database(world.db)
    world.db.write_bytes(older)
    world.main.unlink()
    other.unlink()
    with open_writer(world.db) as conn:
        look_at_archive_again(conn)
    conn.close()
    archiving(world)
    assert world.texts() == texts([0, 1, 2, 3, 10])
    assert world.ask("SELECT state FROM source_files") == [("missing",)] * 2
    assert world.one("SELECT count(*) FROM sessions WHERE source_deleted_at IS NULL") == 0


def test_a_restored_file_is_not_read_again(world: World) -> None:
    world.write(lines(0, 1))
    archiving(world)
    data = world.main.read_bytes()
    world.main.unlink()
    remove_database(world.db)
    archiving(world)
    world.write(data)
    report = archiving(world)
    assert (report.lines_read, report.rewritten_files) == (0, 0)
    assert world.one("SELECT count(source_deleted_at) FROM sessions") == 0
    assert world.texts() == texts([0, 1])


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_case_99_an_archive_that_is_gone_is_reported_and_a_new_one_is_started(
    world: World, how: str
) -> None:
    world.write(lines(0, 1))
    archiving(world)
    path = archive_path(world.db)
    if how == "deleted":
        path.unlink()
    else:
        other = World(world.root.parent / "others", world.db.with_name("other.db"))
        other.root.mkdir()
        other.write(lines(5))
        archiving(other)
        archive_path(other.db).rename(path)
    world.append(lines(2))
    report = archiving(world)
    (problem,) = report.problems
    assert str(world.db) in problem
    assert ("it is gone" if how == "deleted" else "another one is there") in problem
    assert set(texts([0, 1, 2])) <= set(world.texts())
    assert path.exists()
    assert archiving(world).problems == []
    # The new archive has all that is there.
    world.main.unlink()
    remove_database(world.db)
    archiving(world)
    assert set(texts([0, 1, 2])) <= set(world.texts())
