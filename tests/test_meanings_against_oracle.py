"""What people mean, as the database has it, against the independent model in oracle.py.

Turns and their time, sessions, projects, commits, to-dos, plans, hooks, history, and results that
are in files. Lines, messages, calls and requests are in test_against_oracle.py.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from oracle_lab import must_agree
from oracle_rules import folded, one_line_target

if TYPE_CHECKING:
    from oracle_copies import Message, Model

pytest_plugins = ["oracle_fixtures"]

Row = tuple[Any, ...]


def is_cut_of(short: str | None, whole: str, most: int) -> bool:
    """Whether `short` is `whole` in one line, cut at the end of a word if it is too long."""
    if short is None or "\n" in short or len(short) > most:
        return False
    begun = short.removesuffix("…").rstrip()
    if not whole.startswith(begun):
        return False
    left = whole[len(begun) :]
    return not left or left.startswith(" ") or " " not in begun


# -- turns -----------------------------------------------------------------------------------------


def turns(model: Model, *names: str) -> dict[Row, Row]:
    return {
        (session, n): tuple(turn[name] for name in names)
        for session, each in model.turns.items()
        for n, turn in enumerate(each, 1)
    }


def stored_turns(db: sqlite3.Connection, *names: str) -> dict[Row, Row]:
    rows = db.execute(f"SELECT session_id, ordinal, {', '.join(names)} FROM turns")
    return {(session, n): tuple(rest) for session, n, *rest in rows}


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param(("kind", "prompt"), id="what people asked"),
        pytest.param(("started_at", "ended_at"), id="when it was asked and the last work on it"),
        pytest.param(("agent_ms",), id="the time Claude Code reports"),
        pytest.param(("active_ms",), id="the time the agent worked"),
    ],
)
def test_turns_say(columns: tuple[str, ...], model: Model, db: sqlite3.Connection) -> None:
    must_agree(turns(model, *columns), stored_turns(db, *columns))


def test_no_turn_has_more_reported_time_than_its_own_span(db: sqlite3.Connection) -> None:
    rows = db.execute(
        "SELECT session_id, ordinal, agent_ms, (julianday(lead(started_at) OVER"
        " (PARTITION BY session_id ORDER BY started_at)) - julianday(started_at)) * 86400000"
        " AS span FROM turns"
    )
    too_long = [
        tuple(row) for row in rows if row["span"] and (row["agent_ms"] or 0) > row["span"] + 1
    ]
    assert too_long == []


# -- sessions and projects -------------------------------------------------------------------------


def test_the_title_of_a_session_is_the_best_it_has_in_one_line(
    model: Model, db: sqlite3.Connection
) -> None:
    stored = {row["id"]: row for row in db.execute("SELECT id, title, title_source FROM sessions")}
    expected: dict[str, Any] = {id_: s["titles"] or None for id_, s in model.sessions.items()}
    found: dict[str, Any] = {}
    for id_, row in stored.items():
        fits = [
            (title, source)
            for title, source in expected.get(id_) or []
            if source == row["title_source"] and is_cut_of(row["title"], title, 120)
        ]
        nothing = row["title"] is None and row["title_source"] is None
        found[id_] = expected[id_] if fits else None if nothing else tuple(row)
    must_agree(expected, found)


def test_the_first_prompt_of_a_session_is_no_later_than_its_first_words(
    model: Model, db: sqlite3.Connection
) -> None:
    found = dict(tuple(row) for row in db.execute("SELECT id, first_prompt FROM sessions"))
    expected = {
        id_: found.get(id_) if found.get(id_) in s["first_prompts"] else s["first_prompts"] or None
        for id_, s in model.sessions.items()
    }
    must_agree(expected, found)


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param(("relation", "parent_session_id"), id="relation"),
        pytest.param(("started_at", "ended_at"), id="time"),
        pytest.param(("cwd", "git_branch", "version", "slug"), id="place and version"),
        pytest.param(("entrypoint", "is_automated"), id="who ran it"),
    ],
)
def test_sessions_are_described_by(
    columns: tuple[str, ...], model: Model, db: sqlite3.Connection
) -> None:
    expected = {id_: tuple(s[c] for c in columns) for id_, s in model.sessions.items()}
    rows = db.execute(f"SELECT id, {', '.join(columns)} FROM sessions")
    must_agree(expected, {id_: tuple(rest) for id_, *rest in rows})


def test_worktrees_belong_to_their_repository(model: Model, db: sqlite3.Connection) -> None:
    expected = {path: (p["repo_path"], p["name"]) for path, p in model.projects.items()}
    rows = db.execute("SELECT path, repo_path, name FROM projects WHERE path_source = 'cwd'")
    must_agree(expected, {path: tuple(rest) for path, *rest in rows})


# -- commits and snapshots -------------------------------------------------------------------------


def test_git_operations_are_those_the_transcripts_tell_of(
    model: Model, db: sqlite3.Connection
) -> None:
    names = ("kind", "sha", "branch", "subject", "pr_number", "source")
    expected = {
        (g["session"], g["tool"].id if g["tool"] else None, *(g.get(name) for name in names)): True
        for g in model.git
    }
    rows = db.execute(
        f"SELECT g.session_id, t.tool_use_id, {', '.join('g.' + name for name in names)}"
        " FROM git_operations g LEFT JOIN tool_uses t ON t.id = g.tool_id"
    )
    must_agree(expected, {tuple(row): True for row in rows})


def test_snapshots_have_a_backup_and_the_turn_of_the_message_they_name(
    model: Model, db: sqlite3.Connection
) -> None:
    expected = Counter(
        (
            touch["session"],
            touch["backup_name"],
            (m.session, m.turn) if (m := touch["message"]) and m.turn else None,
        )
        for touch in model.files_touched
        if touch["operation"] == "snapshot"
    )
    rows = db.execute(
        "SELECT f.session_id, f.backup_name, t.session_id, t.ordinal FROM files_touched f"
        " LEFT JOIN turns t ON t.id = f.turn_id WHERE f.operation = 'snapshot'"
    )
    found = Counter((s, backup, (ts, n) if n else None) for s, backup, ts, n in rows)
    must_agree(expected, found)


# -- calls -----------------------------------------------------------------------------------------


def test_the_target_of_a_call_is_one_line(model: Model, db: sqlite3.Connection) -> None:
    rows = db.execute("SELECT session_id, tool_use_id, target FROM tool_uses")
    stored = {(session, id_): target for session, id_, target in rows}
    long = {key: t for key, t in stored.items() if t and (len(t) > 300 or len(t.splitlines()) > 1)}
    assert long == {}
    whole = {(t.at.session, t.id): one_line_target(t.name, t.input) for t in model.tools if t.call}
    expected = {key: text for key, text in whole.items() if text}
    found = {
        key: text
        if text.startswith(folded(stored[key]).removesuffix("…").rstrip())
        else stored[key]
        for key, text in expected.items()
        if stored.get(key)
    }
    must_agree(expected, found)


def test_the_result_of_a_call_is_its_whole_output(model: Model, db: sqlite3.Connection) -> None:
    expected = {(t.at.session, t.id): t.result_text for t in model.tools if t.persisted is not None}
    stored = {
        (session, id_): text
        for session, id_, text in db.execute(
            "SELECT session_id, tool_use_id, result_text FROM tool_uses"
        )
    }
    must_agree(expected, {key: stored.get(key) for key in expected})


# -- to-dos, plans, hooks --------------------------------------------------------------------------


def test_todos_are_in_their_last_state(model: Model, db: sqlite3.Connection) -> None:
    names = ("subject", "description", "status", "source")
    expected = {
        (session, agent, item["item_id"] or item["subject"]): tuple(item[name] for name in names)
        for (session, agent, _), item in model.todos.items()
    }
    rows = db.execute(
        f"SELECT session_id, agent_id, coalesce(item_id, subject), {', '.join(names)} FROM todos"
    ).fetchall()
    assert len(rows) == len(expected)
    must_agree(expected, {(s, agent, key): tuple(rest) for s, agent, key, *rest in rows})


def test_todos_belong_to_the_turn_that_set_their_state(
    model: Model, db: sqlite3.Connection
) -> None:
    expected = {
        (session, agent, item["item_id"] or item["subject"]): (
            item["turn"],
            item["created_at"],
            item["updated_at"],
        )
        for (session, agent, _), item in model.todos.items()
        if "updated_at" in item and not item.get("from_file")
    }
    rows = db.execute(
        "SELECT d.session_id, d.agent_id, coalesce(item_id, subject), t.ordinal, created_at,"
        " updated_at FROM todos d LEFT JOIN turns t ON t.id = d.turn_id"
    )
    found = {(s, agent, key): tuple(rest) for s, agent, key, *rest in rows}
    must_agree(expected, {key: found[key] for key in expected if key in found})


def test_plans_are_all_that_were_written(model: Model, db: sqlite3.Connection) -> None:
    expected = Counter(dict.fromkeys(model.plans, 1))
    rows = db.execute("SELECT DISTINCT session_id, trim(text, char(10, 13, 32)) FROM plans")
    must_agree(expected, Counter(tuple(row) for row in rows))


def test_hooks_ran_once_for_each_call_and_command(model: Model, db: sqlite3.Connection) -> None:
    expected = Counter(key[::2] for key in model.hooks)
    rows = db.execute("SELECT session_id, command FROM hook_runs WHERE command IS NOT NULL")
    must_agree(expected, Counter(tuple(row) for row in rows))


# -- history ---------------------------------------------------------------------------------------


def test_history_is_kept_line_by_line_with_the_turn_it_became(
    model: Model, db: sqlite3.Connection
) -> None:
    names = ("timestamp", "project_path", "session_id", "prompt", "pasted_bytes")
    expected = Counter((*(row[name] for name in names), row["turn"]) for row in model.history)
    rows = db.execute(
        f"SELECT {', '.join('h.' + name for name in names)}, t.session_id AS s, t.ordinal AS n"
        " FROM history h LEFT JOIN turns t ON t.id = h.turn_id"
    )
    found = Counter((*row[:-2], (row["s"], row["n"]) if row["n"] else None) for row in rows)
    must_agree(expected, found)


# -- messages --------------------------------------------------------------------------------------


def by_uuid(db: sqlite3.Connection, column: str) -> dict[str, Any]:
    rows = db.execute(f"SELECT uuid, {column} FROM messages WHERE uuid IS NOT NULL")
    return dict(tuple(row) for row in rows)


def with_uuid(model: Model) -> dict[str, Message]:
    return {m.entry.uuid: m for m in model.messages if m.entry.uuid}


def test_a_compaction_names_the_message_before_it(model: Model, db: sqlite3.Connection) -> None:
    expected = {u: m.entry.body.get("logicalParentUuid") for u, m in with_uuid(model).items()}
    must_agree(expected, by_uuid(db, "logical_parent_uuid"))


KNOWN = {
    "type", "uuid", "parentUuid", "sessionId", "timestamp", "cwd", "version", "gitBranch",
    "userType", "isSidechain", "message", "requestId", "slug", "agentId", "isMeta",
    "planContent", "subtype", "content", "attachment", "durationMs", "sourceToolAssistantUUID",
}  # fmt: skip
MOST_EXTRA = 64 * 1024 + 200  # bytes, and the mark `truncated`


def test_only_keys_that_are_on_no_list_are_extra(model: Model, db: sqlite3.Connection) -> None:
    stored = {u: json.loads(extra) for u, extra in by_uuid(db, "extra").items() if extra}
    known = {u: names for u, e in stored.items() if (names := KNOWN & {*e})}
    assert known == {}
    large = {u for u, extra in by_uuid(db, "extra").items() if extra and len(extra) > MOST_EXTRA}
    assert large == set()
    whole = with_uuid(model)
    odd = {u for u, m in whole.items() if {"brandNewKey", "brandNewToo"} & {*m.entry.body}}
    assert odd <= {*stored}
