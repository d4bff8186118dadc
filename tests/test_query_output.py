"""Answers on paper: tables that fit, formats that parse, and nothing hostile in any of them."""

from __future__ import annotations

import csv
import io
import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxdb.errors import UsageError
from ctxdb.escape import width
from ctxdb.formatting import amount, duration, money
from ctxdb.query import formats
from ctxdb.query.cells import display_by_name, displays_for, shown
from ctxdb.query.plot import draw
from ctxdb.query.table import LIST_LINES, Page, lay_out, total_row
from ctxdb.store import sql_files
from ctxdb.store.sql_files import Display
from hostile import HOSTILE, is_harmless

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Row = tuple[Any, ...]
SESSION = "aaaa1111-0000-4000-8000-000000000001"


def written(
    write: Callable[..., None], columns: Sequence[str], rows: Sequence[Row], **more: Any
) -> str:
    out = io.StringIO()
    write(columns, rows, out.write, **more)
    return out.getvalue()


def table(columns: Sequence[str], rows: Sequence[Row], room: int | None = None) -> list[str]:
    return lay_out(columns, rows, Page(room)).lines


# -- cells --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("cost_usd", 3.406, "$3.41"),
        ("cost_usd", 0, "$0.00"),
        ("cost_usd", 0.0034, "$0.0034"),
        ("cost_usd", 0.00000001, "<$0.0001"),
        ("cost_usd", 1234.5, "$1,234"),
        ("saved_usd", -2.5, "-$2.50"),
        ("input_tokens", 9876, "9,876"),
        ("input_tokens", 12345, "12.3k"),
        ("tokens", 1234567, "1.2M"),
        ("tokens_before", 168_483, "168k"),
        ("minutes", 312_960.4, "312,960"),
        ("minutes", 2.25, "2.25"),
        ("tokens", 999_960, "1.0M"),
        ("tokens", 4_500_000_000, "4.5B"),
        ("result_bytes", 3100, "3.1 kB"),
        ("seconds", 200, "3m 20s"),
        ("seconds", 0.44, "440ms"),
        ("seconds", 4.14, "4.1s"),
        ("seconds", 0, "0s"),
        ("seconds", 3900, "1h 05m"),
        ("error_rate", 0.125, "12.5%"),
        ("started_at", "2026-08-24T22:43:22.764Z", "2026-08-24 22:43"),
        ("started_at", "no time", "no time"),
        ("session_id", SESSION, "aaaa1111"),
        ("session_id", "agent-7", "agent-7"),
        ("calls", 1234567, "1,234,567"),
        ("year", 2026, "2026"),
        ("x", None, ""),
        ("x", b"\x00\x01", "<2 bytes>"),
        ("x", "two\nlines\tand  more", "two lines and more"),
    ],
)
def test_a_value_is_shown_as_its_column_says(column: str, value: Any, text: str) -> None:
    assert shown(value, display_by_name(column).kind) == text


def test_times_are_local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    assert shown("2026-08-24T22:43:22.764Z", "time") == "2026-08-25 07:43"
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@given(st.one_of(st.integers(), st.floats()))
def test_any_number_can_be_shown(value: float) -> None:
    for kind in ("money", "tokens", "bytes", "seconds", "share", "plain", "id"):
        assert shown(value, kind).isprintable()  # type: ignore[arg-type]


def test_units_round_up_to_the_next_unit() -> None:
    assert amount(99_960) == "100k"
    assert amount(-12_345) == "-12.3k"
    assert money(999.999) == "$1000.00"
    assert duration(59.7) == "1m 00s"
    assert duration(0.9996) == "1.0s"


# -- tables -------------------------------------------------------------------------------------

WIDE: list[Row] = [
    ("a rather long prompt about tides and lanterns " * 3, "/home/ada/code/lantern/src/app.py", 12),
    ("日本語の長い長い長いプロンプトです", "/x", 12345),
]
NAMES = ["prompt", "path", "cache_write_5m_tokens"]


def test_numbers_are_aligned_right_and_texts_left() -> None:
    assert table(["name", "calls"], [("Bash", 7), ("Read", 1200)]) == [
        "name  calls",
        "────  ─────",
        "Bash      7",
        "Read  1,200",
    ]


