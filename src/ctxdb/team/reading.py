"""Read the rows of sessions as a team gets them."""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from ctxdb.columns import FULL, USAGE
from ctxdb.store.lookup import json_list
from ctxdb.team.repositories import last_folder
from ctxdb.team.tables import (
    JSON_COLUMNS,
    MOST_KEY_LENGTH,
    TeamColumn,
    TeamTable,
    session_sql,
    team_tables,
    value_sql,
)

if TYPE_CHECKING:
    import sqlite3

HASH_CHARACTERS = 32  # of a SHA-256 in hexadecimal: 128 bits


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms rows are sent."""

    level: str
    salt: bytes  # of the team: the same name has the same hash on every machine
    repositories: Mapping[str, str]  # by repo_path
    mask: Callable[[str], str] = str  # what is done with texts before they leave

    def hashed(self, *parts: object) -> str:
        """A hash that only those who know the salt can try names on."""
        text = "\x1f".join("" if part is None else str(part) for part in parts)
        digest = hmac.new(self.salt, text.encode("utf-8", "replace"), sha256).hexdigest()
        return digest[:HASH_CHARACTERS]

    def session(self, session_id: str) -> str:
        """The id of a session as it is sent: as `session_of` in tables.py."""
        return self.hashed(session_id) if len(session_id) > MOST_KEY_LENGTH else session_id


class Sent(NamedTuple):
    """A table on its way: its name there, its columns, and where its rows come from."""

    name: str
    table: TeamTable
    columns: list[TeamColumn]
    has_texts: bool


def sent_tables(level: str) -> list[Sent]:
    """The tables that have something to send at a level."""
    found = []
    for table in team_tables():
        if columns := table.sent(level):
            found.append(Sent(table.name, table, columns, has_texts=False))
        if texts := table.texts(level):
            found.append(Sent(f"{table.name}_text", table, texts, has_texts=True))
    return found


def prepare(conn: sqlite3.Connection, terms: Terms) -> None:
    """Give a connection the functions that the SQL of the tables calls."""

    def repository(path: str | None) -> str | None:
        if path is None:
            return None
        name = terms.repositories.get(path) or last_folder(path)
        return terms.hashed("repository", name) if terms.level == USAGE else name

    def place(path: str | None, start: int | None) -> str:
        return f"line {terms.hashed(os.path.basename(path or ''))[:12]} {start}"  # noqa: PTH119

    def hashed(*parts: object) -> str | None:
        return None if parts == (None,) else terms.hashed(*parts)

    conn.create_function("team_hash", -1, hashed, deterministic=True)
    conn.create_function("team_place", 2, place, deterministic=True)
    conn.create_function("team_repository", 1, repository, deterministic=True)
    conn.text_factory = _text


def _text(data: bytes) -> str:
    """Any bytes can be in a database; no other engine takes NUL in a text."""
    return data.decode("utf-8", "replace").replace("\0", "\u2400")


def rows_of(
    conn: sqlite3.Connection, sent: Sent, sessions: Collection[str], terms: Terms
) -> Iterator[tuple[Any, ...]]:
    """The rows of some sessions: session_id, key, then the columns."""
    table = sent.table
    values = ", ".join(value_sql(column) for column in sent.columns)
    where = ""
    if sent.has_texts:
        where = " WHERE " + " OR ".join(f"{c.sql} IS NOT NULL" for c in sent.columns)
    # One key is one row; if there are more, by ids that no client writes, they are counted.
    cursor = conn.execute(
        "WITH j AS (SELECT value FROM json_each(?))"
        f" SELECT {session_sql(table)}, coalesce({table.key}, ''), {values} {table.source}{where}",
        (json_list(sessions),),
    )
    mask = _masks(sent, terms)
    seen: dict[tuple[str, str], int] = {}
    for session_id, key, *rest in cursor:
        known = (session_id, key)
        if known in seen:
            seen[known] += 1
            key = f"{key}#{seen[known]}"  # noqa: PLW2901
        else:
            seen[known] = 1
        yield (session_id, key, *(mask(rest) if mask else rest))


def _masks(sent: Sent, terms: Terms) -> Callable[[list[Any]], Iterable[Any]] | None:
    """What masks the texts of a row."""
    if all(column.level != FULL for column in sent.columns):
        return None
    is_json = [column.name in JSON_COLUMNS for column in sent.columns]
    is_private = [column.level == FULL for column in sent.columns]

    def masked(values: list[Any]) -> Iterable[Any]:
        return [
            mask_text(value, terms.mask, is_json=json)
            if private and isinstance(value, str)
            else value
            for value, json, private in zip(values, is_json, is_private, strict=True)
        ]

    return masked


def mask_text(text: str, mask: Callable[[str], str], *, is_json: bool) -> str:
    """A text without secrets; JSON stays JSON."""
    masked = mask(text)
    if masked == text or not is_json:
        return masked
    try:
        return orjson.dumps(_mask_value(orjson.loads(text), mask)).decode()
    except (orjson.JSONDecodeError, RecursionError):
        return masked


def _mask_value(value: Any, mask: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {mask(name): _mask_value(inner, mask) for name, inner in value.items()}
    if isinstance(value, list):
        return [_mask_value(inner, mask) for inner in value]
    return value
