"""A root of transcripts and a database beside it, for tests that sync again and again."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from contextlib import closing, contextmanager, nullcontext
from functools import cache, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch
from zlib import crc32

from hypothesis import settings

from ctxdb.config import Config
from ctxdb.ingest.report import SyncReport
from ctxdb.ingest.sync import sync
from ctxdb.progress import NullProgress
from ctxdb.store.connection import open_writer
from ctxdb.verify import verify
from snapshot import content, differences

if TYPE_CHECKING:
    from collections.abc import Iterator

Content = dict[str, list[str]]


@cache
def empty_database() -> bytes:
    """A migrated database without rows: making one takes as long as fifty syncs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.db"
        sync(Config(db_path=path, roots=(folder,)), wait=False, progress=NullProgress())
        return path.read_bytes()


def put_empty_database(path: Path) -> None:
    """Put a database without rows there, if there is none."""
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(empty_database())
        path.chmod(0o600)


class Lab:
    """One root, one database."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "projects"
        self.db = folder / "data" / "ctxdb.db"
        self.root.mkdir(parents=True)
        self.db.parent.mkdir()
        self.db.write_bytes(empty_database())
        self.config = Config(db_path=self.db, roots=(str(self.root),))

    def sync(self) -> SyncReport:
        return sync(self.config, wait=False, progress=NullProgress())

    @contextmanager
    def one_connection(self) -> Iterator[None]:
        """Let all syncs use one connection, as a daemon does: that is three times as fast."""
        kept: list[sqlite3.Connection] = []

        def open_once(path: Path, wait: float) -> sqlite3.Connection:
            assert path == self.db
            kept.extend(() if kept else [open_writer(path, wait=wait)])
            return kept[0]

        try:
            with patch.multiple("ctxdb.ingest.sync", open_writer=open_once, closing=nullcontext):
                yield
        finally:
            for conn in kept:
                conn.close()

    def put(self, name: str, data: bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def append(self, name: str, data: bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(data)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(f"file:{self.db}?mode=ro", uri=True)) as conn:
            return conn.execute(sql).fetchall()

    def content(self) -> Content:
        return content(self.db, self.root)

    def must_verify(self, *, again: bool = False) -> None:
        """Every row says what its line says, no key leads nowhere, the full text is whole.

        Making the database `again` takes as long as fifty syncs of a few lines.
        """
        __tracebackhide__ = True
        report = verify(self.config, NullProgress(), again=again)
        assert report.ok, "\n".join(report.shown)
        with closing(sqlite3.connect(self.db)) as conn:
            assert conn.execute("PRAGMA foreign_key_check").fetchall() == []
            for table, column in (("tool_uses", "input"), ("messages", "data"), ("events", "data")):
                broken = f"SELECT id FROM {table} WHERE NOT json_valid(coalesce({column}, 0))"
                assert conn.execute(broken).fetchall() == [], f"{table}.{column}"
            for name in ("messages_fts", "tool_uses_fts", "turns_fts", "sessions_fts"):
                conn.execute(f"INSERT INTO {name}({name}, rank) VALUES ('integrity-check', 1)")
            conn.rollback()


@contextmanager
def lab() -> Iterator[Lab]:
    """A lab of its own for every example of a property."""
    folder = Path(tempfile.mkdtemp(prefix="ctxdb-lab-"))
    try:
        yield Lab(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def must_equal(expected: Content, found: Content, why: str = "") -> None:
    __tracebackhide__ = True
    if expected != found:
        raise AssertionError(f"{why}\n{differences(expected, found)}")


def at_once(contents: dict[str, bytes]) -> Content:
    """What a database says that met all files in one sync."""
    with lab() as one:
        for name, data in contents.items():
            one.put(name, data)
        one.sync()
        if is_verified(contents):
            one.must_verify()
        return one.content()


def is_verified(contents: dict[str, bytes]) -> bool:
    """Whether a story is also verified: by default every third, in `make check` all of them."""
    check = reduce(lambda sum_, name: crc32(contents[name], sum_), sorted(contents), 0)
    return settings.default.max_examples > 100 or check % 3 == 0


def told_by(files: dict[str, bytes], sql: str) -> list[tuple[Any, ...]]:
    """What a query finds: the same at once, and line by line with the last file first."""
    with lab() as one:
        for name, data in files.items():
            one.put(name, data)
        one.sync()
        if is_verified(files):
            one.must_verify()
        expected = one.content()
        found = one.rows(sql)
    with lab() as one:
        with one.one_connection():
            for name in reversed(files):
                if name.endswith(".jsonl"):
                    for line in files[name].splitlines(keepends=True):
                        one.append(name, line)
                        one.sync()
                else:
                    one.put(name, files[name])
        must_equal(expected, one.content(), "line by line")
    return found
