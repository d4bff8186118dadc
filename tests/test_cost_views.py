"""The cost views: they add up, in every time zone, and answer without looking into messages."""

from __future__ import annotations

import re
import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from builder import World, text
from ctxdb.query.statement import Ask, statement_for
from ctxdb.query.uncertain import LeftOut
from ctxdb.store import sql_files
from ctxdb.store.model_ladder import candidates
from lab import Lab, empty_database, lab
from pricelab import UNIT, answer, used
from viewlab import ask, demo_database
from world import Done, run_python

SUMMED = ["daily_usage", "weekly_usage", "monthly_usage", "usage_by_model", "usage_by_project",
          "usage_by_session"]  # fmt: skip
VIEWS = [*SUMMED, "usage_costs", "usage_blocks", "cache_efficiency", "unpriced_models",
         "usage_audit"]  # fmt: skip
COUNTS = ("requests", "requests_unpriced", "requests_not_final", "input_tokens", "output_tokens",
          "cache_write_5m_tokens", "cache_write_1h_tokens", "cache_read_tokens", "total_tokens",
          "web_search_requests")  # fmt: skip
MODELS = ("claude-opus-5", "claude-haiku-5-5", "claude-sonnet-4-5-20250929", "nobody-knows")
ZONES = ("UTC", "Asia/Kathmandu", "America/New_York", "Australia/Lord_Howe")


@pytest.fixture(scope="module", autouse=True)
def _no_connection_is_left() -> Iterator[None]:
    yield
    if empty_memory.cache_info().currsize:
        empty_memory().close()
        empty_memory.cache_clear()


@cache
def empty_memory() -> sqlite3.Connection:
    """A database without rows. Opening one takes as long as most of what is asked of it."""
    conn = sqlite3.connect(":memory:")
    data = bytearray(empty_database())
    data[18:20] = b"\1\1"  # no write-ahead log: there is none in memory
    conn.deserialize(bytes(data))
    return conn


@contextmanager
def memory(uses: list[tuple[Any, ...]]) -> Iterator[sqlite3.Connection]:
    """A database of requests alone: (minute, model, session, agent, size, final)."""
    conn = empty_memory()
    assert not conn.in_transaction
    try:
        conn.execute("INSERT INTO projects VALUES (1, '/p', 'p', '/p', 'cwd')")
        for session in "ab":
            project = 1 if session == "a" else None
            conn.execute("INSERT INTO sessions (id, project_id) VALUES (?, ?)", (session, project))
        for model in MODELS:
            conn.executemany(
                "INSERT INTO _model_names VALUES (?, ?, ?)",
                [(model, place, name) for place, name in enumerate(candidates(model))],
            )
        for n, (minute, model, session, agent, size, final) in enumerate(uses):
            conn.execute(
                "INSERT INTO usage (request_key, session_id, agent_id, model, timestamp,"
                " input_tokens, output_tokens, cache_write_5m_tokens, cache_write_1h_tokens,"
                " cache_read_tokens, prompt_tokens, web_search_requests, speed, inference_geo,"
                " output_is_final, is_sidechain, lines)"
                " VALUES (?, ?, ?, ?, ?, ?, 7, 3, 2, ?, ?, ?, ?, ?, ?, 0, 1)",
                (f"k{n}", session, agent, model, stamp(minute), n, size, size + 5 + n, n % 2,
                 ("fast", None)[n % 2], ("us", None, "global")[n % 3], final),
            )  # fmt: skip
        yield conn
    finally:
        conn.rollback()


def stamp(minute: int | None) -> str | None:
    if minute is None:
        return None
    moment = datetime(2026, 10, 24, tzinfo=UTC) + timedelta(minutes=minute, seconds=minute % 60)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


USES = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(0, 60 * 24 * 16)),
        st.sampled_from(MODELS),
        st.sampled_from(["a", "b", None]),
        st.sampled_from([None, "agent"]),
        st.sampled_from([0, 90_000, 250_000]),
        st.booleans(),
    ),
    max_size=25,
)


