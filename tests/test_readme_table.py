"""The table README: the first thing a person sees in a database."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ctxdb.store import sql_files
from ctxdb.store.readme import readme_topics
from demo_db import demo_folder


@pytest.fixture(scope="module")
def rows() -> dict[str, str]:
    with closing(sqlite3.connect(demo_folder() / "demo.db")) as conn:
        return dict(conn.execute("SELECT topic, text FROM README"))


def test_it_is_filled_in_a_new_database_in_reading_order(rows: dict[str, str]) -> None:
    assert list(rows.items()) == readme_topics()
    headings = [topic for topic in rows if not topic.startswith("view ")]
    assert [topic.split()[0] for topic in headings] == ["1", "2", "3", "4", "5"]
    assert all(text.strip() for text in rows.values())


def test_every_public_view_is_named_with_its_question(rows: dict[str, str]) -> None:
    views = {f"view {view.name}": view.question for view in sql_files.all_views()}
    assert {topic: text for topic, text in rows.items() if topic.startswith("view ")} == views


def test_every_name_that_it_mentions_exists(rows: dict[str, str]) -> None:
    with closing(sqlite3.connect(demo_folder() / "demo.db")) as conn:
        tables = {name for (name,) in conn.execute("SELECT name FROM sqlite_master")}
        columns = {name for (name,) in conn.execute('SELECT "column" FROM schema_docs')}
        named = {name for text in rows.values() for name in re.findall(r"`([a-z_.]+)`", text)}
        assert len(named) > 20
        for name in named - {"_"}:
            table, _, column = name.rpartition(".")
            if table:
                conn.execute(f'SELECT "{column}" FROM "{table}"')
            assert column in tables | columns, name


def test_its_name_sorts_before_all_others() -> None:
    """DB Browser sorts tables and views together, by code points; Datasette sorts tables so."""
    with closing(sqlite3.connect(demo_folder() / "demo.db")) as conn:
        names = [
            name
            for (name,) in conn.execute(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
            )
        ]
    assert min(names) == "README"


def test_a_text_that_has_changed_is_written_again(tmp_path: Path) -> None:
    from ctxdb.store.connection import open_writer
    from ctxdb.store.schema import prepare

    path = tmp_path / "ctxdb.db"
    with closing(open_writer(path)) as conn:
        prepare(conn, path)
        conn.execute("UPDATE README SET text = 'old' WHERE topic LIKE '1%'")
        conn.execute("UPDATE _meta SET value = 'another' WHERE key = 'schema'")
        prepare(conn, path)
        assert conn.execute("SELECT topic, text FROM README").fetchall() == readme_topics()
