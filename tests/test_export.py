"""`ctxdb export`: files that others can read, that do nothing, and that are private at first."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import sqlite3
import stat
import subprocess
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from builder import World as Files
from builder import copy_to, dumps, fork, text
from ctxdb.render.markdown import blocks
from ctxdb.session.conversation import Call, Conversation, Exchange, Passage
from ctxdb.session.find import find_session
from ctxdb.session.html_format import html_page
from ctxdb.session.load import Detail, load_conversation
from ctxdb.session.markdown_format import fence_for, markdown
from ctxdb.store.connection import open_reader
from in_process import Here
from readlab import fill, on_terminal, unsafe
from test_show import a_day, hostile_session
from viewlab import demo_database
from world import RUN, World

GOLDEN = Path(__file__).parent / "data/reading"
EVERYTHING = Detail(tools=True, thinking=True, agents=True)


@pytest.fixture
def world(world: World) -> World:
    return Here(world.root, world.db)


@pytest.fixture
def files() -> Files:
    return Files()


def read(db: Path, session: str) -> Conversation:
    with closing(open_reader(db)) as conn:
        return load_conversation(conn, find_session(conn, session), EVERYTHING)


def page_of(found: Conversation) -> str:
    return "".join(html_page(found))


def markdown_of(found: Conversation) -> str:
    return "".join(f"{line}\n" for line in markdown(found))


def a_conversation(*texts: str) -> Conversation:
    """A session in which everything that can be said is one of these texts."""
    made = Conversation(
        "s", texts[0], texts[0], texts[0], None, None, None, None, None, None, None, None
    )
    for one in texts:
        call = Call(1, "t", one, one, "ok", 5, None, json.dumps({one: one}), one, one)
        change = json.dumps({"old_string": one, "new_string": one[::-1]})
        edit = Call(2, "u", "Edit", one, "ok", 5, None, change)
        roles = ("prompt", "reply", "output", "note", "context")
        said = [Passage(role, one, thinking=one, label=one) for role in roles]
        made.exchanges.append(Exchange(1, 1, "prompt", one, None, None, items=[*said, call, edit]))
    return made


# -- golden ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo_database(tmp_path_factory.mktemp("export"))


@pytest.mark.parametrize("name", ["nested-agents.html", "nested-agents.md", "fork.md"])
def test_the_demo_is_written_as_it_was_checked(demo: Path, name: str) -> None:
    found = read(demo, {"nested-agents": "8e52f546", "fork": "06e67866"}[name.partition(".")[0]])
    made = page_of(found) if name.endswith("html") else markdown_of(found)
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(made, encoding="utf-8")
    assert made == path.read_text(encoding="utf-8")


def test_every_session_of_the_demo_can_be_exported(demo: Path) -> None:
    with closing(open_reader(demo)) as conn:
        for (session,) in conn.execute("SELECT id FROM sessions").fetchall():
            found = load_conversation(conn, session, EVERYTHING)
            check_page(page_of(found))
            assert session in markdown_of(found)


# -- HTML ------------------------------------------------------------------------------------------

VOID = {"meta", "br", "hr"}
TAGS = frozenset(
    ["html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "h3", "h4", "dl", "dt",
     "dd", "nav", "details", "summary", "ol", "li", "a", "main", "section", "div", "p", "pre",
     "code", "b", "small", "strong", "span", "table", "tr", "th", "td", "footer", "ins", "del",
     "time", "br", "hr", "em", "s", "ul", "blockquote", "thead", "tbody", "h5", "h6"]
)  # fmt: skip
ATTRIBUTES = {"class", "id", "href", "lang", "charset", "http-equiv", "content", "name", "title",
              "datetime", "rel", "tabindex", "start", "aria-hidden"}  # fmt: skip


class Page(HTMLParser):
    """Checks that tags are ours, balanced, and collects what a reader sees."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.text = ""
        self.links: list[str] = []
        self.metas: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, tag
        assert {name for name, _ in attrs} <= ATTRIBUTES, attrs
        values = dict(attrs)
        if tag == "a" and values.get("rel") == "noreferrer noopener nofollow":
            assert re.match(r"(?:https?|mailto):", values["href"] or "", re.IGNORECASE)
        else:
            self.links += [value or "" for name, value in attrs if name == "href"]
        if tag == "meta":
            self.metas.append(dict(attrs))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def handle_pi(self, data: str) -> None:
        raise AssertionError(data)


