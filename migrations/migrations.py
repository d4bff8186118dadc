"""ctxdb's migrations: every numbered .sql file beside this one is a step, in order of its name.

`sqlite-utils migrate ctxdb.db migrations/` runs this file unchanged, and so does ctxdb, which
adds what a shared database needs: one write lock around all steps, and a refusal to touch a
database that is newer than the code. A step that has shipped is never edited, only followed.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from sqlite_utils import Migrations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlite_utils import Database

migrations = Migrations("ctxdb")

# "CTXD": tells our files from other people's (`file` and PRAGMA application_id show it).
APPLICATION_ID = 0x43545844


def statements(script: str) -> Iterator[str]:
    """The statements of a script: executescript looks for their ends in quadratic time."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if ";" in line and sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _register(script: Path) -> None:
    def step(db: Database) -> None:
        for statement in statements(script.read_text(encoding="utf-8")):
            db.execute(statement)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")

    migrations(name=script.stem)(step)


for _script in sorted(Path(__file__).parent.glob("[0-9]*.sql")):
    _register(_script)
