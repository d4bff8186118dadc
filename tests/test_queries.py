"""Views and queries say what they are for, what they show and what they need to be told."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import pytest

from ctxdb import canned
from lab import empty_database
from viewlab import ask, demo_database

if TYPE_CHECKING:
    from pathlib import Path

HEADER = """-- Which calls were slow?
--   name: the tool
--   ms: how long: all of it
-- filters: since=tool_uses.started_at,turns.started_at project=session_id
-- period: 30d
-- :tool: which tool
-- :limit = 20: how many
-- :since (time) = 7d: from when
-- example: ctxdb query slow -p tool Bash
SELECT name, ms -- :not: a parameter
FROM calls -- filters: session=never
;
"""


def test_a_header_is_read_whole() -> None:
    found = canned.parse("slow", "query", HEADER)
    assert found.question == "Which calls were slow?"
    assert found.columns == {"name": "the tool", "ms": "how long: all of it"}
    assert found.params == (
        canned.Param("tool", "text", None, "which tool"),
        canned.Param("limit", "integer", "20", "how many"),
        canned.Param("since", "time", "7d", "from when"),
    )
    assert found.period == "30d"
    assert found.example == "ctxdb query slow -p tool Bash"
    assert found.sql.endswith("session=never\n")


def test_a_filter_names_a_column_of_the_answer_or_of_tables_it_reads() -> None:
    filters = canned.parse("slow", "query", HEADER).filters
    both = (canned.Filter("tool_uses", "started_at"), canned.Filter("turns", "started_at"))
    assert filters == {
        "since": both,
        "until": both,
        "project": (canned.Filter(None, "session_id"),),
    }


def test_an_empty_file_says_nothing() -> None:
    found = canned.parse("x", "view", "")
    assert (found.question, found.columns, found.sql) == ("", {}, "")


def test_names_lead_to_files_of_ours_only() -> None:
    assert canned.find("entry_counts") is not None
    for name in ("", "_meta", "../sql/entry_counts", "queries/x", "entry_counts.sql", "ENTRY", "é"):
        assert canned.find(name) is None


# -- every query of sql/queries/ ---------------------------------------------------------------

QUERIES = canned.all_queries()
BY_NAME = pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
TIMES = {"now": "9999", "today": "9999"}


def values(query: canned.Canned) -> dict[str, str | int]:
    """What the query is told by its example; the rest are defaults."""
    assert query.example is not None
    words = shlex.split(query.example)
    assert words[:3] == ["ctxdb", "query", query.name]
    given = {words[at + 1]: words[at + 2] for at, word in enumerate(words) if word == "-p"}
    assert set(given) <= {param.name for param in query.params}
    found: dict[str, str | int] = {}
    for param in query.params:
        text = given.get(param.name, param.default)
        assert text is not None, f"the example does not give {param.name}"
        if param.kind == "time":
            text = TIMES.get(text, text)
            assert re.match(r"\d{4}", text), "the demo is old: its example must name a day"
        found[param.name] = int(text) if param.kind == "integer" else text
    return found


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo_database(tmp_path_factory.mktemp("queries"))


@BY_NAME
def test_the_example_finds_something_in_the_demo(demo: Path, query: canned.Canned) -> None:
    rows = ask(demo, query.sql, **values(query))
    assert rows
    assert list(rows[0]) == list(query.columns)


@BY_NAME
def test_it_runs_on_a_database_without_rows(tmp_path: Path, query: canned.Canned) -> None:
    path = tmp_path / "empty.db"
    path.write_bytes(empty_database())
    assert ask(path, query.sql, **values(query)) == []


@BY_NAME
def test_it_is_described_like_a_view(query: canned.Canned) -> None:
    assert query.question.endswith("?")
    assert set(re.findall(r":([a-z]\w*)", query.sql.split("\nSELECT", 1)[-1])) <= {
        param.name for param in query.params
    }
    for param in query.params:
        assert f":{param.name}" in "\n".join(
            line for line in query.sql.splitlines() if not line.startswith("--")
        )
    for filters in query.filters.values():
        assert {column for table, column in filters if table is None} <= set(query.columns)


def test_no_query_has_the_name_of_a_view_or_table(demo: Path) -> None:
    taken = {row["name"] for row in ask(demo, "SELECT name FROM sqlite_schema")}
    assert not taken & {query.name for query in QUERIES}
