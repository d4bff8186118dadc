"""Every view says in its header what it answers, what its columns mean and how to show them."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from itertools import takewhile
from pathlib import Path

import pytest

from ctxdb.query.cells import display_by_name
from ctxdb.query.uncertain import LEFT_OUT
from ctxdb.store import sql_files
from lab import empty_database

VIEWS = sql_files.all_views()
BY_NAME = pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
FILES = [*VIEWS, *sql_files.all_queries()]
BY_FILE = pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
# SQL that a person writes shows these by their names: a header must not say anything else.
NAMED_AFTER_KIND = re.compile(r".*_(usd|tokens|bytes|seconds|share|rate|at|path|id)")


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("empty") / "empty.db"
    path.write_bytes(empty_database())
    return path


@BY_NAME
def test_every_column_is_described_in_order(empty: Path, view: sql_files.SqlFile) -> None:
    with closing(sqlite3.connect(empty)) as conn:
        found = [row[1] for row in conn.execute(f"PRAGMA table_info({view.name})")]
    assert list(view.columns) == found


@BY_NAME
def test_what_is_said_of_a_column_names_columns_that_are_there(
    empty: Path, view: sql_files.SqlFile
) -> None:
    with closing(sqlite3.connect(empty)) as conn:
        sql = "SELECT DISTINCT \"column\" FROM schema_docs WHERE kind = 'table'"
        of_tables = {column for (column,) in conn.execute(sql)}
    of_views = {column for one in VIEWS for column in one.columns}
    named = {word for text in view.columns.values() for word in re.findall(r"\w+_\w+", text)}
    assert (named & of_views) - of_tables <= set(view.columns)


@BY_NAME
def test_it_runs_on_a_database_without_rows(empty: Path, view: sql_files.SqlFile) -> None:
    with closing(sqlite3.connect(empty)) as conn:
        rows = conn.execute(f"SELECT * FROM {view.name}").fetchall()
    assert len(rows) == (1 if view.name == "overview" else 0) or view.name == "schema_docs"


@BY_NAME
def test_the_first_line_is_a_question_and_an_example_uses_the_view(view: sql_files.SqlFile) -> None:
    assert view.question.endswith(("?", "in words."))
    assert view.example is not None
    assert view.example.startswith("ctxdb query ")
    assert view.name in view.example


@BY_NAME
def test_filters_name_columns_that_are_there(empty: Path, view: sql_files.SqlFile) -> None:
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


# -- what the command line needs to know, of views and queries ---------------------------------


def where(file: sql_files.SqlFile) -> str:
    return f"sql/{'queries/' if file.kind == 'query' else ''}{file.name}.sql"


@BY_FILE
def test_the_header_says_of_what_kind_each_column_is(file: sql_files.SqlFile) -> None:
    missing = [column for column in file.columns if column not in file.displays]
    assert not missing, (
        f"{where(file)}: the header does not say how to show {', '.join(missing)}. Write"
        " `--   NAME (KIND): what it means`, or `(KIND, PLACE)`. KIND is one of"
        f" {', '.join(sql_files.COLUMN_KINDS)}. PLACE is one of"
        f" {', '.join(sql_files.PLACES)}. ctxdb/store/sql_files.py explains them."
    )


@BY_FILE
def test_a_kind_is_what_the_name_of_the_column_says(file: sql_files.SqlFile) -> None:
    for column, display in file.displays.items():
        if NAMED_AFTER_KIND.fullmatch(column):
            kind = display_by_name(column).kind
            assert display.kind == kind, (
                f"{where(file)}: {column} is {display.kind}, but by its name it is {kind}."
                " Correct the kind, or name the column differently."
            )


@BY_FILE
def test_a_header_has_no_misspelt_entry(file: sql_files.SqlFile) -> None:
    _, *lines = file.sql.splitlines()
    for line in takewhile(lambda line: line.startswith("--"), lines):
        if found := re.match(r"-- ([a-z][a-z ]*): ", line):
            assert found[1] in sql_files.ENTRIES, (
                f"{where(file)}: `{found[1]}` is not an entry of a header. It has"
                f" {', '.join(sql_files.ENTRIES)}; a remark begins with a capital letter."
            )


@BY_FILE
def test_one_row_per_names_a_table_that_the_view_reads(
    empty: Path, file: sql_files.SqlFile
) -> None:
    if "-- one row per:" not in file.sql:
        return
    assert file.one_row_per is not None, (
        f"{where(file)}: write `-- one row per: TABLE ORDER BY COLUMN, ...`"
    )
    table, order = file.one_row_per
    with closing(sqlite3.connect(empty)) as conn:
        conn.execute(f"SELECT * FROM {table} ORDER BY {order}")
    assert re.search(rf"\b(FROM|JOIN) {table}\b", file.sql)


@BY_FILE
def test_rows_share_requests_only_where_requests_are_counted(file: sql_files.SqlFile) -> None:
    assert not file.rows_share_requests or {*LEFT_OUT} <= {*file.columns}


def test_a_header_that_lacks_a_kind_is_noticed() -> None:
    text = "-- Which?\n--   a (text): one\n--   b: two\n--   c (mony): three\nSELECT 1"
    file = sql_files.parse("x", "view", text)
    with pytest.raises(AssertionError, match="does not say how to show b, c"):
        test_the_header_says_of_what_kind_each_column_is(file)


# -- the docs in the database ------------------------------------------------------------------


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
