"""`ctxdb show`: a session reads as it went, whole, in order, and safely.

What is shown of the demo is in tests/data/reading/, and was read beside the transcripts. Run with
UPDATE_GOLDEN=1 to write it anew, then read the difference.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builder import CWD, Transcript, dumps, fork, resume, text, thinking, tool_use
from builder import World as Files
from ctxdb.errors import CtxdbError
from ctxdb.formatting import period
from ctxdb.output import painted, unpainted
from ctxdb.session.conversation import Agent, Call, Conversation, Passage
from ctxdb.session.find import NoSuchSession, find_session
from ctxdb.session.html_format import html_page
from ctxdb.session.load import Detail, load_conversation
from ctxdb.session.source_line import source_line
from ctxdb.session.terminal_format import TerminalFormat
from ctxdb.store.connection import open_reader
from in_process import Here
from lab import lab
from readlab import HOSTILE, fill, on_terminal, reading, unsafe
from stories import NOTICE
from thinning import thinned
from viewlab import demo_database
from world import World

GOLDEN = Path(__file__).parent / "data/reading"
EVERYTHING = Detail(tools=True, thinking=True, agents=True)


@pytest.fixture
def world(world: World) -> World:
    return Here(world.root, world.db)


@pytest.fixture
def files() -> Files:
    return Files()


def read(world: World, session: str, detail: Detail = EVERYTHING) -> Conversation:
    with reading(world) as conn:
        return load_conversation(conn, find_session(conn, session), detail)


def lines(world: World, session: str, detail: Detail = EVERYTHING, columns: int = 100) -> list[str]:
    return list(TerminalFormat(unpainted, columns, detail).lines(read(world, session, detail)))


def said(items: list[Any]) -> list[str]:
    """Everything in it, in order: texts, calls by their targets, agents by what they say."""
    found = []
    for item in items:
        if isinstance(item, Passage):
            found.append(item.text)
        elif isinstance(item, Call):
            found.append(f"{item.name} {item.target}")
            for agent in item.agents:
                found += [f"agent {agent.agent_id}", *said(agent.items)]
        else:
            found += [f"agent {item.agent_id}", *said(item.items)]
    return found


def a_day(files: Files) -> Transcript:
    """A session with some of everything."""
    one = files.session()
    one.custom_title("Tides of Brest")
    one.prompt("why is the table\none hour off?")
    one.reply(thinking("summer time, I bet"), text("Let me see."))
    one.tool("Read", {"file_path": f"{CWD}/src/clock.py"}, "def to_local(t): ...")
    call = tool_use(files, "Bash", {"command": "pytest -q", "description": "Run tests"})
    one.reply(call)
    one.result(call["id"], "Exit code 2\n1 failed", is_error=True)
    call = tool_use(files, "Task", {"prompt": "Find callers", "description": "Callers"})
    one.reply(call)
    agent = one.agent_file("abc1234")
    agent.prompt("Find callers")
    agent.tool("Grep", {"pattern": "to_local"}, "clock.py:3")
    agent.reply(text("Only the tests."))
    one.result(call["id"], "Only the tests.", {"agentId": "abc1234", "status": "completed"})
    call = tool_use(files, "Write", {"file_path": "/etc/passwd", "content": "x"})
    one.reply(call)
    one.result(
        call["id"],
        "The user doesn't want to proceed with this tool use. To tell you how to proceed, the user"
        " said:\nnot there, please",
        is_error=True,
    )
    one.prompt("[Request interrupted by user]")
    one.queue("enqueue", "and mind the winter")
    one.queue("remove")
    one.reply(text("Fixed for **both** seasons."))
    one.command("/cost")
    one.prompt("<local-command-stdout>Total cost: \x1b[1m$1\x1b[22m</local-command-stdout>")
    one.reply(tool_use(files, "Bash", {"command": "sleep 100"}))
    return one


# -- what it looks like ---------------------------------------------------------------------------

SHORT = """\
Tides of Brest
Session   {id}
Project   engine · /home/ada/engine · main
When      2026-03-01 09:00
Model     claude-opus-4-5-20251101
Version   Claude Code 2.1.44
Totals    3 turns · 6 tool calls (1 failed) · 590 tokens · $0.0030

