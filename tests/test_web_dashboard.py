"""The dashboard: every number is the one that the views give, and every mark leads to its rows."""

from __future__ import annotations

import re
import shutil
import sqlite3
from contextlib import closing
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from ctxdb.errors import UsageError
from ctxdb.web import charts, figures, units
from ctxdb.web.buckets import buckets
from ctxdb.web.filters import Filters, filters_from
from ctxdb.web.page import Arguments
from ctxdb.web.reading import Database
from demo_db import demo_folder
from weblab import Client, served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TODAY = date(2026, 8, 20)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with served(demo_folder() / "demo.db") as one:
        yield one


@pytest.fixture(scope="module")
def db() -> Iterator[Database]:
    one = Database(demo_folder() / "demo.db")
    yield one
    one.close()


def args(**values: str) -> Arguments:
    names = {name.rstrip("_"): (value,) for name, value in values.items()}
    return Arguments(names)


def figure(page: str, name: str) -> str:
    """The text of a figure."""
    named = rf'class="name"><a [^>]*>{name}</a>.*?<span class="value">(.*?)</span>\n'
    found = re.search(named, page, re.DOTALL)
    assert found, name
    text = re.sub(r"<span.*?</span>", "", found[1], flags=re.DOTALL)
    return text.strip()


def test_what_is_remembered_ends_with_a_change_of_the_database(tmp_path: Path) -> None:
    path = tmp_path / "ctxdb.db"
    shutil.copy(demo_folder() / "demo.db", path)
    with served(path) as one, closing(sqlite3.connect(path)) as conn:
        before = one.get("/-/ctxdb?period=all").text
        assert one.get("/-/ctxdb?period=all").text.count("$") == before.count("$")
        conn.execute("UPDATE prices SET output_usd_per_mtok = 10 * output_usd_per_mtok")
        conn.commit()
        after = one.get("/-/ctxdb?period=all").text
        (row,) = one.get(f"/{path.stem}/overview.json?_shape=array").json
        assert figure(after, "Cost") == units.money(row["cost_usd"]) != figure(before, "Cost")


def test_another_file_at_the_same_path_is_read(tmp_path: Path) -> None:
    path, other = tmp_path / "ctxdb.db", tmp_path / "other.db"
    for one in (path, other):
        shutil.copy(demo_folder() / "demo.db", one)
    with closing(sqlite3.connect(other)) as conn:
        conn.execute("UPDATE prices SET output_usd_per_mtok = 10 * output_usd_per_mtok")
        conn.commit()
    db = Database(path)
    before = db.ask_once("overview")
    assert db.ask_once("overview") is before
    other.replace(path)
    assert db.ask_once("overview") != before
    db.close()


FILTERS: list[dict[str, str]] = [
    {"period": "all"},
    {"from": "DAY30", "to": "DAY0"},
    {"from": "DAY7", "to": "DAY1"},
    {"period": "all", "project": "lantern"},
    {"from": "DAY300", "to": "DAY0", "who": "people"},
    {"period": "all", "who": "programs"},
    {"period": "all", "model": "claude-opus-5"},
]


def _counted_back(newest: str, value: str) -> str:
    """DAY7 is seven days before the newest."""
    if not value.startswith("DAY"):
        return value
    return str(date.fromisoformat(newest) - timedelta(days=int(value.removeprefix("DAY"))))


@pytest.mark.parametrize("given", FILTERS, ids=str)
def test_figures_are_those_of_the_views(
    client: Client, db: Database, given: dict[str, str]
) -> None:
    newest = max(row["day"] for row in db.ask("daily_work", since="all"))
    given = {name: _counted_back(newest, value) for name, value in given.items()}
    page = client.get("/-/ctxdb?" + "&".join(f"{k}={v}" for k, v in given.items())).text
    filters = filters_from(args(**given), datetime.now().astimezone().date())

    def summed(view: str, column: str) -> float:
        rows = db.ask(view, **filters.narrow(view))
        return sum(row[column] or 0 for row in rows)

    assert figure(page, "Cost") == units.money(summed("daily_usage", "cost_usd"))
    assert figure(page, "Cost") == units.money(summed("usage_by_project", "cost_usd"))
    assert figure(page, "Cost") == units.money(summed("sessions_overview", "cost_usd"))
    assert figure(page, "Tokens") == units.tokens(summed("usage_by_model", "total_tokens"))
    sessions = db.ask("sessions_overview", **filters.narrow("sessions_overview"))
    assert figure(page, "Sessions") == units.count(len(sessions))
    turns = db.ask("turns_overview", **filters.narrow("turns_overview"))
    assert figure(page, "Turns") == units.count(len(turns))
    assert figure(page, "Failed calls") == units.count(summed("tool_stats", "errors"))


