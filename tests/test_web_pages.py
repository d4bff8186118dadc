"""Lists, search, files, projects, models, commits and Ask: what they show, and that it is inert."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from builder import World as Files
from ctxdb.store import sql_files
from ctxdb.web.reading import Database
from ctxdb.web.routes import ROUTES
from demo_db import demo_folder
from hostile import HOSTILE, MARKUP
from readlab import fill
from test_web_session import hostile_session
from weblab import Client, served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from world import World

OUR_TAGS = frozenset(
    [
        "html",
        "head",
        "meta",
        "title",
        "link",
        "script",
        "body",
        "a",
        "header",
        "nav",
        "form",
        "input",
        "button",
        "main",
        "footer",
        "h1",
        "h2",
        "h3",
        "p",
        "span",
        "div",
        "ul",
        "ol",
        "li",
        "dl",
        "dt",
        "dd",
        "table",
        "caption",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "section",
        "details",
        "summary",
        "label",
        "select",
        "option",
        "time",
        "code",
        "svg",
        "rect",
        "line",
        "text",
        "polyline",
        "mark",
        "blockquote",
        "br",
        "del",
        "ins",
        "pre",
        "i",
        "b",
        "em",
        "small",
        "kbd",
        "figure",
        "figcaption",
        "strong",
    ]
)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with served(demo_folder() / "demo.db") as one:
        yield one


@pytest.fixture(scope="module")
def db() -> Iterator[Database]:
    one = Database(demo_folder() / "demo.db")
    yield one
    one.close()


class Inert(HTMLParser):
    """Fails at everything on a page that could act: handlers, styles, frames, foreign addresses."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.links: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in OUR_TAGS, (tag, attrs)
        values = {name: value or "" for name, value in attrs}
        assert not any(name.startswith("on") or name in ("style", "srcdoc") for name in values)
        for name in ("href", "src", "action"):
            if name in values:
                assert re.match(r"/(?!/)|#", values[name]), values
        if tag == "script":
            assert values["src"].startswith("/-/ctxdb/static/")
        if tag == "meta":
            assert "http-equiv" not in values
        if tag == "a":
            self.links.append(values["href"])

    def handle_data(self, data: str) -> None:
        self.text += data


def shown(client: Client, url: str, status: int = 200) -> Inert:
    reply = client.get(url)
    assert reply.status == status, (url, reply.text[-1500:])
    return Inert(reply.text)


# -- the list of sessions --------------------------------------------------------------------------


def test_the_list_has_every_session_newest_first(client: Client, db: Database) -> None:
    rows = db.ask("sessions_overview")
    page = shown(client, "/-/ctxdb/sessions")
    ids = [link.rpartition("/")[2] for link in page.links if "/session/" in link]
    assert ids == [row["session_id"] for row in rows][:50]
    assert f"{len(rows)} sessions" in page.text


@pytest.mark.parametrize("sort", ["-cost_usd", "title", "turns", "-started_at"])
def test_the_list_is_sorted_as_asked(client: Client, db: Database, sort: str) -> None:
    rows = db.ask("sessions_overview", sort=sort, limit=50)
    page = shown(client, f"/-/ctxdb/sessions?sort={sort}")
    ids = [link.rpartition("/")[2] for link in page.links if "/session/" in link]
    assert ids == [row["session_id"] for row in rows]


def test_an_unknown_order_is_ignored(client: Client) -> None:
    shown(client, "/-/ctxdb/sessions?sort=-(SELECT 1)")


def test_a_list_without_rows_says_what_to_do(client: Client) -> None:
    page = shown(client, "/-/ctxdb/sessions?from=2031-01-01&to=2031-01-02")
    assert "Show all sessions" in page.text


# -- search ----------------------------------------------------------------------------------------


def test_hits_are_shown_in_context_and_lead_to_their_turn(client: Client) -> None:
    reply = client.get("/-/ctxdb/search?q=queue")
    assert "<mark>queue</mark>" in reply.text.lower()
    assert any(re.search(r"/session/[0-9a-f-]+#turn-\d+", link) for link in Inert(reply.text).links)


