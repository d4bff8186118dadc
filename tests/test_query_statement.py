"""Questions as statements: narrowed before they add up, names looked up, mistakes understood."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from ctxdb.errors import UsageError
from ctxdb.query.resolve import meant, project_ids
from ctxdb.query.statement import Ask, is_sql, statement_for
from ctxdb.session.find import find_session
from ctxdb.store import sql_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from world import World

SESSIONS = (
    "aaaa1111-0000-4000-8000-000000000001",
    "aaaa2222-0000-4000-8000-000000000002",
    "bbbb3333-0000-4000-8000-000000000003",
)


@pytest.fixture
def db(world: World) -> Iterator[sqlite3.Connection]:
    """Three sessions in three projects, one tool call a day."""
    with closing(sqlite3.connect(world.db)) as conn:
        conn.executemany(
            "INSERT INTO projects (id, path, name, repo_path, path_source)"
            " VALUES (?, ?, ?, ?, 'cwd')",
            [
                (1, "/home/ada/code/lantern", "lantern", "/home/ada/code/lantern"),
                (2, "/home/ada/code/lantern/.worktrees/x", "lantern-x", "/home/ada/code/lantern"),
                (3, "/home/ada/work/tidepool", "tidepool", "/home/ada/work/tidepool"),
            ],
        )
        conn.executemany(
            "INSERT INTO sessions (id, project_id, title, slug, started_at, ended_at)"
            " VALUES (?, ?, 'title', ?, ?, ?)",
            [
                (
                    SESSIONS[0],
                    1,
                    "quiet-otter",
                    "2026-03-01T09:00:00.000Z",
                    "2026-03-01T10:00:00.000Z",
                ),
                (SESSIONS[1], 2, None, "2026-03-02T09:00:00.000Z", "2026-03-09T10:00:00.000Z"),
                (SESSIONS[2], 3, None, "2026-03-03T09:00:00.000Z", "2026-03-03T10:00:00.000Z"),
            ],
        )
        conn.executemany(
            "INSERT INTO tool_uses (tool_use_id, session_id, name, target, started_at, status)"
            " VALUES (?, ?, ?, ?, ?, 'ok')",
            [
                (f"toolu_{n}", SESSIONS[n % 3], name, target, f"2026-03-0{n + 1}T12:00:00.000Z")
                for n, (name, target) in enumerate(
                    [
                        ("Bash", "ls"),
                        ("Read", "/home/ada/code/lantern/src/app.py"),
                        ("Bash", "make"),
                        ("Read", "src/app.py.orig"),
                        ("Bash", "ls"),
                        ("Read", None),
                    ]
                )
            ],
        )
        conn.commit()
        yield conn


SUMMED = """\
-- How often was each tool called?
--   name: the tool
--   calls: how often
-- filters: since=tool_uses.started_at project=tool_uses.session_id session=tool_uses.session_id
SELECT name, count(*) AS calls FROM tool_uses GROUP BY name ORDER BY name"""
ROWS = """\
-- Which calls were there?
--   name: the tool
--   session_id: its session
--   file_path: what it was given
--   started_at: when
-- filters: since=started_at project=session_id session=session_id
-- period: 30d
SELECT name, session_id, target AS file_path, started_at FROM tool_uses ORDER BY started_at"""
ASKED = """\
-- Which calls since then?
--   name: the tool
--   started_at: when
-- :tool: which tool
-- :since (since) = 2026-03-04: from when
-- :limit = 2: how many
SELECT name, started_at FROM tool_uses
WHERE name = :tool AND started_at >= :since ORDER BY started_at LIMIT :limit"""

COMPUTED = """\
-- What is text, and what a number?
--   word: a text without affinity
--   real_word: another
--   number: a number without affinity
--   half: another
--   half_of: a whole number as a real one
--   ordinal: a column of numbers
--   target: a column of texts
SELECT '4' || '2' AS word, '1.' || '5' AS real_word, 40 + 2 AS number, 3 / 2.0 AS half,
  42 / 2.0 AS half_of, id AS ordinal, target