── 1 · 09:00:01 · 15s · $0.0023 ────────────────────────────────────────────────────────────────────
❯ why is the table
  one hour off?

Let me see.

  ✓ Read    src/clock.py  1s
  ✗ Bash    pytest -q  exit 2 · 1s
  ✓ Agent   Callers  5s
    ↳ agent: Callers  completed · 1 call · 3s · $0.0006
  ⊘ Write   /etc/passwd  rejected · 1s
    ❯ not there, please

· interrupted Request interrupted by user

── 2 · 09:00:18 · queued · 1s · $0.0003 ────────────────────────────────────────────────────────────
❯ and mind the winter

Fixed for **both** seasons.

── 3 · 09:00:20 · command · 2s · $0.0003 ───────────────────────────────────────────────────────────
❯ /cost

Total cost: $1

  … Bash    sleep 100  pending
"""


def test_a_session_on_one_page(world: World, files: Files) -> None:
    one = a_day(files)
    fill(world, files)
    shown = "\n".join(lines(world, "last", Detail())) + "\n"
    assert shown == SHORT.format(id=one.session)


DEMO = {
    "fork": ("06e67866", Detail()),
    "fork-that-says-so": ("985bfc8d", EVERYTHING),
    "nested-agents": ("8e52f546", EVERYTHING),
    "sidechain-of-1.0": ("9de431c1", Detail(agents=True)),
    "old-resume": ("2010a7ed", Detail(tools=True)),
    "agents-beside": ("72c10389", Detail(agents=True)),
    "cleared": ("24f448c0", Detail(thinking=True)),
}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo_database(tmp_path_factory.mktemp("show"))


@pytest.mark.parametrize("name", DEMO)
def test_the_demo_reads_as_it_was_checked(demo: Path, name: str) -> None:
    session, detail = DEMO[name]
    with closing(open_reader(demo)) as conn:
        found = load_conversation(conn, find_session(conn, session), detail)
    shown = "\n".join(TerminalFormat(unpainted, 100, detail).lines(found)) + "\n"
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(shown, encoding="utf-8")
    assert shown == path.read_text(encoding="utf-8")


def test_every_session_of_the_demo_can_be_shown_with_everything(demo: Path) -> None:
    with closing(open_reader(demo)) as conn:
        for (session,) in conn.execute("SELECT id FROM sessions").fetchall():
            found = load_conversation(conn, session, EVERYTHING)
            shown = "\n".join(TerminalFormat(painted, 100, EVERYTHING).lines(found))
            assert session in shown
            assert shown.count("\x1b[0m") * 2 == shown.count("\x1b")


def test_tools_thinking_and_agents_are_shown_when_asked_for(world: World, files: Files) -> None:
    a_day(files)
    fill(world, files)
    short = "\n".join(lines(world, "last", Detail()))
    for detail, expected in (
        (Detail(tools=True), ["description: Run tests", "│ 1 failed", "│ def to_local(t): ..."]),
        (Detail(thinking=True), ["Thinking:", "summer time, I bet"]),
        (Detail(agents=True), ["❯ Find callers", "✓ Grep    to_local", "│ Only the tests."]),
    ):
        shown = "\n".join(lines(world, "last", detail))
        for one in expected:
            assert one in shown
            assert one not in short


def test_lines_fit_the_terminal(world: World, files: Files) -> None:
    one = files.session()
    one.prompt("go")
    one.tool("Bash", {"command": "echo " + "very long " * 50})
    one.tool("mcp__server__tool", {"query": "漢字" * 100})
    fill(world, files)
    from ctxdb.escape import width

    rows = [row for row in lines(world, "last", Detail(), columns=60) if "✓" in row]
    assert len(rows) == 2
    assert all(width(row) <= 60 for row in rows)
    assert all("…" in row for row in rows)


# -- order and wholeness ---------------------------------------------------------------------------


def test_reading_order_is_that_of_the_file_not_of_time(world: World, files: Files) -> None:
    one = files.session()
    one.prompt("first", timestamp="2026-03-01T12:00:00.000Z")
    one.reply(text("second"))
    one.prompt("third", timestamp="2026-03-01T08:00:00.000Z")
    one.reply(text("fourth"))
    fill(world, files)
    turns = read(world, one.session).exchanges
    assert [(turn.prompt, said(turn.items)) for turn in turns] == [
        ("first", ["second"]),
        ("third", ["fourth"]),
    ]


@pytest.mark.parametrize("kind", ["fork", "fork that says so", "fork with new uuids", "resume"])
def test_forks_and_old_resumes_read_whole(world: World, files: Files, kind: str) -> None:
    one = files.session()
    one.prompt("count the tides")
    one.tool("Bash", {"command": "wc tides"})
    one.reply(text("There are two."))
    if kind == "resume":
        new = resume(one)
    else:
        new = fork(one, says_so=kind != "fork", renew=kind.endswith("uuids"))
    new.prompt("and the moons?")
    new.reply(text("One."))
    fill(world, files)
    turns = read(world, new.session).exchanges
    assert [(turn.prompt, turn.is_copied, said(turn.items)) for turn in turns] == [
        ("count the tides", True, ["Bash wc tides", "There are two."]),
        ("and the moons?", False, ["One."]),
    ]
    assert [turn.prompt for turn in read(world, one.session).exchanges] == ["count the tides"]
    assert "1 turn (and 1 copied)" in "\n".join(lines(world, new.session))
    with reading(world) as conn:
        found = conn.execute(
            "SELECT text FROM session_messages WHERE session_id = ? AND kind IN"
            " ('human', 'assistant') AND text IS NOT NULL ORDER BY source_file_id, byte_start",
            (new.session,),
        ).fetchall()
    assert [text for (text,) in found] == [
        "count the tides", "There are two.", "and the moons?", "One.",
    ]  # fmt: skip


def test_every_turn_of_a_fork_has_a_number_of_its_own(world: World, files: Files) -> None:
    one = files.session()
    for n in range(3):
        one.prompt(f"old {n}")
        one.reply(text("done"))
    new = fork(one, says_so=True, renew=False)
    new.prompt("new 0")
    new.reply(text("done"))
    newest = fork(new, says_so=True, renew=False)
    newest.prompt("newest")
    newest.reply(text("done"))
    fill(world, files)
    numbers = ["c1", "c2", "c3", "c4", "1"]
    found = read(world, newest.session)
    assert [turn.number for turn in found.exchanges] == numbers
    page = "".join(html_page(found))
    assert re.findall(r'<section id="turn-(\w+)"', page) == numbers
    # Once in the table of contents, once in the heading of each turn.
    assert re.findall(r'href="#turn-(\w+)"', page) == numbers + numbers
    for number, prompt in zip(numbers, ["old 0", "old 1", "old 2", "new 0", "newest"], strict=True):
        done = world.cli("show", newest.session, "--turn", number, "--no-sync")
        assert f"── {number} · " in done.stdout
        assert prompt in done.stdout
    done = world.cli("show", newest.session, "--turn", "2", "--no-sync")
    assert done.returncode == 2
    assert "has no turn 2: it has 1, and c1 to c4" in done.stderr


def test_agents_of_copied_calls_are_shown_in_the_fork(world: World, files: Files) -> None:
    one = files.session()
    one.prompt("go")
    call = tool_use(files, "Task", {"prompt": "look", "description": "look"})
    one.reply(call)
    agent = one.agent_file("abc1234")
    agent.prompt("look")
    agent.reply(text("nothing there"))
    one.result(call["id"], "ok", {"agentId": "abc1234", "status": "completed"})
    new = fork(one, says_so=True, renew=True)
    new.prompt("on")
    fill(world, files)
    assert said(read(world, new.session).exchanges[0].items) == [
        "Agent look", "agent abc1234", "look", "nothing there",
    ]  # fmt: skip


@pytest.mark.parametrize("name", [None, "notes"])
def test_an_old_resume_reads_whole_without_the_transcript_it_came_from(
    world: World, files: Files, name: str | None
) -> None:
    one = files.session()
    one.prompt("count the tides")
    one.reply(text("There are two."))
    new = resume(one)
    new.prompt("and the moons?")
    files.files.remove(one)
    if name:  # the first line that names a session is the old one's
        new.path = new.path.replace(new.session, name)
    fill(world, files)
    turns = read(world, new.session).exchanges
    assert [(turn.prompt, turn.is_copied, said(turn.items)) for turn in turns] == [
        ("count the tides", True, ["There are two."]),
        ("and the moons?", False, []),
    ]


@pytest.mark.parametrize("where", ["beside", "underscore", "subagents"])
def test_agents_are_nested_below_their_calls_in_every_layout(
    world: World, files: Files, where: str
) -> None:
    one = files.session()
    one.prompt("go")
    call = tool_use(files, "Task", {"prompt": "outer", "description": "outer"})
    one.reply(call)
    agent = one.agent_file("aaaa111", where=where)
    agent.prompt("outer")
    inner_call = tool_use(files, "Task", {"prompt": "inner", "description": "inner"})
    agent.reply(inner_call)
    meta = {"toolUseId": inner_call["id"], "parentAgentId": "aaaa111", "agentType": "Explore"}
    inner = one.agent_file("bbbb222", where=where, meta=meta)
    inner.prompt("inner")
    inner.reply(text("deep"))
    agent.result(inner_call["id"], "ok", {"agentId": "bbbb222", "status": "completed"})
    agent.reply(text("shallow"))
    one.result(call["id"], "ok", {"agentId": "aaaa111", "status": "completed"})
    one.reply(text("done"))
    fill(world, files)
    assert said(read(world, one.session).exchanges[0].items) == [
        "Agent outer",
        "agent aaaa111", "outer", "Agent inner",
        "agent bbbb222", "inner", "deep",
        "shallow",
        "done",
    ]  # fmt: skip


def test_sidechains_of_1_0_are_nested_below_their_calls(world: World, files: Files) -> None:
    one = files.session(version="1.0.60")
    one.prompt("go")
    call = tool_use(files, "Task", {"prompt": "look around", "description": "look"})
    one.reply(call)
    one.side("look around", "nothing")
    one.result(call["id"], "nothing")
    one.reply(text("done"))
    fill(world, files)
    shown = said(read(world, one.session).exchanges[0].items)
    assert shown[0] == "Agent look"
    assert shown[1].startswith("agent side-")
    assert shown[2:] == ["look around", "nothing", "done"]


def test_agents_that_nobody_asked_for_are_named_at_the_end(world: World, files: Files) -> None:
    one = files.session()
    one.prompt("go")
    one.agent_file("acompact-1").prompt("sum up")
    fill(world, files)
    assert lines(world, one.session, Detail())[-1] == "Other agents: 1 compact"
    assert [agent.agent_id for agent in read(world, one.session).others] == ["acompact-1"]


def test_agents_in_a_circle_are_shown_once_and_end(world: World, files: Files) -> None:
    one = files.session()
    one.prompt("go")
    for agent, other in (("aaaa111", "bbbb222"), ("bbbb222", "aaaa111"), ("cccc333", "cccc333")):
        file = one.agent_file(agent, meta={"parentAgentId": other, "spawnDepth": 2})
        file.prompt(f"I am {agent}")
    fill(world, files)
    shown = "\n".join(lines(world, one.session))
    for agent in ("aaaa111", "bbbb222", "cccc333"):
        assert shown.count(f"❯ I am {agent}") == 1


def test_what_is_queued_is_shown_once(world: World, files: Files) -> None:
    one = files.session()
    one.prompt("go")
    one.queue("enqueue", "and mind the winter")
    one.queue("remove")
    one.attach("queued_command", prompt="and mind the winter", commandMode="prompt")
    one.reply(text("yes"))
    fill(world, files)
    assert "\n".join(lines(world, one.session)).count("and mind the winter") == 1


def test_what_the_client_adds_is_a_line(world: World, files: Files) -> None:
    one = files.session()
    one.prompt("go")
    one.prompt("Base directory for this skill: " + "x" * 5000, isMeta=True)
    one.prompt(NOTICE.format("t1").replace("<status>", "<summary>Agent done</summary><status>"))
    one.system("turn_duration", durationMs=5)
    one.system("compact_boundary", compactMetadata={"trigger": "auto", "preTokens": 168483})
    one.prompt("<local-command-caveat>Caveat: ...</local-command-caveat>", isMeta=True)
    fill(world, files)
    shown = lines(world, one.session)
    assert max(map(len, shown)) < 130
    text_ = "\n".join(shown)
    assert "(5,031 characters)" in text_
    assert "Agent done" in text_
    assert "168,483 tokens" in text_
    assert "Caveat" not in text_
    assert "turn" not in text_.split("── 1")[1]


def test_of_many_tries_the_last_is_shown(world: World, files: Files) -> None:
    one = files.session()
    one.prompt("go")
    for n in range(1, 9):
        one.system("api_error", retryAttempt=n, maxRetries=10)
    one.reply(text("there I am"))
    fill(world, files)
    assert said(read(world, one.session).exchanges[0].items) == [
        "the API failed, try 8 of 10",
        "there I am",
    ]


def test_answers_to_questions_are_shown(world: World, files: Files) -> None:
    one = files.session()
    one.prompt("go")
    answer = 'User has answered your questions: "Which?"="The blue one". You can now continue with'
    one.tool("AskUserQuestion", {"questions": [{"question": "Which?"}]}, answer)
    fill(world, files)
    assert any('"Which?"="The blue one"' in row for row in lines(world, one.session, Detail()))


# -- which session, which turn ---------------------------------------------------------------------


def test_a_session_is_found_by_prefix_slug_path_or_last(world: World, files: Files) -> None:
    first = files.session(session="aaaa1111-0000-4000-8000-000000000001")
    first.extra = {"slug": "soft-purring-owl"}
    first.prompt("first words")
    second = files.session(session="aaaa2222-0000-4000-8000-000000000002")
    second.prompt("second words")
    fill(world, files)
    with reading(world) as conn:
        for wanted in ("aaaa1", "AAAA1", first.session, "soft-purring-owl", "soft-p"):
            assert find_session(conn, wanted) == first.session
        assert find_session(conn, f"/some/where/{first.session}.jsonl") == first.session
        assert find_session(conn, "last") == second.session


def test_a_prefix_of_several_sessions_lists_them(world: World, files: Files) -> None:
    for n in (1, 2):
        files.session(session=f"aaaa000{n}-0000-4000-8000-000000000001").prompt(f"words {n}")
    fill(world, files)
    done = world.cli("show", "aaaa")
    assert (done.returncode, done.stdout) == (2, "")
    rows = done.stderr.splitlines()
    assert [row[:8] for row in rows] == ["aaaa0002", "aaaa0001", "Error: '"]
    assert "words 2" in rows[0]
    assert rows[2] == "Error: 'aaaa' fits 2 sessions; give more of the id"


def test_a_session_that_is_not_there_is_one_line(world: World, files: Files) -> None:
    files.session().prompt("the periwinkle")
    fill(world, files)
    done = world.cli("show", "zzzz")
    assert done.returncode == 2
    assert done.stderr == (
        "Error: no session begins with 'zzzz'; `ctxdb search` finds sessions by content\n"
    )
    done = world.cli("show", "periwinkle")
    assert done.stderr.splitlines()[-1].endswith("these have it in their title")
    with reading(world) as conn, pytest.raises(NoSuchSession):
        find_session(conn, "")


def test_nothing_to_show_yet_is_one_line(world: World) -> None:
    done = world.cli("show")
    assert done.returncode == 1
    assert done.stderr == "Error: no session is in the database yet\n"


def test_one_turn(world: World, files: Files) -> None:
    a_day(files)
    fill(world, files)
    done = world.cli("show", "last", "--turn", "2")
    assert "Fixed for **both** seasons." in done.stdout
    assert "Let me see." not in done.stdout
    done = world.cli("show", "--turn", "9")
    assert done.returncode == 2
    assert done.stderr.endswith("has no turn 9: it has 3\n")


# -- the line itself -------------------------------------------------------------------------------


def test_raw_is_the_exact_line(world: World, files: Files) -> None:
    one = files.session()
    odd = one.prompt('spaces  and ünïcödé and "quotes"')
    line = json.dumps(odd, indent=None, separators=(" , ", " : "), ensure_ascii=True).encode()
    one.lines[-1] = line
    one.prompt("another")
    fill(world, files)
    for wanted in (odd["uuid"], odd["uuid"].upper(), odd["uuid"][:8]):
        assert world.cli("show", "--raw", wanted, "--no-sync").stdout.encode() == line + b"\n"


def test_raw_of_something_unknown_or_unclear_is_one_line(world: World, files: Files) -> None:
    one = files.session()
    for n in (1, 2):
        one.prompt(f"{n}", uuid=f"dddd000{n}-0000-4000-8000-000000000001")
    fill(world, files)
    with reading(world) as conn:
        with pytest.raises(CtxdbError, match="no entry has the uuid"):
            source_line(conn, "eeee")
        with pytest.raises(CtxdbError, match="it is a session: `ctxdb export --format jsonl`"):
            source_line(conn, one.session)
        with pytest.raises(CtxdbError, match="2 entries begin with"):
            source_line(conn, "dddd")
        with pytest.raises(CtxdbError, match="no entry"):
            source_line(conn, "")


@pytest.mark.parametrize("change", ["gone", "cut", "rewritten", "moved by a byte", "a folder"])
def test_raw_never_shows_what_is_no_longer_that_line(
    world: World, files: Files, change: str
) -> None:
    one = files.session()
    one.prompt("zero")
    entry = one.prompt("first words")
    fill(world, files)
    path = world.root / one.path
    data = path.read_bytes()
    path.unlink()
    if change == "cut":
        path.write_bytes(data[:-5])
    elif change == "rewritten":
        path.write_bytes(data.replace(entry["uuid"].encode(), b"f" * 36))
    elif change == "moved by a byte":
        path.write_bytes(b" " + data)
    elif change == "a folder":
        path.mkdir()
    with reading(world) as conn, pytest.raises(CtxdbError) as caught:
        source_line(conn, entry["uuid"])
    assert ("is gone" if change == "gone" else "has changed") in str(caught.value)
    assert "first words" not in str(caught.value)


def test_raw_falls_back_to_a_copy_and_says_so(world: World, files: Files) -> None:
    one = files.session()
    entry = one.prompt("first words")
    new = fork(one, says_so=False, renew=False)
    new.prompt("on")
    fill(world, files)
    (world.root / one.path).unlink()
    with reading(world) as conn:
        line = source_line(conn, entry["uuid"])
    assert line.data == dumps(new.entries[0])
    assert one.path in line.note
    assert new.path in line.note


def test_raw_of_a_copys_own_uuid_is_the_copys_line(world: World, files: Files) -> None:
    one = files.session()
    one.prompt("first words")
    new = fork(one, says_so=True, renew=True)
    new.prompt("on")
    fill(world, files)
    with reading(world) as conn:
        assert source_line(conn, new.entries[0]["uuid"]).data == dumps(new.entries[0])
        assert source_line(conn, one.entries[0]["uuid"]).data == dumps(one.entries[0])


def test_raw_of_a_wrapped_line_is_the_line_it_is_wrapped_in(world: World, files: Files) -> None:
    one = files.session()
    one.prompt("go")
    call = tool_use(files, "Task", {"prompt": "look", "description": "look"})
    one.reply(call)
    other = Files()
    other.ids = 500
    inner = other.session().prompt("look")
    wrapper = one.agent_progress("abc1234", call["id"], inner)
    fill(world, files)
    with reading(world) as conn:
        assert source_line(conn, inner["uuid"]).data == dumps(wrapper)


# -- on a terminal ---------------------------------------------------------------------------------


def test_a_pager_is_used_on_a_terminal_only(world: World, files: Files, tmp_path: Path) -> None:
    a_day(files)
    fill(world, files)
    pager = tmp_path / "pager"
    pager.write_text(f"#!{sys.executable}\nimport sys\nprint('PAGED', sys.stdin.read())\n")
    pager.chmod(0o755)
    env = {"PAGER": str(pager), "CTXDB_PAGER": str(pager)}
    code, shown = on_terminal(world, "show", "--no-sync", env=env)
    assert code == 0
    assert shown.startswith("PAGED")
    assert "\x1b[1mTides of Brest\x1b[0m" in shown
    piped = world.cli("show", "--no-sync", env={**os.environ, **env}).stdout
    assert piped.startswith("Tides of Brest\n")
    assert "\x1b" not in piped


@pytest.mark.parametrize("pager", thinned(["/no/such/pager", "'unclosed", "", "cat"], 2))
def test_without_a_pager_it_is_printed(world: World, files: Files, pager: str) -> None:
    a_day(files)
    fill(world, files)
    env = {"PAGER": pager, "NO_COLOR": "1"}
    code, shown = on_terminal(world, "show", "--turn", "2", "--no-sync", env=env)
    assert code == 0
    assert shown.startswith("Tides of Brest\n")


def test_a_pager_that_is_left_early_is_no_error(world: World, files: Files) -> None:
    one = files.session()
    for n in range(600):  # more than a pipe holds
        one.prompt(f"{n} " + "x" * 500)
    fill(world, files)
    code, shown = on_terminal(world, "show", "--no-sync", env={"PAGER": "head -n 1"})
    assert code == 0
    assert "Traceback" not in shown
    assert len(shown) < 1000


@pytest.mark.skipif(shutil.which("less") is None, reason="no less here")
def test_less_shows_colours_and_quits_on_a_short_page(world: World, files: Files) -> None:
    files.session().prompt("short")
    fill(world, files)
    env = {"PAGER": "less", "LESS": "FX"}
    code, shown = on_terminal(world, "show", "--no-sync", env=env)
    assert code == 0
    assert "\x1b[1mshort" in shown
    assert "ESC" not in shown


# -- hostile transcripts ---------------------------------------------------------------------------


def hostile_session(files: Files) -> Transcript:
    one = files.session(cwd=f"/evil{HOSTILE}", branch=HOSTILE, version=HOSTILE)
    one.extra = {"slug": HOSTILE}
    one.custom_title(HOSTILE)
    one.prompt(HOSTILE)
    one.reply(thinking(HOSTILE), text(HOSTILE), model=HOSTILE)
    call = tool_use(files, HOSTILE, {"command": HOSTILE, HOSTILE: [HOSTILE]})
    one.reply(call)
    one.result(call["id"], HOSTILE, is_error=True)
    call = tool_use(files, "Task", {"prompt": HOSTILE, "description": HOSTILE})
    one.reply(call)
    agent = one.agent_file("abc1234", meta={"agentType": HOSTILE, "description": HOSTILE})
    agent.prompt(HOSTILE)
    agent.reply(text(HOSTILE))
    one.result(call["id"], HOSTILE, {"agentId": "abc1234", "status": "completed"})
    one.prompt(HOSTILE, isMeta=True)
    one.system("informational", content=HOSTILE)
    one.prompt(f"<local-command-stdout>{HOSTILE}</local-command-stdout>")
    one.queue("enqueue", HOSTILE)
    one.queue("remove")
    one.command("/evil", HOSTILE)
    return one


def test_hostile_text_steers_no_terminal_wherever_it_stands(world: World, files: Files) -> None:
    one = hostile_session(files)
    fill(world, files)
    shown = "\n".join(lines(world, one.session))
    assert unsafe(shown) == []
    assert shown.count("before") > 10
    coloured = "\n".join(TerminalFormat(painted, 100, EVERYTHING).lines(read(world, one.session)))
    import re

    assert unsafe(re.sub(r"\x1b\[[0-9;]+m", "", coloured)) == []
    done = world.cli("show", one.session[:3] + HOSTILE)
    assert unsafe(done.stderr) == []
    assert done.stderr.count("\n") == 1


@given(words=st.lists(st.text(max_size=40), min_size=4, max_size=12))
@settings(max_examples=10)
def test_no_text_steers_a_terminal(words: list[str]) -> None:
    files = Files()
    one = files.session()
    for word in words:
        one.prompt(word)
        one.reply(text(word), thinking(word))
        one.tool("Bash", {"command": word}, word)
    with lab() as made:
        world = World(made.root, made.db)
        fill(world, files)
        shown = "\n".join(lines(world, one.session))
    assert unsafe(shown) == []
    for line in shown.split("\n"):
        assert all(
            c.isprintable() or c in "\t\u00a0\u2002\u2003\u2009\u202f\u3000\u200c\u200d"
            for c in line
        )


def test_a_model_of_every_kind_of_item_is_laid_out() -> None:
    """Whatever the database says, nothing raises."""
    agent = Agent("s", "a", "task", "", "", "unknown", "", None, None, None, None, None)
    call = Call(1, "t", "", "", "strange", None, None, "[1]", "", None, None, [agent])
    made = Conversation("s", "", "", None, None, None, "no time", "x", None, None, None, None)
    from ctxdb.session.conversation import Exchange

    made.exchanges = [Exchange(1, 1, "odd", "", None, None, items=[call, Passage("reply", "")])]
    page = TerminalFormat(unpainted, 1, EVERYTHING)
    assert "Session s" in "\n".join(page.lines(made))


# -- units ----------------------------------------------------------------------------------------


def test_periods() -> None:
    assert period("2026-03-01T09:00:00Z", "2026-03-02T10:00:00Z") == (
        "2026-03-01 09:00 to 2026-03-02 10:00"
    )
    assert period("garbage", None) == ""


def test_in_a_pipe_nothing_is_cut_to_the_width_of_a_terminal(world: World, files: Files) -> None:
    one = files.session()
    one.prompt("go")
    one.tool("Bash", {"command": "echo " + "x" * 280 + " end"})
    fill(world, files)
    assert "x end" in world.cli("show", "--no-sync").stdout


def test_a_database_from_before_the_views_it_needs_can_be_read(world: World, files: Files) -> None:
    old = files.session()
    old.prompt("one")
    files.write(world.root)
    world.sync()
    world.change("DROP VIEW _shared_lines")
    world.change("DROP VIEW _costs")
    found = read(world, old.session)
    assert [turn.prompt for turn in found.exchanges] == ["one"]
    assert found.cost is None
