"""The facts in the words of Datasette 0.65: metadata, and canned queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctxdb.web.facts import ABOUT, TITLE

if TYPE_CHECKING:
    from ctxdb.web.facts import Facts, TableFacts


def metadata(facts: Facts, database: str) -> dict[str, Any]:
    """The metadata of a database, without its queries."""
    tables = {name: _table(one) for name, one in facts.tables.items()}
    return {
        "databases": {
            database: {"title": TITLE, "description": ABOUT, "tables": tables},
        }
    }


def queries(facts: Facts) -> dict[str, Any]:
    """The canned queries of a database."""
    return {
        one.name: {
            "sql": one.sql,
            "title": one.title,
            "description": one.description,
            "params": list(one.params),
            "hide_sql": True,
        }
        for one in facts.queries
    }


def printed(facts: Facts, database: str) -> dict[str, Any]:
    """A whole metadata file, for a Datasette without the plugin."""
    made = metadata(facts, database)
    made["databases"][database]["queries"] = queries(facts)
    return made


def _table(one: TableFacts) -> dict[str, Any]:
    found = {
        "description": one.description,
        "columns": one.columns,
        "hidden": one.hidden,
        "label_column": one.label,
        "sort_desc": one.newest_first,
        "size": one.size,
    }
    return {name: value for name, value in found.items() if value}
