"""The names of every model in the database under which its price is looked for.

Which of them has a price is for the view `_rates` to say: prices can change at any moment.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from ctxdb.store.model_ladder import candidates

_INSERT = "INSERT OR IGNORE INTO _model_names (model, place, name) VALUES (?, ?, ?)"


def know(conn: sqlite3.Connection, models: Iterable[str]) -> None:
    """Write down the names of models that a batch tells of."""
    conn.executemany(
        _INSERT,
        [(model, place, name) for model in models for place, name in enumerate(candidates(model))],
    )


def renew(conn: sqlite3.Connection) -> None:
    """Make all names anew: the ladder may have changed."""
    models = [
        model
        for (model,) in conn.execute(
            "SELECT DISTINCT model FROM _usage_lines UNION SELECT DISTINCT model FROM usage"
        )
        if model is not None
    ]
    conn.execute("DELETE FROM _model_names")
    know(conn, models)
