"""Read the files in sql/: each view and query describes itself in the comments at its top.

People, `ctxdb query`, the docs and the database all read these comments:

    -- The question it answers?                          the first line
    --   started_at (time): what it means                one line per column, in order: its kind
    --   cost_usd (money, always): what it means         and, for some, its place
    -- filters: since=started_at project=session_id      what --since, --project ... narrow
    -- period: 30d                                       what the command line shows by default
    -- one row per: sessions ORDER BY started_at DESC    one row for each row of this table
    -- rows share requests: the commits of one turn      why a request can be in several rows
    -- total: requests cost_usd                          columns that a table adds up below its rows
    -- :path: what to give                               a parameter; without a default, required
    -- :limit = 20: how many                             a default; a whole number is bound as one
    -- :since (since) = yesterday: from when             a parameter with a kind, and its default
    -- example: ctxdb query file_history --limit 5       a command line that works on the demo

Every column has a kind, which says how the command line shows it. (A view whose name begins with _
is internal and needs no kinds.)

    text, number     as it is; a number has separators
    money            USD
    tokens           12.3k
    bytes, seconds   3.1 kB; 3m 20s
    share            0 to 1, shown as a percentage
    time             a UTC timestamp, shown as local time
    path             shortened from the left; -p finds whole names in it
    id               tells things apart: a number without separators, a UUID by its beginning

A column may have a place, which counts where not all columns fit on the screen:

    always           it stays
    about            what the row is about: it stays, and is wider. Of several such columns this
                     holds for the first that is not empty
    outcome          the same for what came of it
    detail           it is left out before the others

A filter names a column of the answer, or with `table.column` a column of a table (or view) that the
SQL reads. That table is then narrowed before anything is counted. Commas separate several columns.
`since` and `until` compare UTC timestamps; `until` has the columns of `since` unless it is given.
`human` leaves out sessions that a program ran. It has the columns of `project` that are ids of
sessions, unless it is given.
`project` needs a column that ends in session_id or project_id; `session` and `model` need a column
of ids of sessions, and of names of models.

A view of SQLite has no parameters. One that the command line can give to a view is written in its
SQL as its default, with its name in a comment: `0 /* :snapshots */`.

A parameter of the kind `since`, `until` or `day` takes what --since takes. It is bound as UTC text:
the beginning of that time, its end, or the midnight of a single day. A parameter of the kind
`session` takes what --session takes. It is bound as the whole id. A parameter with the name of an
option can also be given by that option.

`one row per` says that the answer has one row for each row of that table, in that order. For the
first rows, nothing but the first rows of the table is read. `rows share requests` says that the
requests of the rows must not be added up.

Only the file that is asked for is read: this happens in every `ctxdb query`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeGuard, get_args

from ctxdb.assets import asset_dir

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

FileKind = Literal["view", "query"]
ColumnKind = Literal[
    "text", "number", "money", "tokens", "bytes", "seconds", "share", "time", "path", "id"
]
Place = Literal["always", "about", "outcome", "usual", "detail"]
ParamKind = Literal["text", "integer", "since", "until", "day", "session"]
ENTRIES = ("filters", "period", "one row per", "rows share requests", "total", "example")
FILTERS = ("since", "until", "project", "human", "session", "model")
COLUMN_KINDS: tuple[ColumnKind, ...] = get_args(ColumnKind)
PLACES: tuple[Place, ...] = get_args(Place)
_NAME = re.compile(r"[a-z]\w{0,99}\Z", re.ASCII)  # a longer one cannot be a file
_COLUMN = re.compile(
    r"-- {3}(?P<name>\w+)(?: \((?P<kind>\w+)(?:, (?P<place>\w+))?\))?: (?P<words>.*)"
)
_PARAM = re.compile(
    r"-- :(?P<name>\w+)(?: \((?P<kind>since|until|day|session)\))?(?: = (?P<default>.*?))?"
    r": (?P<words>.*)"
)
_ENTRY = re.compile(rf"-- (?P<key>{'|'.join(ENTRIES)}): (?P<value>.*)")


class Display(NamedTuple):
    """How the command line shows a column."""

    kind: ColumnKind
    place: Place = "usual"


class Filter(NamedTuple):
    """A column that an option of the command line narrows."""

    table: str | None  # None: a column of the answer itself
    column: str


class Param(NamedTuple):
    """A value that a query needs."""

    name: str
    kind: ParamKind
    default: str | None  # as written; None: it must be given
    words: str


class RowSource(NamedTuple):
    """The table that has one row for each row of a view, and the order of the view."""

    table: str
    order: str


class SqlFile(NamedTuple):
    """One file of sql/ or sql/queries/."""

    name: str
    kind: FileKind
    question: str
    columns: Mapping[str, str]  # what each column means, in order
    displays: Mapping[str, Display]  # of the columns that have a known kind
    params: tuple[Param, ...]
    example: str | None
    filters: Mapping[str, tuple[Filter, ...]]
    period: str | None
    one_row_per: RowSource | None
    rows_share_requests: bool
    total: tuple[str, ...]  # columns that can be added up over all rows
    sql: str  # with its comments, without a semicolon at the end

    @property
    def options(self) -> list[str]:
        """The options of the command line that narrow it."""
        return options(self.filters, self.params)


def options(filters: Iterable[str], params: Iterable[Param]) -> list[str]:
    """Return the options that narrow by these filters, or give a value to these parameters."""
    names = {*filters, *(param.name for param in params)}
    return [f"--{name}" for name in FILTERS if name in names]


def parse(name: str, kind: FileKind, text: str) -> SqlFile:
    """Read the comments at the top of a file; comments below the first line of SQL do not count."""
    columns: dict[str, str] = {}
    displays: dict[str, Display] = {}
    params: list[Param] = []
    entries: dict[str, str] = {}
    first, *lines = text.splitlines() or [""]
    for line in lines:
        if not line.startswith("--"):
            break
        if found := _COLUMN.match(line):
            columns[found["name"]] = found["words"]
            if display := _display(found["kind"], found["place"]):
                displays[found["name"]] = display
        elif found := _PARAM.match(line):
            params.append(_param(found))
        elif found := _ENTRY.match(line):
            entries[found["key"]] = found["value"].strip()
    return SqlFile(
        name=name,
        kind=kind,
        question=first.removeprefix("--").strip(),
        columns=columns,
        displays=displays,
        params=tuple(params),
        example=entries.get("example"),
        filters=_filters(entries.get("filters", "")),
        period=entries.get("period"),
        one_row_per=_row_source(entries.get("one row per", "")),
        rows_share_requests="rows share requests" in entries,
        total=tuple(entries.get("total", "").split()),
        sql=text.rstrip().rstrip(";"),
    )


def _display(kind: str | None, place: str | None) -> Display | None:
    """Return None for words that this version does not know: the column's name decides then."""
    place = place or "usual"
    return Display(kind, place) if _is_kind(kind) and _is_place(place) else None


