"""Every view says what it answers and what each of its columns means."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ctxdb.store import sql_files
from lab import empty_database

VIEWS = sql_files.all_views()
BY_NAME = pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("empty") / "empty.db"
    path.write_bytes(empty_database())
    return path


@BY_NAME
def test_every_column_is_described_in_order(empty: Path, view: sql_files.Canned) -> None:
    with closing(sqlite3.connect(empty)) as conn:
        found = [row[1] for row in conn.execute(f"PRAGMA table_info({view.name})")]
    assert list(view.columns) == found


@BY_NAME
def test_what_is_said_of_a_column_names_columns_that_are_there(
    empty: Path, view: sql_files.Canned
) -> None:
    with closing(sqlite3.connect(empty)) as conn:
        sql = "SELECT DISTINCT \"column\" FROM schema_docs WHERE kind = 'table'"
        of_tables = {column for (column,) in conn.execute(sql)}
    of_views = {column for one in VIEWS for column in one.columns}
    named = {word for text in view.columns.values() for word in re.findall(r"\w+_\w+", text)}
    assert (named & of_views) - of_tables <= set(view.columns)


@BY_NAME
def test_it_runs_on_a_database_without_rows(empty: Path, view: sql_files.Canned) -> None:
    with closing(sqlite3.connect(empty)) as conn:
        rows = conn.execute(f"SELECT * FROM {view.name}").fetchall()
    assert len(rows) == (1 if view.name == "overview" else 0) or view.name == "schema_docs"


@BY_NAME
def test_the_first_line_is_a_question_and_an_example_uses_the_view(view: sql_files.Canned) -> None:
    assert view.question.endswith(("?", "in words."))
    assert view.example is not None
    assert view.example.startswith("ctxdb query ")
    assert view.name in view.example


@BY_NAME
def test_filters_name_columns_that_are_there(empty: Path, view: sql_files.Canned) -> None:
    with closing(sqlite3.connect(empty)) as conn:
        for option, columns in view.filters.items():
            assert option in sql_files.FILTERS
            for table, column in columns:
                name = table or view.name
                assert column in [row[1] for row in conn.execute(f"PRAGMA table_info({name})")]
                if (
                    table
                ):  # it must be read by that name, or a narrower one could not take its place
                    assert re.search(rf"\b(FROM|JOIN) {table}\b", view.sql)
    assert view.period is None or "since" in view.filters


def test_the_database_describes_every_view(empty: Path) -> None:
    with closing(sqlite3.connect(empty)) as conn:
        told = conn.execute("SELECT name, \"column\" FROM schema_docs WHERE kind = 'view'")
        assert {(v.name, c) for v in VIEWS for c in ("", *v.columns)} == set(told.fetchall())


def test_a_column_that_has_only_certain_values_names_them(empty: Path) -> None:
    """Who reads schema_docs does not see the CHECK."""
    with closing(sqlite3.connect(empty)) as conn:
        docs = 'SELECT name, "column", description FROM schema_docs'
        told = {(name, column): words for name, column, words in conn.execute(docs)}
        tables = conn.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
    checked = 0
    certain = re.compile(r"^  (\w+) .*?CHECK \(((?:\w+ = '.*?'[ )OR]*)+)", re.MULTILINE)
    for table, sql in tables:
        for column, values in certain.findall(sql):
            for value in re.findall(r"'(\w+)'", values):
                assert re.search(rf"\b{value}\b", told[table, column]), (table, column, value)
                checked += 1
    assert checked > 50
