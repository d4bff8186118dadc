"""The test vectors of the accounting rules, each by name, and a second opinion on every cost."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import builder
from builder import World, fork
from ctxdb.store.model_ladder import candidates
from lab import Lab, empty_database, lab
from pricelab import UNIT, answer, cost_of, normal_names, prices_in, requests, used
from viewlab import demo_database

OPUS = "claude-opus-5"


def read(world: World, where: Lab) -> list[dict[str, Any]]:
    world.write(where.root)
    where.sync()
    with closing(sqlite3.connect(where.db)) as conn:
        return sorted(requests(conn), key=lambda row: (row["timestamp"] or "", row["request_key"]))


def usd(row: dict[str, Any]) -> Fraction | None:
    return None if row["cost"] is None else Fraction(row["cost"], UNIT)


def only(rows: list[dict[str, Any]]) -> dict[str, Any]:
    (row,) = rows
    return row


# -- one request is one request --------------------------------------------------------------------


def test_streamed_9_9_159_is_one_request_with_output_159_at_the_first_timestamp() -> None:
    world = World()
    t = world.session()
    lines = [
        answer(t, OPUS, tokens=used(10, n), message="msg_a", request="req_a", final=n == 159)
        for n in (9, 9, 159)
    ]
    with lab() as where:
        row = only(read(world, where))
    assert (row["output_tokens"], row["lines"], row["output_is_final"]) == (159, 3, 1)
    assert row["timestamp"] == lines[0]["timestamp"]
    assert usd(row) == Fraction(10 * 5 + 159 * 25, 10**6)


def test_a_copy_in_a_background_fork_belongs_to_the_parent_session() -> None:
    world = World()
    t = world.session()
    t.prompt("begin")
    answer(t, OPUS)
    copy = fork(t, says_so=False, renew=False)
    for entry in copy.entries:
        entry["sessionKind"] = "bg"
    copy.prompt("go on")
    with lab() as where:
        row = only(read(world, where))
    assert row["session_id"] == t.session


def test_the_same_ids_under_a_new_uuid_in_another_file_count_once() -> None:
    world = World()
    one, other = world.session(), world.session()
    for t in (one, other):
        answer(t, OPUS, message="msg_same", request="req_same")
    with lab() as where:
        row = only(read(world, where))
    assert row["lines"] == 2
    assert row["session_id"] == one.session


def test_a_side_question_that_replays_a_reply_is_dropped_and_its_own_answer_kept() -> None:
    world = World()
    t = world.session()
    t.prompt("begin")
    answer(t, OPUS, message="msg_main", request="req_main")
    side = t.agent_file("btw1")
    answer(side, OPUS, tokens=used(10, 5, cache_read_input_tokens=999), message="msg_main",
           request="req_other")  # fmt: skip
    answer(side, OPUS, message="msg_own", request="req_own")
    with lab() as where:
        rows = read(world, where)
    assert sorted(row["request_key"] for row in rows) == ["msg_main|req_main", "msg_own|req_own"]
    assert sum(row["cache_read_tokens"] for row in rows) == 0


@pytest.mark.parametrize("says_so", [False, True])
def test_a_side_question_in_a_fork_replays_history_that_belongs_to_the_parent(
    says_so: bool,
) -> None:
    world = World()
    t = world.session()
    t.prompt("begin")
    answer(t, OPUS, message="msg_main", request="req_main")
    copy = fork(t, says_so=says_so, renew=says_so)
    copy.prompt("go on")
    side = copy.agent_file("btw1")
    answer(side, OPUS, message="msg_main", request="req_replay")
    answer(side, OPUS, message="msg_own", request="req_own")
    files = world.contents()
    for names in (sorted(files), sorted(files, reverse=True)):
        with lab() as where:
            for name in names:
                where.put(name, files[name])
                where.sync()
            keys = where.rows("SELECT request_key FROM usage ORDER BY 1")
        assert keys == [("msg_main|req_main",), ("msg_own|req_own",)]


def test_a_gateway_id_in_2_sessions_and_2_times_is_3_requests() -> None:
    world = World()
    one, other = world.session(), world.session()
    answer(one, OPUS, message="gen-1", request="", timestamp="2026-08-01T00:00:00.000Z")
    answer(one, OPUS, message="gen-1", request="", timestamp="2026-08-01T00:00:05.000Z")
    answer(other, OPUS, message="gen-1", request="", timestamp="2026-08-01T00:00:00.000Z")
    with lab() as where:
        assert len(read(world, where)) == 3


def test_msg_without_request_id_is_1_request() -> None:
    world = World()
    t = world.session()
    answer(t, OPUS, tokens=used(10, 2), message="msg_a", request="", final=False)
    answer(t, OPUS, tokens=used(10, 8), message="msg_a", request="")
    with lab() as where:
        assert only(read(world, where))["output_tokens"] == 8


@pytest.mark.parametrize("uuid", [None, "1"])
def test_without_message_id_each_line_is_a_request_though_it_has_no_uuid_or_a_common_one(
    uuid: str | None,
) -> None:
    world = World()
    for t in (world.session(), world.session()):
        for output in (7, 8) if uuid is None else (7,):
            entry = answer(t, OPUS, tokens=used(10, output), request="")
            entry["timestamp"] = "2026-08-01T10:00:00.000Z"
            del entry["message"]["id"], entry["uuid"]
            if uuid is not None:
                entry["uuid"] = uuid
    with lab() as where:
        rows = read(world, where)
        where.sync()
        assert len({row["request_key"] for row in rows}) == len(rows)
    assert sorted(row["output_tokens"] for row in rows) == (
        [7, 7, 8, 8] if uuid is None else [7, 7]
    )
    assert {row["lines"] for row in rows} == {1}


def test_synthetic_is_0_requests() -> None:
    world = World()
    t = world.session()
    t.prompt("begin")
    answer(t, "<synthetic>")
    with lab() as where:
        assert read(world, where) == []


# -- what it costs ---------------------------------------------------------------------------------


def test_the_split_of_1_hour_and_5_minute_cache_writes() -> None:
    world = World()
    t = world.session()
    split = {"ephemeral_5m_input_tokens": 1000, "ephemeral_1h_input_tokens": 2000}
    answer(t, OPUS, tokens=used(0, 0, cache_creation_input_tokens=3000, cache_creation=split))
    with lab() as where:
        row = only(read(world, where))
    assert (row["cache_write_5m_tokens"], row["cache_write_1h_tokens"]) == (1000, 2000)
    assert usd(row) == Fraction(1000 * 625 + 2000 * 1000, 10**8)


@pytest.mark.parametrize(
    ("prompt", "price"), [(0, 1), (100_000, 1), (100_001, 5)], ids=["empty", "low", "high"]
)
def test_haiku_5_5_at_100000_is_low_and_at_100001_high(prompt: int, price: int) -> None:
    world = World()
    t = world.session()
    tokens = used(min(prompt, 1), 1000, cache_read_input_tokens=max(prompt - 1, 0))
    answer(t, "claude-haiku-5-5", tokens=tokens, timestamp="2026-11-01T00:00:00.000Z")
    with lab() as where:
        row = only(read(world, where))
    assert row["prompt_tokens"] == prompt
    cents = min(prompt, 1) * 10 + 1000 * 50 + max(prompt - 1, 0)  # of 10^-8 USD, low tier
    assert usd(row) == Fraction(cents * price, 10**8)


@pytest.mark.parametrize(
    ("at", "read_price"),
    [("2026-10-06T23:59:59.000Z", 20), ("2026-10-07T00:00:00.000Z", 10)],
    ids=["one second before", "at"],
)
def test_sonnet_5_5_one_second_before_and_at_2026_10_07(at: str, read_price: int) -> None:
    world = World()
    answer(world.session(), "claude-sonnet-5-5", timestamp=at,
           tokens=used(0, 0, cache_read_input_tokens=1000))  # fmt: skip
    with lab() as where:
        assert usd(only(read(world, where))) == Fraction(1000 * read_price, 10**8)


@pytest.mark.parametrize(
    ("at", "utc", "read_price"),
    [
        ("2026-10-07T01:59:59.000+02:00", "2026-10-06T23:59:59.000Z", 20),
        ("2026-10-06T19:00:00-05:00", "2026-10-07T00:00:00.000Z", 10),
        ("2026-10-07T00:00:00.000", "2026-10-07T00:00:00.000", 10),
        ("2026-10-07", "2026-10-07", 10),
        ("0001-01-01T00:00:00+23:00", "0001-01-01T00:00:00+23:00", 20),
    ],
)
def test_a_time_with_an_offset_is_kept_in_utc_and_has_the_price_of_that_moment(
    at: str, utc: str, read_price: int
) -> None:
    world = World()
    tokens = used(0, 0, cache_read_input_tokens=10**6)
    answer(world.session(), "claude-sonnet-5-5", tokens=tokens, timestamp=at)
    with lab() as where:
        row = only(read(world, where))
        where.must_verify()
        assert where.rows("SELECT DISTINCT timestamp FROM messages") == [(utc,)]
    assert (row["timestamp"], usd(row)) == (utc, Fraction(read_price, 100))


def test_fast_times_us_is_2_2_times() -> None:
    world = World()
    t = world.session()
    tokens = used(1, 7, cache_read_input_tokens=3, cache_creation_input_tokens=9)
    plain = (1 * 500 + 7 * 2500 + 3 * 50 + 9 * 625) * UNIT // 10**8
    cases: list[tuple[builder.Json, Fraction]] = [
        ({}, Fraction(1)),
        ({"speed": "fast"}, Fraction(2)),
        ({"inference_geo": "us"}, Fraction(11, 10)),
        ({"speed": "fast", "inference_geo": "us"}, Fraction(22, 10)),
        ({"speed": "standard", "inference_geo": "not_available"}, Fraction(1)),
    ]
    for more, _ in cases:
        answer(t, OPUS, tokens={**tokens, **more})
    with lab() as where:
        rows = read(world, where)
    assert [row["cost"] for row in rows] == [int(plain * times) for _, times in cases]


def test_a_model_without_these_multipliers_costs_the_same_in_fast_mode() -> None:
    world = World()
    t = world.session()
    for more in ({}, {"speed": "fast", "inference_geo": "us"}):
        answer(t, "claude-opus-4-5", tokens={**used(), **more})
    with lab() as where:
        one, other = read(world, where)
    assert one["cost"] == other["cost"]


def test_an_advisor_call_is_a_row_under_its_own_model() -> None:
    world = World()
    t = world.session()
    call = {"type": "advisor_message", "model": "claude-fable-5", **used(100, 10)}
    message = {"type": "message", **used(20, 4)}
    answer(t, OPUS, tokens=used(20, 4, iterations=[message, call]))
    with lab() as where:
        rows = {row["model"]: row for row in read(world, where)}
    assert rows["claude-fable-5"]["request_key"].endswith("|adv 1")
    assert usd(rows["claude-fable-5"]) == Fraction(100 * 10 + 10 * 50, 10**6)
    assert usd(rows[OPUS]) == Fraction(20 * 5 + 4 * 25, 10**6)


def test_the_size_of_a_prompt_is_that_of_the_largest_call_of_type_message() -> None:
    world = World()
    t = world.session()
    calls = [
        {"type": "message", **used(60_000, 1)},
        {"type": "message", **used(70_000, 1)},
        {"type": "compaction", **used(150_000, 1)},
        {"type": "advisor_message", "model": OPUS, **used(160_000, 1)},
    ]
    answer(t, "claude-haiku-5-5", tokens=used(280_000, 3, iterations=calls))
    with lab() as where:
        rows = {row["model"]: row for row in read(world, where)}
    assert rows["claude-haiku-5-5"]["prompt_tokens"] == 70_000
    assert rows[OPUS]["prompt_tokens"] == 160_000
    assert usd(rows["claude-haiku-5-5"]) == Fraction(280_000 * 10 + 3 * 50, 10**8)


def test_web_searches_are_the_most_that_any_line_told() -> None:
    world = World()
    t = world.session()
    for searches, output in ((3, 1), (2, 9)):
        tools = {"web_search_requests": searches}
        answer(t, OPUS, tokens=used(0, output, server_tool_use=tools), message="msg_a",
               request="req_a")  # fmt: skip
    with lab() as where:
        row = only(read(world, where))
    assert row["web_search_requests"] == 3
    assert usd(row) == Fraction(9 * 25, 10**6) + Fraction(3, 100)


def test_an_unknown_model_costs_null_and_never_0() -> None:
    world = World()
    t = world.session()
    answer(t, "claude-opus-5-turbo", tokens=used(5, 5, server_tool_use={"web_search_requests": 1}))
    with lab() as where:
        assert only(read(world, where))["cost"] is None
        (sums,) = where.rows("SELECT cost_usd, requests, requests_unpriced FROM usage_by_model")
        assert sums == (None, 1, 1)
        (row,) = where.rows("SELECT model, requests, looked_for FROM unpriced_models")
        assert row == ("claude-opus-5-turbo", 1, "claude-opus-5-turbo")


def test_a_date_before_the_first_row_has_the_price_of_the_first_row() -> None:
    world = World()
    t = world.session()
    answer(t, "claude-sonnet-5-5", timestamp="2020-01-01T00:00:00.000Z",
           tokens=used(0, 0, cache_read_input_tokens=1000))  # fmt: skip
    with lab() as where:
        assert usd(only(read(world, where))) == Fraction(1000 * 20, 10**8)


@pytest.mark.parametrize(("prompt", "price"), [(200_000, 300), (200_001, 600)])
def test_sonnet_4_5_above_200k_costs_more_for_the_whole_request(prompt: int, price: int) -> None:
    world = World()
    t = world.session()
    answer(t, "claude-sonnet-4-5-20250929", tokens=used(prompt, 10))
    with lab() as where:
        row = only(read(world, where))
    output = 1500 if price == 300 else 2250
    assert usd(row) == Fraction(prompt * price + 10 * output, 10**8)


# -- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("claude-opus-5", "claude-opus-5"),
        ("claude-opus-4-5-20251101", "claude-opus-4-5"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("bedrock/global.anthropic.claude-opus-4-6-v1", "claude-opus-4-6"),
        ("anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("openrouter/anthropic/claude-opus-4.6", "claude-opus-4-6"),
        ("claude-opus-4@20250514", "claude-opus-4"),
        ("vertex_ai/claude-opus-4-1@20250805", "claude-opus-4-1"),
        ("claude-3-5-sonnet-v2@20241022", "claude-3-5-sonnet"),
        ("claude-opus-4-6[1m]", "claude-opus-4-6"),
        ("claude-sonnet-4-6 (1M context)", "claude-sonnet-4-6"),
        ("claude-4-opus-20250514", "claude-opus-4"),
        ("claude-4-sonnet-20250514", "claude-sonnet-4"),
        ("claude-3-5-sonnet-20241022", "claude-3-5-sonnet"),
        ("my-claude-opus-5", None),
        ("claude-opus", None),
        ("claude-opus-55", None),
        ("opus", None),
    ],
)
def test_the_price_of_a_name(model: str, name: str | None) -> None:
    world = World()
    answer(world.session(), model)
    with lab() as where:
        assert only(read(world, where))["priced_model"] == name


@given(
    st.from_regex(
        r"((bedrock|x)/)?((us|eu)\.)?(anthropic[./])?claude-(opus-4|4-opus|sonnet-4[.-]5)"
        r"(\[1m\]|\(x\))?(-v2)?([-@]20250514)?(-v1(:0)?)?",
        fullmatch=True,
    )
)
def test_the_ladder_agrees_with_the_rule_in_other_words(model: str) -> None:
    assert candidates(model) == list(dict.fromkeys(normal_names(model)))


def test_a_name_of_a_megabyte_is_no_trouble() -> None:
    assert candidates("(" * 1_000_000) == ["(" * 1_000_000]


# -- a second opinion ------------------------------------------------------------------------------


def agrees(path: Path) -> int:
    with closing(sqlite3.connect(path)) as conn:
        prices = prices_in(conn)
        rows = requests(conn)
        for row in rows:
            assert row["cost"] == cost_of(row, prices), row
    return len(rows)


def test_every_cost_of_the_demo_is_the_one_that_fractions_give(tmp_path: Path) -> None:
    assert agrees(demo_database(tmp_path)) > 90


DAYS = st.sampled_from([None, "2026-01-01", "2026-02-01", "2026-03-01"])
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["m", "n"]),
        DAYS,
        DAYS,
        st.sampled_from([0, 100, 200]),
        st.sampled_from([0.1, 1.0, 2.5, 0.025]),
        st.sampled_from([None, 2.0, 1.5]),
        st.sampled_from(["user", "shipped"]),
    ),
    max_size=6,
)
USES = st.lists(
    st.tuples(
        st.sampled_from(["m", "x/m", "n-20260101", "other"]),
        st.sampled_from([None, "2025-12-31T23:59:59.999Z", "2026-01-01T00:00:00.000Z",
                         "2026-01-31T23:59:59.999Z", "2026-02-15T12:00:00.000Z",
                         "2026-03-01T00:00:00.000Z"]),
        st.sampled_from([0, 1, 100, 101, 200, 201, 2_000_000]),
        st.sampled_from([None, "fast"]),
        st.sampled_from([None, "us", "global"]),
    ),
    min_size=1,
    max_size=12,
)  # fmt: skip


@settings(max_examples=60)
@given(ROWS, USES)
def test_any_price_list_gives_the_cost_that_fractions_give(rows: Any, uses: Any) -> None:
    with closing(sqlite3.connect(":memory:")) as conn:
        data = bytearray(empty_database())
        data[18:20] = b"\1\1"  # no write-ahead log: there is none in memory
        conn.deserialize(bytes(data))
        conn.execute("DELETE FROM prices")
        for model, since, until, above, price, times, origin in rows:
            conn.execute(
                "INSERT INTO prices (model, effective_from, effective_to, prompt_tokens_gt,"
                " input_usd_per_mtok, output_usd_per_mtok, cache_write_5m_usd_per_mtok,"
                " cache_write_1h_usd_per_mtok, cache_read_usd_per_mtok, fast_multiplier,"
                " us_geo_multiplier, origin) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1.1, ?)",
                (model, since, until, above, price, price * 5, price, price * 2, price / 10,
                 times, origin),
            )  # fmt: skip
        for n, (model, at, size, speed, geo) in enumerate(uses):
            conn.executemany(
                "INSERT OR IGNORE INTO _model_names VALUES (?, ?, ?)",
                [(model, place, name) for place, name in enumerate(candidates(model))],
            )
            conn.execute(
                "INSERT INTO usage (request_key, model, timestamp, input_tokens, output_tokens,"
                " cache_write_5m_tokens, cache_write_1h_tokens, cache_read_tokens, prompt_tokens,"
                " web_search_requests, speed, inference_geo, output_is_final, is_sidechain, lines)"
                " VALUES (?, ?, ?, ?, 7, 3, 2, 11, ?, ?, ?, ?, 1, 0, 1)",
                (str(n), model, at, size, size, n % 3, speed, geo),
            )
        prices = prices_in(conn)
        for row in requests(conn):
            assert row["cost"] == cost_of(row, prices), (row, prices)
