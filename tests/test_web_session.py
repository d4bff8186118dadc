"""The page of a session: everything that was said and done, part by part, with right numbers."""

from __future__ import annotations

import re
from contextlib import closing
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest

from builder import World as Files
from builder import fork, text, thinking, tool_use, usage
from ctxdb.session.load import Detail, load_conversation
from ctxdb.store.connection import open_reader
from ctxdb.web import units
from demo_db import demo_folder
from hostile import HOSTILE, MARKUP
from readlab import fill, unsafe
from weblab import Client, served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from world import World

NESTED = "8e52f546-6280-48f3-b12a-7dd9f0a85ff6"  # a session of the demo with agents in agents


@pytest.fixture
def files() -> Files:
    return Files()


@pytest.fixture(scope="module")
def demo() -> Path:
    return demo_folder() / "demo.db"


@pytest.fixture(scope="module")
def client(demo: Path) -> Iterator[Client]:
    with served(demo) as one:
        yield one


def page_of(session: str, path: str = "") -> str:
    return f"/-/ctxdb/session/{session}{path}"


class Html(HTMLParser):
    """A page as a browser takes it: balanced tags, no handler, no script that is not a file."""

    VOID = frozenset({"meta", "link", "input", "br", "hr"})

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.text = ""
        self.ids: list[str] = []
        self.links: list[tuple[str, str]] = []
        self.later: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []
        assert len(self.ids) == len(set(self.ids))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        assert not any(name.startswith("on") or name == "style" for name in values), attrs
        assert tag not in {"iframe", "object", "embed", "base", "svg", "math", "img", "style"}, tag
        if tag == "script":
            assert values.keys() >= {"src"}, "an inline script"
        if "id" in values:
            self.ids.append(values["id"])
        if tag == "a":
            self.links.append((values.get("href", ""), values.get("rel", "")))
            if values.get("class") == "later":
                self.later.append(values["href"])
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.open[-1] != tag and self.open[-1] in ("li", "p", "dt", "dd"):
            self.open.pop()
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def opened(client: Client, url: str, seen: set[str] | None = None) -> str:
    """The text of a page and of all parts that it has links to."""
    reply = client.get(url)
    assert reply.status == 200, (url, reply.text[:500])
    assert unsafe(reply.text) == []
    found = Html(reply.text)
    seen = set() if seen is None else seen
    words = found.text
    rest = [href for href in found.later if href not in seen]
    seen.update(rest)
    calls = [href for href in rest if "/calls?ids=" in href and "all=" not in href]
    if calls:  # all in one request, as the script of the page does
        numbers = ",".join(href.partition("ids=")[2] for href in calls)
        path, _, _ = calls[0].partition("?")
        rest = [href for href in rest if href not in calls] + [f"{path}?ids={numbers}"]
    for href in rest:
        words += opened(client, href + ("&" if "?" in href else "?") + "part=1", seen)
    return words


# -- the page --------------------------------------------------------------------------------------


def test_the_page_shows_prompts_replies_calls_and_facts(client: Client) -> None:
    page = client.get(page_of(NESTED))
    assert page.status == 200
    found = Html(page.text)
    for word in (
        "Fix parcels lost on restart", "FER-212: parcels vanish", "I'll read the ticket first.",
        "ferry", "fix/lost-parcels", "claude-opus-5", "Claude Code 2.1.221", "Files changed",
        f"claude --resume {NESTED}", "Trace queue persistence",
    ):  # fmt: skip
        assert word in found.text
    assert {"turn-1", "turn-2", "contents", "facts", "resume"} <= set(found.ids)
    assert ("#turn-2", "") in found.links


def test_every_session_of_the_demo_has_a_page(client: Client, demo: Path) -> None:
    with closing(open_reader(demo)) as conn:
        sessions = [one for (one,) in conn.execute("SELECT id FROM sessions")]
    for session in sessions:
        reply = client.get(page_of(session))
        assert reply.status == 200
        Html(reply.text)


def test_the_beginning_of_an_id_leads_to_the_page(client: Client) -> None:
    reply = client.get(page_of("8e52"))
    assert (reply.status, reply.headers["location"]) == (302, page_of(NESTED))


@pytest.mark.parametrize(
    "path", ["nothing-here", "..%2f..%2fetc%2fpasswd", "%00", "%ff", f"{NESTED}/turn/99",
             f"{NESTED}/calls?ids=99999999", f"{NESTED}/calls", f"{NESTED}/agent?id=no",
             f"{NESTED}/../{NESTED}"]
)  # fmt: skip
def test_what_is_not_there_is_not_found(client: Client, path: str) -> None:
    assert client.get(page_of(path)).status == 404


