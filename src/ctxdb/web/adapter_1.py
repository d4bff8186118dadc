"""The facts in the words of Datasette 1.0: configuration, stored queries and stored metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctxdb.web.facts import ABOUT, PRINTED_SETTINGS, TITLE

if TYPE_CHECKING:
    from ctxdb.web.facts import Facts, TableFacts


def config(facts: Facts, database: str) -> dict[str, Any]:
    """What the configuration file says of a database: how its tables are shown."""
    tables = {name: shown for name, one in facts.tables.items() if (shown := _shown(one))}
    return {"databases": {database: {"tables": tables}}}


def metadata(facts: Facts, database: str) -> dict[str, Any]:
    """Titles and descriptions."""
    tables = {
        name: {"description": one.description, "columns": one.columns}
        for name, one in facts.tables.items()
        if one.description
    }
    return {"databases": {database: {"title": TITLE, "description": ABOUT, "tables": tables}}}


def printed(facts: Facts, database: str) -> dict[str, Any]:
    """A whole configuration file, for a Datasette without the plugin."""
    made = config(facts, database)
    made["settings"] = dict(PRINTED_SETTINGS)
    made["databases"][database]["queries"] = {
        one.name: {"sql": one.sql, "title": one.title, "description": one.description}
        for one in facts.queries
    }
    return made


def merge(target: dict[str, Any], added: dict[str, Any]) -> None:
    """Add settings to a configuration; what the person has set stays."""
    for name, value in added.items():
        if isinstance(value, dict) and isinstance(target.get(name), dict):
            merge(target[name], value)
        else:
            target.setdefault(name, value)


async def tell(datasette: Any, facts: Facts, database: str) -> None:
    """Give the facts to a Datasette that starts."""
    if isinstance(datasette.config, dict):
        merge(datasette.config, config(facts, database))
    await datasette.set_database_metadata(database, "title", TITLE)
    await datasette.set_database_metadata(database, "description", ABOUT)
    for name, one in facts.tables.items():
        if one.description and not one.hidden:
            await datasette.set_resource_metadata(database, name, "description", one.description)
            for column, words in one.columns.items():
                await datasette.set_column_metadata(database, name, column, "description", words)
    for query in facts.queries:
        await datasette.add_query(
            database,
            query.name,
            query.sql,
            title=query.title,
            description=query.description,
            parameters=list(query.params),
            hide_sql=True,
            source="ctxdb",
        )


def _shown(one: TableFacts) -> dict[str, Any]:
    found = {
        "hidden": one.hidden,
        "label_column": one.label,
        "sort_desc": one.newest_first,
        "size": one.size,
    }
    return {name: value for name, value in found.items() if value}