@pytest.mark.parametrize("room", [30, 40, 60, 80, 120, 200])
def test_a_table_fits_the_terminal(room: int) -> None:
    lines = table(NAMES, WIDE, room)
    assert all(width(line) <= room for line in lines), lines


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.text(max_size=80), st.integers(), st.text(max_size=40), st.none()),
        min_size=2,
        max_size=4,
    ),
    st.integers(min_value=1, max_value=150),
)
def test_any_table_fits_as_far_as_numbers_let_it(rows: list[Row], room: int) -> None:
    made = lay_out(["prompt", "number_of_things", "path", "nothing_at_all"], rows, Page(room))
    for line in made.lines:
        assert all(map(is_harmless, line))
        assert width(line) <= max(room, 30)


def test_long_headings_are_broken_before_columns_are_left_out() -> None:
    made = lay_out(["cache_write_5m_tokens", "cache_read_tokens"], [(1, 2), (3, 4)], Page(20))
    assert made.left_out == []
    assert made.lines[0].split() == ["cache_"]


def test_columns_that_find_no_room_are_named_empty_ones_first() -> None:
    names = ["first", "empty", "second", "third"]
    made = lay_out(names, [("a" * 40, None, "b" * 40, "c" * 40)] * 2, Page(40))
    assert made.left_out == ["empty", "third"]


def test_cost_and_session_stay_when_others_have_to_go() -> None:
    names = ["title", "turns", "tool_use_id", "models", "cost_usd", "session_id"]
    made = lay_out(names, [("t" * 30, 1, "toolu_1" * 5, "m" * 30, 1.5, SESSION)] * 2, Page(48))
    assert made.left_out == ["tool_use_id", "models"]


def test_details_go_first_and_what_always_stays_last() -> None:
    names = ["path", "relative_path", "written", "read", "saved"]
    displays = [
        Display("path", "about"),
        Display("path", "detail"),
        Display("tokens", "detail"),
        Display("tokens"),
        Display("money", "always"),
    ]
    rows = [("/p/" + "a" * 30, "a" * 30, 10**9, 10**9, 1.5)] * 2
    for room, left_out in ((90, []), (50, names[1:3]), (30, names[1:4])):
        assert lay_out(names, rows, Page(room), displays).left_out == left_out


def test_what_a_row_is_about_stays_on_a_narrow_terminal() -> None:
    names = ["started_at", "project", "kind", "prompt", "reply", "tools", "cost_usd", "session_id"]
    row = (
        "2026-08-20T17:31:00.000Z",
        "lantern-ferry",
        "command",
        "p" * 90,
        "r" * 90,
        4,
        0.3,
        SESSION,
    )
    made = lay_out(names, [row] * 2, Page(76))
    assert made.left_out == ["kind", "reply", "tools"]


def test_what_came_of_it_stays_beside_what_it_is_about() -> None:
    names = ["started_at", "project", "target", "message", "exit_code", "session_id"]
    row = ("2026-08-20T17:31:00.000Z", "lantern-ferry", "t" * 90, "m" * 90, 1, SESSION)
    header = sql_files.find("tool_errors")
    assert header is not None
    displays = displays_for(names, header.displays)
    assert lay_out(names, [row] * 2, Page(80), displays).left_out == ["project", "exit_code"]


def test_of_several_columns_that_a_row_may_be_about_the_first_with_anything_in_it_counts() -> None:
    names = ["started_at", "branch", "subject", "prompt"]
    rows = [("2026-08-20T17:31:00.000Z", "b" * 30, None, "p" * 90)] * 2
    for place, left_out in (("about", ["branch", "subject"]), ("usual", ["subject", "prompt"])):
        displays = [Display("time"), Display("text"), *[Display("text", place)] * 2]
        assert lay_out(names, rows, Page(45), displays).left_out == left_out


def test_a_declared_kind_counts_more_than_the_name() -> None:
    names = ["tokens", "n"]
    displays = displays_for(names, {"tokens": Display("text"), "n": Display("money")})
    assert lay_out(names, [(12345, 1), (1, 2)], Page(80), displays).lines[2].split() == [
        "12,345",
        "$1.00",
    ]
    assert displays_for(names, {}) == [Display("tokens"), Display("text")]