def test_numbers_are_those_of_the_views(client: Client, demo: Path) -> None:
    with closing(open_reader(demo)) as conn:
        sessions = [one for (one,) in conn.execute("SELECT id FROM sessions")]
        turns = _rows(conn, "SELECT * FROM turns_overview")
        totals = {row["session_id"]: row for row in _rows(conn, "SELECT * FROM usage_by_session")}
        for session in sessions:
            found = load_conversation(conn, session, Detail())
            own = {one.turn_id: one for one in found.exchanges if not one.is_copied and one.turn_id}
            views = {row["turn_id"]: row for row in turns if row["session_id"] == session}
            assert own.keys() == views.keys()
            for turn_id, one in own.items():
                view = views[turn_id]
                assert (one.tokens, one.errors) == (view["total_tokens"], view["errors"])
                assert (one.cost or 0) / 1e12 == pytest.approx(view["cost_usd"] or 0)
            if session in totals:
                assert found.tokens == totals[session]["total_tokens"]
                page = Html(client.get(page_of(session)).text).text
                assert units.money(totals[session]["cost_usd"]) in page
                assert units.tokens(totals[session]["total_tokens"]) in page


def _rows(conn: Any, sql: str) -> list[dict[str, Any]]:
    cursor = conn.execute(sql)
    names = [name for name, *_ in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def test_each_turn_links_to_its_rows_and_sql(client: Client) -> None:
    links = [href for href, _ in Html(client.get(page_of(NESTED)).text).links]
    [rows, *_] = [href for href in links if "/messages?turn_id=" in href]
    [sql, *_] = [href for href in links if "sql=SELECT" in href and "turn_id=" in href]
    assert client.get(rows).status == 200
    assert client.get(sql).status == 200


def test_a_fork_links_to_its_parent_and_the_parent_to_the_fork(world: World, files: Files) -> None:
    one = files.session()
    one.prompt("the first words")
    one.reply(text("done"))
    new = fork(one, says_so=True, renew=False)
    new.prompt("another way")
    new.reply(text("done too"))
    fill(world, files)
    with served(world.db) as client:
        forked, first = client.get(page_of(new.session)), client.get(page_of(one.session))
    assert (page_of(one.session), "") in Html(forked.text).links
    assert (page_of(new.session), "") in Html(first.text).links
    assert "turn-c1" in Html(forked.text).ids


# -- parts -----------------------------------------------------------------------------------------


def test_a_part_has_no_frame_and_a_page_without_script_has_one(client: Client) -> None:
    part = client.get(page_of(NESTED, "/turn/1?part=1")).text
    assert "<html" not in part
    assert part.lstrip().startswith('<section id="turn-1"')
    whole = client.get(page_of(NESTED, "/turn/1")).text
    assert "<html" in whole
    assert page_of(NESTED) in [href for href, _ in Html(whole).links]


def test_all_parts_of_every_page_can_be_fetched(client: Client, demo: Path) -> None:
    words = opened(client, page_of(NESTED))
    assert "Nowhere: Queue.items lives in memory only" in words  # the result of an agent
    assert "package relay" in words  # of a file that the agent read


def test_a_call_shows_what_suits_its_tool(world: World, files: Files) -> None:
    one = files.session()
    one.prompt("do it")
    one.tool("Bash", {"command": "make test"}, "\x1b[32mok\x1b[0m 3 passed")
    edit = {"file_path": "/a.py", "old_string": "limit = 1", "new_string": "limit = 2"}
    one.tool("Edit", edit, "done")
    one.tool("Read", {"file_path": "/a.py"}, "     1→import os\n     2→x = 1")
    one.tool("Write", {"file_path": "/b.py", "content": "import sys\n"}, "done")
    one.tool("TodoWrite", {"todos": [{"content": "Sweep", "status": "in_progress"}]}, "ok")
    one.tool("ExitPlanMode", {"plan": "# The plan\n\n- step\n" + "x" * 200}, "approved")
    fill(world, files)
    ids = ",".join(str(id_) for (id_,) in world.ask("SELECT id FROM tool_uses"))
    with served(world.db) as client:
        html = client.get(page_of(one.session, f"/calls?ids={ids}&part=1")).text
    for piece in (
        '<span class="ansi-2">ok</span> 3 passed',
        "limit = <b>2</b>",
        '<span class="line-number">1</span><span class="hl-keyword">import</span>',
        '<div class="written"><pre><code><span class="hl-keyword">import</span>',
        "Sweep <small>in progress</small>",
        "<h4>The plan</h4>",
    ):
        assert piece in html


def test_long_results_are_cut_and_can_be_shown_whole(world: World, files: Files) -> None:
    one = files.session()
    one.prompt("print much")
    one.tool("Bash", {"command": "seq"}, "\n".join(f"line {n}" for n in range(2000)))
    fill(world, files)
    ((id_,),) = world.ask("SELECT id FROM tool_uses")
    with served(world.db) as client:
        cut = client.get(page_of(one.session, f"/calls?ids={id_}&part=1")).text
        [more] = Html(cut).later
        whole = client.get(f"{more}&part=1").text
    assert "Show all (19 kB)" in cut
    assert "line 1999" not in cut
    assert "line 1999" in whole
    assert Html(cut).ids == Html(whole).ids == [f"call-{id_}-body"]


def test_images_are_named(world: World, files: Files) -> None:
    one = files.session()
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "A" * 4000},
    }
    one.prompt([{"type": "text", "text": "what is this?"}, image])
    one.reply(text("a cat"))
    fill(world, files)
    with served(world.db) as client:
        assert "image: image/png, 3.0 kB" in Html(client.get(page_of(one.session)).text).text


