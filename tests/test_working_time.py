"""How long the agent worked, by rule: runs that are cut, gaps that are capped."""

from __future__ import annotations

import pytest

from ctxdb.rules.working_time import Begin, Run, epoch_ms, estimated_ms, reported_ms, run_of

FIRST, SECOND, THIRD = 1, 2, 3


def begun(*times: int) -> list[Begin]:
    """Turns that begin at these times, numbered from 1."""
    return [Begin(at, n, n) for n, at in enumerate(times, 1)]


def test_a_run_within_a_turn_is_the_time_of_that_turn() -> None:
    assert reported_ms(begun(100, 900), [Run(200, 500)]) == {FIRST: 300}


def test_a_run_is_cut_at_each_turn_that_begins_inside_it() -> None:
    found = reported_ms(begun(100, 300, 350), [Run(150, 500)])
    assert found == {FIRST: 150, SECOND: 50, THIRD: 150}


def test_a_run_that_begins_with_a_turn_is_of_that_turn_alone() -> None:
    assert reported_ms(begun(100, 200), [Run(200, 500)]) == {SECOND: 300}


def test_a_turn_that_begins_as_a_run_ends_has_no_part_of_it() -> None:
    assert reported_ms(begun(100, 500), [Run(200, 500)]) == {FIRST: 300}
    assert reported_ms(begun(100, 500, 900), [Run(200, 500)]) == {FIRST: 300}


def test_what_was_before_the_first_turn_is_of_no_turn() -> None:
    assert reported_ms(begun(300), [Run(100, 500)]) == {FIRST: 200}
    assert reported_ms(begun(600), [Run(100, 500)]) == {}


def test_runs_of_a_turn_add_up_and_what_they_share_counts_once() -> None:
    assert reported_ms(begun(0), [Run(10, 20), Run(30, 45)]) == {FIRST: 25}
    assert reported_ms(begun(0), [Run(10, 40), Run(30, 45)]) == {FIRST: 35}
    assert reported_ms(begun(0), [Run(10, 40), Run(15, 20), Run(38, 41)]) == {FIRST: 31}


def test_of_turns_that_begin_at_one_moment_the_last_has_the_time() -> None:
    assert reported_ms(begun(100, 300, 300), [Run(150, 500)]) == {FIRST: 150, THIRD: 200}
    assert reported_ms(begun(100, 300, 300), [Run(300, 500)]) == {THIRD: 200}
    by_ordinal = [Begin(300, 2, THIRD), Begin(300, 1, FIRST)]
    assert reported_ms(by_ordinal, [Run(300, 500)]) == {THIRD: 200}


def test_a_reported_time_of_nothing_is_reported() -> None:
    assert reported_ms(begun(100), [Run(200, 200)]) == {FIRST: 0}


def test_a_run_ends_when_its_line_was_written() -> None:
    assert run_of("1970-01-01T00:00:02.000Z", 500) == Run(1500, 2000)
    assert run_of("1970-01-01T00:00:02.000Z", 500.7) == Run(1500, 2000)
    assert run_of("1970-01-01T00:00:02.000Z", 0) == Run(2000, 2000)


@pytest.mark.parametrize("said", [None, "500", -1, [500], float("nan"), 1e300])
def test_what_is_no_duration_reports_nothing(said: object) -> None:
    assert run_of("1970-01-01T00:00:02.000Z", said) is None


def test_a_line_without_a_time_reports_nothing() -> None:
    assert run_of(None, 500) is None
    assert run_of("yesterday", 500) is None


def test_times_are_read_with_their_zone_and_in_utc_without_one() -> None:
    assert epoch_ms("1970-01-01T01:00:00.001+01:00") == 1
    assert epoch_ms("1970-01-01T00:00:00.001") == 1
    assert epoch_ms("9999-99-99") is None


def test_a_gap_counts_as_at_most_a_minute() -> None:
    times = ["2026-03-01T09:00:00.000Z", "2026-03-01T09:00:59.000Z", "2026-03-01T10:00:00.000Z"]
    assert estimated_ms(times) == 59_000 + 60_000
    assert estimated_ms(reversed(times)) == 119_000
    assert estimated_ms(["2026-03-01T09:00:00.000Z", "2026-03-01T09:01:00.001Z"]) == 60_000


def test_one_line_of_work_takes_no_time() -> None:
    assert estimated_ms([]) == 0
    assert estimated_ms(["2026-03-01T09:00:00.000Z", None, "later"]) == 0