def test_a_small_column_takes_the_room_that_a_large_one_could_not_use() -> None:
    names = ["first", "large", "small", "turn_id"]
    made = lay_out(names, [("f" * 20, "l" * 20, "s", 7)] * 2, Page(36))
    assert made.left_out == ["large", "turn_id"]


def test_a_chart_of_days_draws_what_is_counted_by_day() -> None:
    rows = [("2026-10-03", 3, 40), ("2026-10-02", 1, 10)]
    assert draw(["day", "sessions", "turns"], rows, 60)[0] == "sessions by day"


def test_a_column_without_values_is_no_axis() -> None:
    rows = [(9.5, None, "make all"), (3.5, None, "make test")]
    lines = draw(["seconds", "tool_seconds", "target"], rows, 60)
    assert lines[0] == "seconds by target"


def test_costs_that_rows_share_are_not_added_up() -> None:
    names = ["timestamp", "sha", "cost_usd"]
    rows = [("2026-10-03T09:00:00.000Z", "a1", 5.0), ("2026-10-02T09:00:00.000Z", "b2", 5.0)]
    assert draw(names, rows, 60)[0] == "cost_usd by day"
    assert draw(names, rows, 60, rows_share_requests=True)[0] == "rows by day"


def test_long_texts_share_the_width_evenly() -> None:
    words = "pytest -q tests/test_a.py " * 9
    made = lay_out(["command", "fixed_by"], [(words, words)] * 2, Page(120))
    rule = made.lines[1].split()
    assert [len(part) for part in rule] == [59, 59]


def test_the_session_that_was_asked_for_takes_no_room() -> None:
    names = ["session_id", "byte_start", "kind", "text"]
    row = (SESSION, 123456, "reply", "t" * 90)
    page = Page(36, known=frozenset({"session_id"}))
    made = lay_out(names, [row] * 2, page)
    assert made.lines[0].split() == ["kind", "text"]
    assert made.left_out == ["byte_start"]


def test_a_single_row_of_many_columns_is_a_list() -> None:
    assert table(["sessions", "cost_usd", "a", "b", "first_day"], [(3, 1.5, 1, 2, "x")]) == [
        "sessions   3",
        "cost_usd   $1.50",
        "a          1",
        "b          2",
        "first_day  x",
    ]


def test_a_text_in_a_list_keeps_its_lines_and_is_wrapped_up_to_a_point() -> None:
    names = ["project", "asked", "a", "b", "c"]
    asked = "- one two three four\n- 다섯 여섯\x1b[2J\n\n\n- seven"
    assert table(names, [("x", asked, 1, 2, 3)], 9 + 18)[:6] == [
        "project  x",
        "asked    - one two three",
        "         four",
        "         - 다섯 여섯\\x1b[2J",
        "",
        "         - seven",
    ]
    lines = table(names, [("x", "word " * 10_000, 1, 2, 3)], 40)
    assert len(lines) == 4 + LIST_LINES
    assert lines[LIST_LINES].endswith(" …")


@settings(max_examples=60)
@given(st.text(max_size=400), st.integers(min_value=30, max_value=80))
def test_any_text_in_a_list_fits(text: str, room: int) -> None:
    for line in table(["asked", "a", "b", "c", "d"], [(text, 1, 2, 3, 4)], room):
        assert all(map(is_harmless, line))
        assert width(line) <= room


def test_in_a_pipe_ids_are_whole_and_only_very_long_texts_are_cut() -> None:
    lines = table(["session_id", "prompt"], [(SESSION, "x" * 90), (SESSION, "y" * 500)])
    assert SESSION in lines[2]
    assert "x" * 90 in lines[2]
    assert lines[3].endswith("y…")
    assert width(lines[3]) < 150


def test_colors_only_where_asked() -> None:
    plain = "".join(lay_out(["a"], [(1,), (2,)], Page(80)).lines)
    assert "\x1b" not in plain
    colored = "".join(lay_out(["a"], [(1,), (2,)], Page(80, is_colored=True)).lines)
    assert colored.replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", "") == plain


