"""Count the sessions that `sessions_overview` would show, without working out its sums."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctxdb.query.narrow import condition
from ctxdb.store import sql_files

if TYPE_CHECKING:
    from ctxdb.web.filters import Filters
    from ctxdb.web.reading import Database

VIEW = "sessions_overview"
_OF_MODEL = (
    "id IN (SELECT session_id FROM usage WHERE session_id IS NOT NULL"
    " AND instr(lower(model), :_model) > 0)"
)


def session_count(db: Database, filters: Filters) -> int:
    """How many rows the view has with these filters."""
    file = sql_files.find(VIEW)
    values: dict[str, Any] = {}
    conditions = ["1"]
    with db.connection() as conn:
        for option, text in filters.narrow(VIEW).items():
            for one in file.filters[option] if file else ():
                if one.table == "sessions":
                    made = condition(option, one, text, conn, values)
                    conditions += [made] if made else []
        if filters.model:
            values["_model"] = filters.model.lower()
            conditions.append(_OF_MODEL)
        sql = f"SELECT count(*) FROM sessions WHERE {' AND '.join(conditions)}"  # noqa: S608
        (count,) = conn.execute(sql, values).fetchone()
    return int(count)