def check_page(page: str) -> Page:
    found = Page()
    found.feed(page)
    found.close()
    assert found.open == []
    assert all(re.fullmatch(r"#turn-c?\d+", link) for link in found.links)
    assert unsafe(page) == []
    return found


def test_a_page_loads_and_runs_nothing(world: World, files: Files) -> None:
    one = a_day(files)
    fill(world, files)
    page = page_of(read(world.db, one.session))
    found = check_page(page)
    policy = next(m["content"] for m in found.metas if m.get("http-equiv"))
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    for word in (
        "<script",
        "javascript:",
        "http://",
        "https://",
        "url(",
        "@import",
        "<img",
        "src=",
    ):
        assert word not in page
    assert "color-scheme: light dark" in page


def test_a_page_says_everything(world: World, files: Files) -> None:
    one = a_day(files)
    fill(world, files)
    text_ = check_page(page_of(read(world.db, one.session))).text
    for word in (
        "Tides of Brest", one.session, "why is the table", "Let me see.", "summer time, I bet",
        "src/clock.py", "def to_local(t): ...", "exit 2", "Find callers", "Only the tests.",
        "not there, please", "and mind the winter", "both", "Total cost: $1", "pending",
    ):  # fmt: skip
        assert word in text_


def test_markdown_of_the_model_is_laid_out(files: Files) -> None:
    page = page_of(
        a_conversation(
            "# Title\n\nSome **bold** and `co<de>`:\n\n| a | b |\n|---|:-:|\n| 1 | `|` 2 |\n\n"
            "- item\n\n```python\nif a < b:\n    pass\n```\nafter"
        )
    )
    assert "<h4>Title</h4>" in page
    assert "<strong>bold</strong> and <code>co&lt;de&gt;</code>:" in page
    assert '<th>a</th><th class="center">b</th>' in page
    assert "<li>item</li>" in page
    assert 'if</span> a &lt; b:\n    <span class="hl-keyword">pass</span></code></pre>' in page
    check_page(page)


# Lines that patterns with two ways to read a space or a sign would look at n times n times.
@pytest.mark.parametrize(
    "line",
    [
        "a|b\n|" + "-" * 200_000 + "x|",
        "# a" + " " * 200_000 + "b",
        "**a " * 50_000,
        "`a ``b " * 30_000,
    ],
)
def test_long_lines_take_no_longer_than_long(line: str) -> None:
    made = page_of(a_conversation(line))
    assert made.endswith("</html>\n")


def test_headings_and_strong_words_are_marked() -> None:
    text_ = "## One #\n### Two ##  \n#none\na **b** **c d** **g"
    made = page_of(a_conversation(text_))
    assert "<h5>One</h5>" in made
    assert "<h6>Two</h6>" in made
    assert "<p>#none<br>\na <strong>b</strong> <strong>c d</strong> **g</p>" in made


def test_hostile_text_stays_text_in_a_page(world: World, files: Files) -> None:
    one = hostile_session(files)
    fill(world, files)
    found = check_page(page_of(read(world.db, one.session)))
    assert found.text.count("<script>alert(1)</script>") > 10
    assert found.text.count("</pre></details></section>") > 10


@given(st.lists(st.text(max_size=60), min_size=1, max_size=2))
@example(["<!-- ", "--> <!"])
@example(["```\n</pre><script>\n```"])
@example(["| <b> | **<i>** |\n|---|---|\n| `<a href=x>` |"])
@example(["**`**`** `**x** <`"])
@example(["&#60;script&#62; &lt;b&gt; ' \" onclick=x"])
def test_no_text_becomes_markup(texts: list[str]) -> None:
    check_page(page_of(a_conversation(*texts)))


def test_what_is_said_is_in_the_page_to_the_letter() -> None:
    text_ = "a <b> & \"c\" 'd' $HOME \\ / 漢字 🎉"
    assert check_page(page_of(a_conversation(text_))).text.count(text_) >= 8


# -- Markdown --------------------------------------------------------------------------------------

