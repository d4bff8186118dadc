"""The database of whole folders, table by table, against the independent model in oracle.py.

Turns, sessions, to-dos and other meanings are in test_meanings_against_oracle.py.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from oracle_lab import must_agree
from pricelab import cost_of, prices_in
from pricelab import requests as requests_of

if TYPE_CHECKING:
    from oracle_copies import Message, Model

pytest_plugins = ["oracle_fixtures"]


# -- lines -----------------------------------------------------------------------------------------


def test_every_complete_line_of_every_file_is_counted(model: Model, db: sqlite3.Connection) -> None:
    expected = {
        f.path: (len(f.outcomes), f.counts["bad"], f.counts["skipped"], f.session, f.agent)
        for f in model.files
    }
    rows = db.execute(
        "SELECT in_folder(path), lines, bad_lines, skipped_lines, session_id, agent_id"
        " FROM source_files"
    )
    must_agree(expected, {path: tuple(rest) for path, *rest in rows})


def test_every_line_has_one_outcome(model: Model, db: sqlite3.Connection) -> None:
    expected = {(f.path, outcome): n for f in model.files for outcome, n in f.counts.items()}
    rows = db.execute(
        "SELECT in_folder(path), outcome, sum(c.lines) FROM line_counts c"
        " JOIN source_files f ON f.id = c.source_file_id GROUP BY path, outcome"
    )
    must_agree(expected, {(path, outcome): n for path, outcome, n in rows})


def test_entries_that_are_no_messages_are_events_once(model: Model, db: sqlite3.Connection) -> None:
    expected = Counter((e.file.path, e.start, e.length, e.session, e.type) for e in model.events)
    rows = db.execute(
        "SELECT in_folder(f.path), byte_start, byte_length, e.session_id, type FROM events e"
        " JOIN source_files f ON f.id = e.source_file_id"
    )
    must_agree(expected, Counter(tuple(row) for row in rows))


# -- messages --------------------------------------------------------------------------------------


NAME = "coalesce(m.uuid, in_folder(f.path) || ' @ ' || m.byte_start)"


def name_of(message: Message) -> str:
    entry = message.entry
    return entry.uuid or f"{entry.file.path} @ {entry.start}"


def messages(db: sqlite3.Connection, *columns: str) -> dict[str, tuple[Any, ...]]:
    rows = db.execute(
        f"SELECT {NAME}, {', '.join(columns)} FROM messages m"
        " JOIN source_files f ON f.id = m.source_file_id LEFT JOIN turns t ON t.id = m.turn_id"
    )
    return {uuid: tuple(rest) for uuid, *rest in rows}


def test_every_entry_is_one_message(model: Model, db: sqlite3.Connection) -> None:
    expected = Counter(name_of(m) for m in model.messages)
    rows = db.execute(
        f"SELECT {NAME} FROM messages m JOIN source_files f ON f.id = m.source_file_id"
    )
    must_agree(expected, Counter(name for (name,) in rows))


def test_the_owner_of_a_message_is_the_line_the_contract_names(
    model: Model, db: sqlite3.Connection
) -> None:
    expected = {
        name_of(m): (m.session, m.entry.file.path, m.entry.start, m.entry.length)
        for m in model.messages
    }
    found = messages(db, "m.session_id", "in_folder(f.path)", "m.byte_start", "m.byte_length")
    must_agree(expected, found)


def test_copies_stand_beside_their_message(model: Model, db: sqlite3.Connection) -> None:
    expected = {
        (copy.file.path, copy.start): (m.entry.uuid, copy.uuid, copy.session, copy.length)
        for m in model.messages
        for copy in m.copies
    }
    rows = db.execute(
        "SELECT in_folder(f.path), c.byte_start, m.uuid, c.uuid, c.session_id, c.byte_length"
        " FROM message_copies c JOIN messages m ON m.id = c.message_id"
        " JOIN source_files f ON f.id = c.source_file_id"
    )
    must_agree(expected, {(path, start): tuple(rest) for path, start, *rest in rows})


def test_messages_have_their_type_kind_and_subtype(model: Model, db: sqlite3.Connection) -> None:
    expected = {name_of(m): (m.entry.type, m.kind, m.subtype) for m in model.messages}
    must_agree(expected, messages(db, "m.type", "m.kind", "m.subtype"))


def test_messages_say_what_their_line_says(model: Model, db: sqlite3.Connection) -> None:
    compared = {
        name_of(m): (m.text,)
        for m in model.messages
        if m.entry.type != "attachment" or m.subtype in ("queued_command", "nested_memory")
    }
    found = messages(db, "m.text")
    must_agree(compared, {uuid: found[uuid] for uuid in compared if uuid in found})


def test_messages_have_their_agent_time_and_thread(model: Model, db: sqlite3.Connection) -> None:
    expected = {
        name_of(m): (m.agent, int(m.entry.sidechain), m.entry.timestamp) for m in model.messages
    }
    must_agree(expected, messages(db, "m.agent_id", "m.is_sidechain", "m.timestamp"))


def test_the_parent_of_a_message_is_the_nearest_stored_one(
    model: Model, db: sqlite3.Connection
) -> None:
    found = messages(db, "m.parent_uuid")
    expected = {name_of(m): (m.parent.entry.uuid if m.parent else None,) for m in model.messages}
    for m in model.messages:
        # A parent that stands in no file may be named all the same.
        if m.parent is None and found.get(name_of(m)) == (m.entry.body.get("parentUuid"),):
            expected[name_of(m)] = found[name_of(m)]
    must_agree(expected, found)


def test_every_message_belongs_to_its_turn(model: Model, db: sqlite3.Connection) -> None:
    expected = {name_of(m): (m.turn,) for m in model.messages}
    must_agree(expected, messages(db, "t.ordinal"))


# -- tools -----------------------------------------------------------------------------------------


def tool_uses(db: sqlite3.Connection, *columns: str) -> dict[Any, tuple[Any, ...]]:
    rows = db.execute(f"SELECT session_id, tool_use_id, {', '.join(columns)} FROM tool_uses")
    return {(session, id_): tuple(rest) for session, id_, *rest in rows}


def test_every_call_is_one_tool_use(model: Model, db: sqlite3.Connection) -> None:
    expected = Counter((t.at.session, t.id) for t in model.tools)
    rows = db.execute("SELECT session_id, tool_use_id FROM tool_uses")
    must_agree(expected, Counter(tuple(row) for row in rows))


def test_tool_uses_have_todays_name_and_their_own(model: Model, db: sqlite3.Connection) -> None:
    expected = {(t.at.session, t.id): (t.name, t.raw_name, t.at.agent) for t in model.tools}
    must_agree(expected, tool_uses(db, "name", "raw_name", "agent_id"))


def test_tool_uses_ended_as_their_result_says(model: Model, db: sqlite3.Connection) -> None:
    expected = {
        (t.at.session, t.id): (
            t.status,
            int(t.result.get("is_error") is True) if t.result else 0,
            t.exit_code,
        )
        for t in model.tools
    }
    must_agree(expected, tool_uses(db, "status", "coalesce(is_error, 0)", "exit_code"))


def test_tool_uses_took_the_time_between_call_and_result(
    model: Model, db: sqlite3.Connection
) -> None:
    expected = {(t.at.session, t.id): (t.duration_ms,) for t in model.tools}
    must_agree(expected, tool_uses(db, "duration_ms"))


def test_a_call_to_a_file_tool_touches_one_file(model: Model, db: sqlite3.Connection) -> None:
    expected = {
        r["tool_use_id"]: (r["session"], r["path"], r["operation"], r["succeeded"])
        for r in model.files_touched
        if r.get("tool_use_id")
    }
    rows = db.execute(
        "SELECT tool_use_id, session_id, path, operation, succeeded FROM files_touched"
        " WHERE tool_use_id IS NOT NULL"
    ).fetchall()
    assert len(rows) == len(expected)
    must_agree(expected, {id_: tuple(rest) for id_, *rest in rows})


def test_lines_added_and_removed_are_those_of_the_change(
    model: Model, db: sqlite3.Connection
) -> None:
    expected = {
        r["tool_use_id"]: (r["added"], r["removed"])
        for r in model.files_touched
        if r.get("tool_use_id") and r["operation"] != "read"
    }
    rows = db.execute(
        "SELECT tool_use_id, lines_added, lines_removed FROM files_touched"
        " WHERE tool_use_id IS NOT NULL AND operation <> 'read'"
    )
    must_agree(expected, {id_: tuple(rest) for id_, *rest in rows})


def test_files_are_touched_by_mentions_and_snapshots(model: Model, db: sqlite3.Connection) -> None:
    expected = Counter(
        (r["session"], r["operation"], PurePosixPath(r["path"]).name)
        for r in model.files_touched
        if not r.get("tool_use_id")
    )
    rows = db.execute(
        "SELECT session_id, operation, path FROM files_touched WHERE tool_use_id IS NULL"
    )
    found = Counter((session, op, PurePosixPath(path).name) for session, op, path in rows)
    must_agree(expected, found)


# -- agents ----------------------------------------------------------------------------------------


def test_agents_are_known_with_the_call_that_started_them(
    model: Model, db: sqlite3.Connection
) -> None:
    expected = {
        key: (a["kind"], a["tool_use_id"], a["agent_type"], a["description"])
        for key, a in model.agents.items()
    }
    rows = db.execute(
        "SELECT session_id, agent_id, kind, tool_use_id, agent_type, description FROM agents"
    )
    must_agree(expected, {(session, id_): tuple(rest) for session, id_, *rest in rows})


# -- usage -----------------------------------------------------------------------------------------

COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_write_5m_tokens",
    "cache_write_1h_tokens",
    "cache_read_tokens",
    "prompt_tokens",
)


def request_of(row: sqlite3.Row) -> tuple[Any, ...]:
    """The key docs/accounting.md R2 gives, by public columns; an advisor's number by the key."""
    session, id_, request = row["session_id"], row["api_message_id"], row["request_id"]
    _, advisor, number = row["request_key"].rpartition("adv ")
    advice = (f"adv {number}",) if advisor else ()
    if request:
        return "a", id_, request, *advice
    if id_.startswith("msg_"):
        return "b", session, id_, *advice
    return "c", session, id_, row["timestamp"], *advice


