"""Databases to ask views about: the demo set, made once per process."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from ctxdb.config import Config
from ctxdb.demo import write_demo
from ctxdb.ingest import sync
from ctxdb.progress import NullProgress

Row = dict[str, Any]


@cache
def _demo_bytes() -> bytes:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_demo(folder / "projects")
        config = Config(folder / "demo.db", (str(folder / "projects"),))
        sync(config, wait=False, progress=NullProgress())
        return config.db_path.read_bytes()


def demo_database(folder: Path) -> Path:
    """A copy of the demo's database in that folder."""
    path = folder / "demo.db"
    path.write_bytes(_demo_bytes())
    return path


def ask(db: Path, sql: str, **values: Any) -> list[Row]:
    """What the database answers, row by row with names."""
    with closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as conn:
        conn.row_factory = sqlite3.Row
        return [dict(row) for row in conn.execute(sql, values)]


def columns(db: Path, view: str, names: str, rest: str = "") -> list[tuple[Any, ...]]:
    """Some columns of a view, as tuples."""
    return [tuple(row.values()) for row in ask(db, f"SELECT {names} FROM {view} {rest}")]
