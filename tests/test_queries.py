"""Views and queries say what they are for, what they show and what they need to be told."""

from __future__ import annotations

from ctxdb import canned

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
