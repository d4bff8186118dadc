"""What people mean by a time, in their own time zone."""

from __future__ import annotations

import time
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxdb.errors import UsageError
from ctxdb.query.period import bounds, day, since, until

NOW = datetime.fromisoformat("2026-11-18T15:30")  # a Wednesday, local time


@pytest.mark.parametrize(
    ("word", "begin", "end"),
    [
        ("7d", "2026-11-11T00:00", "2026-11-12T00:00"),
        ("1 day ago", "2026-11-17T00:00", "2026-11-18T00:00"),
        ("2w", "2026-11-04T00:00", "2026-11-05T00:00"),
        ("24h", "2026-11-17T15:30", "2026-11-17T15:30"),
        ("90min", "2026-11-18T14:00", "2026-11-18T14:00"),
        ("1mo", "2026-10-18T00:00", "2026-10-19T00:00"),
        ("1y", "2025-11-18T00:00", "2025-11-19T00:00"),
        ("today", "2026-11-18T00:00", "2026-11-19T00:00"),
        ("yesterday", "2026-11-17T00:00", "2026-11-18T00:00"),
        ("Monday", "2026-11-16T00:00", "2026-11-17T00:00"),
        ("thursday", "2026-11-12T00:00", "2026-11-13T00:00"),
        ("wednesday", "2026-11-18T00:00", "2026-11-19T00:00"),
        ("this week", "2026-11-16T00:00", "2026-11-23T00:00"),
        ("last  week", "2026-11-09T00:00", "2026-11-16T00:00"),
        ("this month", "2026-11-01T00:00", "2026-12-01T00:00"),
        ("last month", "2026-10-01T00:00", "2026-11-01T00:00"),
        ("last year", "2025-01-01T00:00", "2026-01-01T00:00"),
        ("2026-08-01", "2026-08-01T00:00", "2026-08-02T00:00"),
        ("2026-08", "2026-08-01T00:00", "2026-09-01T00:00"),
        ("2026-12", "2026-12-01T00:00", "2027-01-01T00:00"),
        ("2026", "2026-01-01T00:00", "2027-01-01T00:00"),
        ("20260801", "2026-08-01T00:00", "2026-08-02T00:00"),
        ("2026-W34", "2026-08-17T00:00", "2026-08-24T00:00"),
        ("2026w34", "2026-08-17T00:00", "2026-08-24T00:00"),
        ("2026-W01", "2025-12-29T00:00", "2026-01-05T00:00"),
        ("2026-W34-7", "2026-08-23T00:00", "2026-08-24T00:00"),
        ("2026-08-01T10:15", "2026-08-01T10:15", "2026-08-01T10:15"),
        ("2026-08-01 10:15", "2026-08-01T10:15", "2026-08-01T10:15"),
        ("2026-08-01T10:15:00Z", "2026-08-01T10:15", "2026-08-01T10:15"),
        ("2026-08-01T10:15+02:00", "2026-08-01T08:15", "2026-08-01T08:15"),
    ],
)
def test_a_word_begins_and_ends(word: str, begin: str, end: str) -> None:
    assert since(word, NOW) == f"{begin}:00.000Z"
    assert until(word, NOW) == f"{end}:00.000Z"


@pytest.mark.parametrize("word", ["2026-08-01", "20260801", "2026-W31-6", "109d"])
def test_a_day_is_its_midnight(word: str) -> None:
    assert day(word, NOW) == "2026-08-01T00:00:00.000Z"


@pytest.mark.parametrize("word", ["2026-02", "2026", "2026-W34", "last week", "24h", "now", "all"])
def test_what_is_longer_or_shorter_is_no_day(word: str) -> None:
    with pytest.raises(UsageError, match="is not a day; say today"):
        day(word, NOW)


def test_all_is_no_bound() -> None:
    assert since("all") is None
    assert until("ALL") is None


@pytest.mark.parametrize(
    "word",
    [
        "",
        "soon",
        "7",
        "30m",
        "2026-13",
        "2026-02-30",
        "99999y",
        "-7d",
        "0000",
        "\x1b[2J",
        "2026-W54",
        "20261301",
        "202608",
    ],
)
def test_nonsense_is_refused_with_examples(word: str) -> None:
    with pytest.raises(UsageError, match="7d, 24h"):
        since(word, NOW)


def test_a_period_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(UsageError, match="--until 2026-06 ends before --since 2026-08 begins"):
        bounds("2026-08", "2026-06")
    with pytest.raises(UsageError, match="--until 2026-07 ends before --since 2026-08 begins"):
        bounds("2026-08", "2026-07")
    first, last = bounds("2026-08", "2026-08")
    assert first is not None
    assert last is not None
    assert first < last
    assert bounds("all", "2026-08") == (None, last)
    assert bounds("2026-08", None) == (first, None)
    moment = "2026-08-20T03:00:00.000Z"
    assert bounds(moment, moment) == (moment, moment)  # what went on just then


def test_days_are_local_also_when_the_clocks_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    assert since("2026-03-29") == "2026-03-28T23:00:00.000Z"  # winter time at midnight
    assert until("2026-03-29") == "2026-03-29T22:00:00.000Z"  # summer time a day later
    assert since("2026-08") == "2026-07-31T22:00:00.000Z"
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.mark.parametrize(
    ("now", "word", "begin"),
    [
        # 12:00 in summer time on the day that began in winter time, and the other way round.
        ("2026-03-29T12:00", "24h", "2026-03-28T10:00"),
        ("2026-10-25T12:00", "24h", "2026-10-24T11:00"),
        ("2026-03-29T03:30", "60min", "2026-03-29T00:30"),
        ("2026-10-25T03:30", "2h", "2026-10-25T00:30"),
        ("2026-03-29T12:00", "1d", "2026-03-27T23:00"),
        ("2026-10-25T12:00", "1d", "2026-10-23T22:00"),
    ],
)
def test_hours_are_elapsed_and_days_are_of_the_calendar_when_the_clocks_change(
    monkeypatch: pytest.MonkeyPatch, now: str, word: str, begin: str
) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    assert since(word, datetime.fromisoformat(now)) == f"{begin}:00.000Z"
    if not word.endswith("d"):
        assert until(word, datetime.fromisoformat(now)) == f"{begin}:00.000Z"
    again = datetime.fromisoformat("2026-10-25T02:30").replace(fold=1)  # for the second time
    assert since("1h", again) == "2026-10-25T00:30:00.000Z"
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def test_the_last_day_of_a_month_has_a_month_before() -> None:
    assert since("1mo", datetime.fromisoformat("2026-03-31T12:00")) == "2026-02-28T00:00:00.000Z"


@given(st.text(max_size=20))
def test_any_text_is_a_time_or_a_usage_error(text: str) -> None:
    try:
        found = since(text, NOW)
    except UsageError:
        return
    assert found is None or found.endswith("Z")


def test_a_day_that_has_no_midnight_begins_when_the_clocks_have_gone_forward(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TZ", "America/Santiago")
    time.tzset()
    try:
        assert since("2026-09-06") == "2026-09-06T04:00:00.000Z"
        assert until("2026-09-05") == "2026-09-06T04:00:00.000Z"
    finally:
        monkeypatch.setenv("TZ", "UTC")
        time.tzset()
