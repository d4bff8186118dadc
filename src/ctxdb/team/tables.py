"""The tables that a team gets, and every column of them with its level.

The levels are those of rows.py. What a team's table has besides (costs, the repository, natural
keys instead of numbers) is declared here, with a level too. A column without a level is not in
this list, so it is never sent.

Rows have natural keys: `session_id`, `key` and the machine. The same entry has the same key on
every machine. Numbers that only one database knows (`turn_id`, `message_id`) become keys or
ordinals.
"""

from __future__ import annotations

import types
from functools import cache
from typing import Literal, NamedTuple, get_args, get_type_hints

from ctxdb import rows, side_rows
from ctxdb.claude.names import UNIQUE_IDS
from ctxdb.claude.stored_data import RATE_LIMIT
from ctxdb.columns import FULL, LEVELS, METADATA, USAGE, Row, levels
from ctxdb.store.schema import docs_of_tables

Kind = Literal["text", "whole", "real", "time", "money"]
KINDS: tuple[Kind, ...] = get_args(Kind)
MOST_KEY_LENGTH = 100  # characters; longer ones are hashed, so that an index can hold them
JSON_COLUMNS = frozenset({"input", "data", "extra", "result_data"})


class TeamColumn(NamedTuple):
    """A column that is sent."""

    name: str
    kind: Kind
    level: str
    sql: str  # its value, over the table `t` of the database
    about: str


class TeamTable(NamedTuple):
    """A table that is sent."""

    name: str
    about: str
    source: str  # the FROM clause: sessions are in j.value
    key: str  # SQL: what the row is known by within its session
    columns: tuple[TeamColumn, ...]
    latest: tuple[str, ...]  # if two machines have a row, the one with the higher values is shown

    def sent(self, level: str) -> list[TeamColumn]:
        """The columns that may be sent at a level, but for what people and models wrote."""
        return [one for one in self.columns if one.level != FULL and allows(level, one.level)]

    def texts(self, level: str) -> list[TeamColumn]:
        """What people and models wrote: it goes to a table of its own."""
        return [one for one in self.columns if one.level == FULL and allows(level, one.level)]


def allows(level: str, needed: str) -> bool:
    """Whether a level includes another one."""
    return LEVELS.index(needed) <= LEVELS.index(level)


def short(sql: str) -> str:
    """A text that an index can hold."""
    return f"CASE WHEN length({sql}) > {MOST_KEY_LENGTH} THEN team_hash({sql}) ELSE {sql} END"


def session_of(sql: str) -> str:
    """A session's id; rows of no session are of the session with the empty name."""
    return f"coalesce({short(sql)}, '')"


def message_key(alias: str) -> str:
    """What a message is known by: its uuid, else its place."""
    return f"coalesce({short(f'{alias}.uuid')}, {_place(alias)})"


def _place(alias: str) -> str:
    return (
        f"(SELECT team_place(f.path, {alias}.byte_start) FROM source_files f"
        f" WHERE f.id = {alias}.source_file_id)"
    )


def _key_of_message(number: str) -> str:
    return f"(SELECT {message_key('m')} FROM messages m WHERE m.id = {number})"


_TURN = TeamColumn(
    "turn",
    "whole",
    USAGE,
    "(SELECT n.ordinal FROM turns n WHERE n.id = t.turn_id)",
    "the human request it belongs to: turns.ordinal",
)
# The order of owners (rules/owners.py, rules/requests.py) as a text: the smallest owns the request.
_OWNER = (
    "coalesce((SELECT min(printf('%02d %s %d', b.owner_flags & 14,"
    " coalesce(substr(m.timestamp, 1, 40), '~'), b.owner_flags & 1)) FROM _usage_lines l"
    " JOIN messages m ON m.id = l.message_id JOIN _message_lines b ON b.message_id = m.id"
    " WHERE l.request_key = t.request_key AND m.session_id IS t.session_id), '99')"
    " || (SELECT printf(' %d %s ', count(h.first_unshared_at),"
    "  coalesce(max(h.first_unshared_at), ''))"
    f" FROM _shared_sessions h WHERE h.session_id = t.session_id) || {session_of('t.session_id')}"
)
_OF_SESSION = "FROM j CROSS JOIN {table} t ON t.session_id IS nullif(j.value, '')"


class _Declared(NamedTuple):
    row: type[Row]
    key: str
    more: tuple[TeamColumn, ...] = ()
    latest: tuple[str, ...] = ()
    source: str = _OF_SESSION
    session: str = "session_id"