# -- formats ------------------------------------------------------------------------------------

TEXTS = [(text,) for text in HOSTILE.values()]


def test_json_is_exact_and_plain_ascii() -> None:
    out = written(formats.write_json, ["a\x1b"], TEXTS)
    assert out.isascii()
    assert out.replace("\n", "").isprintable()
    assert json.loads(out) == [{"a\x1b": text} for (text,) in TEXTS]


@settings(max_examples=40)
@given(st.lists(st.tuples(st.text(), st.integers(), st.none() | st.floats(allow_nan=False))))
def test_json_and_jsonl_give_back_what_is_stored(rows: list[Row]) -> None:
    rows = [(a, b, None if c in (float("inf"), float("-inf")) else c) for a, b, c in rows]
    expected = [dict(zip("abc", row, strict=True)) for row in rows]
    assert json.loads(written(formats.write_json, "abc", rows)) == expected
    lines = written(formats.write_jsonl, "abc", rows).splitlines()
    assert [json.loads(line) for line in lines] == expected


def test_json_of_bytes_and_infinity() -> None:
    out = json.loads(written(formats.write_json, "ab", [(b"\xff", float("inf"))]))
    assert out == [{"a": {"$base64": True, "encoded": "/w=="}, "b": "inf"}]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\n", "\uff1d"])
def test_csv_guards_against_formulas(start: str) -> None:
    formula = f"{start}HYPERLINK(1)"
    out = written(formats.write_csv, ["a", "b"], [(formula, -5)])
    assert list(csv.reader(io.StringIO(out)))[1] == [f"'{formula}", "-5"]


def test_csv_with_raw_is_as_stored() -> None:
    rows = [("=1+1", -5.5, None, 'a,b\n"c" \x1b')]
    out = written(formats.write_csv, "abcd", rows, raw=True)
    assert list(csv.reader(io.StringIO(out)))[1] == ["=1+1", "-5.5", "", 'a,b\n"c" \x1b']


@settings(max_examples=40)
@given(st.lists(st.tuples(st.text(), st.text())))
def test_csv_can_be_read_again_and_has_nothing_that_steers(rows: list[Row]) -> None:
    out = written(formats.write_csv, ["a", "b"], rows)
    assert all(is_harmless(c) or c in "\n\t" for c in out)
    read = list(csv.reader(io.StringIO(out)))
    assert len(read) == len(rows) + 1
    for row in read[1:]:
        assert not any(cell.startswith(formats.FORMULA) for cell in row)


def test_markdown_is_a_table_and_nothing_else() -> None:
    rows = [
        ("a|b", 1200),
        ("![x](http://evil.example/?q)", 2),
        ("<script>`&", 3),
        ("two\nlines", 4),
    ]
    assert written(formats.write_markdown, ["text", "tokens"], rows).splitlines() == [
        "| text | tokens |",
        "| --- | ---: |",
        "| a\\|b | 1,200 |",
        "| !\\[x\\](http://evil.example/?q) | 2 |",
        "| &lt;script&gt;\\`&amp; | 3 |",
        "| two lines | 4 |",
    ]


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("room", [None, 80])
def test_hostile_text_steers_nothing_in_any_format(text: str, room: int | None) -> None:
    rows: list[Row] = [(text, 1), (f"x{text}", 2)]
    outputs = ["\n".join(table([text, "n"], rows, room)), "\n".join(draw([text, "n"], rows, room))]
    outputs.append("\n".join(table([text, *"abcd"], [(text, 1, 2, 3, 4)], room)))
    outputs += [
        written(write, [text, "n"], rows)
        for write in (
            formats.write_json,
            formats.write_jsonl,
            formats.write_csv,
            formats.write_markdown,
        )
    ]
    for out in outputs:
        assert all(c.isprintable() or c == "\n" for c in out), out
        out.encode()


# -- charts -------------------------------------------------------------------------------------


