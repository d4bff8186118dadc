"""The schema `ctxdb` on a team's server: made by the first push, and by a newer ctxdb.

Rows are in tables whose names begin with _, each row once per machine that holds it. What people
read are views: `messages` shows each entry of `_messages` once, and what people and models wrote
beside it, for those who may see it (`_messages_text`). The views of sql/postgres/ read these views.
Every view is security_invoker: it shows what its reader may see, not what its owner may see.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from ctxdb.assets import asset_dir
from ctxdb.columns import FULL
from ctxdb.store import sql_files
from ctxdb.team.tables import Kind, TeamColumn, TeamTable, team_tables

if TYPE_CHECKING:
    from collections.abc import Iterator


FORMAT = 1  # of the tables; a ctxdb that knows only smaller numbers refuses to push
FORGET_LOCK = 0x43545844_0001  # shared by pushes, alone for forgetting and for making the schema
TYPES: dict[Kind, str] = {
    "text": "text",
    "whole": "bigint",
    "real": "double precision",
    "time": "timestamptz",
    "money": "numeric",
}
# As store/changes.py (`shared_hash`).
FORGOTTEN_HASH = "encode(sha256(convert_to('ctxdb forgotten ' || session_id, 'UTF8')), 'hex')"


BASE = """
CREATE SCHEMA IF NOT EXISTS ctxdb;
CREATE TABLE ctxdb._settings (name text PRIMARY KEY, value text NOT NULL);
COMMENT ON TABLE ctxdb._settings IS 'Made by ctxdb push. salt: hashes of names are made with it.';
CREATE TABLE ctxdb._machines (
  machine text PRIMARY KEY,
  name text,
  person text,
  team text,
  level text NOT NULL,
  role text NOT NULL DEFAULT current_user,
  database text NOT NULL,
  seq bigint NOT NULL DEFAULT 0,
  session_id text NOT NULL DEFAULT '',
  state text NOT NULL DEFAULT '{}',
  version text,
  first_pushed_at timestamptz NOT NULL DEFAULT now(),
  pushed_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE ctxdb._machines IS 'One row per machine: whose it is, how far its push is.';
CREATE TABLE ctxdb._holders (
  session_id text NOT NULL,
  machine text NOT NULL,
  PRIMARY KEY (session_id, machine)
);
CREATE INDEX _holders_machine ON ctxdb._holders (machine);
COMMENT ON TABLE ctxdb._holders IS 'Which machines hold which sessions.';
CREATE TABLE ctxdb._forgotten (
  hash text PRIMARY KEY,
  machine text NOT NULL,
  forgotten_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE ctxdb._forgotten IS 'Hashes of removed sessions: no machine can push these.';
"""


def definitions() -> list[str]:
    """Every statement that makes the tables and views, without the base."""
    found = [statement for table in team_tables() for statement in _table(table)]
    found += [_forget_function(), _drop_views()]
    for table in team_tables():
        found += _public_view(table)
    return [*found, *(statement for view in team_views() for statement in _view(view))]


def row_tables() -> list[str]:
    """The names of all tables with rows of sessions, without the schema."""
    return [
        name
        for table in team_tables()
        for name in (f"_{table.name}", f"_{table.name}_text" if texts(table) else "")
        if name
    ]


def texts(table: TeamTable) -> list[TeamColumn]:
    """The columns that people and models wrote."""
    return [column for column in table.columns if column.level == FULL]


def plain(table: TeamTable) -> list[TeamColumn]:
    """All other columns."""
    return [column for column in table.columns if column.level != FULL]


def _table(table: TeamTable) -> Iterator[str]:
    for name, columns, about in (
        (f"_{table.name}", plain(table), table.about),
        (f"_{table.name}_text", texts(table), f"What people and models wrote, of {table.name}."),
    ):
        if not columns:
            continue
        yield (
            f"CREATE TABLE IF NOT EXISTS ctxdb.{name} (session_id text NOT NULL,"
            " key text NOT NULL, machine text NOT NULL,"
            " PRIMARY KEY (session_id, key, machine))"
        )
        for column in columns:
            yield (
                f"ALTER TABLE ctxdb.{name} ADD COLUMN IF NOT EXISTS"
                f' "{column.name}" {TYPES[column.kind]}'
            )
            yield f'COMMENT ON COLUMN ctxdb.{name}."{column.name}" IS {_quoted(column.about)}'
        yield f"COMMENT ON TABLE ctxdb.{name} IS {_quoted(about)}"
        times = [c.name for c in columns if c.name in ("timestamp", "started_at")]
        for time in times:
            # Rows come in the order of time, so a block range index is small and cheap to write.
            yield (
                f"CREATE INDEX IF NOT EXISTS {name}_{time} ON ctxdb.{name}"
                f" USING brin ({time}) WITH (pages_per_range = 32)"
            )
    if table.name == "usage":
        yield "CREATE INDEX IF NOT EXISTS _usage_key ON ctxdb._usage (key)"
        yield (
            "CREATE INDEX IF NOT EXISTS _usage_main ON ctxdb._usage (api_message_id)"
            " WHERE is_sidechain = 0"
        )


def _forget_function() -> str:
    """Removes sessions of all machines. It runs with its owner's rights: a writer sees no others.

    A hash can only be made from the id of a session, which a writer knows if it has the session.
    """
    deletes = " ".join(
        f"DELETE FROM ctxdb.{name} WHERE session_id = ANY (gone);"
        for name in [*row_tables(), "_holders"]
    )
    return f"""CREATE OR REPLACE FUNCTION ctxdb._forget(by_machine text, hashes text[])
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE gone text[];
BEGIN
  SELECT coalesce(array_agg(DISTINCT session_id), '{{}}') INTO gone FROM ctxdb._holders
  WHERE {FORGOTTEN_HASH} = ANY (hashes);
  {deletes}
  INSERT INTO ctxdb._forgotten (hash, machine) SELECT unnest(hashes), by_machine
  ON CONFLICT DO NOTHING;
  RETURN cardinality(gone);
END $$"""


def _public_view(table: TeamTable) -> Iterator[str]:
    """One row per entry, whichever machines hold it, with texts for those who may see them."""
    names = ", ".join(f't."{column.name}"' for column in plain(table))
    text = ", ".join(f'x."{column.name}"' for column in texts(table))
    # The text of the same machine, else of one whose texts the reader may see.
    join = (
        f" LEFT JOIN ctxdb._{table.name}_text x ON x.session_id = t.session_id AND x.key = t.key"
        f" AND x.machine = (SELECT y.machine FROM ctxdb._{table.name}_text y"
        "  WHERE y.session_id = t.session_id AND y.key = t.key"
        "  ORDER BY y.machine <> t.machine, y.machine LIMIT 1)"
        if text
        else ""
    )
    yield (
        f"CREATE VIEW ctxdb.{table.name} WITH (security_invoker = true) AS"
        f" SELECT t.session_id, t.key, t.machine, {names}{', ' + text if text else ''}"
        f" FROM {counted_rows(table)} t{join} WHERE NOT EXISTS"
        f" (SELECT 1 FROM {counted_rows(table)} o WHERE {better_row(table)})"
    )
    yield f"COMMENT ON VIEW ctxdb.{table.name} IS {_quoted(table.about)}"
    for column in table.columns:
        yield f'COMMENT ON COLUMN ctxdb.{table.name}."{column.name}" IS {_quoted(column.about)}'


def counted_rows(table: TeamTable) -> str:
    """SQL: the rows of a table that count, in a FROM.

    A request that only sidechain lines report is a replay if its session has the same API message
    outside a sidechain, as an entry of its own or as a copy (rule R3, rules/requests.py). Each
    machine leaves out the replays that it can know. Here those go whose message only another
    machine has.
    """
    if table.name != "usage":
        return f"ctxdb._{table.name}"
    copy_of_it = (
        "SELECT 1 FROM ctxdb._message_copies c JOIN ctxdb._messages m"
        " ON m.session_id = c.message_session_id AND m.key = c.message_key"
        " AND m.machine = c.machine WHERE c.session_id = u.session_id"
        " AND m.api_message_id = u.api_message_id AND m.is_sidechain = 0"
    )
    return (
        "(SELECT * FROM ctxdb._usage u WHERE NOT EXISTS (SELECT 1 FROM ctxdb._usage n"
        " WHERE u.is_sidechain = 1 AND n.is_sidechain = 0 AND n.api_message_id = u.api_message_id"
        f" AND (n.session_id = u.session_id OR EXISTS ({copy_of_it}))))"
    )


_LOWEST: dict[Kind, str] = {"time": "'-infinity'", "whole": "-1", "text": "''"}


def better_row(table: TeamTable) -> str:
    """SQL: whether row `o` of another machine or session is shown instead of row `t`.

    A request counts once, for the session that owns it. Any other entry is in its session once.
    Of equal rows the one that knows more is shown, then that of the machine with the smaller id.
    """
    kinds = {column.name: column.kind for column in table.columns}
    low = {name: _LOWEST[kinds[name]] for name in table.latest}
    first, second = [], []  # o is better if `first` is larger
    if table.name == "usage":
        same = "o.key = t.key AND (o.session_id, o.machine) <> (t.session_id, t.machine)"
        first.append('t.owner COLLATE "C"')
        second.append('o.owner COLLATE "C"')
    else:
        same = "o.session_id = t.session_id AND o.key = t.key AND o.machine <> t.machine"
    for name, lowest in low.items():
        first.append(f"coalesce(o.{name}, {lowest})")
        second.append(f"coalesce(t.{name}, {lowest})")
    first += ["t.session_id", "t.machine"]
    second += ["o.session_id", "o.machine"]
    return f"{same} AND ({', '.join(first)}) > ({', '.join(second)})"


class TeamView(NamedTuple):
    """A view of sql/postgres/."""

    name: str
    about: str
    columns: dict[str, str]
    sql: str


def team_views() -> list[TeamView]:
    """The views of sql/postgres/, in the order in which they can be made."""
    found = []
    for path in sorted(asset_dir("sql").glob("postgres/views/*.sql")):
        text = path.read_text(encoding="utf-8")
        parsed = sql_files.parse(path.stem, "view", text)
        found.append(TeamView(path.stem, parsed.question, dict(parsed.columns), text))
    # One that others read comes before them.
    return sorted(found, key=lambda view: (view.name != "requests", view.name))


def _view(view: TeamView) -> Iterator[str]:
    yield (
        f"CREATE VIEW ctxdb.{view.name} WITH (security_invoker = true) AS\n"
        + view.sql.rstrip().rstrip(";")
    )
    yield f"COMMENT ON VIEW ctxdb.{view.name} IS {_quoted(view.about)}"
    for name, about in view.columns.items():
        yield f"COMMENT ON COLUMN ctxdb.{view.name}.{name} IS {_quoted(about)}"


def public_names() -> list[str]:
    """The names of all views, without the schema."""
    return [*(table.name for table in team_tables()), *(view.name for view in team_views())]


def _drop_views() -> str:
    # All at once, because they read each other. What people made on top of them is not dropped.
    return "DROP VIEW IF EXISTS " + ", ".join(f"ctxdb.{name}" for name in public_names())


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def fingerprint() -> str:
    """Changes whenever a table or a view does."""
    return sha256("\n".join([BASE, *definitions()]).encode()).hexdigest()[:32]