OUR_HTML = re.compile(r"<details><summary>[^<>]*</summary>|</details>|<code>|</code>")


def check_markdown(made: str, turns: int) -> None:
    """Rendered as CommonMark with tables it has no image and no HTML but ours, and our headings."""
    markdown_it = pytest.importorskip("markdown_it")
    tokens = markdown_it.MarkdownIt("commonmark").enable("table").parse(made)
    flat = [inner for token in tokens for inner in (token, *(token.children or ()))]
    for token in flat:
        assert token.type != "image", token
        if token.type in ("html_block", "html_inline"):
            assert OUR_HTML.sub("", token.content).strip() == "", token.content
    ours = [token for token in tokens if token.type == "heading_open" and token.level == 0]
    assert sum(token.tag == "h1" for token in ours) == 1
    assert sum(token.tag == "h2" for token in ours) == turns
    opened = sum(t.content.count("<details>") for t in tokens if t.type == "html_block")
    closed = sum(t.content.count("</details>") for t in tokens if t.type == "html_block")
    assert opened == closed > 0
    assert unsafe(made) == []


def test_hostile_text_does_nothing_in_markdown(world: World, files: Files) -> None:
    one = hostile_session(files)
    fill(world, files)
    found = read(world.db, one.session)
    check_markdown(markdown_of(found), len(found.exchanges) + bool(found.others))


PIECES = st.sampled_from(
    ["```", "~~~", "````", "`", "``", "\n", "\n\n", "    ", "- ", "> ", ">", "1. ", "# ", "---",
     "===", "<b>", "<img src=x>", "![a](http://e.x/p)", "![a][r]", "[r]: http://e.x", "<!--",
     "&lt;", "</details>", "<details>", "|", "\\", "a", " ", "\t", "*", "<http://e.x>",
     "x`<i>`y", "\r"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=14).map("".join))
@example("~~~ a`b\n<img src=x>")
@example(">```\n<b>\n")
@example("- ```\n  code\ntext <img src=x>\n```\n")
@example("a ` b\n` <img src=x> ` c")
@example("- a ` <img src=x>\n- ` b")
@example("    ```\n<b>")
@example("a\n---\nb\n===")
@example("`` ` `` <b> `![a](http://e.x/p)`")
@example("```\n`````\n```\n")
@example("```x`<i>`y")
def test_no_text_breaks_out_in_markdown(text_: str) -> None:
    check_markdown(markdown_of(a_conversation(text_ or "x")), 1)


@given(st.text(alphabet="`~a\n ", max_size=60))
def test_a_fence_is_longer_than_any_inside_of_it(text_: str) -> None:
    fence = fence_for(text_)
    assert fence not in text_
    assert set(fence) == {"`"}


@given(st.lists(PIECES, max_size=14).map("".join))
def test_blocks_lose_no_word(text_: str) -> None:
    found = "".join(block.lead + block.text + block.language for block in blocks(text_))
    assert sorted(found.replace("a", "\0")).count("\0") == text_.count("a")


# -- JSONL -----------------------------------------------------------------------------------------


def lines_of(world: World, session: str) -> list[bytes]:
    done = world.cli("export", session, "--format", "jsonl", "--no-sync")
    assert done.returncode == 0, done.stderr
    return done.stdout.encode("utf-8", "surrogateescape").splitlines()


def test_jsonl_is_the_transcripts_own_bytes(world: World, files: Files) -> None:
    one = a_day(files)
    one.raw(b"this is no JSON at all \xff\xfe")
    one.raw(b'{"type":"odd",  "spaces" : true}')
    new = fork(one, says_so=True, renew=True)
    fill(world, files)
    main = (world.root / one.path).read_bytes()
    agent = next(file for file in files.files if file.agent)
    assert lines_of(world, one.session) == (main + agent.data).splitlines()
    assert lines_of(world, new.session) == new.data.splitlines()


def test_jsonl_ends_with_the_last_line_taken_in(world: World, files: Files) -> None:
    one = a_day(files)
    fill(world, files)
    before = lines_of(world, one.session)
    with (world.root / one.path).open("ab") as file:
        file.write(b'{"type":"user","half a li')
    assert lines_of(world, one.session) == before