def _is_kind(word: str | None) -> TypeGuard[ColumnKind]:
    return word in COLUMN_KINDS


def _is_place(word: str) -> TypeGuard[Place]:
    return word in PLACES


def _param(found: re.Match[str]) -> Param:
    default: str | None = found["default"]
    is_integer = default is not None and default.removeprefix("-").isdecimal()
    kind: ParamKind = found["kind"] or ("integer" if is_integer else "text")  # type: ignore[assignment]
    return Param(found["name"], kind, default, found["words"])


def _filters(text: str) -> dict[str, tuple[Filter, ...]]:
    found: dict[str, tuple[Filter, ...]] = {}
    for part in text.split():
        option, _, columns = part.partition("=")
        found[option] = tuple(
            Filter(table or None, column)
            for table, _, column in (name.rpartition(".") for name in columns.split(","))
        )
    if "since" in found:
        found.setdefault("until", found["since"])
    sessions = tuple(one for one in found.get("project", ()) if one.column.endswith("session_id"))
    if sessions and len(sessions) == len(found["project"]):
        found.setdefault("human", sessions)
    return found


def _row_source(text: str) -> RowSource | None:
    table, sign, order = text.partition(" ORDER BY ")
    return RowSource(table, order) if sign else None


def _folder(kind: FileKind) -> Path:
    folder = asset_dir("sql")
    return folder if kind == "view" else folder / "queries"


def _read(kind: FileKind, name: str) -> SqlFile | None:
    try:
        text = (_folder(kind) / f"{name}.sql").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return parse(name, kind, text)


def find(name: str) -> SqlFile | None:
    """Return the view or query of that name; views that begin with _ are internal."""
    if not _NAME.match(name):
        return None
    return _read("view", name) or _read("query", name)


def names(kind: FileKind) -> list[str]:
    """Return the names without reading the files: for completion and suggestions."""
    return sorted(path.stem for path in _folder(kind).glob("[a-z]*.sql"))


def _all(kind: FileKind) -> Iterator[SqlFile]:
    for name in names(kind):
        if found := _read(kind, name):
            yield found


def all_views() -> list[SqlFile]:
    """Return every view that is meant for people, by name."""
    return list(_all("view"))


def all_queries() -> list[SqlFile]:
    """Return every canned query, by name."""
    return list(_all("query"))