def test_bars_add_up_the_rows_of_a_day_and_keep_days_without_any() -> None:
    rows: list[Row] = [
        ("2026-03-03", "opus", 100, 2.0),
        ("2026-03-01", "opus", 100, 1.0),
        ("2026-03-01", "sonnet", 100, 3.0),
    ]
    lines = draw(["day", "model", "tokens", "cost_usd"], rows, 61)
    assert lines[0] == "cost_usd by day"
    assert [line.split()[0] for line in lines[1:]] == ["2026-03-01", "2026-03-02", "2026-03-03"]
    assert [line.split()[-1] for line in lines[1:]] == ["$4.00", "$0.00", "$2.00"]
    assert lines[1].count("█") == 2 * lines[3].count("█")
    assert all(width(line) <= 61 for line in lines)


@pytest.mark.parametrize(
    ("there", "between"),
    [
        (["2026-W52", "2027-W02"], ["2026-W53", "2027-W01"]),
        (["2025-11", "2026-02"], ["2025-12", "2026-01"]),
        (["2026-08-03", "2026-08-24"], ["2026-08-10", "2026-08-17"]),
    ],
)
def test_weeks_and_months_without_a_row_are_there(there: list[str], between: list[str]) -> None:
    lines = draw(["when", "requests"], [(label, 1) for label in reversed(there)], 60)
    assert [line.split()[0] for line in lines[1:]] == [there[0], *between, there[1]]
    assert [line.split()[-1] for line in lines[1:]] == ["1", "0", "0", "1"]


def test_what_lies_too_far_apart_or_ends_with_the_calendar_is_not_filled_in() -> None:
    for there in (
        ["0001-01-01", "9999-12-31"],
        ["0001-01", "9999-12"],
        ["9999-12-30", "9999-12-31"],
    ):
        lines = draw(["when", "requests"], [(label, 1) for label in there], 60)
        assert [line.split()[0] for line in lines[1:]] == there


def test_days_without_a_row_are_there_over_years_too() -> None:
    rows: list[Row] = [(f"202{year}-06-10", 7.0) for year in (5, 6, 7)]
    lines = draw(["day", "cost_usd"], rows, 80)
    assert lines[0] == "cost_usd by day (each column is the sum of 11)"  # 731 days
    assert [at for at, sign in enumerate(lines[-3]) if sign == "█"] == [7, 40, 73]


def test_sums_of_equal_labels_are_sorted_as_the_rows_were() -> None:
    rows: list[Row] = [("web", 5), ("cli", 4), ("cli", 3), ("api", 2), ("cli", 1)]
    for given_, wanted in (
        (rows, ["cli", "web", "api"]),
        (rows[::-1], ["api", "web", "cli"]),
        ([rows[1], rows[0], rows[2]], ["cli", "web"]),
    ):
        lines = draw(["project", "sessions"], given_, 60)
        assert [line.split()[0] for line in lines[1:]] == wanted


def test_long_labels_have_the_room_there_is_and_are_told_apart_by_their_ends() -> None:
    names = [f"mcp__linear-server__{what}_issue_of_a_project" for what in ("get", "list", "update")]
    wide = draw(["tool", "calls"], [(name, 9) for name in names], 100)
    assert [line.split()[0] for line in wide[1:]] == names
    ends = [f"mcp__a_server_of_long_name__and_its_tool_number_{n}" for n in range(3)]
    narrow = draw(["tool", "calls"], [(name, 9) for name in ends], 50)
    labels = [line.split()[0] for line in narrow[1:]]
    assert len(set(labels)) == 3
    assert all(label.startswith("mcp__") and width(label) <= 28 for label in labels)
    assert all(width(line) <= 50 for line in narrow)


def test_infinity_is_shown_and_drawn() -> None:
    inf = float("inf")
    for name in ("bytes", "seconds", "cost_usd", "tokens", "share", "n", "id"):
        assert shown(inf, display_by_name(name).kind) == "inf"
        assert shown(-inf, display_by_name(name).kind) == "-inf"
    rows: list[Row] = [("a", inf), ("b", 1), ("c", -inf), ("d", inf), ("d", -inf)]
    lines = draw(["x", "bytes"], rows, 60)
    assert [line.count("█") for line in lines[2:]] == [lines[1].count("█"), 0, 0]
    assert draw(["x", "n"], [(f"p{n}", inf if n else 1) for n in range(60)], 60)
    assert draw(["weekday", "hour", "n"], [("Mon", 1, inf), ("Mon", 2, 1)], 60)


