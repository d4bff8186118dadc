"""The shipped price list in the table `prices`, beside the rows that the user wrote.

Shipped rows are refreshed when the list that came with ctxdb changes. The user's own rows stay. A
shipped row that the user edits becomes a row of the user: a trigger does that, so an edit in DB
Browser counts too. A shipped row that the user deleted does not come back.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from ctxdb.assets import asset_dir

COLUMNS = (
    "model",
    "effective_from",
    "effective_to",
    "prompt_tokens_gt",
    "input_usd_per_mtok",
    "output_usd_per_mtok",
    "cache_write_5m_usd_per_mtok",
    "cache_write_1h_usd_per_mtok",
    "cache_read_usd_per_mtok",
    "fast_multiplier",
    "us_geo_multiplier",
    "source",
    "confidence",
    "note",
)
_TEXTS = {"model", "effective_from", "effective_to", "source", "confidence", "note"}


def shipped_file() -> Path:
    """The price list that came with ctxdb."""
    return asset_dir("sql") / "prices.csv"


def shipped_rows() -> list[dict[str, Any]]:
    """Its rows, as the table takes them."""
    import csv  # only when there is something to refresh

    with shipped_file().open(encoding="utf-8", newline="") as file:
        return [
            {name: _value(name, text) for name, text in row.items()} for row in csv.DictReader(file)
        ]


def _value(name: str, text: str) -> Any:
    if text == "":
        return None
    if name == "prompt_tokens_gt":
        return int(text)
    return text if name in _TEXTS else float(text)


def refresh(conn: sqlite3.Connection) -> None:
    """Bring the shipped rows up to date, inside the caller's transaction."""
    conn.execute("INSERT OR REPLACE INTO _meta VALUES ('refreshing prices', '1')")
    conn.execute("DELETE FROM prices WHERE origin = 'shipped'")
    deleted = set(
        conn.execute("SELECT model, effective_from, prompt_tokens_gt FROM _deleted_prices")
    )
    names = ", ".join(COLUMNS)
    values = ", ".join(f":{name}" for name in COLUMNS)
    conn.executemany(
        f"INSERT INTO prices ({names}, origin) VALUES ({values}, 'shipped')",
        [
            row
            for row in shipped_rows()
            if (row["model"], row["effective_from"] or "", row["prompt_tokens_gt"]) not in deleted
        ],
    )
    conn.execute("DELETE FROM _meta WHERE key = 'refreshing prices'")
