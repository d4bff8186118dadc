"""What was removed from rows is in no page of the file, and in no log."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ctxdb.archive.erase import clear_free_pages
from ctxdb.page_gaps import clear_gaps
from ctxdb.store.connection import open_reader, open_writer, write_transaction
from ctxdb.store.erase_pages import erase_pages, is_unerased, note_unerased, overwrite_removed
from ctxdb.store.schema import prepare

WORD = "Xylophonequartz"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "erase.db"
    with closing(open_writer(path)) as conn:
        prepare(conn, path)
    return path


def holds(path: Path, word: str = WORD) -> bool:
    files = (path, path.with_name(f"{path.name}-wal"))
    data = b"".join(file.read_bytes() for file in files if file.exists())
    return word.lower().encode() in data.lower()


def put(conn: sqlite3.Connection, rows: int = 40) -> None:
    with write_transaction(conn):
        conn.executemany(
            "INSERT INTO turns (id, kind, prompt) VALUES (?, 'prompt', ?)",
            [(n, f"{WORD}{n} " + "so many words " * 400) for n in range(rows)],
        )


def test_what_was_removed_is_in_no_page(path: Path) -> None:
    with closing(open_writer(path)) as conn:
        put(conn)
        with write_transaction(conn):
            conn.execute("DELETE FROM turns WHERE id < 20")  # leaves free pages with old text
        overwrite_removed(conn)
        with write_transaction(conn):
            conn.execute("UPDATE turns SET prompt = 'masked'")
            note_unerased(conn)
        assert is_unerased(conn)
        assert erase_pages(conn) is None
        assert not is_unerased(conn)
        assert conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        conn.execute("INSERT INTO turns_fts (turns_fts) VALUES ('integrity-check')")
        assert not holds(path)
    assert not holds(path)


def test_a_reader_delays_it_and_the_next_try_finishes(path: Path) -> None:
    with closing(open_writer(path)) as conn:
        put(conn)
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        overwrite_removed(conn)
        with closing(open_reader(path)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM turns").fetchone()
            with write_transaction(conn):
                conn.execute("DELETE FROM turns")
                note_unerased(conn)
            assert erase_pages(conn, wait=0.05) is not None
            assert is_unerased(conn)
            reader.execute("COMMIT")
        assert erase_pages(conn) is None
        assert not holds(path)


ROWS = 1200


def put_in_any_order(conn: sqlite3.Connection, table: str, *, name: str = "word") -> None:
    """Rows that SQLite moves from page to page as more of them come between others."""
    order = random.Random(7)
    numbers = [*range(ROWS)]
    order.shuffle(numbers)
    rows = [(n, f"{name}{n:05d}x" + "y" * order.randrange(50, 900)) for n in numbers]
    conn.executemany(f"INSERT INTO {table} VALUES (?, ?)", rows)


def left_of(path: Path, name: str = "word") -> list[int]:
    """The odd rows that are still somewhere in the file."""
    data = path.read_bytes()
    return [n for n in range(1, ROWS, 2) if f"{name}{n:05d}x".encode() in data]


def empty_log(conn: sqlite3.Connection) -> None:
    assert conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0


def test_rows_that_were_moved_before_they_were_removed_are_in_no_page(path: Path) -> None:
    with closing(open_writer(path)) as conn:
        conn.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, note TEXT)")
        conn.execute("CREATE INDEX notes_by_note ON notes (note)")
        with write_transaction(conn):
            put_in_any_order(conn, "notes")
        with write_transaction(conn):
            conn.execute("DELETE FROM notes WHERE id % 2")
            note_unerased(conn)
        empty_log(conn)
        assert left_of(path)  # what this is about: secure_delete is on
        assert erase_pages(conn) is None
        assert left_of(path) == []
        with write_transaction(conn):  # a page that was read before must not come back
            conn.execute("UPDATE notes SET note = note || 'z'")
        empty_log(conn)
        assert left_of(path) == []
        assert conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert conn.execute("SELECT count(*) FROM notes").fetchone() == (ROWS // 2,)


def test_the_archive_keeps_nothing_of_files_that_were_moved_before(tmp_path: Path) -> None:
    path = tmp_path / "small.archive"
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        conn.execute("PRAGMA page_size = 512")  # many pages that say where pages belong
        conn.execute("PRAGMA auto_vacuum = INCREMENTAL")
        conn.execute("PRAGMA secure_delete = ON")
        conn.execute("PRAGMA journal_mode = WAL")
        conn.execute("CREATE TABLE files (id INTEGER PRIMARY KEY, path TEXT UNIQUE)")
        conn.execute("BEGIN")
        put_in_any_order(conn, "files")
        conn.execute("COMMIT")
        conn.execute("DELETE FROM files WHERE id % 2")
        empty_log(conn)
        assert left_of(path)
        assert clear_free_pages(conn) is None
        assert left_of(path) == []
        assert conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with closing(sqlite3.connect(path)) as again:  # as other programs see it
        assert again.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert again.execute("SELECT count(*) FROM files").fetchone() == (ROWS // 2,)


def test_pages_are_not_cleared_while_the_log_has_newer_ones(path: Path) -> None:
    with closing(open_writer(path)) as conn:
        empty_log(conn)
        with closing(sqlite3.connect(path)) as other:  # as DB Browser does
            other.execute("CREATE TABLE theirs (id)")
            other.commit()
            before = path.read_bytes()
            assert clear_gaps(conn) == "another program has written to it"
            assert path.read_bytes() == before


def test_what_is_no_database_is_not_touched(path: Path) -> None:
    with closing(open_writer(path)) as conn:
        empty_log(conn)
        moved = path.rename(path.with_name("moved.db"))
        path.write_text("a text\n" * 2000)
        assert clear_gaps(conn) == "its pages cannot be cleared: not a database"
        assert path.read_text() == "a text\n" * 2000
        moved.replace(path)