def test_many_points_are_a_line_that_fits() -> None:
    rows: list[Row] = [(f"2026-{1 + n // 28:02}-{1 + n % 28:02}", n) for n in range(300)]
    lines = draw(["day", "requests"], rows, 70)
    assert all(width(line) <= 70 for line in lines)
    assert "2026-01-01" in lines[-1]


def test_a_week_is_a_map_of_hours() -> None:
    rows: list[Row] = [(1, 9, 10, 5), (1, 10, 1, 0), (5, 23, 5, 1)]
    lines = draw(["weekday", "hour", "turns", "tokens"], rows, 80)
    assert lines[0] == "turns by weekday and hour"
    assert lines[2].startswith("Monday")
    assert lines[2].count("█") == 2
    assert lines[2].count("░") == 2
    assert lines[3].startswith("Friday")


@pytest.mark.parametrize("room", [77, 76, 55, 40, 30])
def test_charts_fit_a_narrow_terminal(room: int) -> None:
    week: list[Row] = [("Mon", hour, 1) for hour in range(24)]
    lines = draw(["weekday", "hour", "turns"], week, room)
    assert all(width(line) <= room for line in lines)
    assert lines[2].count("█") == (48 if room >= 55 else 24)
    assert lines[1].split() == ["0", "3", "6", "9", "12", "15", "18", "21"]
    models: list[Row] = [(f"claude-opus-4-{n}-20250514", n * 100.0) for n in range(1, 4)]
    bars = draw(["model", "cost_usd"], models, room)
    assert all(width(line) <= room for line in bars)
    assert room < 40 or len({line.split()[0] for line in bars[1:]}) == 3


def test_rows_are_counted_where_nothing_can_be_added_up() -> None:
    assert draw(["a", "b"], [("x", "y"), ("x", "z")], 80)[0] == "rows by a"
    rows: list[Row] = [("2026-08-24T22:43:22.764Z", "ls", 1), ("2026-08-24T21:43:22.764Z", "ls", 0)]
    title, *bars = draw(["timestamp", "command", "exit_code"], rows, 80)
    assert title == "rows by hour of 2026-08-24"
    assert [bar.split()[-1] for bar in bars] == ["1", "1"]


def test_a_figure_that_cannot_be_added_up_is_drawn_as_a_mean_and_says_so() -> None:
    rows: list[Row] = [("Bash", 0.5), ("Bash", 0.25), ("Read", 0.125)]
    lines = draw(["tool", "error_rate"], rows, 80)
    assert lines[0] == "mean of error_rate by tool"
    assert [line.split()[-1] for line in lines[1:]] == ["37.5%", "12.5%"]
    assert draw(["tool", "error_rate"], rows[1:], 80)[0] == "error_rate by tool"


def test_nothing_is_not_drawn() -> None:
    with pytest.raises(UsageError, match="no rows"):
        draw(["a", "b"], [], 80)


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.text(max_size=12), st.floats(-1e9, 1e9)), min_size=1, max_size=90),
    st.integers(20, 120),
)
def test_anything_with_numbers_can_be_drawn(rows: list[Row], room: int) -> None:
    for line in draw(["label", "value"], rows, room):
        assert all(map(is_harmless, line))


def test_in_a_long_series_the_newest_column_has_all_its_days() -> None:
    days = [(f"2026-{month:02}-{day:02}", 1.0) for month in range(1, 6) for day in range(1, 29)]
    days[-1] = (days[-1][0], 100.0)
    for first in range(6, 9):  # 142 to 140 days, in columns of three
        lines = draw(["day", "cost_usd"], days[first:], 60)
        assert lines[0] == "cost_usd by day (each column is the sum of 3)"
        assert lines[1].split()[0] == "$102.00"  # 100, 1 and 1; not the last day alone


