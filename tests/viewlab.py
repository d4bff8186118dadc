"""Asking views and queries about a database."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from builder import World
from ctxdb.store import sql_files
from demo_db import demo_folder
from lab import Lab

Row = dict[str, Any]
Made = Callable[[World], Path]  # the fixture `made`: a database of transcripts


def stored(one: Lab, story: World) -> Path:
    """The database of a lab, with these transcripts in it."""
    story.write(one.root)
    one.sync()
    return one.db


def demo_database(folder: Path) -> Path:
    """A copy of the demo's database in that folder."""
    return Path(shutil.copy(demo_folder() / "demo.db", folder))


def ask(db: Path, sql: str, **values: Any) -> list[Row]:
    """What the database answers, row by row with names."""
    with closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as conn:
        conn.row_factory = sqlite3.Row
        return [dict(row) for row in conn.execute(sql, values)]


def columns(db: Path, view: str, names: str, rest: str = "") -> list[tuple[Any, ...]]:
    """Some columns of a view, as tuples."""
    return [tuple(row.values()) for row in ask(db, f"SELECT {names} FROM {view} {rest}")]


def answer(db: Path, name: str, columns: str, **given: str | int) -> list[tuple[Any, ...]]:
    """Some columns of a query's answer, told what is given and else its defaults."""
    query = sql_files.find(name)
    assert query is not None
    assert query.kind == "query"
    told: dict[str, str | int] = {"since": "2026-01-01", "until": "9999"}
    for param in query.params:
        if param.default is not None and param.name not in told:
            told[param.name] = int(param.default) if param.kind == "integer" else param.default
    known = {param.name for param in query.params}
    values = {key: value for key, value in {**told, **given}.items() if key in known}
    return [
        tuple(row[column.strip()] for column in columns.split(","))
        for row in ask(db, query.sql, **values)
    ]
