"""Write a dataset: one file per table, machine and month, and only those that have changed.

A session is in the month in which it began, so a session that goes on changes one file per table.
Every file is replaced at once. What was written is saved last: an export that is killed is done
again by the next one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ctxdb
from ctxdb.columns import FULL, LEVELS
from ctxdb.errors import CtxdbError
from ctxdb.lake.state import (
    LakeState,
    forgotten_in,
    load_state,
    note_forgotten,
    replace_file,
    salt_of,
    save_state,
)
from ctxdb.store.changes import (
    BEGINNING,
    Place,
    changed_after,
    database_id,
    forgotten_hashes,
    last_change,
    shared_hash,
)
from ctxdb.team import reading
from ctxdb.team.reading import Sent, Terms
from ctxdb.team.repositories import repositories
from ctxdb.team.tables import TeamColumn, TeamTable, allows, team_tables

if TYPE_CHECKING:
    import sqlite3

    from ctxdb.progress import Progress
    from ctxdb.team.machine import Machine

NO_MONTH = "none"  # of sessions without a time
ROWS_AT_ONCE = 5000
GROUP_ROWS = 100_000
_MONTH = re.compile(r"[12]\d{3}-(0[1-9]|1[0-2])")
MOST_MONEY = Decimal(10) ** 37  # what a decimal of 38 digits surely holds


@dataclass(slots=True)
class LakeReport:
    """What was done."""

    folder: str
    machine: str
    level: str
    sessions: int = 0  # that have changed
    files: int = 0  # written
    removed: int = 0  # files that are no longer needed
    rows: dict[str, int] = field(default_factory=dict)  # written, by table


@dataclass(frozen=True, slots=True)
class Exporter:
    """Who writes what."""

    machine: Machine
    person: str
    team: str | None
    level: str
    hash_person: bool = False
    repositories: Mapping[str, str] = field(default_factory=dict)
    mask: Callable[[str], str] = str


def export(
    conn: sqlite3.Connection, folder: Path, exporter: Exporter, progress: Progress
) -> LakeReport:
    """Bring a dataset up to date with a database."""
    _pyarrow()
    report = LakeReport(str(folder), exporter.machine.id, exporter.level)
    try:
        _Export(conn, folder, exporter, report, progress).run()
    except OSError as e:
        where = e.filename or folder
        raise CtxdbError(
            f"{where}: {e.strerror}; the dataset is as it was but for whole files: export again"
        ) from e
    return report


def _pyarrow() -> Any:
    try:
        import pyarrow as pa
        import pyarrow.parquet
    except ImportError as e:
        raise CtxdbError("this needs pyarrow: pip install 'ctxdb[parquet]'") from e
    _ = pyarrow.parquet
    return pa


class _Export:
    def __init__(
        self,
        conn: sqlite3.Connection,
        folder: Path,
        exporter: Exporter,
        report: LakeReport,
        progress: Progress,
    ) -> None:
        self.conn = conn
        self.folder = folder
        self.exporter = exporter
        self.machine = exporter.machine.id
        self.report = report
        self.progress = progress
        found = repositories(conn, exporter.repositories)
        self.terms = Terms(exporter.level, salt_of(folder), found, exporter.mask)

    def run(self) -> None:
        """Write all that has changed."""
        self.conn.execute("BEGIN")  # one snapshot of the database for all files
        try:
            self._run()
        finally:
            self.conn.execute("COMMIT")

    def _run(self) -> None:
        forgotten = forgotten_hashes(self.conn)
        note_forgotten(self.folder, forgotten.hashes, forgotten.undone)
        gone = forgotten_in(self.folder)
        now = {
            one.session_id: self._month(one.session_id)
            for one in changed_after(self.conn, BEGINNING, -1)
            if shared_hash(one.session_id) not in gone
        }
        old = load_state(self.folder, self.machine)
        known = self._known()
        months = self._changed_months(old, now, known)
        wanted: dict[str, list[str]] = {month: [] for month in sorted(months)}
        for session_id, month in now.items():
            if month in wanted:
                wanted[month].append(session_id)
        reading.prepare(self.conn, self.terms)
        self.progress.start(len(wanted) * len(team_tables()), "Writing Parquet files")
        for table in team_tables():
            sent = self._sent(table)
            for month, sessions in wanted.items():
                self._write_month(sent, month, sessions)
                self.progress.advance(1)
            self._write_empty(sent)
        self._write_machine()
        for name, text in _scripts(self.folder):
            replace_file(self.folder / name, text.encode())
        last = max(changed_after(self.conn, BEGINNING, -1), default=BEGINNING)
        state = LakeState(
            self.exporter.level, database_id(self.conn), last.seq, last.session_id, known, now
        )
        save_state(self.folder, self.machine, state)

    def _changed_months(
        self, old: LakeState, now: dict[str, str], known: dict[str, str]
    ) -> set[str]:
        """The months whose files must be written again."""
        place = Place(old.seq, old.session_id)
        if (
            old.level != self.exporter.level
            or old.database != database_id(self.conn)
            or old.known != known
            or place.seq > last_change(self.conn)
        ):
            self._remove_all()
            self.report.sessions = len(now)
            return set(now.values())
        changed = {one.session_id for one in changed_after(self.conn, place, -1)}
        changed |= {name for name in {*now, *old.months} if now.get(name) != old.months.get(name)}
        self.report.sessions = len(changed)
        return {months[name] for months in (now, old.months) for name in changed if name in months}

    def _known(self) -> dict[str, str]:
        prices = self.conn.execute("SELECT * FROM prices ORDER BY id").fetchall()
        names = self.conn.execute("SELECT * FROM _model_names ORDER BY model, place").fetchall()
        columns = [(table.name, table.key, table.columns) for table in team_tables()]
        facts = {
            "prices": (prices, names),
            "repositories": sorted(self.terms.repositories.items()),
            "columns": columns,
            "folder": str(self.folder),
        }
        return {name: sha256(repr(fact).encode()).hexdigest()[:24] for name, fact in facts.items()}

    def _month(self, session_id: str) -> str:
        row = self.conn.execute(
            "SELECT substr(started_at, 1, 7) FROM sessions WHERE id = ?", (session_id,)
        ).fetchone()
        (month,) = row or (None,)
        return month if isinstance(month, str) and _MONTH.fullmatch(month) else NO_MONTH

    # -- files ---------------------------------------------------------------------------------

    def _place(self, table: str, month: str) -> Path:
        parts = (f"table={table}", f"machine={self.machine}", f"month={month}")
        return self.folder.joinpath(*parts, "data.parquet")

    def _sent(self, table: TeamTable) -> Sent:
        """All columns that may be written; what people wrote is in the same file."""
        columns = [one for one in table.columns if allows(self.exporter.level, one.level)]
        return Sent(table.name, table, columns, has_texts=False)

    def _write_month(self, sent: Sent, month: str, sessions: list[str]) -> None:
        path = self._place(sent.name, month)
        rows = reading.rows_of(self.conn, sent, sessions, self.terms)
        number = write_parquet(path, sent.table, sent.columns, rows, self.exporter.level)
        if number:
            self.report.files += 1
        elif month != NO_MONTH:
            path.unlink()
            path.parent.rmdir()
        self.report.rows[sent.name] = self.report.rows.get(sent.name, 0) + number

    def _write_empty(self, sent: Sent) -> None:
        """A file without rows, so that every table can be read."""
        path = self._place(sent.name, NO_MONTH)
        if not path.exists():
            write_parquet(path, sent.table, sent.columns, iter(()), self.exporter.level)

    def _write_machine(self) -> None:
        pa = _pyarrow()
        who = self.exporter
        person = self.terms.hashed("person", who.person) if who.hash_person else who.person
        values = {
            "name": None if who.level == LEVELS[0] else who.machine.name,
            "person": person,
            "team": who.team,
            "level": who.level,
            "version": ctxdb.__version__,
        }
        table = pa.table({name: pa.array([value], pa.string()) for name, value in values.items()})
        sink = pa.BufferOutputStream()
        pa.parquet.write_table(table, sink)
        replace_file(self._place("machines", NO_MONTH), sink.getvalue().to_pybytes())

    def _remove_all(self) -> None:
        """Remove all files of this machine: other columns may be written than before."""
        for path in self.folder.glob(f"table=*/machine={self.machine}/month=*/data.parquet"):
            path.unlink()
            self.report.removed += 1


def schema_of(table: TeamTable, level: str) -> Any:
    """The columns of a table's files. Those above the level are there, and empty."""
    pa = _pyarrow()
    types = {
        "text": pa.string(),
        "whole": pa.int64(),
        "real": pa.float64(),
        "time": pa.timestamp("ms", tz="UTC"),
        "money": pa.decimal128(38, 0),
    }
    about = {"session_id": "the session", "key": "what the row is known by within its session"}
    fields = [pa.field(name, pa.string(), metadata={"description": about[name]}) for name in about]
    for column in table.columns:
        metadata = {"description": column.about, "level": column.level}
        fields.append(pa.field(column.name, types[column.kind], metadata=metadata))
    return pa.schema(fields, metadata={"description": table.about, "ctxdb.level": level})