def requests(db: sqlite3.Connection, *columns: str) -> dict[Any, tuple[Any, ...]]:
    rows = db.execute("SELECT * FROM usage").fetchall()
    found = {request_of(row): tuple(row[c] for c in columns) for row in rows}
    assert len(found) == len(rows)
    return found


def test_every_billed_request_is_one_row_with_its_tokens(
    model: Model, db: sqlite3.Connection
) -> None:
    expected = {key: tuple(r[c] for c in COUNTS) for key, r in model.usage.items()}
    must_agree(expected, requests(db, *COUNTS))


def test_requests_belong_to_the_first_line_that_told_of_them(
    model: Model, db: sqlite3.Connection
) -> None:
    expected = {
        key: (r["session"], r["agent"], r["timestamp"], r["model"], r["lines"])
        for key, r in model.usage.items()
    }
    must_agree(expected, requests(db, "session_id", "agent_id", "timestamp", "model", "lines"))


def test_requests_say_whether_their_output_is_final(model: Model, db: sqlite3.Connection) -> None:
    expected = {key: (int(r["output_is_final"]),) for key, r in model.usage.items()}
    must_agree(expected, requests(db, "output_is_final"))


def test_requests_keep_what_else_the_api_said(model: Model, db: sqlite3.Connection) -> None:
    names = ("thinking_tokens", "web_search_requests", "cost_reported_usd", "is_sidechain")
    expected = {
        key: tuple(r[name] for name in names)
        for key, r in model.usage.items()
        if not str(key[-1]).startswith("adv ")
    }
    found = requests(db, *names)
    must_agree(expected, {key: found[key] for key in expected if key in found})


# -- money -----------------------------------------------------------------------------------------


def test_every_request_costs_what_fractions_say(db: sqlite3.Connection) -> None:
    prices = prices_in(db)
    rows = requests_of(db)
    assert rows
    expected = {row["request_key"]: cost_of(row, prices) for row in rows}
    must_agree(expected, {row["request_key"]: row["cost"] for row in rows})
