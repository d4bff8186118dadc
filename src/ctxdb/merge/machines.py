"""Which machine the files of another database are of, as this database names it.

Another machine is known by the id in the file beside its database (`team/machine.py`), else by the
id of its archive or database. The id that a machine got at its first merge stays, because it is in
the names of its files here.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from ctxdb.archive.archive_file import archive_id, open_archive_to_read
from ctxdb.archive.read import Generation
from ctxdb.elsewhere import name_elsewhere, split_name
from ctxdb.errors import CtxdbError
from ctxdb.merge.other import Other
from ctxdb.team.machine import known_machine, this_machine

_KNOWN = "machine of "  # keys of `_meta`: then what has an id, and the id
_FILE, _ARCHIVE, _DATABASE = "file", "archive", "database"  # what has an id, the surest first
_ID_LENGTH = 24


@dataclass(frozen=True, slots=True)
class Machines:
    """The machine that is merged, and the ids of this one."""

    other: str
    own: frozenset[str]
    ids: dict[str, str]  # of the other's file, archive and database

    def of(self, machine: str) -> str:
        """The machine of a file, by what the other database says: "" there is that machine."""
        found = machine or self.other
        return "" if found in self.own else found

    def name(self, name: str) -> str:
        """The name of a file here, by its name there."""
        machine, path = split_name(name)
        return name_elsewhere(self.of(machine), path)

    def place(self, file: Generation) -> tuple[str, str]:
        """The name and the root of an archived file here."""
        return self.name(file.open_path), self.name(file.root)

    def note(self, conn: sqlite3.Connection) -> None:
        """Remember the id of the machine."""
        conn.executemany(
            "INSERT OR REPLACE INTO _meta VALUES (?, ?)",
            [(f"{_KNOWN}{what} {one}", self.other) for what, one in self.ids.items()],
        )


def find_machines(
    conn: sqlite3.Connection, db_path: Path, other: Other, *, may_write: bool
) -> Machines:
    """Who is who. Raises CtxdbError if the other database is a copy of this one.

    If it `may_write`, this machine gets an id.
    """
    archive = open_archive_to_read(db_path)
    this = this_machine(db_path).id if may_write else known_machine(db_path)
    own = frozenset(_ids(conn, archive, this).values())
    if archive is not None:
        archive.close()
    ids = _ids(other.conn, other.archive, known_machine(other.path))
    known = _known(conn, ids) or next(iter(ids.values()))
    if known in own:
        why = "is a copy of this database; merge takes the database of another machine"
        fix = f"if it is, delete {other.path}.machine there and run `ctxdb push --dry-run` there"
        raise CtxdbError(f"{other.path}: {why} ({fix})")
    return Machines(known, own, ids)


def _ids(
    conn: sqlite3.Connection, archive: sqlite3.Connection | None, machine: str | None
) -> dict[str, str]:
    """What a machine is known by, the surest first."""
    row = conn.execute("SELECT value FROM _meta WHERE key = 'database id'").fetchone()
    (database,) = row or ("",)
    found = {
        _FILE: machine,
        _ARCHIVE: archive_id(archive) if archive is not None else None,
        _DATABASE: str(database)[:_ID_LENGTH],
    }
    return {what: one for what, one in found.items() if one}


def _known(conn: sqlite3.Connection, ids: dict[str, str]) -> str | None:
    """The id that a machine got at an earlier merge."""
    for what, one in ids.items():
        key = f"{_KNOWN}{what} {one}"
        row = conn.execute("SELECT value FROM _meta WHERE key = ?", (key,)).fetchone()
        if row is not None:
            (found,) = row
            return None if _is_of_another(conn, str(found), ids.get(_FILE)) else str(found)
    return None


def _is_of_another(conn: sqlite3.Connection, machine: str, file: str | None) -> bool:
    """Whether another machine has this id: its database was copied from there, then used."""
    rows = conn.execute(
        "SELECT key FROM _meta WHERE value = ? AND key LIKE ?", (machine, f"{_KNOWN}{_FILE} %")
    ).fetchall()
    files = {key.removeprefix(f"{_KNOWN}{_FILE} ") for (key,) in rows}
    return file is not None and bool(files) and file not in files
