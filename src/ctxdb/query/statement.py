"""Turn what the command line asks into one SQL statement.

A view that adds things up is narrowed *before* it adds: its own SQL runs, but the table that it
reads is replaced by a narrowed one of the same name (a common table expression hides the table). So
``usage_by_project --since 7d`` counts seven days, which no WHERE around the view could do. The
header of the view says which table that is. Other views are narrowed by a WHERE around them.

Names from the command line are looked up before they are used in SQL. Values are always bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ctxdb.errors import UsageError
from ctxdb.query import period
from ctxdb.query.cells import display_by_name
from ctxdb.query.narrow import condition, has_value, narrowed, number, quoted
from ctxdb.query.resolve import unknown
from ctxdb.query.subject import find_subject
from ctxdb.query.uncertain import LEFT_OUT
from ctxdb.store import sql_files

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping

    from ctxdb.query.subject import Subject
    from ctxdb.store.sql_files import ColumnKind, Display

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
    human: str | None = None  # without the sessions that a program ran; AUTOMATED: only those

    @property
    def narrows(self) -> dict[str, str]:
        """The filters that are given."""
        found = {name: getattr(self, name) for name in sql_files.FILTERS}
        return {name: value for name, value in found.items() if value is not None}


class Statement(NamedTuple):
    """What SQLite runs, and how to show its answer."""

    name: str  # of the view, query or table; empty for SQL
    sql: str
    values: Mapping[str, Value]
    columns: tuple[str, ...] | None = None  # to pick from the answer; None for all
    limit: int | None = None  # of rows, as asked
    note: str = ""  # which period is shown
    displays: Mapping[str, Display] = {}
    rows_share_requests: bool = False
    total: tuple[str, ...] = ()  # columns that can be added up over all rows


def is_sql(text: str) -> bool:
    """Return whether the text cannot be a name."""
    return not text.replace("-", "_").isidentifier()


def statement_for(ask: Ask, conn: sqlite3.Connection) -> Statement:
    """Return the statement for what was asked; names and ids are looked up with `conn`."""
    if is_sql(ask.what):
        return _own_sql(ask)
    subject = find_subject(ask.what.replace("-", "_"), conn)
    period.bounds(ask.since, ask.until)
    given = _sorted_out(subject, ask)
    values = _values(subject, given.params, conn)
    default_period = given.default_period
    if not default_period and not given.equal:
        default_period = _default_period(subject, ask)
        if default_period:
            given.narrows["since"] = default_period
    inner: dict[str, list[str]] = {}  # conditions for each table that the SQL reads
    outer = [  # conditions for the answer
        has_value(name, _kind(subject, name), text, values) for name, text in given.equal.items()
    ]
    for option, text in given.narrows.items():
        for one in _filters(subject, option):
            if made := condition(option, one, text, conn, values):
                (outer if one.table is None else inner.setdefault(one.table, [])).append(made)
    picked = _columns(subject, _words(ask.columns)) if ask.columns else []
    limit = _outer_limit(subject, ask, values) if outer or ask.sort else ask.limit
    also = _counts_of_left_out(subject, picked)
    sql = _wrapped(subject, [*picked, *also], outer, ask.sort, limit)
    row_source = subject.one_row_per
    first_rows = ""
    if row_source and ask.limit is not None and not ask.sort and not outer:
        inner.setdefault(row_source.table, [])
        first_rows = f" ORDER BY {row_source.order} LIMIT {ask.limit:d}"
    if inner:
        parts = (
            narrowed(
                table,
                made,
                first_rows if row_source and table == row_source.table else "",
                looked_up=row_source is not None,
            )
            for table, made in inner.items()
        )
        sql = f"WITH {', '.join(parts)}\n{sql}"
    return Statement(
        subject.name,
        sql,
        values,
        tuple(picked) or None,
        ask.limit,
        _showing(default_period, ask, given.params),
        subject.displays,
        subject.rows_share_requests,
        subject.total,
    )


def _own_sql(ask: Ask) -> Statement:
    if narrows := ask.narrows:
        flags = ", ".join(f"--{name}" for name in narrows)
        raise UsageError(f"{flags}: only for views and queries; in SQL write WHERE")
    if ask.sort:
        raise UsageError("--sort: only for views and queries; in SQL write ORDER BY")
    picked = tuple(_words(ask.columns)) if ask.columns else None
    values = {name: number(text) for name, text in ask.params.items()}
    return Statement("", ask.what, values, picked, ask.limit)


# -- values ----------------------------------------------------------------------------------------


class _Given(NamedTuple):
    """What the command line gives, by its use."""

    params: dict[str, str]  # values for parameters of the query
    narrows: dict[str, str]  # options to narrow by
    equal: dict[str, str]  # columns that must have a value
    default_period: str  # that a parameter of the query has; empty if another period is asked for


def _sorted_out(subject: Subject, ask: Ask) -> _Given:
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
    narrows = ask.narrows
    params = {name: text for name, text in ask.params.items() if name in names}
    for option in list(narrows):
        if option in names and option not in subject.filters:
            params.setdefault(option, narrows.pop(option))
    if "limit" in names and ask.limit is not None:
        params.setdefault("limit", str(ask.limit))
    default_period = ""
    if "since" in names and "since" not in params:
        if {"until", "session"} & narrows.keys():
            params["since"] = period.ALL  # what is asked for is narrow already
        else:
            defaults = {param.name: param.default for param in subject.params}
            default_period = defaults["since"] or ""
    return _Given(params, narrows, equal, default_period)


def _values(
    subject: Subject, given: Mapping[str, str], conn: sqlite3.Connection
) -> dict[str, Value]:
    return {param.name: _value(subject, param, given, conn) for param in subject.params}


def _value(
    subject: Subject, param: sql_files.Param, given: Mapping[str, str], conn: sqlite3.Connection
) -> Value:
    text = given.get(param.name, param.default)
    if text is None:
        example = f"; for example: {subject.example}" if subject.example else ""
        raise UsageError(f"{subject.name} needs -p {param.name} VALUE: {param.words}{example}")
    match param.kind:
        case "since":
            return period.since(text) or ""
        case "until":
            return period.until(text) or "9999"
        case "day":
            return period.day(text)
        case "session":
            from ctxdb.session.find import find_session

            return find_session(conn, text)
        case "integer":
            return _integer(param.name, text)
        case "text":
            return text


def _integer(name: str, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise UsageError(f"-p {name}: {text!r} is not a whole number") from None
    if abs(value) >= 2**63:
        raise UsageError(f"-p {name}: {text} is too large")
    return value


# -- narrowing -------------------------------------------------------------------------------------


def _default_period(subject: Subject, ask: Ask) -> str:
    """Return the period that the view shows by default; empty if a narrower one is asked for."""
    if "since" not in subject.filters or {"since", "until", "session"} & ask.narrows.keys():
        return ""
    return subject.period or ""


def _showing(default_period: str, ask: Ask, params: Mapping[str, str]) -> str:
    """Return the line that says which period is shown, with its days."""
    if default_period not in ("", period.ALL):
        days = default_period.removesuffix("d")
        begin = period.in_words(default_period, None)
        what = f"the last {days} days ({begin})" if days.isdecimal() else begin
        return f"Showing {what}; --since all shows everything."
    since = ask.since or params.get("since")
    words = period.in_words(since, ask.until or params.get("until"))
    return f"Showing {words}." if words else ""


def _filters(subject: Subject, option: str) -> tuple[sql_files.Filter, ...]:
    found = subject.filters.get(option)
    if found is None:
        can = ", ".join(sql_files.options(subject.filters, subject.params))
        why = f"only by {can}" if can else "nor by any other option"
        raise UsageError(f"{subject.name} cannot be narrowed by --{option}, {why}")
    return found


def _kind(subject: Subject, column: str) -> ColumnKind:
    return (subject.displays.get(column) or display_by_name(column)).kind


def _counts_of_left_out(subject: Subject, picked: list[str]) -> list[str]:
    """Return columns to read besides the picked ones: the counts of what a picked sum leaves out.

    They are not shown; the line below the answer is made from them.
    """
    if not any(_kind(subject, column) in ("money", "tokens") for column in picked):
        return []
    return [name for name in LEFT_OUT if name in subject.columns and name not in picked]


def _outer_limit(subject: Subject, ask: Ask, values: dict[str, Value]) -> int | None:
    """Return the limit for the whole statement where rows are sorted or left out at the end.

    A query that has a parameter `limit` would take its first rows before that. So the query itself
    gets no limit, and the limit holds for the whole.
    """
    if not any(param.name == "limit" for param in subject.params):
        return ask.limit
    limits = [limit for limit in (values["limit"], ask.limit) if isinstance(limit, int)]
    values["limit"] = -1  # no limit, in SQLite
    return min((limit for limit in limits if limit >= 0), default=None)


def _wrapped(
    subject: Subject,
    columns: list[str],
    conditions: list[str],
    sort: str | None,
    limit: int | None,
) -> str:
    picked = ", ".join(map(quoted, columns)) or "*"
    text = "\n".join(line for line in subject.sql.splitlines() if not line.startswith("--"))
    sql = f"SELECT {picked} FROM (\n{text}\n)"  # noqa: S608
    if conditions:
        sql += f"\nWHERE {' AND '.join(conditions)}"
    if sort:
        sql += f"\nORDER BY {', '.join(_order(subject, word) for word in _words(sort))}"
    if limit is not None:
        sql += f"\nLIMIT {limit:d}"
    return sql


def _order(subject: Subject, word: str) -> str:
    (column,) = _columns(subject, [word.lstrip("-+")])
    # For SQLite, NULL is smaller than any value; rows without a value belong at the end.
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
