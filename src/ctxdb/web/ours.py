"""Tell a database of ctxdb from another one, without changing anything."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from ctxdb.store.connection import APPLICATION_ID
from ctxdb.store.header import read_header

if TYPE_CHECKING:
    from pathlib import Path


def is_ours(path: Path) -> bool:
    """Whether the file's header has ctxdb's application_id."""
    try:
        return read_header(path).application_id == APPLICATION_ID
    except sqlite3.Error:
        return False
