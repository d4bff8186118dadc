"""The six tools, each as a stream of text, made with the Python interface."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import orjson

from ctxdb.api import Database, Row
from ctxdb.errors import UsageError
from ctxdb.session.conversation import Call, Conversation, Exchange, Passage
from ctxdb.session.markdown_format import markdown
from ctxdb.store import sql_files

Depth = Literal["brief", "text", "full"]
ASKING_MINUTES = 10  # a session that wrote nothing for so long is not the one that asks
SQL_SECONDS = 10.0


class Tools:
    """What an agent can ask, limited to one project if `project` is given."""

    def __init__(self, db: Database, project: str | None = None) -> None:
        self.db = db
        self.project = project

    def as_of(self) -> str:
        """Up to when the database has read the transcripts."""
        (row,) = self.db.query("SELECT max(last_read_at) AS at FROM source_files")
        return str(row["at"] or "nothing was read yet")

    def search(
        self, query: str, project: str | None, since: str | None, until: str | None, limit: int
    ) -> Iterator[str]:
        """Sessions in which something was said or done."""
        asking = self._asking_session()
        found = self.db.search(
            query,
            project=self._project(project),
            since=since,
            until=until,
            limit=limit + (1 if asking else 0),
        )
        others = [one for one in found if one["session_id"] != asking][:limit]
        if asking is not None and len(others) < len(found):
            yield "The session that is asking was left out.\n"
        if not others:
            yield "Nothing was found. Try fewer or other words, or a longer period.\n"
        for one in others:
            yield from _hits_of(one)
        if len(others) == limit:
            yield f"\nOnly {limit} sessions are shown; ask again with a higher limit for more.\n"

    def session(self, session_id: str, turn: str | None, depth: Depth) -> Iterator[str]:
        """One session: its turns in brief, what was said, or everything."""
        is_full = depth == "full"
        conversation = self.db.session(session_id, tools=is_full, agents=is_full)
        self._check_project(conversation)
        if turn is not None:
            conversation.exchanges = [_turn(conversation, turn)]
        if depth == "brief":
            yield from _brief(conversation)
            return
        for part in markdown(conversation):
            yield part if part.endswith("\n") else f"{part}\n"

    def file_history(self, path: str) -> Iterator[str]:
        """Every change of a file: when, by which request, in which session."""
        if not path.strip():
            raise UsageError("which file? Give a path or the end of one")
        wanted = path.strip().replace("\\", "/").removeprefix("./").lstrip("/")
        paths = self.db.query(
            "SELECT DISTINCT path FROM files_touched"
            " WHERE replace(path, char(92), '/') LIKE :end ESCAPE '!' ORDER BY path LIMIT 20",
            {"end": "%/" + re.sub("[!%_]", r"!\g<0>", wanted)},
        )
        found = False
        for row in paths:
            rows = self.db.query(
                "file_history", {"path": row["path"]}, since="all", project=self.project
            )
            found = found or bool(rows)
            yield from _table_lines(rows)
        if not found:
            yield f"No session has touched {path}.\n"

    def query(
        self,
        sql: str,
        params: dict[str, str | int | float] | None = None,
        since: str | None = None,
        until: str | None = None,
        project: str | None = None,
    ) -> Iterator[str]:
        """The rows of a view, a canned query, a table or a SELECT."""
        if self.project is not None and not sql.replace("-", "_").isidentifier():
            raise UsageError(
                "this server is limited to one project, so it answers only views by name"
            )
        rows = self.db.query(
            sql.strip(),
            dict(params or {}),
            since=since,
            until=until,
            project=self._project(project),
            timeout=SQL_SECONDS,
        )
        if rows.note:
            yield f"{rows.note}\n"
        if not rows:
            yield f"No rows. Columns: {', '.join(rows.columns)}\n"
        yield from _table_lines(rows)

    def views(self, name: str | None) -> Iterator[str]:
        """Which views and queries there are, or everything about one."""
        if name:
            file = sql_files.find(name)
            if file is None:
                raise UsageError(f"no view or query {name!r}; call views without a name")
            yield f"{file.name} ({file.kind}): {file.question}\n"
            for column, words in file.columns.items():
                yield f"  {column}: {words}\n"
            for param in file.params:
                yield f"  :{param.name}: {param.words}\n"
            if file.example:
                yield f"Example: {file.example}\n"
            return
        for file in (*sql_files.all_views(), *sql_files.all_queries()):
            yield f"{file.name} ({file.kind}): {file.question}\n"

    def schema(self, name: str | None) -> Iterator[str]:
        """What the tables and their columns mean."""
        sql = "SELECT kind, name, \"column\", description FROM schema_docs WHERE kind = 'table'"
        if name:
            rows = self.db.query(f"{sql} AND name = :table", {"table": name})
            if not rows:
                raise UsageError(f"no table {name!r}; call schema without a name")
        else:
            rows = self.db.query(f'{sql} AND ("column" IS NULL OR "column" = \'\')')
        for row in rows:
            column = row["column"]
            yield (
                f"  {column}: {row['description']}\n"
                if column
                else (f"{row['name']}: {row['description']}\n")
            )

    def _project(self, asked: str | None) -> str | None:
        if self.project is not None and asked not in (None, self.project):
            raise UsageError(f"this server is limited to the project {self.project}")
        return self.project or asked

    def _check_project(self, conversation: Conversation) -> None:
        if self.project is None:
            return
        found = self.db.query(
            "sessions", project=self.project, session=conversation.id, columns="id", limit=1
        )
        if not found:
            raise UsageError(f"session {conversation.id} is not of the project {self.project}")

    def _asking_session(self) -> str | None:
        """The session that asks, as far as can be told: the newest in this folder, just now."""
        if named := os.environ.get("CLAUDE_SESSION_ID"):
            return named
        since = datetime.now(UTC) - timedelta(minutes=ASKING_MINUTES)
        rows = self.db.query(
            "SELECT id FROM sessions WHERE cwd = :folder AND ended_at > :since"
            " ORDER BY ended_at DESC LIMIT 1",
            {"folder": os.getcwd(), "since": since.strftime("%Y-%m-%dT%H:%M:%S")},  # noqa: PTH109
        )
        return str(rows[0]["id"]) if rows else None


def _hits_of(session: Row) -> Iterator[str]:
    facts = [str(session.get(key)) for key in ("project", "started_at") if session.get(key)]
    yield f"\n## {session.get('title') or '(untitled)'}\n"
    yield f"session {session['session_id']}  {'  '.join(facts)}\n"
    for hit in session["hits"]:
        where = f"turn {hit['turn']}, " if hit.get("turn") else ""
        what = hit.get("tool") or hit.get("kind") or ""
        yield f"- {where}{what}: {hit.get('snippet') or ''}\n"
    if session.get("more"):
        yield f"- and {session['more']} more hits in this session\n"


def _turn(conversation: Conversation, turn: str) -> Exchange:
    for exchange in conversation.exchanges:
        if exchange.number == turn.strip():
            return exchange
    numbers = [one.number for one in conversation.exchanges if one.number]
    last = numbers[-1] if numbers else "none"
    raise UsageError(f"session {conversation.id} has no turn {turn}; its last turn is {last}")


def _brief(conversation: Conversation) -> Iterator[str]:
    yield f"# {conversation.title}\n"
    yield f"session {conversation.id}, project {conversation.project}\n"
    for exchange in conversation.exchanges:
        yield f"\n## Turn {exchange.number or '0'}  {exchange.started_at or ''}\n"
        if exchange.prompt:
            yield f"Asked: {exchange.prompt}\n"
        replies = [
            item.text
            for item in exchange.items
            if isinstance(item, Passage) and item.role == "reply"
        ]
        calls = Counter(item.name for item in exchange.items if isinstance(item, Call))
        if calls:
            yield f"Did: {', '.join(f'{name} {count}' for name, count in calls.items())}\n"
        if replies:
            yield f"Answered: {replies[-1]}\n"


def _table_lines(rows: list[Row]) -> Iterator[str]:
    """One JSON object per line, without what is NULL."""
    for row in rows:
        kept = {name: value for name, value in row.items() if value is not None}
        yield f"{orjson.dumps(kept, default=_as_text).decode()}\n"


def _as_text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
