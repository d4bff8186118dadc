"""One question as one SQL statement.

A view that adds things up is narrowed *before* it adds: its own text runs with the table that it
reads replaced by a narrowed one of the same name (a common table expression hides the real one).
So ``usage_by_project --since 7d`` counts seven days, which no WHERE around the view could do. Which
table that is, the view's header says; the columns of row by row views are compared directly.

Names that come from the command line are looked up, never pasted; values are always bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ctxdb.errors import UsageError
from ctxdb.query import period
from ctxdb.query.cells import kind_of
from ctxdb.query.narrow import ROW_BY_ROW, condition, has_value, narrowed, number, quoted
from ctxdb.query.resolve import unknown
from ctxdb.query.uncertain import LEFT_OUT
from ctxdb.store import sql_files

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence

    Value = str | int | float | None


class Ask(NamedTuple):
    """What the command line asks."""

    what: str  # a name, or SQL
    params: Mapping[str, str] = {}
    since: str | None = None
    until: str | None = None
    project: str | None = None
    session: str | None = None
    model: str | None = None
    limit: int | None = None
    sort: str | None = None
    columns: str | None = None

    @property
    def narrows(self) -> dict[str, str]:
        """The filters that are given."""
        found = {name: getattr(self, name) for name in sql_files.FILTERS}
        return {name: value for name, value in found.items() if value is not None}


class Statement(NamedTuple):
    """What SQLite is asked."""

    name: str  # of the view, query or table; empty for SQL
    sql: str
    values: Mapping[str, Value]
    columns: tuple[str, ...] | None = None  # to pick from the answer; None for all
    limit: int | None = None  # of rows, as asked
    note: str = ""  # what was narrowed without being asked


class Subject(NamedTuple):
    """What can be asked by name."""

    name: str
    sql: str
    columns: tuple[str, ...]
    filters: Mapping[str, tuple[sql_files.Filter, ...]]
    params: tuple[sql_files.Param, ...] = ()
    period: str | None = None
    example: str | None = None


def is_sql(text: str) -> bool:
    """True for anything that cannot be a name."""
    return not text.replace("-", "_").isidentifier()


def build(ask: Ask, conn: sqlite3.Connection) -> Statement:
    """Return the statement for what was asked; `conn` is asked for names and ids."""
    if is_sql(ask.what):
        return _sql(ask)
    subject = _subject(ask.what.replace("-", "_"), conn)
    period.bounds(ask.since, ask.until)
    values, narrowing, equal, usual = _values(subject, ask, conn)
    if not usual and not equal:
        usual = _default_period(subject, narrowing, ask)
    hidden: dict[str, list[str]] = {}
    outside = [has_value(name, text, values) for name, text in equal.items()]
    for option, text in narrowing.items():
        for one in _filters(subject, option):
            made = condition(option, one, text, conn, values)
            if made:
                (outside if one.table is None else hidden.setdefault(one.table, [])).append(made)
    picked = _columns(subject, _words(ask.columns)) if ask.columns else []
    last = _limited_last(subject, ask, values) if outside or ask.sort else ask
    sql = _wrapped(subject, last, [*picked, *_told_of_sums(subject, picked)], outside)
    table, order = ROW_BY_ROW.get(subject.name, ("", ""))
    first = ""
    if table and ask.limit is not None and not ask.sort and not outside:
        hidden.setdefault(table, [])
        first = f" ORDER BY {order} LIMIT {ask.limit:d}"
    if hidden:
        parts = (
            narrowed(name, made, first if name == table else "", looked_up=bool(table))
            for name, made in hidden.items()
        )
        sql = f"WITH {', '.join(parts)}\n{sql}"
    return Statement(subject.name, sql, values, tuple(picked) or None, ask.limit, _showing(usual))


# -- what is asked about ------------------------------------------------------------------------


def _sql(ask: Ask) -> Statement:
    if narrows := ask.narrows:
        flags = ", ".join(f"--{name}" for name in narrows)
        raise UsageError(f"{flags}: only for views and queries; in SQL write WHERE")
    if ask.sort:
        raise UsageError("--sort: only for views and queries; in SQL write ORDER BY")
    picked = tuple(_words(ask.columns)) if ask.columns else None
    values = {name: number(text) for name, text in ask.params.items()}
    return Statement("", ask.what, values, picked, ask.limit)


def _subject(name: str, conn: sqlite3.Connection) -> Subject:
    found = sql_files.find(name)
    if found is not None:
        found = _as_stored(found, conn)
        return Subject(
            found.name,
            found.sql,
            tuple(found.columns),
            found.filters,
            found.params,
            found.period,
            found.example,
        )
    rows = conn.execute(
        "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
        " AND name NOT LIKE '\\_%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    ).fetchall()
    own = {row[0].lower(): row[0] for row in rows}
    if name.lower() not in own:
        known = dict.fromkeys([*sql_files.names("view"), *sql_files.names("query"), *own.values()])
        raise unknown("view, query or table", name, known, "`ctxdb query --list` shows all")
    # A table, or a view that somebody made: what it has tells what it can be narrowed by.
    name = own[name.lower()]
    sql = f"SELECT * FROM {quoted(name)}"  # noqa: S608
    columns = tuple(column[0] for column in conn.execute(f"{sql} LIMIT 0").description)
    return Subject(name, sql, columns, _guessed_filters(name, columns))


def _as_stored(one: sql_files.Canned, conn: sqlite3.Connection) -> sql_files.Canned:
    """A view as the database has it: one of another version fits that version's tables."""
    if one.kind != "view":
        return one
    row = conn.execute(
        "SELECT sql FROM sqlite_master WHERE type = 'view' AND name = ?", (one.name,)
    ).fetchone()
    text = row[0].partition("\n")[2] if row else ""
    if text in ("", one.sql):
        return one
    return sql_files.parse(one.name, "view", text)