def long_session(files: Files, turns: int = 40, steps: int = 60, every: int = 1) -> Any:
    """The steps of 40 requests; only every n-th request has all of them, others a third."""
    one = files.session()
    for turn in range(turns):
        one.prompt(f"request {turn} " + "many words " * 20)
        for step in range(steps if turn % every == 0 else steps // 3):
            one.reply(text(f"Step {step}: **done** with `it`.\n\n- one\n- two\n"))
            one.tool("Bash", {"command": f"run {turn} {step}"}, "output\n" * 50)
        one.reply(text(f"All of request {turn} is done."))
    return one


@pytest.fixture(scope="module")
def long_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, str]]:
    from ctxdb.config import Config
    from ctxdb.ingest.sync import sync
    from ctxdb.progress import NullProgress

    folder = tmp_path_factory.mktemp("long")
    files = Files()
    one = long_session(files, every=13)
    files.write(folder / "projects")
    sync(Config(folder / "long.db", (str(folder / "projects"),)), progress=NullProgress())
    with served(folder / "long.db") as client:
        yield client, one.session


def test_a_long_session_comes_in_parts(long_client: tuple[Client, str]) -> None:
    client, session = long_client
    reply = client.get(page_of(session))
    assert len(reply.body) < 400_000
    found = Html(reply.text)
    assert {f"turn-{n}" for n in range(1, 41)} <= set(found.ids)
    assert len(found.later) > 30
    words = ""
    for n in (1, 27, 40):
        words += opened_turn(client, session, n)
    for n in (0, 26, 39):
        assert f"All of request {n} is done." in words
    assert words.count("Step 59: done with it.") == 3


def opened_turn(client: Client, session: str, number: int) -> str:
    """The text of a turn, all its parts one after the other."""
    url, words = page_of(session, f"/turn/{number}?part=1"), ""
    while url:
        found = Html(client.get(url).text)
        words += found.text
        rest = [href for href in found.later if "start=" in href]
        url = f"{rest[0]}&part=1" if rest else ""
    return words


def test_places_have_the_ids_of_what_belongs_there(long_client: tuple[Client, str]) -> None:
    client, session = long_client
    page = client.get(page_of(session)).text
    for anchor, href in re.findall(
        r'<section id="([\w-]+)" class="turn waiting">.*?<a class="later"[^>]* href="([^"]+)"',
        page,
        re.DOTALL,
    )[:3]:
        assert Html(client.get(f"{href}?part=1").text).ids[0] == anchor


def test_a_long_prompt_is_cut_and_can_be_shown_whole(world: World, files: Files) -> None:
    one = files.session()
    one.prompt("first " + "words " * 3000 + "last")
    fill(world, files)
    with served(world.db) as client:
        page = client.get(page_of(one.session)).text
        [more] = [href for href in Html(page).later if "prompt=1" in href]
        assert "words last" not in page
        assert "words last" in client.get(f"{more}&part=1").text


# -- search and news -------------------------------------------------------------------------------


