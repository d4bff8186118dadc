"""`ctxdb search` finds what a person expects, first what fits best, and is safe to print."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder import CWD, text, thinking, tool_use
from builder import World as Files
from ctxdb.query import candidates, guard, vocabulary
from ctxdb.query.candidates import Wanted
from ctxdb.query.search import search
from ctxdb.session.captions import resume_command, shell_word
from in_process import Here
from lab import lab
from readlab import (
    HOSTILE,
    fill,
    found,
    look,
    on_terminal,
    reading,
    run_json,
    sessions_found,
    unsafe,
)
from world import World


@pytest.fixture
def world(world: World) -> World:
    return Here(world.root, world.db)


@pytest.fixture
def files() -> Files:
    return Files()


def say(world: World, files: Files, *texts: str) -> None:
    """One session in which a person says these things."""
    session = files.session()
    for one in texts:
        session.prompt(one)
    fill(world, files)


# -- words ---------------------------------------------------------------------------------------


def test_all_words_must_be_there(world: World, files: Files) -> None:
    say(world, files, "the tide is high", "the moon is high", "tide and moon")
    assert found(world, "tide moon") == ["[tide] and [moon]"]
    assert found(world, "TIDE high") == ["the [tide] is [high]"]
    assert sorted(found(world, "tide OR moon")) == [
        "[tide] and [moon]",
        "the [moon] is high",
        "the [tide] is high",
    ]
    assert found(world, "tide NOT moon") == ["the [tide] is high"]
    assert sorted(found(world, "tid*")) == ["[tid]e and moon", "the [tid]e is high"]


def test_words_side_by_side_come_first_and_quoted_ones_must_be(world: World, files: Files) -> None:
    say(
        world,
        files,
        "connection was refused, connection refused twice? no: refused the connection",
        "refused: a connection, a connection, a connection, refused",
        "connection refused",
        "a refused connection",
    )
    first = found(world, "connection refused")
    assert len(first) == 3  # of one session no more are shown
    assert "[connection] [refused]" in first[0]
    quoted = found(world, '"connection refused"')
    assert all("[connection refused]" in one or "[connection, refused]" in one for one in quoted)
    assert len(quoted) == 3


CODE = [
    ("snake_case", "call snake_case here"),
    ("path/to/file.py", "see path/to/file.py:12"),
    ("file.py", "see path/to/file.py:12"),
    ("foo.bar()", "then foo.bar() fails"),
    ("foo.bar", "then foo.bar() fails"),
    ("--dry-run", "with --dry-run only"),
    ("C++", "rewrite it in C++ now"),
    ("a.b:c", "the key a.b:c is odd"),
    ("@scope/name", "npm i @scope/name"),
    ("$HOME", "echo $HOME"),
    ("x", "let x be"),
    ("é", "the é alone"),
    ("cafe", "a Café au lait"),
    ("=>", "k => v"),
    ("->", "p->q"),
    ("🎉", "done 🎉"),
]
RUNS = [
    ("상태", "릴리즈 상태를 살펴 주세요"),
    ("릴리즈", "릴리즈 상태를 살펴 주세요"),
    ("확인", "배포확인완료"),
    ("設定", "APIの設定を変更する"),
    ("設定", "Reactの設定"),
    ("の設", "Reactの設定"),
    ("API", "APIの設定を変更する"),
    ("错误处理", "我们需要改进错误处理的逻辑"),
    ("误", "我们需要改进错误处理的逻辑"),
    ("エラー", "そこでエラーが出ました"),
    ("การ", "รายงานการทดสอบ"),
    ("배포 완료", "배포확인완료"),
]


@pytest.fixture(scope="module")
def phrases() -> Iterator[World]:
    """One session for each text: one database for all that is looked for."""
    with lab() as one:
        made = Files()
        for where in dict.fromkeys(where for _, where in CODE + RUNS):
            made.session().prompt(where)
        for where in ("C is not it", "nor is a scope or a home", "別の文章です", "다른 문장"):
            made.session().prompt(where)
        world = World(one.root, one.db)
        fill(world, made)
        yield world


def plain(hit: str) -> str:
    return hit.replace("[", "").replace("]", "")


@pytest.mark.parametrize(("looked_for", "where"), CODE)
def test_code_like_and_short_words_are_found(phrases: World, looked_for: str, where: str) -> None:
    hits = found(phrases, looked_for)
    assert hits
    assert plain(hits[0]) == where
    assert "[" in hits[0]


@pytest.mark.parametrize(("looked_for", "where"), RUNS)
def test_korean_japanese_chinese_and_thai_are_found_inside_of_words(
    phrases: World, looked_for: str, where: str
) -> None:
    hits = found(phrases, looked_for)
    assert where in map(plain, hits)
    assert all("[" in hit for hit in hits)
    assert all(part in plain(hit) for hit in hits for part in looked_for.split())


def test_what_has_the_word_to_the_letter_comes_first(world: World, files: Files) -> None:
    say(world, files, "foo bar", "foo/bar", "foo.bar", "foo: bar", "Foo-Bar foo-bar foo-bar")
    assert found(world, "foo.bar")[0] == "[foo.bar]"
    assert len(found(world, "foo.bar", limit=9)) == 3
    session = world.one("SELECT id FROM sessions")
    assert len(found(world, "foo.bar", session=session)) == 5


def test_signs_are_part_of_a_word_that_is_nothing_without_them(world: World, files: Files) -> None:
    say(world, files, "I like C", "I like C++", "I like C#")
    assert found(world, "C++") == ["I like [C++]"]
    assert found(world, "C#") == ["I like [C#]"]


def test_a_word_that_is_found_only_without_its_signs_is_said_to_be(
    world: World, files: Files
) -> None:
    say(world, files, "I like C", "I like Rust")
    done = world.cli("search", "C++", "--no-sync")
    assert "I like C\n" in done.stdout
    assert done.stderr == "Nothing has C++ exactly as written, so its punctuation was ignored.\n"
    done = world.cli("search", "C++ OR Rust", "--no-sync")
    assert done.stderr == "With OR and NOT, the punctuation in C++ is ignored.\n"
    assert world.cli("search", "Rust", "--no-sync").stderr == ""


def test_where_one_index_has_it_as_written_the_other_does_not_guess(
    world: World, files: Files
) -> None:
    session = files.session()
    session.prompt("I like C")
    session.tool("Bash", {"command": "make"}, "a compiler for C++")
    fill(world, files)
    assert found(world, "C++") == ["a compiler for [C++]"]


# -- names of fields -------------------------------------------------------------------------------


def calls(world: World, files: Files, *inputs_and_results: tuple[dict[str, Any], str]) -> None:
    session = files.session()
    session.prompt("go")
    for given_, result in inputs_and_results:
        session.tool("Bash", given_, result)
    fill(world, files)


def test_a_name_of_a_field_is_no_hit_where_a_value_or_result_is(world: World, files: Files) -> None:
    calls(
        world,
        files,
        ({"command": "make", "timeout": 5000}, "done"),
        ({"command": "curl --timeout 3", "timeout": 5000}, "done"),
        ({"command": "ping", "timeout": 1}, "Timeout was reached"),
        ({"command": "ls", "options": [{"timeout": None}]}, "done"),
        ({"command": "sleep", "note": "a timeout"}, "done"),
    )
    session = world.one("SELECT id FROM sessions")
    assert sorted(found(world, "timeout", session=session)) == [
        "[Timeout] was reached",
        "curl --[timeout] 3",
        "sleep a [timeout]",
    ]
    shown = sessions_found(world, "timeout", session=session, limit=1)
    assert [(len(one.hits), one.more) for one in shown] == [(1, 2)]
    assert len(found(world, "timeout done", session=session)) == 2


def test_names_of_fields_are_found_where_nothing_else_is(world: World, files: Files) -> None:
    calls(world, files, ({"command": "make", "run_in_background": True}, "started"))
    assert found(world, "run_in_background") == ['{"command":"make","[run_in_background]":true}']
    done = world.cli("search", "run_in_background", "--no-sync")
    assert done.stderr == "Found only in the names of fields in tool inputs.\n"


def test_calls_with_a_field_of_that_name_push_no_older_result_out(
    world: World, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctxdb.query.candidates.CANDIDATES", 4)
    monkeypatch.setattr("ctxdb.query.search.CHECKED", 3)
    newer = [({"command": f"make {n}", "timeout": n}, "done") for n in range(9)]
    calls(world, files, ({"command": "ping"}, "Timeout was reached"), *newer)
    assert found(world, "timeout") == ["[Timeout] was reached"]


def test_letters_taken_apart_are_found_when_typed_together(world: World, files: Files) -> None:
    import unicodedata

    say(world, files, unicodedata.normalize("NFD", "상태확인") + ".txt")
    assert len(look(world, "상태").groups) == 1


def test_runs_of_signs_in_tool_calls_are_found(world: World, files: Files) -> None:
    session = files.session()
    session.prompt("go")
    session.tool("Bash", {"command": "echo 한국어로말하기"}, "결과는 Reactの設定です")
    fill(world, files)
    assert found(world, "말하기") == ["echo 한국어로[말하기]"]
    assert found(world, "設定") == ["결과는 Reactの[設定]です"]


def test_bad_syntax_is_plain_words_and_never_an_error(world: World, files: Files) -> None:
    say(world, files, "tide")
    for bad in (
        "x" * 200_000,
        "_" * 60_000 + "한",
        '"',
        "(",
        "OR",
        "a OR",
        '" OR "',
        "text:tide",
        "{a}",
        "NEAR(",
        "*",
        "tide +",
    ):
        look(world, bad)
    assert found(world, "^tide") == ["[tide]"]


@pytest.fixture(scope="module")
def phrase_reader(phrases: World) -> Iterator[Any]:
    with reading(phrases) as conn:
        yield conn


@given(text_=st.text(max_size=30))
def test_no_question_fails(phrase_reader: Any, text_: str) -> None:
    search(phrase_reader, text_, Wanted())


# -- ranking, grouping and filters ---------------------------------------------------------------


def conversation(files: Files) -> Any:
    session = files.session(cwd=CWD)
    session.prompt("why does ferryd crash")
    session.reply(thinking("ferryd perhaps leaks"), text("ferryd runs out of memory"))
    call = tool_use(files, "Bash", {"command": "journalctl -u ferryd"})
    session.reply(call)
    session.result(call["id"], "Exit code 1\nferryd: killed ferryd ferryd ferryd", is_error=True)
    session.tool("Read", {"file_path": f"{CWD}/ferryd.go"}, "package ferryd")
    return session


def test_what_people_and_the_model_say_comes_before_what_tools_print(
    world: World, files: Files
) -> None:
    conversation(files)
    fill(world, files)
    [group] = look(world, "ferryd", session=world.one("SELECT id FROM sessions")).groups
    assert [hit.source for hit in group.hits] == ["turn", "message", "message", "tool", "tool"]
    assert group.hits[0].kind == "human"


def test_filters(world: World, files: Files) -> None:
    conversation(files)
    fill(world, files)
    wishes: list[tuple[dict[str, Any], list[str]]] = [
        ({"kind": "human"}, ["human"]),
        ({"kind": "assistant"}, ["assistant"]),
        ({"kind": "thinking"}, ["assistant"]),
        ({"kind": "tool"}, ["tool", "tool"]),
        ({"tool": "bash"}, ["tool"]),
        ({"tool": "Read"}, ["tool"]),
        ({"tool": "Write"}, []),
        ({"model": "OPUS"}, ["assistant", "assistant", "tool"]),
        ({"model": "haiku"}, []),
        ({"errors": True}, ["tool"]),
        ({"since": "2026-03-01T09:00:05"}, ["tool"]),
        ({"until": "2026-03-01T09:00:02"}, ["human"]),
        ({"since": "2027"}, []),
        ({"session": "0" * 36}, []),
        ({"projects": ()}, []),
        ({"projects": (1,), "kind": "human"}, ["human"]),
    ]
    for wanted, kinds in wishes:
        groups = look(world, "ferryd", **wanted).groups
        assert sorted(hit.kind for group in groups for hit in group.hits) == kinds, wanted


def test_hits_are_grouped_by_session_and_the_rest_is_counted(world: World, files: Files) -> None:
    for n in range(3):
        session = files.session()
        for _ in range(2 + n * 2):
            session.prompt(f"tide {n}")
    fill(world, files)
    groups = look(world, "tide").groups
    assert sorted((len(group.hits), group.more) for group in groups) == [(2, 0), (3, 1), (3, 3)]
    first = look(world, "tide", limit=2).groups  # -n counts sessions
    assert [group.session_id for group in first] == [group.session_id for group in groups[:2]]
    assert [(len(group.hits), group.more) for group in first] == [
        (len(group.hits), group.more) for group in groups[:2]
    ]
    one = groups[0].session_id
    [group] = look(world, "tide", session=one).groups
    assert (group.session_id, group.more) == (one, 0)


def test_of_equal_texts_the_newest_is_first(world: World, files: Files) -> None:
    ids = []
    for _ in range(5):
        session = files.session()
        session.prompt("the very same words")
        ids.append(session.session)
    fill(world, files)
    assert [group.session_id for group in look(world, "same").groups] == ids[::-1]


def test_a_word_that_is_everywhere_ranks_only_the_newest(
    world: World, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(world, files, *(f"tide {n}" for n in range(40)))
    monkeypatch.setattr(candidates, "CANDIDATES", 10)
    session = world.one("SELECT id FROM sessions")
    hits = found(world, "tide", session=session, limit=50)
    assert len(hits) == 10
    assert "[tide] 39" in hits
    assert "[tide] 0" not in hits


def test_what_takes_too_long_is_cut_and_says_so(
    world: World, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(world, files, *("tide " * 50 for _ in range(60)))
    monkeypatch.setattr(candidates, "BUDGET_SECONDS", -1.0)
    monkeypatch.setattr(guard, "SEARCH_STEPS", 1)
    assert look(world, "tide").is_cut


def test_runs_of_signs_are_found_when_the_list_of_words_is_too_long(
    world: World, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(world, files, "배포확인완료", "nothing of it")
    monkeypatch.setattr(vocabulary, "RANGE_SECONDS", -1.0)
    monkeypatch.setattr(guard, "SEARCH_STEPS", 1)
    assert found(world, "확인") == ["배포[확인]완료"]


# -- what is shown -------------------------------------------------------------------------------


def test_every_hit_says_how_to_show_it_and_every_session_how_to_resume_it(
    world: World, files: Files
) -> None:
    session = conversation(files)
    fill(world, files)
    [shown] = sessions_found(world, "ferryd", session=session.session)
    short = session.session[:8]
    commands = {one.show for one in shown.hits}
    assert f"ctxdb show {short} --turn 1" in commands
    assert f"ctxdb show {short} --turn 1 --thinking" in commands
    [shown] = sessions_found(world, "killed", session=session.session)
    assert [one.show for one in shown.hits] == [f"ctxdb show {short} --turn 1 --tools"]
    assert shown.resume == f"cd {CWD} && claude --resume {session.session}"
    for one in shown.hits:
        words = shlex.split(one.show)[1:]
        assert world.cli(*words, "--no-sync").returncode == 0


def test_a_hit_in_an_agent_says_so(world: World, files: Files) -> None:
    session = files.session()
    session.prompt("go")
    call = tool_use(files, "Task", {"prompt": "look", "description": "look"})
    session.reply(call)
    agent = session.agent_file("abc1234")
    agent.prompt("look")
    agent.reply(text("the periwinkle is blue"))
    session.result(call["id"], "done", detail={"agentId": "abc1234", "status": "completed"})
    fill(world, files)
    [shown] = sessions_found(world, "periwinkle")
    assert shown.hits[0].show.endswith("--turn 1 --agents")
    done = world.cli(*shlex.split(shown.hits[0].show)[1:], "--no-sync")
    assert "the periwinkle is blue" in done.stdout


def test_a_deleted_transcript_cannot_be_resumed(world: World, files: Files) -> None:
    say(world, files, "tide")
    world.change("UPDATE sessions SET source_deleted_at = '2026-04-01T00:00:00.000Z'")
    assert sessions_found(world, "tide")[0].resume is None
    assert "cannot be resumed" in world.cli("search", "tide").stdout


FOLDERS = [
    "/plain/path", "/with space", "/it's", '/a"b', "/$(reboot)", "/`id`", "/a;b&c|d", "/tab\there",
    "/new\nline", "/esc\x1b[2Jape", "/ünï", "-rf", "/back\\slash", "/bidi\u202e", "~", "/a*b?",
]  # fmt: skip


def test_a_folder_of_any_name_is_one_word_for_a_shell() -> None:
    for folder in FOLDERS:
        assert shell_word(folder).isprintable()
        assert resume_command("x", folder).isprintable()
    words = " ".join(map(shell_word, FOLDERS))
    done = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {words}"], capture_output=True, check=True
    )
    assert done.stdout.decode().split("\0")[:-1] == FOLDERS


def test_nothing_found_is_one_line_with_what_was_perhaps_meant(world: World, files: Files) -> None:
    say(world, files, "the periwinkle at the depot", "quite another tide")
    done = world.cli("search", "perywinkle")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "No hits. Did you mean: ctxdb search periwinkle\n"
    assert world.cli("search", "depot", "tdie").stderr.endswith("search 'depot tide'\n")
    assert world.cli("search", "xylophone").stderr == "No hits: xylophone does not occur.\n"
    assert "OR between them" in world.cli("search", "depot", "tide").stderr
    assert run_json(world, "search", "perywinkle") == {
        "query": "perywinkle",
        "sessions": [],
        "suggestion": "periwinkle",
    }


def test_formats(world: World, files: Files) -> None:
    session = conversation(files)
    fill(world, files)
    answer = run_json(world, "search", "ferryd")
    assert list(answer) == ["query", "sessions", "suggestion"]
    [shown] = answer["sessions"]
    assert list(shown) == [
        "session_id", "title", "project", "cwd", "started_at", "resume", "more", "hits",
    ]  # fmt: skip
    hit = shown["hits"][0]
    assert hit["kind"] == "human"
    assert [hit["snippet"][a:b] for a, b in hit["matches"]] == ["ferryd"]
    rows = [
        json.loads(row) for row in world.cli("search", "ferryd", "-f", "jsonl").stdout.splitlines()
    ]
    assert [row["snippet"] for row in rows] == [one["snippet"] for one in shown["hits"]]
    assert {row["session_id"] for row in rows} == {session.session}
    assert world.cli("search", "ferryd", "-f", "csv").stdout.startswith("session_id,title,project,")
    assert world.cli("search", "ferryd", "-f", "md").stdout.count("\n") == 2 + len(rows)


def test_plain_text_names_session_hits_and_commands(world: World, files: Files) -> None:
    session = files.session()
    session.custom_title("Ferry trouble")
    session.prompt("why does ferryd crash")
    fill(world, files)
    assert world.cli("search", "ferryd").stdout == (
        "Ferry trouble  engine · 2026-03-01\n"
        f"  human 2026-03-01 09:00  ctxdb show {session.session[:8]} --turn 1\n"
        "    why does ferryd crash\n"
        f"  cd {CWD} && claude --resume {session.session}\n"
    )


def test_colours_are_for_terminals_only(world: World, files: Files) -> None:
    say(world, files, "why does ferryd crash")
    assert "\x1b" not in world.cli("search", "ferryd").stdout
    code, said = on_terminal(world, "search", "ferryd", "--no-sync")
    assert code == 0
    assert "\x1b[1;33mferryd\x1b[0m" in said
    _, plain = on_terminal(world, "search", "ferryd", "--no-sync", env={"NO_COLOR": "1"})
    assert "\x1b" not in plain


def test_hostile_text_in_hits_titles_and_folders_steers_no_terminal(
    world: World, files: Files
) -> None:
    session = files.session(cwd="/evil/\x1b[2J\u202e$(reboot)")
    session.custom_title(HOSTILE)
    session.prompt("needle " + HOSTILE)
    session.tool("\x1b[31mBash", {"command": "needle " + HOSTILE}, "needle " + HOSTILE)
    fill(world, files)
    for format_ in ("text", "json", "jsonl", "csv", "md"):
        done = world.cli("search", "needle", "--format", format_)
        assert "needle" in done.stdout
        assert unsafe(done.stdout) == []
    assert unsafe(world.cli("search", "needel\x1b[2J").stderr) == []


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["--since", "someday"], "not a time"),
        (["--tool", "Bash", "--kind", "human"], "--tool"),
        (["--kind", "nonsense"], "nonsense"),
        (["--limit", "0"], "--limit"),
        (["--session", "zzz"], "no session"),
        (["--project", "zzz"], "zzz"),
        (["--project", ""], "which project"),
        (["--tool", "Baash"], "no tool 'Baash'"),
    ],
)
def test_mistakes_are_one_line(world: World, files: Files, args: list[str], why: str) -> None:
    say(world, files, "tide")
    done = world.cli("search", "tide", *args)
    assert done.returncode in (1, 2)
    assert done.stdout == ""
    assert why in done.stderr
    assert "Traceback" not in done.stderr


def test_a_database_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    world = Here(tmp_path / "projects", tmp_path / "none.db")
    world.root.mkdir()
    done = world.cli("search", "tide")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert not world.db.exists()


def test_a_search_changes_nothing(world: World, files: Files) -> None:
    say(world, files, "tide", "moon 상태")
    before = world.db.read_bytes()
    for words in ("tide", "상태", "nowhere", "=>"):
        look(world, words)
    assert world.db.read_bytes() == before


@pytest.mark.parametrize("nothing", ["", "  ", "\n"])
def test_a_search_for_nothing_is_wrong_usage(world: World, files: Files, nothing: str) -> None:
    say(world, files, "tide")
    done = world.cli("search", nothing)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "Error: give one or more words to look for\n"


def test_a_model_that_was_never_used_is_reported_if_nothing_is_found(
    world: World, files: Files
) -> None:
    say(world, files, "tide")
    done = world.cli("search", "tide", "--model", "opsu")
    assert done.returncode == 2
    assert done.stderr.startswith("Error: no model 'opsu'")


def test_code_to_the_letter_in_a_call_comes_before_its_words_in_a_message(
    world: World, files: Files
) -> None:
    session = files.session()
    session.prompt("commit it")
    command = 'git commit -m "$(cat <<EOF'
    session.tool("Bash", {"command": command}, "ok", {"stdout": "ok"})
    session.prompt("the cat is out")
    fill(world, files)
    assert found(world, "$(cat")[0] == 'git commit -m "[$(cat] <<EOF'
    assert [hit for hit in found(world, "$(cat") if "out" in hit] == ["the [cat] is out"]


def test_a_pasted_page_is_not_repeated_where_nothing_is_found(world: World, files: Files) -> None:
    say(world, files, "tide")
    done = world.cli("search", "x" * 5000)
    assert done.stderr.endswith("x… does not occur.\n")
    assert len(done.stderr) < 100


# -- what people said and names ------------------------------------------------------------------


def test_a_session_is_found_by_every_name_it_ever_had(world: World, files: Files) -> None:
    session = files.session()
    session.prompt("go", slug="calm-baking-otter")
    session.reply(text("gone"))
    for title in ("Lighthouse keeper", "Foghorn repair"):
        session.ai_title(title)
    fill(world, files)
    for words in ("lighthouse", "foghorn repair", "otter"):
        [group] = look(world, words).groups
        assert [(hit.source, hit.kind) for hit in group.hits] == [("session", "title")], words
    assert found(world, "lighthouse") == ["[Lighthouse] keeper"]
    assert not look(world, "lighthouse", kind="human").groups
    assert look(world, "lighthouse", kind="title").groups


def test_a_queued_prompt_and_a_slash_command_are_found(world: World, files: Files) -> None:
    session = files.session()
    session.prompt("go")
    session.queue("enqueue", content="mind the anchor chain")
    session.queue("remove")
    session.command("/deploy", "harbour")
    fill(world, files)
    assert found(world, "anchor chain", kind="human") == ["mind the [anchor] [chain]"]
    assert found(world, "deploy harbour", kind="command") == ["/[deploy] [harbour]"]


def test_the_reason_for_refusing_an_edit_is_found(world: World, files: Files) -> None:
    session = files.session()
    session.prompt("go")
    call = tool_use(files, "Edit", {"file_path": "/a", "old_string": "x", "new_string": "y"})
    session.reply(call)
    said = "The user doesn't want to proceed with this tool use. the user said:\nuse the capstan"
    session.result(call["id"], said, is_error=True)
    fill(world, files)
    assert len(found(world, "capstan")) == 1


def test_few_hits_are_joined_by_those_of_other_forms_of_the_word(
    world: World, files: Files
) -> None:
    say(world, files, "a conflict", "two conflicts", "three conflicts")
    answer = look(world, "conflict")
    assert answer.forms == ["conflicts"]
    assert found(world, "conflict") == ["a [conflict]", "three [conflict]s", "two [conflict]s"]
    assert look(world, "conflicts").forms == ["conflict"]
    done = world.cli("search", "conflict", "--no-sync")
    assert "Few hits: also searched for conflicts." in done.stderr
    say(world, files, *(f"conflict {n}" for n in range(5)))
    assert look(world, "conflict").forms == []


def test_the_indexes_stay_in_step_when_the_database_is_vacuumed(world: World, files: Files) -> None:
    session = files.session()
    session.prompt("go")
    session.ai_title("Lighthouse keeper")
    files.session().prompt("elsewhere")
    fill(world, files)
    with world.connect(write=True) as conn:
        conn.execute("DELETE FROM turns WHERE prompt = 'elsewhere'")
        conn.commit()
        conn.execute("VACUUM")
        for name in ("turns_fts", "sessions_fts"):
            conn.execute(f"INSERT INTO {name}({name}, rank) VALUES ('integrity-check', 1)")
    assert len(look(world, "lighthouse").groups) == 1


def test_a_prompt_that_was_queued_and_taken_back_is_found(world: World, files: Files) -> None:
    session = files.session()
    session.prompt("go")
    session.queue("enqueue", content="drop the kedge anchor")
    session.queue("popAll", content="drop the kedge anchor")
    fill(world, files)
    assert not world.ask("SELECT 1 FROM turns WHERE prompt LIKE '%kedge%'")
    assert found(world, "kedge anchor") == ["drop the [kedge] [anchor]"]
    assert not look(world, "kedge", kind="assistant").groups
    assert not look(world, "kedge", session="0" * 36).groups


def test_a_notice_that_was_queued_is_no_text_of_a_person(world: World, files: Files) -> None:
    session = files.session()
    session.prompt("go")
    for opening in (
        "<task-notification>",
        "<agent-notification>",
        "\n<system-reminder>",
        '<agent-message from="b">',
        '<teammate-message teammate_id="b">',
    ):
        session.queue("enqueue", content=f"{opening}\nthe sextant is ready")
    session.queue("enqueue", content="<b>polish the sextant</b>")
    fill(world, files)
    assert found(world, "sextant", kind="human") == ["<b>polish the [sextant]</b>"]


def test_history_plans_and_todos_are_found(world: World, files: Files) -> None:
    session = files.session()
    session.prompt("go")
    fill(world, files)
    gone = "99999999-0000-4000-8000-000000000000"
    world.change(
        "INSERT INTO history (timestamp, session_id, prompt)"
        " VALUES ('2026-03-01', ?, 'a lost oar')",
        gone,
    )
    world.change(
        "INSERT INTO plans (session_id, text, source) VALUES (?, 'caulk the hull', 'file')",
        session.session,
    )
    world.change(
        "INSERT INTO todos (session_id, subject, status, source)"
        " VALUES (?, 'scrape barnacles', 'pending', 'file')",
        session.session,
    )
    short = session.session[:8]
    for words, kind, show in (
        ("lost oar", "human", "ctxdb query history"),
        ("caulk", "plan", f"ctxdb query plans --session {short}"),
        ("barnacles", "todo", f"ctxdb query todos --session {short}"),
    ):
        [shown] = sessions_found(world, words, kind=kind)
        assert [one.hit.kind for one in shown.hits] == [kind]
        assert [one.show for one in shown.hits] == [show]
    [shown] = sessions_found(world, "lost oar")
    assert shown.resume is None
    assert shown.title == "(its transcript is gone)"