def test_jsonl_of_a_deleted_transcript_is_made_from_the_rows(
    world: World, files: Files, tmp_path: Path
) -> None:
    one = a_day(files)
    fill(world, files)
    (world.root / one.path).unlink()
    made = lines_of(world, one.session)
    agent = next(file for file in files.files if file.agent)
    kept = agent.data.splitlines()
    assert made[-len(kept) :] == kept  # its file is still there
    entries = [json.loads(line) for line in made[: -len(kept)]]
    assert all(entry["reconstructed"] for entry in entries)
    assert [entry["type"] for entry in entries] == [entry["type"] for entry in one.entries]
    again = World(tmp_path / "again", tmp_path / "again.db")
    again.file(one.path).write_bytes(b"".join(line + b"\n" for line in made[: -len(kept)]))
    again.file(agent.path).write_bytes(agent.data)
    again.sync()
    for sql in (
        "SELECT prompt, kind FROM turns ORDER BY ordinal",
        "SELECT name, target, status, result_text FROM tool_uses ORDER BY tool_use_id",
        "SELECT uuid, kind, text, thinking FROM messages ORDER BY uuid",
        "SELECT title, cwd, git_branch, version FROM sessions",
    ):
        assert again.ask(sql) == world.ask(sql)


def test_jsonl_of_a_rewritten_transcript_is_made_from_the_rows(world: World, files: Files) -> None:
    one = files.session()
    one.prompt("the words that were read")
    fill(world, files)
    (world.root / one.path).write_bytes(b'{"type":"user","message":"others"}\n' * 20)
    [line] = lines_of(world, one.session)
    assert json.loads(line)["message"] == {"role": "user", "content": "the words that were read"}
    done = world.cli("export", one.session, "--format", "jsonl", "--no-sync")
    assert "made from the database" in done.stderr


def test_jsonl_has_the_lines_of_a_copied_folder_once(world: World, files: Files) -> None:
    one = files.session()
    one.prompt("hello")
    twin = copy_to(one, "-home-ada-twin")
    twin.parent = one.parent
    twin.prompt("only here")
    fill(world, files)
    made = lines_of(world, one.session)
    assert sorted(made) == sorted(twin.data.splitlines())


def test_jsonl_of_a_session_in_the_file_of_another_is_its_lines(world: World, files: Files) -> None:
    one = files.session()
    one.prompt("hello")
    guest = one.prompt("from elsewhere", sessionId="abcdabcd-0000-4000-8000-000000000001")
    fill(world, files)
    assert lines_of(world, "abcdabcd") == [dumps(guest)]
    (world.root / one.path).unlink()
    [line] = lines_of(world, "abcdabcd")
    assert json.loads(line)["message"]["content"] == "from elsewhere"


def test_input_of_any_depth_is_exported(world: World, files: Files) -> None:
    one = files.session()
    one.prompt("go")
    deep: Any = "bottom"
    for _ in range(900):
        deep = [deep]
    one.tool("Bash", {"command": deep, "more": [[[]]]})
    fill(world, files)
    for format_ in ("md", "html", "jsonl"):
        assert world.cli("export", "last", "-f", format_).returncode == 0
    assert world.cli("show", "--tools").returncode == 0
    assert world.cli("search", "bottom").returncode == 0


# -- files -----------------------------------------------------------------------------------------


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def small(world: World, files: Files) -> World:
    one = files.session()
    one.prompt("hello there")
    one.reply(text("hello"))
    fill(world, files)
    return world


@pytest.mark.parametrize(
    ("name", "begins"),
    [("a.md", "# hello"), ("a.html", "<!doctype html>"), ("a.HTM", "<!doctype"), ("a.jsonl", "{"),
     ("a.txt", "# hello")],
)  # fmt: skip
def test_the_format_follows_from_the_name_of_the_file(
    small: World, tmp_path: Path, name: str, begins: str
) -> None:
    target = tmp_path / name
    done = small.cli("export", "last", "-o", target)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith(f"Wrote {target} (")
    assert target.read_text().startswith(begins)
    assert mode(target) == 0o600


