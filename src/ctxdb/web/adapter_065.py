"""The facts in the words of Datasette 0.65: metadata, and canned queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctxdb.web.facts import ABOUT, PRINTED_SETTINGS, TITLE

if TYPE_CHECKING:
    from ctxdb.web.facts import Facts, TableFacts


# Without these, a page of a large view counts its rows for a second, and the database can be
# downloaded.
NEEDED_SETTINGS = ("sql_time_limit_ms", "suggest_facets", "allow_download")


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


def options() -> str:
    """The settings as options of the command line: a metadata file has no place for them."""
    words = {name: PRINTED_SETTINGS[name] for name in NEEDED_SETTINGS}
    return " ".join(f"--setting {name} {_written(one)}" for name, one in words.items())


def _written(value: object) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


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