def test_active_days_are_those_of_the_overview(client: Client, db: Database) -> None:
    (overview,) = db.ask("overview")
    page = client.get("/-/ctxdb?period=all").text
    assert figure(page, "Active days") == units.count(overview["days_active"])
    assert figure(page, "Sessions") == units.count(overview["sessions"])


def test_daily_queries_add_up_to_the_views(db: Database) -> None:
    costs, usage = (db.ask(view, since="all") for view in ("daily_by_project", "daily_usage"))
    for column in ("requests", "total_tokens", "requests_unpriced", "requests_not_final"):
        assert figures.total(costs, column) == figures.total(usage, column)
    assert figures.total(costs, "cost_usd") == pytest.approx(figures.total(usage, "cost_usd"))
    work, projects = db.ask("daily_work", since="all"), db.ask("projects_overview")
    assert figures.total(work, "turns") == figures.total(projects, "turns")
    seconds = figures.total(db.ask("turns_overview", since="all"), "active_seconds")
    assert figures.total(work, "active_seconds") == pytest.approx(seconds, abs=3)  # rounded rows
    assert figures.total(work, "tools") == figures.total(db.ask("tool_stats"), "calls")
    assert figures.total(work, "requests") == figures.total(usage, "requests")


def test_a_period_without_data_falls_back_to_the_newest_and_says_so(client: Client) -> None:
    page = client.get("/-/ctxdb?from=2031-01-01&to=2031-01-07").text
    assert "There is nothing in 1 to 7 January 2031" in page
    assert "the newest that has data" in page
    assert figure(page, "Turns") != "0"


def test_a_wrong_day_or_project_is_an_error_in_words(client: Client) -> None:
    for query in ("from=yesterdaymorning", "from=2026-02-31", "from=2026-02-02&to=2026-02-01"):
        reply = client.get(f"/-/ctxdb?{query}")
        assert reply.status == 400
        assert "This cannot be answered" in reply.text
    reply = client.get("/-/ctxdb?project=no-such-project")
    assert reply.status == 400
    assert "no project" in reply.text


def test_every_link_of_the_dashboard_works(client: Client) -> None:
    page = client.get("/-/ctxdb?period=all").text
    urls = {url.replace("&amp;", "&") for url in re.findall(r'href="(/[^"]*)"', page)}
    assert any("/rows/" in url for url in urls)
    found = [one for one in urls if "/rows/" in one or one.startswith("/demo")]
    # The squares of a chart differ only in their values: a few links of each page are enough.
    by_page: dict[str, list[str]] = {}
    for url in sorted(found):
        by_page.setdefault(url.partition("?")[0], []).append(url)
    for url in {one for urls in by_page.values() for one in (urls[0], urls[-1])}:
        reply = client.get(url)
        while reply.status == 302:
            reply = client.get(reply.headers["location"])
        assert reply.status == 200, url
        assert "<h1>Error" not in reply.text, url


def test_the_rows_behind_a_figure_add_up_to_it(client: Client) -> None:
    page = client.get("/-/ctxdb?period=30d").text
    (url,) = set(re.findall(r'href="(/-/ctxdb/rows/daily_by_project\?[^"]*)">SQL', page)[:1])
    where = client.get(url.replace("&amp;", "&")).headers["location"]
    path, _, query = where.partition("?")
    rows = client.get(f"{path}.json?{query}&_shape=objects").json["rows"]
    assert figure(page, "Cost") == units.money(sum(row["cost_usd"] or 0 for row in rows))


def test_filters_stay_in_the_url(client: Client) -> None:
    page = client.get("/-/ctxdb?period=90d&project=lantern&who=people").text
    assert re.search(r'<option value="90d" selected>', page)
    assert re.search(r"<option selected>lantern</option>", page)
    assert "period=90d&amp;project=lantern&amp;who=people&amp;by=model" in page


def test_a_figure_says_which_filter_it_cannot_follow(client: Client) -> None:
    assert "of every model" in client.get("/-/ctxdb?period=all&model=claude-opus-5").text
    assert "of every model" not in client.get("/-/ctxdb?period=all").text


# -- periods and changes ---------------------------------------------------------------------------


