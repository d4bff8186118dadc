"""The table README: what a person reads first in a database.

Its text is sql/README.md, and the first line of each view's file. The docs show the same rows.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ctxdb.assets import asset_dir
from ctxdb.store.sql_files import all_views

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

_SECTION = re.compile(r"^## ([^\n]+)\n\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_WRAPPED = re.compile(r"(?<!\n)\n(?!\n|- ) *")  # a line break within a sentence


class Topic(NamedTuple):
    """A row of README."""

    topic: str
    text: str


def readme_file() -> Path:
    """The file that holds the text."""
    return asset_dir("sql") / "README.md"


def readme_topics() -> list[Topic]:
    """All rows in reading order, which is also the order of their topics."""
    text = readme_file().read_text(encoding="utf-8")
    sections = [
        Topic(found[1], _WRAPPED.sub(" ", found[2].strip())) for found in _SECTION.finditer(text)
    ]
    return sections + [Topic(f"view {view.name}", view.question) for view in all_views()]


def write_readme(conn: sqlite3.Connection) -> None:
    """Fill the table, inside the caller's transaction."""
    conn.execute("DELETE FROM README")
    conn.executemany("INSERT INTO README (topic, text) VALUES (?, ?)", readme_topics())