def _guessed_filters(name: str, columns: Sequence[str]) -> dict[str, tuple[sql_files.Filter, ...]]:
    of = {"session_id": "id"} if name == "sessions" else {}
    wanted = {
        "since": ("timestamp", "started_at", "last_read_at", "seen_at"),
        "project": ("project_id", "session_id"),
        "session": ("session_id",),
        "model": ("model",),
    }
    found: dict[str, tuple[sql_files.Filter, ...]] = {}
    for option, candidates in wanted.items():
        for column in candidates:
            here = of.get(column, column)
            if here in columns:
                found[option] = (sql_files.Filter(None, here),)
                break
    if name == "projects":
        found["project"] = (sql_files.Filter("projects", "id"),)
    if "since" in found:
        found["until"] = found["since"]
    return found


# -- values -------------------------------------------------------------------------------------


def _values(
    subject: Subject, ask: Ask, conn: sqlite3.Connection
) -> tuple[dict[str, Value], dict[str, str], dict[str, str], str]:
    """What was given, sorted.

    Values of the query's parameters, options to narrow by, columns that must have a value, and the
    period that the query takes by itself.
    """
    names = [param.name for param in subject.params]
    equal: dict[str, str] = {}
    for name, text in ask.params.items():
        if name in names:
            continue
        if name.lower() not in subject.columns:
            has = f"it has {', '.join([*names, *subject.columns])}"
            raise unknown(
                f"parameter or column of {subject.name}", name, [*names, *subject.columns], has
            )
        equal[name.lower()] = text
    narrowing = ask.narrows
    given = {name: text for name, text in ask.params.items() if name in names}
    for option in list(narrowing):
        # A query that wants to be told the period itself.
        if option in names and option not in subject.filters:
            given.setdefault(option, narrowing.pop(option))
    if "limit" in names and ask.limit is not None:
        given.setdefault("limit", str(ask.limit))
    usual = ""
    if "since" in names and "since" not in given:
        if {"until", "session"} & narrowing.keys():
            given["since"] = period.ALL  # something narrower is asked
        else:
            usual = next(param.default or "" for param in subject.params if param.name == "since")
    values = {param.name: _value(subject, param, given) for param in subject.params}
    if "session" in values:
        from ctxdb.session.find import find_session

        values["session"] = find_session(conn, str(values["session"]))
    return values, narrowing, equal, usual