def test_a_search_can_be_narrowed(client: Client) -> None:
    everything = client.get("/-/ctxdb/search?q=queue").text
    prompts = client.get("/-/ctxdb/search?q=queue&kind=human").text
    nothing = client.get("/-/ctxdb/search?q=queue&from=2031-01-01&to=2031-01-02").text
    assert len(prompts) < len(everything)
    assert "Nothing was found" in nothing
    assert "Search everything" in nothing


def test_a_misspelt_word_gets_a_suggestion(client: Client) -> None:
    assert "Did you mean" in client.get("/-/ctxdb/search?q=queeue").text


@pytest.mark.parametrize("text", ['"', "(", "NOT", "a AND", "*", "%00", "'", "\\", "-", "a NEAR b"])
def test_any_search_text_is_answered(client: Client, text: str) -> None:
    assert client.get(f"/-/ctxdb/search?q={quote(text)}").status in (200, 400)


# -- one thing -------------------------------------------------------------------------------------


def test_a_file_shows_each_change_with_its_prompt_and_diff(client: Client, db: Database) -> None:
    (row, *_) = db.sql(
        "SELECT path, count(*) AS n FROM files_touched WHERE operation = 'edit' AND succeeded = 1"
        " GROUP BY path ORDER BY n DESC"
    )
    reply = client.get(f"/-/ctxdb/file?path={quote(row['path'])}")
    page = Inert(reply.text)
    assert "Show the change" in page.text
    assert "<ins" in reply.text
    edits = db.ask("file_activity")
    (known,) = [one for one in edits if one["path"] == row["path"]]
    assert f"Changes{known['edits']}" in re.sub(r"\s", "", page.text)


def test_a_part_of_a_path_lists_the_files(client: Client) -> None:
    assert "sync.ts" in shown(client, "/-/ctxdb/file?path=sync.ts").text


def test_a_project_shows_only_its_own(client: Client, db: Database) -> None:
    page = shown(client, "/-/ctxdb/project?name=lantern&period=all")
    (row,) = db.ask("usage_by_project", project="lantern")
    from ctxdb.web import units

    assert units.money(row["cost_usd"]) in page.text
    assert row["repo_path"] in page.text


def test_choosing_another_project_leads_to_its_page(client: Client) -> None:
    reply = client.get("/-/ctxdb/project?name=lantern&project=ferry&period=all")
    assert reply.status == 302
    assert "name=ferry" in reply.headers["location"]


def test_a_model_says_how_it_is_priced(client: Client) -> None:
    assert "Priced as" in shown(client, "/-/ctxdb/model?name=claude-opus-5&period=all").text


def test_a_commit_is_found_by_its_beginning(client: Client, db: Database) -> None:
    (row, *_) = db.ask("commits")
    sha = row["sha"]
    assert (row["subject"] or "") in shown(client, f"/-/ctxdb/commit?sha={sha[:5]}").text
    assert (row["subject"] or "") in shown(client, f"/-/ctxdb/commit?sha={sha}{'0' * 30}").text


@pytest.mark.parametrize(
    "path",
    [
        "commit",
        "commit?sha=zz",
        "commit?sha=0000000",
        "pr",
        "pr?number=x",
        "pr?number=999999",
        "file",
        "file?path=/no/such/file",
        "project",
        "model",
        "ask/no_such_question",
        "rows/no_such_view",
        "session/no-such-session",
    ],
)
def test_what_is_not_there_is_said_in_words(client: Client, path: str) -> None:
    reply = client.get(f"/-/ctxdb/{path}")
    assert reply.status in (400, 404)
    assert "Traceback" not in reply.text
    assert len(Inert(reply.text).text) > 100


# -- Ask -------------------------------------------------------------------------------------------

NEEDED = {"path": "src", "text": "queue", "sha": "0000", "pr": "1"}


@pytest.mark.parametrize("name", [*sql_files.names("view"), *sql_files.names("query")])
def test_every_question_has_a_page(client: Client, name: str) -> None:
    file = sql_files.find(name)
    assert file
    given = "&".join(f"{one.name}={NEEDED[one.name]}" for one in file.params if not one.default)
    since = "&since=all" if "since" in file.filters else ""
    page = shown(client, f"/-/ctxdb/ask/{name}?{given}{since}")
    assert file.question in page.text


