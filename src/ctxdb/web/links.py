"""URLs of our pages, and of tables, filters and SQL in Datasette. Every value is quoted here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "/-/ctxdb"
_NAME = re.compile(r":([A-Za-z_]\w*)")


@dataclass(frozen=True, slots=True)
class Links:
    """How to reach things on this server."""

    database: str = "ctxdb"  # as Datasette names it
    base: str = ""  # Datasette's base_url without the slash at its end
    query_path: str = ""  # /-/query in Datasette 1.0

    @property
    def database_path(self) -> str:
        """The name of the database, as a part of a path."""
        return _tilde(self.database)

    def page(self, name: str = "", /, **args: object) -> str:
        """One of our pages; arguments that are None or empty are left out."""
        given = {key: value for key, value in args.items() if value not in (None, "")}
        path = f"{self.base}{PREFIX}" + (f"/{name}" if name else "")
        return f"{path}?{urlencode(given)}" if given else path

    def session(self, session_id: str, *, turn: int | None = None) -> str:
        """The page of a session, or of one of its turns by ordinal."""
        anchor = "" if turn is None else f"#turn-{turn}"
        return self.page(f"session/{quote(session_id, safe='')}") + anchor

    def project(self, name: str, **args: object) -> str:
        """The page of a project."""
        return self.page("project", name=name, **args)

    def model(self, name: str, **args: object) -> str:
        """The page of a model."""
        return self.page("model", name=name, **args)

    def file(self, path: str) -> str:
        """The page of a file."""
        return self.page("file", path=path)

    def ask(self, name: str, **args: object) -> str:
        """A view or canned query as a form."""
        return self.page(f"ask/{quote(name, safe='')}", **args)

    def rows(self, view: str, **args: object) -> str:
        """The SQL and rows of a view in Datasette, narrowed as the command line narrows it."""
        return self.page(f"rows/{quote(view, safe='')}", **args)

    def table(self, table: str, **filters: object) -> str:
        """A table or view in Datasette; filters such as session_id='...'."""
        path = f"{self.base}/{_tilde(self.database)}/{_tilde(table)}"
        return f"{path}?{urlencode(filters)}" if filters else path

    def sql(self, sql: str, values: Mapping[str, object] | None = None) -> str:
        """Datasette's page for a statement. Values of names with _ are written into it.

        Datasette gives names that begin with _ a meaning of its own.
        """
        given = dict(values or {})
        inline = {name: given.pop(name) for name in list(given) if name.startswith("_")}

        def written(found: re.Match[str]) -> str:
            name = found[1]
            return _literal(inline[name]) if name in inline else found[0]

        text = _NAME.sub(written, sql) if inline else sql
        used = {name: value for name, value in given.items() if f":{name}" in text}
        query = urlencode({"sql": text, **used})
        return f"{self.base}/{_tilde(self.database)}{self.query_path}?{query}"


def _literal(value: object) -> str:
    """A value as SQL writes it."""
    if value is None:
        return "NULL"
    if isinstance(value, int | float):
        return repr(value)
    return "'" + str(value).replace("'", "''").replace("\0", "") + "'"


def _tilde(text: str) -> str:
    """Datasette's encoding of names in paths: ~ and two hex digits."""
    safe = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
    return "".join(
        char if char in safe else "".join(f"~{byte:02X}" for byte in char.encode()) for char in text
    )