def test_in_a_pipe_it_goes_to_standard_output(small: World) -> None:
    assert small.cli("export", "last").stdout.startswith("# hello there\n")
    assert small.cli("export", "last", "-o", "-", "-f", "html").stdout.startswith("<!doctype html>")


def test_on_a_terminal_it_goes_to_a_file_of_its_own_name(
    small: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, said = on_terminal(small, "export", "last", "-f", "html", "--no-sync")
    assert code == 0
    short = small.one("SELECT substr(id, 1, 8) FROM sessions")
    assert said.startswith(f"Wrote session-{short}.html (")
    assert mode(tmp_path / f"session-{short}.html") == 0o600


def test_a_file_that_is_there_is_replaced_only_by_force(small: World, tmp_path: Path) -> None:
    target = tmp_path / "a.md"
    target.write_text("mine")
    target.chmod(0o644)
    done = small.cli("export", "last", "-o", target)
    assert done.returncode == 2
    assert done.stderr == f"Error: {target} is there already; --force replaces it\n"
    assert target.read_text() == "mine"
    assert small.cli("export", "last", "-o", target, "--force").returncode == 0
    assert target.read_text().startswith("# hello there")
    assert mode(target) == 0o600
    assert sorted(path.name for path in tmp_path.glob("*.md*")) == ["a.md"]


def test_a_link_stays_and_what_it_leads_to_is_replaced_only_by_force(
    small: World, tmp_path: Path
) -> None:
    there, target = tmp_path / "there", tmp_path / "a.md"
    there.write_text("mine")
    target.symlink_to(there)
    done = small.cli("export", "last", "-o", target)
    assert done.returncode == 2
    assert done.stderr == f"Error: {target} is there already; --force replaces it\n"
    assert there.read_text() == "mine"
    assert small.cli("export", "last", "-o", target, "--force").returncode == 0
    assert target.is_symlink()
    assert there.read_text().startswith("# hello there")
    there.unlink()
    assert small.cli("export", "last", "-o", target).returncode == 0
    assert target.is_symlink()
    assert mode(there) == 0o600


@pytest.mark.parametrize("end", ["", "-wal", "-shm", "-journal", ".lock"])
def test_the_database_and_what_is_beside_it_is_never_written_over(small: World, end: str) -> None:
    target = small.db.with_name(small.db.name + end)
    link = small.db.with_name("link.md")
    link.symlink_to(target)
    before = small.db.read_bytes()
    for words in (
        ("export", "last", "-o", target),
        ("export", "last", "-o", link),
        ("export", "--snapshot", target),
        ("prices", "export", target),
    ):
        done = small.cli(*words, "--force")
        assert done.returncode == 2
        assert done.stderr == f"Error: {words[-1]} is the database itself\n"
    assert small.db.read_bytes() == before
    assert list(small.db.parent.glob(".*.part")) == []


def test_another_name_of_the_database_is_the_database(small: World) -> None:
    other = small.db.with_name("other.md")
    os.link(small.db, other)
    done = small.cli("export", "last", "-o", other, "--force")
    assert (done.returncode, done.stdout) == (2, "")
    assert other.samefile(small.db)


def test_a_pipe_is_written_to_and_stays(small: World, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        done = small.cli("export", "last", "-o", pipe)
        assert reader.stdout is not None
        assert reader.stdout.read().startswith(b"# hello there")
    assert (done.returncode, done.stderr) == (0, "")
    assert pipe.is_fifo()


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_by_its_name_is_standard_output(small: World, name: str) -> None:
    apart = World(small.root, small.db)  # in a process whose standard output is a file
    plain = small.cli("export", "last")
    assert apart.cli("export", "last", "-o", name).stdout == plain.stdout
    assert apart.cli("prices", "export", name).stdout == small.cli("prices", "export").stdout


def test_a_device_is_written_to_and_stays(small: World) -> None:
    done = small.cli("export", "last", "-o", "/dev/null")
    assert (done.returncode, done.stderr) == (0, "")
    assert Path("/dev/null").is_char_device()
    done = small.cli("export", "--snapshot", "/dev/null", "--force")
    assert (done.returncode, done.stderr) == (2, "Error: /dev/null is not a file\n")


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["last", "-o", "/"], "is a folder"),
        (["last", "-o", "/no/such/folder/a.md"], "cannot be written"),
        ([], "name a session"),
        (["last", "--snapshot", "x"], "takes no SESSION"),
        (["zzzz"], "no session begins with"),
        (["last", "-f", "pdf"], "pdf"),
    ],
)
def test_mistakes_leave_nothing_behind(
    small: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], why: str
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    done = small.cli("export", *args)
    assert done.returncode in (1, 2)
    assert done.stdout == ""
    assert why in done.stderr
    assert "Traceback" not in done.stderr
    assert list((tmp_path / "here").iterdir()) == []


