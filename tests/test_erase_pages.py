"""What was removed from rows is in no page of the file, and in no log."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

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
