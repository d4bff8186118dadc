"""Views and canned queries as their files in sql/ describe themselves.

Each file begins with comments that people, `ctxdb query`, the docs and the database all read:

    -- The question it answers?                        first line
    --   column: what it means                         three spaces; one line per column, in order
    -- filters: since=started_at project=session_id    what --since, --project ... narrow
    -- period: 30d                                     the command line shows this much unless told
    -- :path: what to give                             a parameter without default is required
    -- :limit = 20: how many                           default; whole numbers are bound as such
    -- :since (time) = yesterday: from when            (time): what --since takes, bound as UTC text
    -- example: ctxdb query file_history --limit 5

A filter names a column of the answer, or with `table.column` a column of a table (or view) that the
SQL reads, which is then narrowed before anything is counted; several are separated by commas.
`since` and `until` compare UTC timestamps (`until` is `since`'s column unless given); `project`
goes by a column that ends in session_id or project_id; `session` and `model` by one that has them.

Only the file that is asked for is read: this is on the path of every `ctxdb query`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from ctxdb.assets import asset_dir

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

Kind = Literal["view", "query"]
FILTERS = ("since", "until", "project", "session", "model")
_NAME = re.compile(r"[a-z]\w*\Z", re.ASCII)
_COLUMN = re.compile(r"-- {3}(\w+): (.*)")
_PARAM = re.compile(r"-- :(\w+)(?: \((time)\))?(?: = (.*?))?: (.*)")
_WORD = re.compile(r"-- (filters|period|example): (.*)")


class Filter(NamedTuple):
    """A column that an option of the command line narrows."""

    table: str | None  # None: a column of the answer itself
    column: str


class Param(NamedTuple):
    """What a query has to be told."""

    name: str
    kind: Literal["text", "integer", "time"]
    default: str | None  # as written; None: it must be given
    words: str


class Canned(NamedTuple):
    """One file of sql/ or sql/queries/."""

    name: str
    kind: Kind
    question: str
    columns: Mapping[str, str]  # in order
    params: tuple[Param, ...]
    example: str | None
    filters: Mapping[str, tuple[Filter, ...]]
    period: str | None
    sql: str  # with its comments, without a semicolon at the end

    @property
    def options(self) -> list[str]:
        """Options of the command line that narrow it."""
        return options(self.filters, self.params)


def options(filters: Iterable[str], params: Iterable[Param]) -> list[str]:
    """Options that narrow what has these; what a parameter wants can be given as one, too."""
    names = {*filters, *(param.name for param in params)}
    return [f"--{name}" for name in FILTERS if name in names]


def parse(name: str, kind: Kind, text: str) -> Canned:
    """What a file says of itself; comments below the first line of SQL do not count."""
    columns: dict[str, str] = {}
    params: list[Param] = []
    words: dict[str, str] = {}
    lines = text.splitlines()
    for line in lines[1:]:
        if not line.startswith("--"):
            break
        if found := _COLUMN.match(line):
            columns[found[1]] = found[2]
        elif found := _PARAM.match(line):
            params.append(_param(*found.groups()))
        elif found := _WORD.match(line):
            words[found[1]] = found[2].strip()
    return Canned(
        name,
        kind,
        lines[0].removeprefix("--").strip() if lines else "",
        columns,
        tuple(params),
        words.get("example"),
        _filters(words.get("filters", "")),
        words.get("period"),
        text.rstrip().rstrip(";"),
    )


def _param(name: str, kind: str | None, default: str | None, words: str) -> Param:
    if kind == "time":
        return Param(name, "time", default, words)
    is_integer = default is not None and default.removeprefix("-").isdecimal()
    return Param(name, "integer" if is_integer else "text", default, words)


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
    return found


def _folder(kind: Kind) -> Path:
    folder = asset_dir("sql")
    return folder if kind == "view" else folder / "queries"


def _read(kind: Kind, name: str) -> Canned | None:
    try:
        text = (_folder(kind) / f"{name}.sql").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return parse(name, kind, text)


def find(name: str) -> Canned | None:
    """The view or query of that name; views that begin with _ are nobody's business."""
    if not _NAME.match(name):
        return None
    return _read("view", name) or _read("query", name)


def names(kind: Kind) -> list[str]:
    """Names alone, without reading the files: for completion and suggestions."""
    return sorted(path.stem for path in _folder(kind).glob("[a-z]*.sql"))


def _all(kind: Kind) -> Iterator[Canned]:
    for name in names(kind):
        if found := _read(kind, name):
            yield found


def all_views() -> list[Canned]:
    """Every view that is meant for people, by name."""
    return list(_all("view"))


def all_queries() -> list[Canned]:
    """Every canned query, by name."""
    return list(_all("query"))