def test_words_are_found_in_the_session(client: Client) -> None:
    reply = client.get(page_of(NESTED, "/find?q=parcels"))
    assert "<mark>parcels</mark>" in reply.text
    assert any(href.startswith(f"{page_of(NESTED)}#turn-1") for href, _ in Html(reply.text).links)
    nothing = client.get(page_of(NESTED, "/find?q=zebra&part=1")).text
    assert "Nothing in this session has these words" in nothing


def test_a_live_session_gives_what_is_new(world: World, files: Files) -> None:
    one = files.session()
    one.prompt("begin")
    call = tool_use(files, "Bash", {"command": "sleep 5"})
    one.reply(call)
    fill(world, files)
    with served(world.db) as client:
        page = client.get(page_of(one.session)).text
        [version] = re.findall(r'data-version="([^"]*)"', page)
        same = client.get(page_of(one.session, f"/live?version={version}&turn=1&start=0")).text
        assert Html(same).ids == ["live"]
        one.result(call["id"], "slept")
        one.reply(text("It has slept."))
        one.prompt("and now?")
        one.reply(text("Nothing."))
        fill(world, files)
        news = client.get(page_of(one.session, f"/live?version={version}&turn=1&start=0")).text
    found = Html(news)
    for anchor in ("live", "contents", "facts", "turn-1-head", "turn-1-from-0", "turn-2"):
        assert anchor in found.ids
    assert "turn-1" not in found.ids  # the page keeps its section
    assert "call-pending" not in news
    assert "It has slept." in found.text
    assert "and now?" in found.text


# -- hostile transcripts ---------------------------------------------------------------------------


def hostile_session(files: Files, payload: str) -> Any:
    """A session in which everything that can be said is the payload."""
    one = files.session(cwd=f"/evil/{payload}", branch=payload, version=payload)
    one.extra = {"slug": payload}
    one.custom_title(payload)
    image = {"type": "image", "source": {"type": "base64", "media_type": payload, "data": "AAAA"}}
    one.prompt([text(payload), image])
    said = f"# {payload}\n\n- {payload}\n\n```{payload}\n{payload}\n```"
    one.reply(thinking(payload), text(said), model=payload, usage=usage(5))
    for name in ("Bash", "Read", "Grep", "WebFetch", "ExitPlanMode", payload):
        fields = {"command": payload, "file_path": payload, "plan": payload, payload: [payload]}
        one.tool(name, fields, f"     1→{payload}\n{payload}")
    one.tool("Edit", {"file_path": payload, "old_string": payload, "new_string": f"x{payload}"})
    one.tool("Write", {"file_path": payload, "content": payload})
    todo = {"content": payload, "status": payload}
    one.tool("TodoWrite", {"todos": [todo, payload]})
    question = {
        "question": payload,
        "options": [{"label": payload, "description": payload}, payload],
    }
    one.tool("AskUserQuestion", {"questions": [question, payload]}, f"the user said: {payload}")
    call = tool_use(files, "Task", {"prompt": payload, "description": payload})
    one.reply(call)
    agent = one.agent_file("abc1234", meta={"agentType": payload, "description": payload})
    agent.prompt(payload)
    agent.reply(text(payload))
    one.result(call["id"], payload, {"agentId": "abc1234", "status": "completed"})
    one.prompt(payload, isMeta=True)
    one.system("informational", content=payload)
    one.prompt(f"<local-command-stdout>{payload}</local-command-stdout>")
    one.command("/evil", payload)
    return one


def test_case_101_hostile_text_in_every_field_stays_inert(world: World, files: Files) -> None:
    """All texts at once, and every sixth alone, in every field; test_render has every text."""
    texts = hostile_texts()
    must_stay_inert(world, files, ["\n\n".join(texts), *texts[::6]])


@pytest.mark.slow
def test_case_101_every_hostile_text_in_every_field_stays_inert(world: World, files: Files) -> None:
    must_stay_inert(world, files, hostile_texts())


def hostile_texts() -> list[str]:
    payloads = {**HOSTILE, **MARKUP}
    del payloads["half of a pair"]  # no JSON of a client has it as text; test_render has it
    assert len(payloads) >= 30
    return list(payloads.values())


def must_stay_inert(world: World, files: Files, payloads: list[str]) -> None:
    sessions = [hostile_session(files, payload).session for payload in payloads]
    fill(world, files)
    with served(world.db) as client:
        for session in sessions:
            words = opened(client, page_of(session))
            assert "Turn 1" in words
            for url in ("/find?q=evil", "/find?q=script&part=1", "/live?version=&turn=1&start=0"):
                Html(client.get(page_of(session, url)).text)
