"""The names under which the price of a model is looked for (docs/accounting.md R8).

A transcript names a model as its endpoint did: ``us.anthropic.claude-sonnet-4-5-20250929-v1:0`` or
``anthropic/claude-sonnet-4.5`` where the price list says ``claude-sonnet-4-5``. Each rung takes off
one more thing that does not change the price; the first name that has a price is taken. What a
model costs is never guessed from a part of its name or from its family. The names of each model are
stored in `_model_names`. The view `_rates` chooses among them, because prices can change at any
time.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable

VERSION = 2  # part of the schema's fingerprint: all names are stored again when the rungs change
MAX_NAME = 200  # characters; longer is no model name, and not worth a regular expression

# Compiled when first used: every question asks for VERSION above.
_PROVIDER = r"^(?:[a-z0-9-]+\.)*anthropic\."
_EXTRA = r"\s*(?:\[1[mM]\]|\([^()]*\))\s*$"
_VERSION = r"-v\d+(?::\d+)?$"
_DATE = r"[-@]20\d{6}$"
_ALIASES = {"claude-4-opus": "claude-opus-4", "claude-4-sonnet": "claude-sonnet-4"}


def _without_provider(name: str) -> str:
    return re.sub(_PROVIDER, "", name.rpartition("/")[2])


def _with_dashes(name: str) -> str:
    return name.replace(".", "-")


def _without_extra(name: str) -> str:
    return re.sub(_EXTRA, "", name)


def _without_date(name: str) -> str:
    # Bedrock writes -20250929-v1:0, Vertex AI -v2@20241022.
    return re.sub(_VERSION, "", re.sub(_DATE, "", re.sub(_VERSION, "", name)))


def _by_alias(name: str) -> str:
    return _ALIASES.get(name, name)


_RUNGS: tuple[Callable[[str], str], ...] = (
    _without_provider,
    _with_dashes,
    _without_extra,
    _without_date,
    _by_alias,
)


def candidates(model: str) -> list[str]:
    """The names to look for, nearest first; the model itself is always the first."""
    found = [model]
    if len(model) > MAX_NAME:
        return found
    name = model
    for rung in _RUNGS:
        name = rung(name)
        if name and name not in found:
            found.append(name)
    return found


def store_names(conn: sqlite3.Connection, models: Iterable[str]) -> None:
    """Store the names of these models."""
    conn.executemany(
        "INSERT OR IGNORE INTO _model_names (model, place, name) VALUES (?, ?, ?)",
        [(model, place, name) for model in models for place, name in enumerate(candidates(model))],
    )


def store_all_names(conn: sqlite3.Connection) -> None:
    """Store the names of all models again: the ladder may have changed."""
    models = conn.execute(
        "SELECT DISTINCT model FROM _usage_lines UNION SELECT DISTINCT model FROM usage"
    ).fetchall()
    conn.execute("DELETE FROM _model_names")
    store_names(conn, [model for (model,) in models if model is not None])
