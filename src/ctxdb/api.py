"""The database from Python: the same answers as the command line, as Python values.

::

    import ctxdb

    with ctxdb.open() as db:
        for row in db.query("sessions_overview", since="7d", project="lantern"):
            print(row["title"], row["cost_usd"])

It is as stable as the schema. Everything that goes wrong is a ctxdb.errors.CtxdbError.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ctxdb import config as settings
from ctxdb.errors import LockHeld, UsageError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from types import TracebackType

    from ctxdb.ingest.report import SyncReport
    from ctxdb.session.conversation import Conversation

SECONDS = 30.0  # after which a query is stopped
MOST_ROWS = 1_000_000  # of an answer, unless a limit is given

Row = dict[str, Any]


class Rows(list[Row]):
    """Rows as dicts, in order."""

    def __init__(self, columns: Iterable[str], rows: Iterable[Row], note: str = "") -> None:
        super().__init__(rows)
        self.columns = list(columns)
        self.note = note  # which period is shown, if none was given; or that rows were left out

    def df(self) -> Any:
        """The rows as a pandas DataFrame. Needs pandas."""
        try:
            import pandas as pd  # type: ignore[import-not-found, import-untyped, unused-ignore]
        except ImportError:
            raise UsageError("df() needs pandas: pip install pandas") from None
        return pd.DataFrame(self, columns=self.columns)


class Database:
    """An open database. Reading never changes it; only `sync` does."""

    def __init__(self, config: settings.Config, *, is_named: bool) -> None:
        """Use `ctxdb.open`."""
        self._config = config
        self._is_named = is_named
        self._is_open = True

    @property
    def path(self) -> Path:
        """Where the database is."""
        return self._config.db_path

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close it. It is safe to call this twice."""
        self._is_open = False

    def sync(self) -> SyncReport:
        """Read the new lines of all transcripts. Returns what was read."""
        from ctxdb.ingest.sync import sync
        from ctxdb.progress import NullProgress

        self._must_be_open()
        try:
            return sync(self._config, wait=True, progress=NullProgress())
        except LockHeld as e:
            e.say_to_reader(has_wait=False)
            raise

    def freshen(self) -> None:
        """Read new lines unless a daemon does, as every command does before it answers."""
        from ctxdb.query.fresh import freshen

        self._must_be_open()
        freshen(self._config, named=self._is_named, say=lambda _: None)

    def query(
        self,
        what: str,
        params: dict[str, object] | None = None,
        *,
        since: str | None = None,
        until: str | None = None,
        project: str | None = None,
        session: str | None = None,
        model: str | None = None,
        limit: int | None = None,
        sort: str | None = None,
        columns: str | None = None,
        human: bool = False,
        timeout: float = SECONDS,
        **more_params: object,
    ) -> Rows:
        """Ask a view, a canned query, a table, or read-only SQL.

        The filters mean the same as the options of `ctxdb query`. Values for :name in a query or
        in SQL are given by name: ``db.query("sessions_touching", path="src/sync.ts")``. A name that
        is also a filter goes into `params`.
        """
        from ctxdb.query.execute import execute
        from ctxdb.query.guard import Guarded
        from ctxdb.query.statement import Ask, statement_for

        self._must_be_open()
        given = {name: str(value) for name, value in {**(params or {}), **more_params}.items()}
        narrow = (since, until, project, session, model, limit, sort, columns)
        ask = Ask(what, given, *narrow, "yes" if human else None)
        with closing(Guarded(self.path, seconds=timeout)) as guarded:
            with guarded.asking() as conn:
                statement = statement_for(ask, conn)
            answer = execute(guarded, statement, MOST_ROWS)
            rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
        note = statement.note
        if answer.cut_at is not None:
            note = f"{note} Only the first {answer.cut_at:,} rows.".strip()
        return Rows(answer.columns, rows, note)

    def search(
        self,
        text: str,
        *,
        since: str | None = None,
        until: str | None = None,
        project: str | None = None,
        session: str | None = None,
        model: str | None = None,
        tool: str | None = None,
        kind: str | None = None,
        errors: bool = False,
        limit: int = 20,
    ) -> list[Row]:
        """Search everything that was said and done. One dict per session, with its hits."""
        from ctxdb.query import period
        from ctxdb.query.candidates import Wanted
        from ctxdb.query.guard import naming_damaged_index
        from ctxdb.query.hits import as_data, gather
        from ctxdb.query.resolve import project_ids
        from ctxdb.query.search import search
        from ctxdb.session.find import find_session
        from ctxdb.store.connection import open_reader

        self._must_be_open()
        if not text.strip():
            raise UsageError("give one or more words to look for")
        begin, end = period.bounds(since, until) if since or until else (None, None)
        with closing(open_reader(self.path)) as conn:
            projects = None if project is None else tuple(project_ids(conn, project))
            session_id = None if session is None else find_session(conn, session)
            wanted = Wanted(begin, end, projects, session_id, model, tool, kind, errors, limit)
            with naming_damaged_index(self.path, by_index=True):
                found = search(conn, text, wanted)
                return [as_data(one) for one in gather(conn, found)]

    def session(
        self,
        name: str = "last",
        *,
        tools: bool = False,
        thinking: bool = False,
        agents: bool = False,
    ) -> Conversation:
        """One session as a person reads it: turns, replies, calls, agents.

        `name` is an id, the beginning of one, a slug, the path of a transcript, or `last`. The
        inputs and results of calls, the thinking and the conversations of agents are read on
        request.
        """
        from ctxdb.session.find import find_session
        from ctxdb.session.load import Detail, load_conversation
        from ctxdb.store.connection import open_reader

        self._must_be_open()
        with closing(open_reader(self.path)) as conn:
            detail = Detail(tools=tools, thinking=thinking, agents=agents)
            return load_conversation(conn, find_session(conn, name), detail)

    def _must_be_open(self) -> None:
        if not self._is_open:
            raise UsageError("this database was closed; open it again")


def open_database(path: str | os.PathLike[str] | None = None, *, sync: bool = True) -> Database:
    """Open a database: the usual one, or the one at `path`.

    New lines of the transcripts are read first, unless a daemon does that or `sync` is False.
    """
    named = None if path is None else Path(path)
    db = Database(settings.load(named), is_named=named is not None)
    if sync:
        db.freshen()
    if not db.path.exists():
        from ctxdb.errors import NoDatabase

        raise NoDatabase(db.path)
    return db
