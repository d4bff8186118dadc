"""Views that count the same thing count the same, on the demo and on real transcripts."""

from __future__ import annotations

import tarfile
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ctxdb.config import Config
from ctxdb.ingest.sync import sync
from ctxdb.progress import NullProgress
from ctxdb.store import sql_files
from real_corpus import CORPUS, HAS_CORPUS
from viewlab import ask, demo_database

if TYPE_CHECKING:
    from collections.abc import Callable

    Ask = Callable[[str], Any]

# The corpus is read once and not by every worker.
pytestmark = pytest.mark.xdist_group("views_agree")


@cache
def corpus_bytes() -> bytes:
    """The corpus as a database, made once: tests come in any order, and fixtures with them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with tarfile.open(CORPUS) as archive:
            archive.extractall(folder, filter="data")
        config = Config(folder / "corpus.db", (str(folder / "projects"),))
        sync(config, wait=False, progress=NullProgress())
        return config.db_path.read_bytes()


@pytest.fixture(
    scope="module",
    params=[
        "demo",
        pytest.param("corpus", marks=[pytest.mark.corpus, pytest.mark.slow, HAS_CORPUS]),
    ],
)
def db(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("agree")
    if request.param == "demo":
        return demo_database(folder)
    path = folder / "corpus.db"
    path.write_bytes(corpus_bytes())
    return path


@pytest.fixture
def one(db: Path) -> Ask:
    """The only value of the only row."""

    def value(sql: str) -> Any:
        (row,) = ask(db, f"SELECT ({sql}) AS value")
        return row["value"]

    return value


def test_sessions_projects_turns_and_hours_cost_what_all_requests_cost(one: Ask) -> None:
    total = one("SELECT cost_usd FROM overview")
    assert total > 0
    for view in ("sessions_overview", "projects_overview", "activity_by_hour"):
        assert one(f"SELECT sum(cost_usd) FROM {view}") == pytest.approx(total)
    in_turns = "SELECT sum(cost) / 1e12 FROM _costs WHERE turn_id IS NOT NULL"
    assert one("SELECT sum(cost_usd) FROM turns_overview") == pytest.approx(one(in_turns))
    own = "SELECT sum(cost) / 1e12 FROM _costs WHERE agent_id IS NULL"
    for view in ("sessions_overview", "usage_by_session"):
        assert one(f"SELECT sum(cost_own_usd) FROM {view}") == pytest.approx(one(own))
    agents = "SELECT sum(cost) / 1e12 FROM _costs WHERE agent_id IS NOT NULL"
    assert one("SELECT sum(cost_usd) FROM subagent_runs") == pytest.approx(one(agents))


@pytest.mark.parametrize("column", ["requests", "requests_not_final", "total_tokens"])
def test_requests_and_tokens_are_the_same_from_every_side(one: Ask, column: str) -> None:
    total = one(f"SELECT {column} FROM overview")
    for view in ("sessions_overview", "projects_overview", "activity_by_hour"):
        assert one(f"SELECT sum({column}) FROM {view}") == total


def test_turns_are_the_same_from_every_side(one: Ask) -> None:
    total = one("SELECT turns FROM overview")
    assert total == one("SELECT count(*) FROM turns_overview")
    assert total == one("SELECT sum(turns) FROM sessions_overview")
    assert total == one("SELECT sum(turns) FROM projects_overview")
    assert total == one("SELECT sum(turns) FROM activity_by_hour")
    spoken = "SELECT count(*) FROM prompts WHERE kind NOT IN ('answer', 'refusal')"
    assert total == one(spoken)


def test_calls_are_the_same_from_every_side(one: Ask) -> None:
    total = one("SELECT tools FROM overview")
    assert total == one("SELECT sum(tools) FROM sessions_overview")
    known = one("SELECT count(*) FROM tool_uses WHERE name IS NOT NULL")
    assert known == one("SELECT sum(calls) FROM tool_stats")
    ends = "ok + errors + rejected + interrupted + pending"
    assert one(f"SELECT count(*) FROM tool_stats WHERE {ends} <> calls") == 0
    assert one("SELECT errors FROM overview") == one("SELECT count(*) FROM tool_errors")
    assert one("SELECT errors FROM overview") == one("SELECT sum(errors) FROM sessions_overview")
    shell = "SELECT sum(calls) FROM tool_stats WHERE tool IN ('Bash', 'PowerShell')"
    assert one("SELECT count(*) FROM bash_commands") == one(shell)
    mcp = "SELECT sum(calls) FROM tool_stats WHERE mcp_server IS NOT NULL"
    assert one("SELECT sum(calls) FROM mcp_stats") == one(mcp)
    server = "SELECT count(DISTINCT server) FROM mcp_stats"
    assert one(server) == one("SELECT count(DISTINCT mcp_server) FROM tool_stats")


def test_files_are_the_same_from_every_side(one: Ask) -> None:
    kinds = "('read', 'mention', 'snapshot')"
    edits = f"SELECT count(*) FROM file_history WHERE succeeded AND operation NOT IN {kinds}"
    assert one("SELECT sum(edits) FROM file_activity") == one(edits)
    for lines in ("lines_added", "lines_removed"):
        assert one(f"SELECT sum({lines}) FROM file_activity") == one(
            f"SELECT sum({lines}) FROM sessions_overview"
        )
        assert one(f"SELECT sum({lines}) FROM file_activity") == one(
            f"SELECT sum({lines}) FROM projects_overview"
        )


def test_every_billed_request_is_a_reply_but_those_of_advisors(one: Ask) -> None:
    requests = "SELECT count(*) FROM usage WHERE request_key NOT LIKE '%|adv%'"
    replies = "SELECT count(*) FROM replies WHERE output_tokens IS NOT NULL"
    assert one(requests) == one(replies)
    # All that was said by the models is in their replies, once.
    said = "SELECT sum(length(text)) FROM messages WHERE kind = 'assistant'"
    in_replies = "SELECT sum(length(replace(text, char(10), ''))) FROM replies"
    assert one(in_replies) == one(
        said.replace("length(text)", "length(replace(text, char(10), ''))")
    )


def test_every_message_that_is_read_is_in_a_conversation(one: Ask) -> None:
    own = "SELECT count(DISTINCT message_id) FROM conversation WHERE is_copy = 0"
    told = (
        "SELECT count(*) FROM messages m"
        " WHERE (m.kind IN ('human', 'command', 'shell', 'assistant')"
        " AND (trim(m.text, char(9, 10, 13, 32)) <> '' OR m.thinking IS NOT NULL"
        " OR EXISTS (SELECT 1 FROM tool_uses t WHERE t.message_id = m.id)))"
        " OR m.kind IN ('synthetic', 'agent_prompt', 'interruption', 'compact_summary',"
        " 'notification', 'command_output')"
        " OR m.id IN (SELECT message_id FROM turns)"
    )
    assert one(own) == one(told)
    calls = "SELECT count(*) FROM conversation WHERE kind = 'call' AND is_copy = 0"
    assert one(calls) == one("SELECT count(*) FROM tool_uses WHERE message_id IS NOT NULL")


# Views that may have no row, and why.
EMPTY = {
    "unpriced_models": "every model has a price",
    "unknown_keys": "ctxdb has a place for every key",
    "history_prompts": "there is no history.jsonl",
    "plan_texts": "no plan was made",
}


@pytest.mark.parametrize("view", sql_files.all_views(), ids=lambda view: view.name)
def test_it_answers(db: Path, view: sql_files.SqlFile) -> None:
    rows = ask(db, f"SELECT * FROM {view.name}")
    assert rows or view.name in EMPTY
    for column in view.columns:
        if column.endswith("cost_usd"):
            assert all(row[column] is None or row[column] >= 0 for row in rows)
        if column in ("seconds", "duration_ms", "median_ms", "p95_ms"):
            assert all(row[column] is None or row[column] >= -1 for row in rows)
