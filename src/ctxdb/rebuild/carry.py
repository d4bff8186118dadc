"""Copies whole sessions from one database into another, with everything that belongs to them.

Integer ids of the copied rows are counted on from the highest one in the target. A reference to
another copied row is moved in the same way. Projects and source files may be there already: they
are known by their paths.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Collection, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from ctxdb.elsewhere import name_elsewhere, split_name
from ctxdb.files.walk import store_path
from ctxdb.rebuild.session_rows import (
    FILE_PARTS,
    FILES,
    MESSAGES,
    OF_SESSION,
    PARTS,
    SESSIONS,
    TOOLS,
    Part,
    wanted_rows,
)
from ctxdb.store import model_ladder
from ctxdb.store.changes import stamp
from ctxdb.store.connection import write_transaction

# Full text that no trigger fills.
_INDEXES = {
    "messages": ("messages_fts", "text, thinking"),
    "tool_uses": ("tool_uses_fts", "target, input, searched_text"),
}
_BY_PATH = ("projects", "source_files")
ROWS_AT_ONCE = 2000


@dataclass(slots=True)
class CarriedRows:
    """What was copied."""

    sessions: int = 0
    rows: int = 0


def carry_sessions(
    sessions: Collection[str],
    old: sqlite3.Connection,
    new: sqlite3.Connection,
    machine_of: Callable[[str], str] = str,
    files: Collection[int] = (),
) -> CarriedRows:
    """Copy these sessions, with the files they are in. Sessions that are there are left as is.

    The sessions must be all that are linked with each other: see `verify.reach`. `machine_of` says
    which machine a file is of, in the target, by what the old database says. Of `files` those are
    copied too that the target does not have: a file can have entries of no session alone.
    """
    present = {found for (found,) in new.execute("SELECT id FROM sessions")}
    wanted = set(sessions) - present
    known = set(new.execute("SELECT machine, path FROM source_files"))
    more = [
        file_id
        for file_id, machine, path in old.execute("SELECT id, machine, path FROM source_files")
        if file_id in files and (machine_of(machine), path) not in known
    ]
    done = CarriedRows(len(wanted))
    if wanted or more:
        begun = nullcontext() if new.in_transaction else write_transaction(new)
        with wanted_rows(old, wanted, more), begun:
            _Carrying(old, new, done, machine_of).run()
            stamp(new, [*wanted, None])
    return done


class _Carrying:
    """Copies the rows of all parts."""

    def __init__(
        self,
        old: sqlite3.Connection,
        new: sqlite3.Connection,
        done: CarriedRows,
        machine_of: Callable[[str], str],
    ) -> None:
        self.old = old
        self.new = new
        self.done = done
        self.machine_of = machine_of
        keyed = [part.table for part in (*PARTS, *FILE_PARTS) if part.key]
        self.moved = {table: self._last(table) for table in keyed}
        self.numbers: dict[str, dict[int, int]] = {}
        self.machines: dict[int, tuple[str, str]] = {}  # of files: machine and path
        self.present: dict[str, dict[int, int]] = {}  # table: rows that the target has already

    def run(self) -> None:
        for table in _BY_PATH:
            self._map_by_path(table)
        self.present["messages"] = self._find_present_messages()
        self.present["tool_uses"] = self._find_present_calls()
        for part in (*PARTS, *FILE_PARTS):
            self._copy(part)
        for table, (index, names) in _INDEXES.items():
            self.new.execute(
                f"INSERT INTO {index} (rowid, {names}) SELECT id, {names} FROM {table}"
                " WHERE id > ?",
                (self.moved[table],),
            )
        model_ladder.store_all_names(self.new)

    def _last(self, table: str) -> int:
        (last,) = self.new.execute(f"SELECT max(id) FROM {table}").fetchone()
        return last or 0

    def _map_by_path(self, table: str) -> None:
        """Give each project and file its number in the target, and copy those that are new."""
        where = f"id IN {FILES}"
        if table == "projects":
            where = (
                f"id IN (SELECT project_id FROM sessions WHERE id IN {SESSIONS} UNION"
                f" SELECT project_id FROM files_touched WHERE {OF_SESSION})"
            )
        names = self._columns(table)
        numbers: dict[int, int] = {}
        of_machine = "machine" if table == "source_files" else "''"
        known = {
            (machine, path): number
            for machine, path, number in self.new.execute(
                f"SELECT {of_machine}, path, id FROM {table}"
            )
        }
        last = self._last(table)
        new_files = []
        for row in self._rows(table, names, where):
            values = dict(zip(names, row, strict=True))
            if table == "source_files":
                self._place_file(values)
            number = known.get((values.get("machine", ""), values["path"]))
            if number is None:
                last += 1
                number = last
                new_files.append((values["id"],))
                self._insert(table, [*values], [tuple({**values, "id": number}.values())])
            numbers[values["id"]] = number
            if table == "source_files":
                self.machines[number] = (values["machine"], values["path"])
        self.numbers[table] = numbers
        if table == "source_files":  # the others keep their own marks and counts
            self.old.execute("DELETE FROM temp.wanted_files")
            self.old.executemany("INSERT INTO temp.wanted_files VALUES (?)", new_files)

    def _place_file(self, values: dict[str, Any]) -> None:
        """Say which machine a file is of. One of another machine is not missing here."""
        values["machine"] = self.machine_of(values.get("machine", ""))
        if values["machine"]:
            is_read = values["offset"] >= values["size"]
            values["state"] = "ok" if is_read else "partial"
            values["missing_since"] = None

    def _place_marks(self, names: list[str], row: list[Any]) -> list[Any]:
        """The bookkeeping of a file: by which name it is opened, below which root."""
        values = dict(zip(names, row, strict=True))
        machine, path = self.machines[values["source_file_id"]]
        _, there = split_name(os.fsdecode(values["path_bytes"] or path))
        _, root = split_name(values["root"] or "")
        if machine:
            values["path_bytes"] = os.fsencode(name_elsewhere(machine, there))
            values["root"] = name_elsewhere(machine, root)
            values["stat"] = values["ino"] = None
        else:
            _, values["path_bytes"] = store_path(there)
            values["root"] = root or None
        return [*values.values()]

    def _find_present_messages(self) -> dict[int, int]:
        """Messages that the target has: an entry can be in several sessions."""
        known = dict(self.new.execute("SELECT uuid, id FROM messages WHERE uuid IS NOT NULL"))
        wanted = f"id IN {MESSAGES} AND uuid IS NOT NULL"
        found = self._rows("messages", ["uuid", "id"], wanted) if known else ()
        return {number: known[uuid] for uuid, number in found if uuid in known}

    def _find_present_calls(self) -> dict[int, int]:
        """Calls of these messages. The id of a call alone may be that of another one."""
        messages = self.present["messages"]
        by_call: dict[tuple[int, str], int] = {}
        for message_id in set(messages.values()):
            for call, number in self.new.execute(
                "SELECT tool_use_id, id FROM tool_uses WHERE message_id = ?", (message_id,)
            ):
                by_call[message_id, call] = number
        found: dict[int, int] = {}
        names = ["message_id", "tool_use_id", "id"]
        for message_id, call, number in self._rows("tool_uses", names, f"id IN {TOOLS}"):
            there = by_call.get((messages.get(message_id, 0), call))
            if there is not None:
                found[number] = there
        return found

    def _columns(self, table: str) -> list[str]:
        ours = {name for _, name, *_ in self.new.execute(f'PRAGMA table_info("{table}")')}
        found = self.old.execute(f'PRAGMA table_info("{table}")')
        return [name for _, name, *_ in found if name in ours]

    def _rows(self, table: str, names: list[str], where: str) -> Iterator[tuple[Any, ...]]:
        quoted = ", ".join(f'"{name}"' for name in names)
        yield from self.old.execute(f'SELECT {quoted} FROM "{table}" WHERE {where}')

    def _copy(self, part: Part) -> None:
        names = self._columns(part.table)
        rows: list[tuple[Any, ...]] = []
        where = f"id IN (SELECT id FROM temp.wanted_{part.table})" if part.is_needed else part.where
        for row in self._rows(part.table, names, where):
            if part.references and self._is_of_present(part, names, row):
                continue
            moved = [self._moved(part, name, value) for name, value in zip(names, row, strict=True)]
            if part.table == "_file_marks":
                moved = self._place_marks(names, moved)
            rows.append(tuple(moved))
            if len(rows) >= ROWS_AT_ONCE:
                self._insert(part.table, names, rows)
                rows = []
        self._insert(part.table, names, rows)

    def _moved(self, part: Part, name: str, value: Any) -> Any:
        """A value as it is in the target."""
        table = part.table if name == part.key else part.references.get(name)
        if table is None:
            return value
        if not isinstance(value, int):  # nothing, or what somebody has written there by hand
            return None
        if table in self.numbers:
            return self.numbers[table].get(value)
        return self.present.get(table, {}).get(value, value + self.moved[table])

    def _is_of_present(self, part: Part, names: list[str], row: tuple[Any, ...]) -> bool:
        """Whether a row follows from a call that the target has, with all that follows from it."""
        tools = self.present.get("tool_uses", {})
        return part.table != "tool_uses" and any(
            part.references.get(name) == "tool_uses" and value in tools
            for name, value in zip(names, row, strict=True)
        )

    def _insert(self, table: str, names: list[str], rows: list[tuple[Any, ...]]) -> None:
        quoted = ", ".join(f'"{name}"' for name in names)
        places = ", ".join("?" * len(names))
        # What is there already says the same: a request that both report, a skipped line.
        sql = f'INSERT OR IGNORE INTO "{table}" ({quoted}) VALUES ({places})'
        self.done.rows += self.new.executemany(sql, rows).rowcount if rows else 0