def test_brief_is_without_tools_thinking_and_agents(world: World, files: Files) -> None:
    one = a_day(files)
    fill(world, files)
    whole = world.cli("export", one.session).stdout
    brief = world.cli("export", one.session, "--brief").stdout
    for word in ("def to_local", "summer time, I bet", "❯ Find callers", "clock.py:3"):
        assert word.lstrip("❯ ") in whole
        assert word.lstrip("❯ ") not in brief
    assert "src/clock.py" in brief


# -- snapshot --------------------------------------------------------------------------------------


def contents(path: Path) -> dict[str, int]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as conn:
        names = [n for (n,) in conn.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {
            name: conn.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in names
        }


# As for a user who may not write to the database; the tests may run as root.
WRITE_PROTECTED = f"import os\nos.access = lambda path, mode: mode != os.W_OK\n{RUN}"


@pytest.mark.parametrize("code", [RUN, WRITE_PROTECTED], ids=["writable", "write-protected"])
def test_a_snapshot_is_the_whole_database_in_one_private_file(
    small: World, tmp_path: Path, code: str
) -> None:
    target = tmp_path / "copy.db"
    done = small.cli("export", "--snapshot", target, code=code)
    assert (done.returncode, done.stdout) == (0, "")
    assert mode(target) == 0o600
    assert contents(target) == contents(small.db)
    assert sorted(path.name for path in tmp_path.glob("*copy*")) == ["copy.db"]
    with closing(sqlite3.connect(target)) as conn:
        assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert conn.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    copy = World(small.root, target)
    assert "hello there" in copy.cli("show", "--no-sync").stdout
    assert copy.verify().ok


@pytest.mark.parametrize("code", [RUN, WRITE_PROTECTED], ids=["writable", "write-protected"])
def test_a_snapshot_has_nothing_of_what_was_deleted(
    small: World, tmp_path: Path, code: str
) -> None:
    small.change("CREATE TABLE _secret AS SELECT 'correct horse battery staple' AS words")
    small.change("DROP TABLE _secret")
    target = tmp_path / "copy.db"
    assert small.cli("export", "--snapshot", target, code=code).returncode == 0
    assert b"correct horse" not in target.read_bytes()


def test_a_snapshot_can_be_taken_while_another_writes(small: World, tmp_path: Path) -> None:
    with closing(sqlite3.connect(small.db, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM turns")
        done = small.cli("export", "--snapshot", tmp_path / "copy.db", "--no-sync")
        writer.execute("ROLLBACK")
    assert done.returncode == 0
    assert contents(tmp_path / "copy.db")["turns"] == 1


def test_a_snapshot_replaces_only_by_force_and_never_the_database(
    small: World, tmp_path: Path
) -> None:
    target = tmp_path / "copy.db"
    target.write_text("mine")
    assert small.cli("export", "--snapshot", target).returncode == 2
    assert target.read_text() == "mine"
    assert small.cli("export", "--snapshot", target, "--force").returncode == 0
    assert contents(target)
    before = small.db.read_bytes()
    done = small.cli("export", "--snapshot", small.db, "--force")
    assert done.returncode == 2
    assert "is the database itself" in done.stderr
    assert small.db.read_bytes() == before


def test_a_snapshot_that_fails_leaves_nothing(small: World, tmp_path: Path) -> None:
    data = bytearray(small.db.read_bytes())
    data[8192:] = b"\x55" * (len(data) - 8192)
    small.db.write_bytes(data)
    done = small.cli("export", "--snapshot", tmp_path / "copy.db", "--no-sync")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert list(tmp_path.glob("*copy*")) == []