def test_on_a_wide_page_what_a_row_is_about_is_wide_before_details_are_shown() -> None:
    names = ["timestamp", "path", "prompt", "session_id", "tool_use_id"]
    row = ("2026-08-20T17:31:00.000Z", "/p/" + "a" * 90, "b" * 20, SESSION, "toolu_" + "1" * 24)
    made = lay_out(names, [row] * 2, Page(100))
    assert made.left_out == ["tool_use_id"]
    assert lay_out(names, [row] * 2, Page(130)).left_out == []


def test_columns_that_were_asked_for_stay_and_their_texts_give_way() -> None:
    names = ["tool", "target", "message", "project", "title", "session_id"]
    row = ("Bash", "a" * 40, "b" * 60, "c" * 20, "d" * 50, SESSION)
    assert lay_out(names, [row] * 2, Page(60)).left_out
    made = lay_out(names, [row] * 2, Page(60, is_chosen=True))
    assert made.left_out == []
    assert max(map(width, made.lines)) == 60
    assert made.lines[-1].split()[-1] == SESSION[:8]
    for room in range(1, 60):  # where even that is not enough something is left out, and said
        made = lay_out(names, [row] * 2, Page(room, is_chosen=True))
        assert made.left_out or max(map(width, made.lines)) <= room


def test_a_usage_table_ends_with_a_total() -> None:
    names, added = ["day", "model", "requests", "cost_usd"], ("requests", "cost_usd")
    rows: list[Row] = [("2026-08-01", "opus", 2, 1.5), ("2026-08-02", "opus", 3, None)]
    total = total_row(names, rows, added)
    assert total == ["total", None, 5, 1.5]
    lines = lay_out(names, rows, Page(80), total=total).lines
    assert lines[-1].split() == ["total", "5", "$1.50"]
    assert set(lines[-2].split()) == set(lines[1].split())
    assert total_row(names, rows[:1], added) is None
    assert total_row(["day", "model"], [row[:2] for row in rows], added) is None


@pytest.mark.parametrize("view", [one for one in sql_files.all_views() if one.total])
def test_a_total_adds_only_columns_that_the_view_has(view: sql_files.SqlFile) -> None:
    assert {*view.total} <= {*view.columns}
    assert all(
        view.displays[name].kind in ("money", "tokens", "number", "seconds") for name in view.total
    )


def test_a_narrow_table_shows_names_of_models_whole() -> None:
    names = ["model", "sessions", "requests", "input_tokens", "output_tokens", "cost_usd"]
    models = ("claude-opus-4-20250514", "claude-opus-4-1-20250805", "claude-haiku-4-5-20251001")
    lines = table(names, [(model, 1, 2, 3, 4, 0.5) for model in models], 80)
    assert [line.split()[0] for line in lines[-3:]] == [*models]


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("file_history", "prompt"),
        ("last_edits", "prompt"),
        ("last_prompts", "project"),
        ("failing_commands", "fixed_by"),
        ("failing_commands", "failures"),
        ("usage_by_model", "output_tokens"),
        ("todo_items", "status"),
    ],
)
def test_at_80_columns_the_column_that_answers_stays(name: str, column: str) -> None:
    (one,) = (o for o in [*sql_files.all_views(), *sql_files.all_queries()] if o.name == name)
    values = {
        "time": "2026-08-24T22:43:22.764Z",
        "id": SESSION,
        "text": "a text of several words that does not fit",
        "path": "/home/mira/code/lantern/src/sync.ts",
    }
    kinds = {name: display.kind for name, display in one.displays.items()} | {"operation": "word"}
    row = tuple({**values, "word": "edit"}.get(kinds.get(c, ""), 12) for c in one.columns)
    made = lay_out([*one.columns], [row, row], Page(80), displays_for([*one.columns], one.displays))
    assert column not in made.left_out


def test_a_path_among_other_texts_is_cut_at_its_beginning_and_a_command_at_its_end() -> None:
    rows = [
        ("/home/mira/code/lantern/src/sync.ts", 1),
        ("/compound-loop:retrospective-of-the-week", 2),
    ]
    path, command = table(["target", "n"], rows, 24)[-2:]
    assert path.startswith("…/")
    assert command.startswith("/compound-loop:")