def write_parquet(
    path: Path,
    table: TeamTable,
    columns: list[TeamColumn],
    rows: Iterator[tuple[Any, ...]],
    level: str,
) -> int:
    """Write a file at once; return how many rows it has."""
    pa = _pyarrow()
    schema = schema_of(table, level)
    names = ["session_id", "key", *(column.name for column in columns)]
    kinds: list[str] = ["text", "text", *(column.kind for column in columns)]
    path.parent.mkdir(parents=True, exist_ok=True)
    waiting = path.with_name(f".{path.name}.{os.getpid()}.new")
    number = 0
    try:
        with pa.parquet.ParquetWriter(waiting, schema, compression="zstd") as writer:
            while part := list(islice(rows, ROWS_AT_ONCE)):
                number += len(part)
                writer.write_batch(_batch(pa, schema, names, kinds, part), GROUP_ROWS)
        waiting.replace(path)
    finally:
        waiting.unlink(missing_ok=True)
    return number


def _batch(
    pa: Any, schema: Any, names: list[str], kinds: list[str], rows: list[tuple[Any, ...]]
) -> Any:
    values: dict[str, Any] = {}
    for name, kind, column in zip(names, kinds, zip(*rows, strict=True), strict=True):
        values[name] = pa.array(_converted(kind, column), schema.field(name).type)
    empty = len(rows)
    arrays = [
        values[one.name] if one.name in values else pa.nulls(empty, one.type) for one in schema
    ]
    return pa.record_batch(arrays, schema=schema)


def _converted(kind: str, column: Iterable[Any]) -> list[Any]:
    from datetime import datetime

    if kind == "time":
        return [None if v is None else datetime.fromisoformat(v) for v in column]
    if kind == "money":
        return [None if v is None else _money(v) for v in column]
    return list(column)


def _money(value: float) -> Decimal:
    return max(-MOST_MONEY, min(Decimal(value).to_integral_value(), MOST_MONEY))


def _scripts(folder: Path) -> Iterator[tuple[str, str]]:
    from ctxdb.lake.duckdb_script import duckdb_script

    yield "ctxdb.duckdb.sql", duckdb_script(folder)


__all__ = ["FULL", "Exporter", "LakeReport", "export"]