def test_periods_are_whole_days_that_include_today() -> None:
    week = filters_from(args(period="7d"), TODAY)
    assert (week.first, week.last, week.days) == (date(2026, 8, 14), TODAY, 7)
    before = week.before
    assert before
    assert (before.first, before.last) == (date(2026, 8, 7), date(2026, 8, 13))
    assert filters_from(args(period="all"), TODAY).before is None
    assert filters_from(args(period="nonsense"), TODAY).period == "30d"


def test_two_days_win_over_a_period() -> None:
    found = filters_from(args(period="30d", from_="2026-08-01", to="2026-08-03"), TODAY)
    assert (found.first, found.last, found.period) == (date(2026, 8, 1), date(2026, 8, 3), "")
    with pytest.raises(UsageError, match="before it begins"):
        filters_from(args(from_="2026-08-03", to="2026-08-01"), TODAY)


@pytest.mark.parametrize(
    ("now", "before", "text"),
    [
        (10, 0, "new"),
        (0, 0, ""),
        (10, None, ""),
        (15, 10, "+50 %"),
        (5, 10, "\N{MINUS SIGN}50 %"),
        (10.01, 10, "same"),
        (36_977_940, 1000, "\N{MULTIPLICATION SIGN}36,978"),
        (0, 10, "\N{MINUS SIGN}100 %"),
    ],
)
def test_a_change_is_said_in_proportion(now: float, before: float | None, text: str) -> None:
    short, words = figures.change(now, before, "the week before")
    assert short == text
    assert bool(words) == bool(text)


@pytest.mark.parametrize(
    ("days", "step", "bars"),
    [(1, "day", 1), (30, "day", 30), (365, "week", 53), (900, "month", 30)],
)
def test_a_period_becomes_bars_that_can_be_seen(days: int, step: str, bars: int) -> None:
    first = date.fromordinal(TODAY.toordinal() - days + 1)
    found, parts = buckets(Filters(first, TODAY), [])
    assert found == step
    assert len(parts) == bars
    covered = [day for one in parts for day in one.days]
    assert (covered[0], covered[-1], len(covered)) == (first, TODAY, days)


# -- charts ----------------------------------------------------------------------------------------


def test_a_name_keeps_its_colour_whatever_else_is_shown() -> None:
    known = ["a", "b", "c", "d", "e", "f", "g", "h"]
    assert charts.colours(["c"], known)["c"] == charts.colours(["a", "b", "c"], known)["c"]
    both = charts.colours(["a", "h"], known)
    assert both["a"] != both["h"]
    many = charts.colours(known, known)
    assert len(many) == charts.SERIES
    assert len(set(many.values())) == charts.SERIES


def test_charts_escape_every_text_and_have_no_styles() -> None:
    bad = '"><script>alert(1)</script>'
    drawn = charts.stacked_bars([charts.Bar(bad, [charts.Part("s1", 1, bad, bad)])], units.money)
    drawn += charts.calendar({TODAY: 1.0}, TODAY, TODAY, lambda *_: bad, lambda _: bad)
    drawn += charts.hours({(1, 1): 1.0}, lambda *_: bad, lambda *_: bad)
    assert "<script" not in drawn
    assert "style=" not in drawn


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf"), 1e300, 1e-9])
def test_charts_are_drawn_whatever_the_numbers(value: float) -> None:
    drawn: Any = charts.stacked_bars([charts.Bar("x", [charts.Part("s1", value, "t")])], str)
    drawn += charts.spark([value, None, value])
    drawn += charts.share_bar(value, "s1")
    drawn += charts.hours({(1, 1): value}, lambda *_: "", lambda *_: "")
    assert "nan" not in re.sub("<title>.*?</title>|<text.*?</text>", "", drawn)
    assert 'height="inf"' not in drawn


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "\N{EN DASH}"),
        (0, "$0.00"),
        (0.004, "<$0.01"),
        (3.456, "$3.46"),
        (12345.6, "$12,346"),
    ],
)
def test_money(value: float | None, text: str) -> None:
    assert units.money(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.99999, ">99.9 %"), (1, "100 %"), (0.0001, "<0.1 %"), (0, "0 %"), (0.5, "50 %")],
)
def test_a_share_is_not_rounded_to_all_or_nothing(value: float, text: str) -> None:
    assert units.share(value) == text


def test_units() -> None:
    assert [units.tokens(n) for n in (812, 1234, 3_400_000, 2.1e9)] == [
        "812",
        "1.2k",
        "3.4M",
        "2.1B",
    ]
    assert [units.duration(n) for n in (0.028, 0.8, 12, 125, 3900, 97200)] == [
        "28 ms",
        "0.8 s",
        "12 s",
        "2 m 05 s",
        "1 h 05 m",
        "1 d 03 h",
    ]