def rows_of(conn: sqlite3.Connection, sql: str) -> list[dict[str, Any]]:
    cursor = conn.execute(sql)
    names = [name for name, *_ in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def total(rows: list[dict[str, Any]], *, exact: bool = False) -> dict[str, Any]:
    """All rows as one; money to the last micro-dollar, or exactly."""
    found = {name: sum(row[name] for row in rows) for name in COUNTS}
    money = sum(round(row["cost_usd"] * UNIT) for row in rows if row["cost_usd"] is not None)
    return found | {"cost": money if exact else round(money / 1e6)}


@contextmanager
def zone(name: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", name)
        time.tzset()
        yield
    time.tzset()


# -- they add up -----------------------------------------------------------------------------------


@settings(max_examples=40)
@given(USES, st.sampled_from(ZONES))
def test_days_weeks_months_models_projects_and_sessions_add_up(uses: Any, where: str) -> None:
    with memory(uses) as conn, zone(where):
        conn.execute("INSERT INTO sessions (id) VALUES ('c')")  # without requests
        whole = rows_of(
            conn,
            "SELECT *, 1 AS requests, cost IS NULL AS requests_unpriced,"
            " NOT output_is_final AS requests_not_final, cost / 1e12 AS cost_usd,"
            " input_tokens + output_tokens + cache_write_5m_tokens + cache_write_1h_tokens"
            "  + cache_read_tokens AS total_tokens FROM _costs",
        )
        expected = total(whole, exact=True)
        for view in SUMMED:
            found = total(rows_of(conn, f"SELECT * FROM {view}"), exact=True)
            # Each row's cost_usd is a binary fraction: its last digits are of 10^-12 USD.
            assert abs(found.pop("cost") - expected["cost"]) < 100, view
            assert found == {name: expected[name] for name in COUNTS}, view
        in_integers = conn.execute("SELECT coalesce(sum(cost), 0) FROM _costs").fetchone()[0]
        assert abs(in_integers - expected["cost"]) < 100


@settings(max_examples=40)
@given(USES, st.sampled_from(ZONES))
def test_a_request_counts_on_the_local_day_on_which_it_began(uses: Any, where: str) -> None:
    local = {
        "daily_usage": ("day", "date(timestamp, 'localtime')"),
        "weekly_usage": (
            "week_start",
            "date(date(timestamp, 'localtime', '-3 days', 'weekday 4'), '-3 days')",
        ),
        "monthly_usage": ("month", "strftime('%Y-%m', timestamp, 'localtime')"),
    }
    with memory(uses) as conn, zone(where):
        for view, (column, expression) in local.items():
            expected = conn.execute(
                f"SELECT {expression}, model, count(*), sum(cost) / 1e12 FROM _costs GROUP BY 1, 2"
            )
            found = conn.execute(f"SELECT {column}, model, requests, cost_usd FROM {view}")
            assert sorted(found, key=repr) == sorted(expected, key=repr)


@pytest.mark.parametrize(
    ("day", "week", "monday"),
    [
        ("2026-01-01", "2026-W01", "2025-12-29"),
        ("2027-01-03", "2026-W53", "2026-12-28"),
        ("2027-01-04", "2027-W01", "2027-01-04"),
        ("2024-12-30", "2025-W01", "2024-12-30"),
    ],
)
def test_a_week_is_the_iso_week(day: str, week: str, monday: str) -> None:
    assert datetime.fromisoformat(day).strftime("%G-W%V") == week
    with memory([(0, MODELS[0], "a", None, 0, True)]) as conn:
        conn.execute("UPDATE usage SET timestamp = ?", (f"{day}T12:00:00.000Z",))
        found = conn.execute("SELECT week, week_start FROM weekly_usage").fetchall()
    assert found == [(week, monday)]


# -- windows of five hours -------------------------------------------------------------------------


def blocks(stamps: list[str]) -> dict[str, int]:
    """By the words of the contract, one request after the other."""
    found: dict[str, int] = defaultdict(int)
    end = start = ""
    for at in sorted(stamps):
        if at >= end:
            hour = datetime.fromisoformat(at).replace(minute=0, second=0, microsecond=0)
            start = hour.strftime("%Y-%m-%dT%H:%M:%S.000Z")
            end = (hour + timedelta(hours=5)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        found[start] += 1
    return dict(found)


@settings(max_examples=40)
@given(USES, st.sampled_from(ZONES))
def test_a_block_begins_at_the_hour_of_the_first_request_after_the_last(
    uses: Any, where: str
) -> None:
    with memory(uses) as conn, zone(where):
        stamps = [at for (at,) in conn.execute("SELECT timestamp FROM usage") if at]
        found = rows_of(conn, "SELECT * FROM usage_blocks")
    assert {row["block_start"]: row["requests"] for row in found} == blocks(stamps)
    for row in found:
        assert row["block_start"] <= row["first_used_at"] <= row["last_used_at"] < row["block_end"]
        first, last = (datetime.fromisoformat(row[f"{at}_used_at"]) for at in ("first", "last"))
        minutes = (last - first).total_seconds() / 60
        assert row["minutes"] == pytest.approx(minutes, abs=0.051)
        assert row["tokens_per_minute"] <= row["total_tokens"] + 0.5
        models = row["models"].split(", ")
        assert models == sorted(set(models))
    assert found == sorted(found, key=lambda row: row["block_start"], reverse=True)


@settings(max_examples=40)
@given(
    USES,
    st.one_of(st.none(), st.integers(0, 60 * 24 * 16)),
    st.one_of(st.none(), st.integers(0, 60 * 24 * 16)),
    st.sampled_from([{}, {"project": "p"}, {"session": "a"}, {"model": "opus"}]),
)
def test_blocks_lie_where_they_lie_whatever_is_asked(
    uses: Any, since: int | None, until: int | None, how: dict[str, str]
) -> None:
    assume(since is None or until is None or since <= until)
    fits = {"project": ("session_id", "a"), "session": ("session_id", "a")}
    with memory(uses) as conn:
        for name in how:
            column, value = fits.get(name, ("model", MODELS[0]))
            of_these = f"{column} = '{value}'"
        period = {"since": stamp(since) or "all", "until": stamp(until) or "all"}
        statement = statement_for(Ask("usage_blocks", **period, **how), conn)
        cursor = conn.execute(statement.sql, statement.values)
        names = [name for name, *_ in cursor.description]
        found = [dict(zip(names, row, strict=True)) for row in cursor]
        expected = {}
        for block in rows_of(conn, "SELECT * FROM usage_blocks"):
            asked = f"AND {of_these}" if how else ""
            (requests,) = conn.execute(
                f"SELECT count(*) FROM usage WHERE timestamp >= ? AND timestamp < ? {asked}",
                (block["block_start"], block["block_end"]),
            ).fetchone()
            is_over = since is not None and block["block_end"] <= str(stamp(since))
            is_later = until is not None and block["block_start"] >= str(stamp(until))
            if requests and not is_over and not is_later:
                expected[block["block_start"]] = requests
    assert {row["block_start"]: row["requests"] for row in found} == expected


@pytest.mark.parametrize("junk", ["", "garbage", "2026-10-24T0", "9999-12-31T23:00:00.000Z"])
def test_a_time_that_is_none_hides_no_block(junk: str) -> None:
    minutes = [None, 0, 400, 800, 1200]
    with memory([(minute, MODELS[0], "a", None, 0, True) for minute in minutes]) as conn:
        before = rows_of(conn, "SELECT * FROM usage_blocks")
        conn.execute("UPDATE usage SET timestamp = ? WHERE timestamp IS NULL", (junk,))
        assert rows_of(conn, "SELECT * FROM usage_blocks") == before
    assert len(before) == 4


def test_a_block_says_when_the_limit_was_hit_first(tmp_path: Path) -> None:
    rows = ask(demo_database(tmp_path), "SELECT * FROM usage_blocks WHERE rate_limited_at <> ''")
    (row,) = rows
    assert row["block_start"] == "2026-09-24T07:00:00.000Z"
    assert row["first_used_at"] < row["rate_limited_at"] < row["block_end"]


# -- what each says --------------------------------------------------------------------------------


def test_a_session_costs_with_and_without_its_subagents() -> None:
    world = World()
    t = world.session()
    t.prompt("begin")
    answer(t, "claude-opus-5", tokens=used(0, 100))
    side = t.agent_file("a1")
    side.prompt("look")
    answer(side, "claude-haiku-4-5", tokens=used(0, 1000))
    answer(side, "nobody-knows", tokens=used(0, 1000), final=False)
    with lab() as where:
        world.write(where.root)
        where.sync()
        (row,) = where.rows(
            "SELECT session_id, requests, cost_usd, cost_own_usd, requests_unpriced,"
            " requests_not_final FROM usage_by_session"
        )
    assert row == (t.session, 3, 0.0075, 0.0025, 1, 1)


def test_a_session_whose_own_model_has_no_price_has_no_own_cost() -> None:
    world = World()
    t = world.session()
    answer(t, "nobody-knows")
    side = t.agent_file("a1")
    answer(side, "claude-haiku-4-5", tokens=used(0, 1000))
    with lab() as where:
        world.write(where.root)
        where.sync()
        for view in ("usage_by_session", "sessions_overview"):
            assert where.rows(f"SELECT cost_usd, cost_own_usd FROM {view}") == [(0.005, None)]


@pytest.mark.parametrize(("model", "cost"), [("claude-haiku-4-5", 0.005), ("nobody-knows", None)])
def test_a_session_with_requests_of_subagents_alone_has_no_cost_of_its_own(
    model: str, cost: float | None
) -> None:
    world = World()
    t = world.session()
    t.prompt("begin")
    side = t.agent_file("a1")
    answer(side, model, tokens=used(0, 1000))
    with lab() as where:
        world.write(where.root)
        where.sync()
        for view in ("usage_by_session", "sessions_overview"):
            assert where.rows(f"SELECT cost_usd, cost_own_usd FROM {view}") == [(cost, 0.0)]


def test_a_request_that_an_agent_made_first_is_the_agents_in_every_view() -> None:
    """Another session's main thread tells of it too, and its record wins; whose it is stays."""
    world = World()
    t = world.session()
    answer(t, "claude-opus-5", tokens=used(0, 100))
    ids = {"message": "msg_z", "request": "req_z"}
    answer(t.agent_file("a1"), "claude-haiku-4-5", tokens=used(0, 1000), **ids)
    answer(world.session(), "claude-haiku-4-5", tokens=used(0, 1000), **ids)
    with lab() as where:
        world.write(where.root)
        where.sync()
        for view in ("usage_by_session", "sessions_overview"):
            of_it = f"SELECT cost_usd, cost_own_usd FROM {view} WHERE session_id = '{t.session}'"
            assert where.rows(of_it) == [(0.0075, 0.0025)]
        assert where.rows("SELECT cost_usd FROM subagent_runs") == [(0.005,)]


def test_the_cache_saves_what_the_same_tokens_would_cost_as_input() -> None:
    world = World()
    t = world.session()
    tokens = used(1000, 10, cache_read_input_tokens=8000, cache_creation_input_tokens=1000)
    answer(t, "claude-opus-5", tokens=tokens)
    with lab() as where:
        world.write(where.root)
        where.sync()
        (row,) = where.rows(
            "SELECT project, model, read_from_cache, cost_usd, cost_uncached_usd, saved_usd"
            " FROM cache_efficiency"
        )
    assert row == ("engine", "claude-opus-5", 0.8, 0.0155, 0.05025, 0.03475)


def test_the_audit_accounts_for_every_line_that_told_of_tokens(tmp_path: Path) -> None:
    path = demo_database(tmp_path)
    with closing(sqlite3.connect(path)) as conn:
        by_why = {
            why: (requests, lines)
            for why, requests, lines in conn.execute(
                "SELECT why, sum(requests), sum(lines) FROM usage_audit GROUP BY why"
            )
        }
        (told,) = conn.execute("SELECT count(*) FROM _usage_lines").fetchone()
        (requests,) = conn.execute("SELECT count(*) FROM usage").fetchone()
        (copies,) = conn.execute(
            "SELECT count(*) FROM message_copies c JOIN _usage_lines l USING (message_id)"
        ).fetchone()
    copied = by_why.pop("copied")
    replayed = by_why.pop("replayed", (0, 0))
    assert copied[1] == copies > 0
    assert sum(number for number, _ in by_why.values()) == requests
    assert sum(lines for _, lines in by_why.values()) + replayed[1] == told
    assert "streamed" in by_why


def test_the_audit_shows_replies_that_a_side_question_replays() -> None:
    world = World()
    t = world.session()
    answer(t, "claude-opus-5", message="msg_main", request="req_main")
    side = t.agent_file("btw1")
    answer(side, "claude-opus-5", message="msg_main", request="req_other")
    answer(side, "claude-opus-5", message="msg_own", request="req_own")
    with lab() as where:
        world.write(where.root)
        where.sync()
        rows = where.rows("SELECT why, requests, lines, lines_folded FROM usage_audit")
    assert rows == [("told once", 2, 2, 0), ("replayed", 1, 1, 1)]


def test_the_audit_tells_replies_that_two_sessions_or_agents_tell_of_from_streamed_ones() -> None:
    world = World()
    t, other = world.session(), world.session()
    answer(t, "claude-opus-5", message="msg_1", request="req_1")
    answer(other, "claude-opus-5", message="msg_1", request="req_1")
    for agent in ("a1", "a2"):
        answer(t.agent_file(agent), "claude-opus-5", message="msg_2", request="req_2")
    t.reply(text("one"), text("two"), message="msg_3", request="req_3")
    answer(t.agent_file("btw1"), "claude-opus-5", message="msg_3", request="req_3")
    with lab() as where:
        world.write(where.root)
        where.sync()
        rows = where.rows("SELECT why, lines_each, requests, lines, lines_folded FROM usage_audit")
    assert sorted(rows, key=repr) == [
        ("repeated", 2, 2, 4, 2),
        ("replayed", None, 0, 1, 1),
        ("streamed", 2, 1, 2, 1),
    ]


def test_absurd_counts_break_no_sum() -> None:
    uses: list[tuple[Any, ...]] = [(n, "claude-opus-5", "a", None, 0, True) for n in range(600)]
    with memory(uses) as conn:
        conn.execute("UPDATE usage SET web_search_requests = 2000000, output_tokens = 2000000")
        (cost,) = conn.execute("SELECT sum(cost_usd) FROM daily_usage").fetchone()
    assert cost > 600 * 20_000


@pytest.mark.parametrize(("price", "times"), [(10_000, None), (25, 100)])
def test_a_slip_of_the_finger_in_a_price_breaks_no_sum(price: int, times: int | None) -> None:
    uses: list[tuple[Any, ...]] = [(n, "claude-opus-5", "a", None, 0, True) for n in range(2500)]
    with memory(uses) as conn:
        conn.execute(
            "UPDATE usage SET cache_read_tokens = 2000000, speed = 'fast', inference_geo = NULL"
        )
        conn.execute(
            "UPDATE prices SET cache_read_usd_per_mtok = ?, fast_multiplier = ?", (price, times)
        )
        cost = 2500 * 2 * price * (times or 1)
        for view in [*SUMMED, "overview", "usage_blocks", "cache_efficiency", "activity_by_hour"]:
            (found,) = conn.execute(f"SELECT sum(cost_usd) FROM {view}").fetchone()
            assert found == pytest.approx(cost, rel=1e-3), view


# -- how they are answered -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo_database(tmp_path_factory.mktemp("costs"))


@pytest.mark.parametrize("view", VIEWS)
def test_no_view_scans_messages_to_sum_money(demo: Path, view: str) -> None:
    plan = [row["detail"] for row in ask(demo, f"EXPLAIN QUERY PLAN SELECT * FROM {view}")]
    looked = [step for step in plan if re.search(r"\bmessages(_\w+)?\b", step)]
    if view == "usage_blocks":  # for the limit alone, by the index of rare messages
        assert looked
        assert all(
            step.startswith("SEARCH messages USING INDEX messages_notices") for step in looked
        )
    elif view == "usage_audit":  # whose lines they are, one by one
        assert all(step.startswith("SEARCH messages USING INTEGER PRIMARY KEY") for step in looked)
    else:
        assert not looked


@pytest.mark.parametrize("view", ["daily_usage", "weekly_usage", "monthly_usage", "usage_blocks"])
def test_requests_come_in_the_order_in_which_they_are_summed(demo: Path, view: str) -> None:
    plan = [row["detail"] for row in ask(demo, f"EXPLAIN QUERY PLAN SELECT * FROM {view}")]
    of_windows = "SEARCH u USING INDEX usage_quarter (<expr>>? AND <expr><?)"
    assert (of_windows if view == "usage_blocks" else "SCAN u USING INDEX usage_quarter") in plan


@pytest.mark.parametrize("view", ["usage_by_model", "usage_by_project", "usage_by_session"])
def test_requests_of_a_session_come_together(demo: Path, view: str) -> None:
    plan = [row["detail"] for row in ask(demo, f"EXPLAIN QUERY PLAN SELECT * FROM {view}")]
    assert "SCAN u USING INDEX usage_session_id" in plan


def test_the_newest_requests_are_found_without_sorting_all(demo: Path) -> None:
    plan = ask(demo, "EXPLAIN QUERY PLAN SELECT * FROM usage_costs LIMIT 100")
    steps = [row["detail"] for row in plan]
    assert "SCAN u USING INDEX usage_timestamp" in steps


def test_one_session_is_looked_up(demo: Path) -> None:
    plan = ask(demo, "EXPLAIN QUERY PLAN SELECT * FROM usage_by_session WHERE session_id = 'x'")
    steps = [row["detail"] for row in plan]
    assert "SEARCH u USING INDEX usage_session_id (session_id=?)" in steps


@pytest.mark.parametrize("view", [*SUMMED, "usage_blocks", "cache_efficiency", "unpriced_models",
                                  "usage_audit"])  # fmt: skip
def test_every_sum_says_what_it_leaves_out(demo: Path, view: str) -> None:
    with closing(sqlite3.connect(demo)) as conn:
        names = [row[1] for row in conn.execute(f"PRAGMA table_info({view})")]
    assert {"requests", "requests_unpriced", "requests_not_final"} <= set(names)


# -- the line under a table ------------------------------------------------------------------------


def uncertain(columns: list[str], rows: list[tuple[object, ...]]) -> str | None:
    sums = LeftOut(columns)
    for row in rows:
        sums.add(row)
    return sums.in_words()


def test_a_certain_sum_says_nothing() -> None:
    assert uncertain(["day", "requests_unpriced", "requests_not_final"], [("d", 0, 0)]) is None
    assert uncertain(["day", "tools"], [("d", 3)]) is None


def test_an_uncertain_sum_says_in_one_line_what_it_leaves_out() -> None:
    columns = ["requests_unpriced", "day", "requests_not_final"]
    line = uncertain(columns, [(1, "a", 1200), (None, "b", 34)])
    assert line == (
        "Uncertain: 1 request of a model without a price is not in the cost (see `ctxdb prices"
        " missing`); the output of 1,234 requests is a lower bound, because the transcript never"
        " got the final count."
    )


def test_where_rows_share_requests_the_rows_are_counted() -> None:
    sums = LeftOut(["sha", "requests_unpriced", "requests_not_final"], is_shared=True)
    for row in (("a", 0, 9), ("b", 2, 9), ("c", 0, 0)):
        sums.add(row)
    assert sums.in_words() == (
        "Uncertain: requests in 1 row of a model without a price are not in the cost (see `ctxdb"
        " prices missing`); the output of requests in 2 rows is a lower bound, because the"
        " transcript never got the final count."
    )


@pytest.mark.parametrize(
    "view",
    [
        view
        for view in sql_files.all_views()
        if "requests_not_final" in view.columns and not view.rows_share_requests
    ],
    ids=lambda view: view.name,
)
def test_unless_the_header_says_otherwise_no_request_is_in_two_rows(
    demo: Path, view: sql_files.SqlFile
) -> None:
    with closing(sqlite3.connect(demo)) as conn:
        (in_all,) = conn.execute("SELECT requests_not_final FROM overview").fetchone()
        (found,) = conn.execute(f"SELECT sum(requests_not_final) FROM {view.name}").fetchone()
    assert (found or 0) <= in_all, (
        f"sql/{view.name}.sql counts requests twice. If its rows have requests in common, write"
        " `-- rows share requests: why` in its header."
    )


@pytest.mark.parametrize(
    "options",
    [(), ("--format", "md"), ("--plot",), ("--columns", "model,cost_usd")],
    ids=lambda options: options[0] if options else "table",
)
def test_the_line_is_printed_below_everything_that_shows_a_sum(
    lab_of_unknowns: Lab, options: tuple[str, ...]
) -> None:
    done = asked_for_models(lab_of_unknowns, *options)
    assert "1 request of a model without a price is not in the cost" in done.stderr
    assert "lower bound" in done.stderr


def test_columns_that_were_not_asked_for_are_not_in_the_answer(lab_of_unknowns: Lab) -> None:
    done = asked_for_models(lab_of_unknowns, "--columns", "model,cost_usd", "--format", "jsonl")
    assert done.stdout == '{"model": "nobody-knows", "cost_usd": null}\n'
    assert "Uncertain" not in done.stderr  # a program reads it


def asked_for_models(where: Lab, *options: str) -> Done:
    done = run_python(
        "from ctxdb.cli.main import main; main()", "--db", where.db, "query",
        "usage_by_model", "--no-sync", "--since", "all", *options,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "nobody-knows" in done.stdout
    return done


@pytest.fixture(scope="module")
def lab_of_unknowns() -> Iterator[Lab]:
    world = World()
    answer(world.session(), "nobody-knows", final=False)
    with lab() as where:
        world.write(where.root)
        where.sync()
        yield where