def test_a_question_asks_for_what_is_missing(client: Client) -> None:
    page = shown(client, "/-/ctxdb/ask/sessions_touching")
    assert "Path is needed" in page.text


def test_days_without_rows_have_a_place_in_the_chart() -> None:
    from ctxdb.web.answer_chart import _with_all_days

    filled = _with_all_days({"2026-08-01": 1.0, "2026-08-04": 2.0})
    assert list(filled) == ["2026-08-01", "2026-08-02", "2026-08-03", "2026-08-04"] or sorted(
        filled
    ) == ["2026-08-01", "2026-08-02", "2026-08-03", "2026-08-04"]
    assert len(_with_all_days({"2020-01-01": 1.0, "2026-08-04": 2.0})) == 80


# -- hostile transcripts ---------------------------------------------------------------------------


def test_case_101_hostile_text_on_every_page_stays_inert(world: World) -> None:
    """All texts are in the transcripts and, together, in every field; every fourth alone."""
    must_stay_inert(world, every=4)


@pytest.mark.slow
def test_case_101_each_hostile_text_in_a_field_stays_inert(world: World) -> None:
    must_stay_inert(world, every=1)


def must_stay_inert(world: World, every: int) -> None:
    files = Files()
    payloads = {**HOSTILE, **MARKUP}
    del payloads["half of a pair"]  # no JSON of a client has it as text
    assert len(payloads) >= 30
    for payload in payloads.values():
        hostile_session(files, payload)
    fill(world, files)
    with served(world.db) as client:
        for path in (
            "?period=all",
            "?period=all&by=model",
            "/sessions",
            "/sessions?sort=title",
            "/search?q=script",
            "/search?q=evil",
            "/ask/usage_by_project",
            "/ask/usage_by_model",
            "/ask/sessions_overview",
            "/ask/prompts?since=all",
            "/ask/bash_commands?since=all",
            "/ask/file_history?since=all",
            "/ask/tool_stats",
        ):
            shown(client, f"/-/ctxdb{path}")
        # All texts at once in every field, and each text alone in one field after the other.
        together = quote(" ".join(payloads.values()))
        alone = [quote(payload) for payload in payloads.values()]
        for nth, text in enumerate([together, *alone[::every]]):
            paths = (
                f"/search?q={text}",
                f"/file?path={text}",
                f"/project?name={text}",
                f"/model?name={text}",
                f"/commit?sha={text}",
                f"/pr?number={text}",
                f"?project={text}",
                f"?period={text}&from={text}",
                f"/sessions?sort={text}&who={text}",
                f"/ask/sessions_touching?path={text}",
                f"/rows/sessions_overview?project={text}",
            )
            for path in paths if text is together else [paths[nth % len(paths)]]:
                reply = client.get(f"/-/ctxdb{path}")
                assert reply.status in (200, 302, 400, 404), (path, reply.text[-1500:])
                if reply.status != 302:
                    Inert(reply.text)


@pytest.mark.parametrize(
    "tried",
    [
        "../../etc/passwd",
        "..%2f..%2fetc%2fpasswd",
        pytest.param("%2e%2e/%2e%2e/etc/passwd", marks=pytest.mark.slow),
        pytest.param("..%5c..%5cetc", marks=pytest.mark.slow),
        pytest.param("/etc/passwd", marks=pytest.mark.slow),
        "%00",
        "%ff%fe",
        "a" * 5000,
    ],
)
def test_case_101_no_route_leads_to_a_file(client: Client, tried: str) -> None:
    for route in ROUTES:
        path = re.sub(r"\(\?P<\w+>[^)]*\)", lambda _: tried, route.pattern).rstrip("?")
        for url in (f"/-/ctxdb{path}", f"/-/ctxdb{path}/{tried}", f"/-/ctxdb{path}?path={tried}"):
            reply = client.get(url)
            assert reply.status in (200, 302, 400, 404), (url, reply.text[-500:])
            assert "root:x:" not in reply.text