FROM tool_uses WHERE id = 70"""


@pytest.fixture(autouse=True)
def _views(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {
        "summed": sql_files.parse("summed", "view", SUMMED),
        "calls": sql_files.parse("calls", "view", ROWS),
        "computed": sql_files.parse("computed", "query", COMPUTED),
        "asked": sql_files.parse("asked", "query", ASKED),
    }
    monkeypatch.setattr(sql_files, "find", known.get)
    monkeypatch.setattr(
        sql_files, "names", lambda kind: [n for n, c in known.items() if c.kind == kind]
    )


def answer(db: sqlite3.Connection, what: str, **more: Any) -> list[tuple[Any, ...]]:
    statement = statement_for(Ask(what, **more), db)
    return db.execute(statement.sql, statement.values).fetchall()


# -- narrowing ----------------------------------------------------------------------------------


def test_a_view_that_adds_up_is_narrowed_before_it_adds(db: sqlite3.Connection) -> None:
    assert answer(db, "summed") == [("Bash", 3), ("Read", 3)]
    assert answer(db, "summed", since="2026-03-03", until="2026-03-04") == [
        ("Bash", 1),
        ("Read", 1),
    ]
    assert answer(db, "summed", session="bbbb") == [("Bash", 1), ("Read", 1)]
    assert answer(db, "summed", project="tidepool", since="2026-03-04") == [("Read", 1)]


def test_rows_are_narrowed_by_their_own_columns(db: sqlite3.Connection) -> None:
    assert len(answer(db, "calls", since="2026-03-05")) == 2
    assert len(answer(db, "calls", until="2026-03-01", since="all")) == 1
    assert {row[1] for row in answer(db, "calls", since="all", session="bbbb3")} == {SESSIONS[2]}


def test_the_narrowed_time_uses_the_index(db: sqlite3.Connection) -> None:
    db.execute("CREATE INDEX tool_uses_started_at ON tool_uses(started_at)")
    statement = statement_for(Ask("calls", since="2026-03-05"), db)
    plan = db.execute(f"EXPLAIN QUERY PLAN {statement.sql}", statement.values).fetchall()
    assert any("tool_uses_started_at" in row[3] for row in plan), plan


def test_the_default_period_is_applied_and_said(db: sqlite3.Connection) -> None:
    statement = statement_for(Ask("calls"), db)
    assert statement.note.startswith("Showing the last 30 days (since 20")
    assert statement.note.endswith("); --since all shows everything.")
    assert answer(db, "calls") == []
    assert len(answer(db, "calls", since="all")) == 6


@pytest.mark.parametrize(
    "more",
    [{"since": "all"}, {"until": "2026-03"}, {"session": "bbbb"}, {"params": {"name": "bash"}}],
)
def test_no_default_period_where_something_narrower_is_asked(
    db: sqlite3.Connection, more: dict[str, Any]
) -> None:
    assert "last 30 days" not in statement_for(Ask("calls", **more), db).note
    assert answer(db, "calls", **more)


def test_an_option_the_view_does_not_know_is_refused_with_those_it_knows(
    db: sqlite3.Connection,
) -> None:
    with pytest.raises(UsageError, match="by --model, only by --since, --until, --project"):
        statement_for(Ask("summed", model="opus"), db)


def test_a_model_is_a_part_of_its_name(db: sqlite3.Connection) -> None:
    for n, model in enumerate(("claude-opus-4-5", "claude-sonnet-4-5")):
        db.execute(
            "INSERT INTO usage (request_key, model, input_tokens, output_tokens,"
            " cache_write_5m_tokens, cache_write_1h_tokens, cache_read_tokens, prompt_tokens,"
            " output_is_final, is_sidechain, lines) VALUES (?, ?, 1, 1, 0, 0, 0, 1, 1, 0, 1)",
            (str(n), model),
        )
    assert len(answer(db, "usage", model="OPUS")) == 1


# -- picking ------------------------------------------------------------------------------------


def test_columns_sort_and_limit(db: sqlite3.Connection) -> None:
    found = answer(
        db, "calls", since="all", columns="started_at,name", sort="-name,started_at", limit=2
    )
    assert found == [("2026-03-02T12:00:00.000Z", "Read"), ("2026-03-04T12:00:00.000Z", "Read")]


def test_rows_without_a_value_are_sorted_last_both_ways(db: sqlite3.Connection) -> None:
    for order in ("file_path", "-file_path"):
        assert answer(db, "calls", since="all", sort=order)[-1][2] is None


def test_a_misspelt_name_column_or_parameter_suggests_the_nearest(db: sqlite3.Connection) -> None:
    for ask, hint in (
        (Ask("sumed"), "did you mean summed"),
        (Ask("SESSION"), "did you mean sessions"),
        (Ask("calls", columns="started"), "did you mean started_at"),
        (Ask("calls", sort="-nam"), "did you mean name"),
        (Ask("asked", params={"tol": "Bash"}), "did you mean tool"),
        (Ask("calls", project="lantrn"), "did you mean lantern"),
        (Ask("zzzzzzzz"), "--list"),
        (Ask("calls", session="ffff"), "ctxdb search"),
    ):
        with pytest.raises(UsageError, match=hint):
            statement_for(ask, db)


def test_names_are_never_pasted_into_sql(db: sqlite3.Connection) -> None:
    for ask in (
        Ask("calls", columns='name", (SELECT 1) AS "x'),
        Ask("calls", sort='name" DESC --'),
        Ask("calls", params={'name" = 1 OR "name': "x"}),
        Ask("_meta"),
        Ask("sqlite_master"),
    ):
        with pytest.raises(UsageError):
            statement_for(ask, db)


def test_a_hyphen_in_a_name_does(db: sqlite3.Connection) -> None:
    db.execute("CREATE VIEW my_own AS SELECT 1 AS one")
    assert answer(db, "my-own") == [(1,)]


def test_tables_and_views_of_one_s_own_can_be_asked(db: sqlite3.Connection) -> None:
    db.execute('CREATE VIEW "mine" AS SELECT session_id, started_at FROM tool_uses')
    assert len(answer(db, "mine", since="2026-03-05")) == 2
    assert len(answer(db, "sessions", project="tidepool")) == 1
    assert len(answer(db, "projects", project="lantern")) == 2
    assert len(answer(db, "sessions", session="bbbb")) == 1
    assert len(answer(db, "tool_uses", session="bbbb")) == 2


# -- values -------------------------------------------------------------------------------------


def test_parameters_have_defaults_and_kinds(db: sqlite3.Connection) -> None:
    assert answer(db, "asked", params={"tool": "Bash"}) == [("Bash", "2026-03-05T12:00:00.000Z")]
    found = answer(db, "asked", params={"tool": "Bash", "since": "all", "limit": "1"})
    assert found == [("Bash", "2026-03-01T12:00:00.000Z")]


def test_an_option_fills_the_parameter_of_its_name(db: sqlite3.Connection) -> None:
    found = answer(db, "asked", params={"tool": "Read"}, since="2026-03-01", limit=3)
    assert len(found) == 3


def test_a_parameter_without_default_is_asked_for(db: sqlite3.Connection) -> None:
    with pytest.raises(UsageError, match="-p tool VALUE: which tool"):
        statement_for(Ask("asked"), db)
    with pytest.raises(UsageError, match="not a whole number"):
        statement_for(Ask("asked", params={"tool": "x", "limit": "many"}), db)


def test_p_narrows_a_view_by_a_column(db: sqlite3.Connection) -> None:
    assert len(answer(db, "calls", params={"name": "BASH"})) == 3
    assert len(answer(db, "calls", params={"name": "R%"})) == 3
    # Of a path whole names: app.py.orig is another file.
    assert len(answer(db, "calls", params={"file_path": "src/app.py"})) == 1
    assert len(answer(db, "calls", params={"file_path": "/home/ada/code"})) == 1


def test_p_finds_a_number_whether_a_column_holds_it_as_text_or_not(db: sqlite3.Connection) -> None:
    db.execute(
        "INSERT INTO tool_uses (id, tool_use_id, session_id, name, target, status)"
        " VALUES (70, 'toolu_70', ?, 'Bash', '58', 'ok')",
        SESSIONS[:1],
    )
    for column, value in (("word", "42"), ("real_word", "1.5"), ("number", "42"), ("half", "1.5"),
                          ("half_of", "21"), ("ordinal", "70"), ("target", "58")):  # fmt: skip
        assert len(answer(db, "computed", params={column: value})) == 1, column
        assert answer(db, "computed", params={column: "43"}) == []
    assert len(answer(db, "computed", params={"word": "42", "number": "42"})) == 1
    db.execute("CREATE VIEW mine AS SELECT 1 AS pr, '1' || 0 AS pr_number, 'c' AS \"a b'\"")
    given = {"pr": "1", "pr_number": "10", "a b'": "C"}
    assert answer(db, "mine", params=given) == [(1, "10", "c")]


def test_sql_is_taken_as_it_is_with_values_bound(db: sqlite3.Connection) -> None:
    found = answer(db, "SELECT name FROM tool_uses WHERE target = :x", params={"x": "make"})
    assert found == [("Bash",)]
    assert answer(db, "SELECT :n > 5, typeof(:s)", params={"n": "7", "s": "007"}) == [(1, "text")]


@pytest.mark.parametrize("more", [{"since": "7d"}, {"project": "x"}, {"sort": "a"}])
def test_sql_narrows_itself(db: sqlite3.Connection, more: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="in SQL write"):
        statement_for(Ask("SELECT 1", **more), db)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("daily_usage", False), ("daily-usage", False), ("SELECT 1", True), ("select*from t", True)],
)
def test_what_cannot_be_a_name_is_sql(text: str, expected: bool) -> None:
    assert is_sql(text) is expected


# -- who is meant -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("lantern", [1, 2]),  # worktrees go with their repository
        ("LANTERN", [1, 2]),
        ("lantern-x", [2]),
        ("/home/ada/work", [3]),
        ("/home/ada/code/lantern", [1, 2]),
        ("tide", [3]),
        ("code", [1, 2]),
    ],
)
def test_a_project_is_a_name_a_folder_or_a_part_of_a_path(
    db: sqlite3.Connection, text: str, ids: list[int]
) -> None:
    assert project_ids(db, text) == ids


def test_a_dot_is_the_project_of_this_folder(
    db: sqlite3.Connection, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="no project"):
        project_ids(db, ".")
    db.execute("UPDATE projects SET path = ? WHERE id = 3", (str(tmp_path),))
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    assert project_ids(db, ".") == [3]


def test_a_project_is_found_by_a_link_to_its_folder_too(
    db: sqlite3.Connection, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "disk/app/deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    db.execute("UPDATE projects SET path = ? WHERE id = 3", (str(tmp_path / "disk/app"),))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for text in (str(tmp_path / "link/app"), "~/link/app", "./link/app", "./link/app/deep"):
        assert project_ids(db, text) == [3]


def test_a_part_of_a_path_may_begin_with_a_dot(
    db: sqlite3.Connection, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert project_ids(db, ".worktrees") == [2]
    assert project_ids(db, ".worktrees/x") == [2]
    db.execute("UPDATE projects SET path = ? WHERE id = 3", (str(tmp_path / ".hidden"),))
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    assert project_ids(db, "../.hidden") == [3]
    with pytest.raises(UsageError, match="no project"):
        project_ids(db, "./.worktrees")


def test_a_session_is_a_prefix_a_slug_or_the_last(db: sqlite3.Connection) -> None:
    assert find_session(db, "bb") == SESSIONS[2]
    assert find_session(db, "AAAA1") == SESSIONS[0]
    assert find_session(db, SESSIONS[1]) == SESSIONS[1]
    assert find_session(db, "quiet-otter") == SESSIONS[0]
    assert find_session(db, "last") == SESSIONS[1]
    with pytest.raises(UsageError, match="fits 2 sessions"):
        find_session(db, "aaaa")
    with pytest.raises(UsageError, match="no session"):
        find_session(db, "")


def test_no_project_at_all_is_not_every_project(db: sqlite3.Connection) -> None:
    with pytest.raises(UsageError, match="which project"):
        project_ids(db, " ")


def test_a_misspelt_name_in_sql_suggests_the_nearest(db: sqlite3.Connection) -> None:
    assert meant("SQL: no such table: daily_usge", db, "").startswith("; did you mean daily_usage ")
    assert meant("SQL: no such column: s.titl", db, "").startswith("; did you mean title ")
    of_view = meant("SQL: no such column: id", db, "SELECT id FROM sessions_overview")
    assert of_view.startswith("; did you mean session_id")
    assert " id" not in of_view
    assert meant("SQL: no such table: xyzzy", db, "") == ""
    assert meant('SQL: near "SLCT": syntax error', db, "") == ""
    db.execute("DROP VIEW schema_docs")
    assert meant("SQL: no such table: daily_usge", db, "") == ""
