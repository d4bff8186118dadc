"""Random keys in `_meta`: made once, kept, and carried to another database."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ctxdb.store.connection import open_reader, open_writer
from ctxdb.store.keys import KEY_BYTES, copy_keys, give_key, key_of, new_key
from ctxdb.store.schema import prepare


@pytest.fixture(autouse=True)
def _random(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctxdb.store.keys.urandom", os.urandom)


@pytest.fixture
def db_path(tmp_path: Path) -> Path:
    path = tmp_path / "keys.db"
    with closing(open_writer(path)) as conn:
        prepare(conn, path)
    return path


def test_a_key_is_random_and_stays(db_path: Path) -> None:
    with closing(open_writer(db_path)) as conn:
        one, other = key_of(conn, "one"), key_of(conn, "other")
    assert len(one) == len(other) == KEY_BYTES
    assert one != other
    with closing(open_reader(db_path)) as conn:
        assert key_of(conn, "one") == one


def test_a_reader_of_a_database_without_the_key_gets_one_that_is_not_kept(db_path: Path) -> None:
    with closing(open_reader(db_path)) as conn:
        assert len(key_of(conn, "none yet")) == KEY_BYTES
        (kept,) = conn.execute("SELECT count(*) FROM _meta WHERE key = 'key none yet'").fetchone()
    assert kept == 0


def test_a_key_of_another_database_can_be_given(db_path: Path, tmp_path: Path) -> None:
    second = tmp_path / "second.db"
    with closing(open_writer(db_path)) as first, closing(open_writer(second)) as conn:
        prepare(conn, second)
        key = key_of(first, "lines")
        copy_keys(first, conn)
        assert key_of(conn, "lines") == key
        give_key(conn, "lines", new_key())
        assert key_of(conn, "lines") == key


@pytest.mark.parametrize("value", ["", "no hexadecimal", "00ff", None])
def test_a_damaged_key_is_not_used(db_path: Path, value: str | None) -> None:
    with closing(sqlite3.connect(db_path)) as conn:
        conn.execute("INSERT OR REPLACE INTO _meta VALUES ('key lines', ?)", (value,))
        conn.commit()
        assert len(key_of(conn, "lines")) == KEY_BYTES
