"""Say why an answer has no rows: what was asked for, and where there is something."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ctxdb.errors import CtxdbError
from ctxdb.formatting import day_and_time
from ctxdb.query.statement import Ask, statement_for

if TYPE_CHECKING:
    from ctxdb.query.guard import Guarded
    from ctxdb.query.statement import Statement

MOST_NAMES = 20_000  # of files, that are compared with a name that no file has


def explanation(ask: Ask, statement: Statement, guarded: Guarded) -> str:
    """Return one line for an empty answer."""
    if not statement.name:
        return "No rows."
    filters = {"project": ask.project, "session": ask.session, "model": ask.model}
    asked = [statement.note.removeprefix("Showing ").partition(";")[0].removesuffix(".")]
    asked += [f"{name} {value}" for name, value in {**filters, **ask.params}.items() if value]
    day, said = day_and_time(str(statement.values.get("day")))[:10], ask.params.get("day")
    if said and day != said:
        asked.append(f"which is {day}")
    asked += ["people only"] if ask.human else []
    what = f"No rows: {', '.join(filter(None, asked))}." if any(asked) else "No rows."
    newest = _newest(ask, guarded)
    where = " in that project" if ask.project else ""
    if newest is None:
        if ask.project or ask.human:
            return what
        return f"{what} No session was read yet: `ctxdb status` names the folders that are read."
    if statement.note:
        return f"{what} The newest data{where} is of {newest}; --since all shows everything."
    if "day" in ask.params:
        return f"{what} The newest data{where} is of {newest}."
    if path := ask.params.get("path"):
        return f"{what} {_files_like(path, guarded)}".rstrip()
    return what


def _newest(ask: Ask, guarded: Guarded) -> str | None:
    """The local time at which the newest of the sessions that were asked for ended."""
    latest = Ask(
        "sessions",
        project=ask.project,
        human=ask.human,
        columns="ended_at",
        sort="-ended_at",
        limit=1,
    )
    with suppress(CtxdbError), guarded.asking() as conn:
        made = statement_for(latest, conn)
        for (ended_at,) in conn.execute(made.sql, made.values):
            return day_and_time(ended_at) or None
    return None


def _files_like(path: str, guarded: Guarded) -> str:
    """Name files whose names are like one that no file has; empty if a file has it."""
    from ctxdb.query.resolve import nearest

    wanted = path.replace("\\", "/").rstrip("/").rpartition("/")[2]
    names: set[str] = set()
    with suppress(CtxdbError), guarded.asking() as conn:
        rows = conn.execute(
            f"SELECT DISTINCT path FROM files_touched LIMIT {MOST_NAMES:d}"  # noqa: S608
        )
        names = {found.replace("\\", "/").rpartition("/")[2] for (found,) in rows}
    if wanted in names:
        return ""
    near = nearest(wanted, names)
    no_file = "No session has touched a file of that name"
    return f"{no_file}; did you mean {' or '.join(near)}?" if near else f"{no_file}."