def _value(subject: Subject, param: sql_files.Param, given: Mapping[str, str]) -> Value:
    text = given.get(param.name, param.default)
    if text is None:
        example = f"; for example: {subject.example}" if subject.example else ""
        raise UsageError(f"{subject.name} wants -p {param.name} VALUE: {param.words}{example}")
    if param.kind == "time":
        if param.name == "day":
            return period.day(text)
        if param.name.startswith("until"):
            return period.until(text) or "9999"
        return period.since(text) or ""
    if param.kind == "integer":
        try:
            whole = int(text)
        except ValueError:
            raise UsageError(f"-p {param.name}: {text!r} is no whole number") from None
        if abs(whole) >= 2**63:
            raise UsageError(f"-p {param.name}: {text} is too large")
        return whole
    return text


# -- narrowing ----------------------------------------------------------------------------------


def _default_period(subject: Subject, narrowing: dict[str, str], ask: Ask) -> str:
    """Narrow to the usual period where nothing narrower is asked; which it is."""
    if subject.period is None or {"since", "until", "session"} & ask.narrows.keys():
        return ""
    if "since" not in subject.filters:
        return ""
    narrowing["since"] = subject.period
    return subject.period


def _showing(usual: str) -> str:
    """What to say of a period that nobody asked for."""
    if usual in ("", period.ALL):
        return ""
    days = usual.removesuffix("d")
    what = f"the last {days} days" if days.isdecimal() else f"what happened since {usual}"
    return f"Showing {what}; --since all shows everything."


def _filters(subject: Subject, option: str) -> tuple[sql_files.Filter, ...]:
    found = subject.filters.get(option)
    if found is None:
        can = ", ".join(sql_files.options(subject.filters, subject.params))
        why = f"only by {can}" if can else "nor by any other option"
        raise UsageError(f"{subject.name} cannot be narrowed by --{option}, {why}")
    return found


def _told_of_sums(subject: Subject, picked: list[str]) -> list[str]:
    """Columns to ask for besides: whoever picks a sum is still told what it leaves out."""
    if not any(kind_of(column) in ("money", "tokens") for column in picked):
        return []
    return [name for name in LEFT_OUT if name in subject.columns and name not in picked]


def _limited_last(subject: Subject, ask: Ask, values: dict[str, Value]) -> Ask:
    """A query takes its first rows itself: from all rows, where it is not yet known which count.

    What it is told is the limit of the whole instead.
    """
    if not any(param.name == "limit" for param in subject.params):
        return ask
    limits = [limit for limit in (values["limit"], ask.limit) if isinstance(limit, int)]
    values["limit"] = -1  # as SQLite has it: none
    return ask._replace(limit=min((limit for limit in limits if limit >= 0), default=None))


def _wrapped(subject: Subject, ask: Ask, columns: list[str], conditions: list[str]) -> str:
    picked = ", ".join(map(quoted, columns)) or "*"
    text = "\n".join(line for line in subject.sql.splitlines() if not line.startswith("--"))
    sql = f"SELECT {picked} FROM (\n{text}\n)"  # noqa: S608
    if conditions:
        sql += f"\nWHERE {' AND '.join(conditions)}"
    if ask.sort:
        sql += f"\nORDER BY {', '.join(_order(subject, word) for word in _words(ask.sort))}"
    if ask.limit is not None:
        sql += f"\nLIMIT {ask.limit:d}"
    return sql


def _order(subject: Subject, word: str) -> str:
    (column,) = _columns(subject, [word.lstrip("-+")])
    # NULL is the smallest in SQLite; nobody who sorts wants to read those first.
    return f"{quoted(column)} {'DESC' if word.startswith('-') else 'ASC'} NULLS LAST"


def _columns(subject: Subject, words: Iterable[str]) -> list[str]:
    by_lower = {column.lower(): column for column in subject.columns}
    found = []
    for word in words:
        column = by_lower.get(word.lower().replace("-", "_"))
        if column is None:
            has = f"it has {', '.join(subject.columns)}"
            raise unknown(f"column of {subject.name}", word, subject.columns, has)
        found.append(column)
    return found


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