_MESSAGE = TeamColumn(
    "message_key",
    "text",
    USAGE,
    _key_of_message("t.message_id"),
    "the message: messages.key",
)
_SESSION_MORE = (
    TeamColumn("project", "text", METADATA, "p.name", "name of the project"),
    TeamColumn("project_path", "text", METADATA, "p.path", "folder that the session began in"),
    TeamColumn("repo_path", "text", METADATA, "p.repo_path", "that folder without a worktree"),
    TeamColumn(
        "repository",
        "text",
        USAGE,
        "team_repository(p.repo_path)",
        "owner/name of the repository, or the name of its folder; at level usage a hash of it",
    ),
    TeamColumn(
        "source_deleted_at",
        "time",
        USAGE,
        "t.source_deleted_at",
        "when its transcript was found to be gone",
    ),
)
_COSTS = (
    TeamColumn(
        "priced_model",
        "text",
        USAGE,
        "c.priced_model",
        "the model whose prices apply; NULL without a price",
    ),
    TeamColumn("cost", "money", USAGE, "c.cost", "in 10^-12 USD; NULL without a price"),
    TeamColumn(
        "cost_uncached",
        "money",
        USAGE,
        "c.cost_uncached",
        "the cost if every token had been plain input, in 10^-12 USD",
    ),
    TeamColumn(
        "owner",
        "text",
        USAGE,
        _OWNER,
        "of several rows of a request, the one with the smallest value counts",
    ),
)
_DECLARED = (
    _Declared(
        rows.Session,
        "''",
        _SESSION_MORE,
        ("ended_at",),
        "FROM j CROSS JOIN sessions t ON t.id = j.value"
        " LEFT JOIN projects p ON p.id = t.project_id",
        session="id",
    ),
    _Declared(rows.Agent, short("t.agent_id"), (_TURN,), ("ended_at",)),
    _Declared(
        rows.Turn,
        f"coalesce({_key_of_message('t.message_id')}, {_place('t')}, 'turn ' || t.ordinal)",
        (_MESSAGE,),
        ("ended_at",),
    ),
    _Declared(
        rows.Message,
        message_key("t"),
        (
            _TURN,
            TeamColumn(
                "is_rate_limit",
                "whole",
                USAGE,
                RATE_LIMIT,
                "1 if it says that a limit was reached",
            ),
        ),
    ),
    _Declared(
        rows.MessageCopy,
        message_key("t"),
        (
            _MESSAGE,
            TeamColumn(
                "message_session_id",
                "text",
                USAGE,
                f"(SELECT {session_of('m.session_id')} FROM messages m WHERE m.id = t.message_id)",
                "the session that owns the entry",
            ),
        ),
    ),
    _Declared(
        rows.ToolUse,
        f"CASE WHEN t.tool_use_id GLOB '{UNIQUE_IDS}' THEN {short('t.tool_use_id')} ELSE team_hash("
        f"t.tool_use_id, {_key_of_message('coalesce(t.message_id, t.result_message_id)')}) END",
        (_TURN, _MESSAGE),
        ("finished_at",),
    ),
    _Declared(
        rows.FileTouch,
        # A machine that has not seen the result of a call does not know that it created the file.
        "team_hash(iif(t.operation = 'create', 'write', t.operation), t.path, t.snapshot_version,"
        " t.tool_use_id,"
        f" {_key_of_message('t.message_id')})",
        (_TURN,),
        ("succeeded",),
    ),
    _Declared(
        rows.GitOperation,
        "team_hash(t.kind, t.sha, t.branch, t.subject, t.pr_number, t.pr_url,"
        " (SELECT u.tool_use_id FROM tool_uses u WHERE u.id = t.tool_id))",
        (_TURN,),
    ),
    _Declared(
        rows.Request,
        short("t.request_key"),
        (_TURN, *_COSTS),
        ("output_is_final", "output_tokens"),
        # Every request has a row there. As a LEFT JOIN, SQLite would work out all costs first.
        "FROM j CROSS JOIN usage t ON t.session_id IS nullif(j.value, '')"
        " CROSS JOIN _costs c ON c.id = t.id",
    ),
    _Declared(
        side_rows.Todo,
        "team_hash(t.agent_id, t.item_id, iif(t.item_id IS NULL, t.subject, ''))",
        (_TURN,),
        ("updated_at",),
    ),
    _Declared(
        side_rows.HistoryLine,
        "team_hash(t.timestamp, t.project_path, t.prompt)",
        (_TURN,),
    ),
    _Declared(side_rows.Plan, "team_hash(t.source, t.slug, t.text)", (), ("updated_at",)),
    _Declared(rows.Event, _place("t")),
)
_NAMES = {"id": "session_id"}  # of sessions: the key has the same name in every table


@cache
def team_tables() -> tuple[TeamTable, ...]:
    """All tables, in the order in which they are sent."""
    docs = {place: row.description for place, row in docs_of_tables().items()}
    made = []
    for one in _DECLARED:
        name = one.row.table
        hints = get_type_hints(one.row)
        columns = [
            TeamColumn(
                _NAMES.get(column, column),
                _kind(column, hints[column]),
                level,
                short(f't."{column}"') if _is_key(column) else f't."{column}"',
                docs[name, column],
            )
            for column, level in levels(one.row).items()
            if column != one.session
        ]
        made.append(
            TeamTable(
                name,
                docs[name, ""],
                one.source.format(table=name),
                one.key,
                (*columns, *one.more),
                one.latest,
            )
        )
    return tuple(made)


def session_sql(table: TeamTable) -> str:
    """The id of a row's session."""
    return session_of("t.id" if table.name == rows.Session.table else "t.session_id")


def value_sql(column: TeamColumn) -> str:
    """The value of a column as its kind: any value can be in any column of SQLite."""
    sql = column.sql
    match column.kind:
        case "text":
            return f"CAST({sql} AS TEXT)"
        case "whole":
            return f"iif(typeof({sql}) = 'integer', {sql}, NULL)"
        case "time":  # `now` and numbers are times to SQLite
            return (
                f"CASE WHEN {sql} GLOB '[12][0-9][0-9][0-9]-[01][0-9]-[0-3][0-9][T ]*'"
                f" THEN strftime('%Y-%m-%dT%H:%M:%fZ', {sql}) END"
            )
    return f"iif(typeof({sql}) IN ('integer', 'real'), {sql}, NULL)"


def _is_key(column: str) -> bool:
    return column.endswith(("_id", "uuid")) or column == "request_key"


def _kind(column: str, hint: object) -> Kind:
    if column == "timestamp" or column.endswith("_at"):
        return "time"
    parts = get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if int in parts:
        return "whole"
    return "real" if float in parts else "text"
