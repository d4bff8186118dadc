"""What was said: prompts, replies, conversations, interruptions, compactions, failures of the API.

The world is that of viewworld.py; the numbers were counted by hand.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from builder import World, fork, resume, text, thinking, tool_use
from lab import lab
from viewlab import ask, columns, stored
from viewworld import A_PY, MAIN, SECOND, handmade

if TYPE_CHECKING:
    from collections.abc import Iterator

    from builder import Json, Transcript
    from viewlab import Made


@pytest.fixture(scope="module")
def db() -> Iterator[Path]:
    with lab() as one:
        yield stored(one, handmade())


def exchange(session: Transcript, question: str, answer: str) -> None:
    session.prompt(question)
    session.reply(text(answer))


def test_prompts_are_all_that_people_said_newest_first(db: Path) -> None:
    assert columns(db, "prompts", "kind, text, about") == [
        ("prompt", "another way", None),
        ("prompt", "/usr/bin is no command", None),
        ("prompt", "then rename it", None),
        ("refusal", "keep the build", "Bash: rm -rf build"),
        ("answer", 'red, or "blue"', 'Which "colour"?'),  # the answers of one call, in order
        ("answer", "2.5 or so", "How many?"),
        ("queued", "also the docs", None),
        ("prompt", "make it green", None),
    ]


def test_an_answer_and_a_refusal_name_the_call_and_the_request(db: Path) -> None:
    rows = columns(db, "prompts", "kind, tool_use_id IS NOT NULL, turn_id")
    (turn,) = {turn for kind, _, turn in rows if kind == "queued"}
    assert [row for row in rows if row[0] in ("answer", "refusal")] == [
        ("refusal", 1, turn),
        ("answer", 1, turn),
        ("answer", 1, turn),
    ]


NOW = "You can now continue with the user's answers in mind."


@pytest.mark.parametrize(
    ("result", "answers"),
    [
        (f'"A?"="it says "no". So stop". {NOW}', ['it says "no". So stop']),
        (
            f'"A?"="say "x". Then "y".", "B?"="1", "C?"="say "z". "w"". {NOW}',
            ['say "x". Then "y".', "1", 'say "z". "w"'],
        ),
        (f'"A?"="You can: "go on". {NOW} Or not". {NOW}', [f'You can: "go on". {NOW} Or not']),
        (f'"A?"="one", "C?"="three, not "two". Yes". {NOW}', ["one", 'three, not "two". Yes']),
        (f'"A?"="red" user notes: dark. Very dark. {NOW}', ['red" user notes: dark. Very dark']),
        ('"A?"="red". You can now continue with these answers in mind.', ["red"]),
        ('"A?"="say "x". Please". Go on.', ['say "x". Please']),
        ('"A?"="red"', ["red"]),
        ('"A?"="red".', ["red"]),
    ],
)
def test_an_answer_is_whole_whatever_is_in_it(made: Made, result: str, answers: list[str]) -> None:
    world = World()
    t = world.session()
    questions = [{"question": "A?"}, {"question": "B?"}, {"question": "C?"}]
    before = "User has answered your questions: "
    t.tool("AskUserQuestion", {"questions": questions}, before + result)
    rows = columns(made(world), "prompts", "text")
    assert [said for (said,) in rows] == answers


@pytest.mark.parametrize(
    "said",
    [
        "The user doesn't want to proceed with this tool use. STOP what you are doing.",
        "The user doesn't want to. the user said:\nThe user wants to clarify these questions. ...",
    ],
    ids=["no reason", "a button"],
)
def test_a_refusal_without_words_of_a_person_is_no_prompt(made: Made, said: str) -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    call = tool_use(world, "Bash", {"command": "rm x"})
    t.reply(call)
    t.result(call["id"], said, is_error=True)
    assert columns(made(world), "prompts", "kind, text") == [("prompt", "go")]


def test_a_reply_is_whole_whatever_lines_it_was_written_as(db: Path) -> None:
    rest = (
        "WHERE turn_id = (SELECT id FROM turns WHERE prompt = 'make it green') ORDER BY timestamp"
    )
    assert columns(db, "replies", "text, thinking, calls, tool_calls, output_tokens", rest) == [
        (None, "first the tests", "Bash", 1, 10),
        ("I will read it.", None, None, 0, 5),
        (None, None, "Read", 1, 5),
        (None, None, "Edit", 1, 5),
        (None, None, "Bash", 1, 5),
        (None, None, "Bash", 1, 5),
        ("It is green.\n\nAnd committed.", None, None, 0, 10),
    ]


def test_a_reply_stays_whole_when_its_result_is_between_its_lines(made: Made) -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    call = tool_use(world, "Bash", {"command": "ls"})
    ids = {"message": "msg_1", "request": "req_1"}
    t.reply(thinking("hm"), text("First."), call, final=False, **ids)
    t.result(call["id"])
    t.reply(text("Last."), output=50, **ids)
    rows = columns(made(world), "replies", "text, thinking, calls, output_tokens, output_is_final")
    assert rows == [("First.\n\nLast.", "hm", "Bash", 50, 1)]


def test_a_reply_that_tells_nothing_of_tokens_is_there(made: Made) -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    t.thread("assistant", {"message": {"role": "assistant", "content": [text("Gone.")]}})
    assert columns(made(world), "replies", "text, output_tokens") == [("Gone.", None)]


def said(
    t: Transcript, message: str | None, request: str | None, *blocks: Json, **body: Any
) -> None:
    """Lines of one API message as other programs write them: without tokens."""
    for block in blocks:
        ids = {} if message is None else {"id": message}
        more = {} if request is None else {"requestId": request}
        line = {"role": "assistant", "model": "m", "content": [block], **ids, **body}
        t.thread("assistant", {"message": line}, **more)


@pytest.mark.parametrize("call_id", ["toolu_1", "call_1"])
def test_a_reply_that_is_in_two_sessions_is_shown_once(made: Made, call_id: str) -> None:
    world = World()
    call = tool_use(world, "Bash", {"command": "ls"}, call_id)
    blocks = (thinking("hm"), text("First."), call)
    ids = {"message": "msg_1", "request": "req_1"}
    first = world.session()
    first.reply(*blocks, **ids)
    world.session().reply(*blocks, **ids)
    names = "text, thinking, calls, tool_calls, session_id"
    assert columns(made(world), "replies", names) == [("First.", "hm", "Bash", 1, first.session)]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_reply_that_a_sidechain_repeats_says_it_once(made: Made, is_first: bool) -> None:
    world = World()
    t, other = world.session(), world.session()
    side = t.agent_file("a1")
    ids = {"message": "msg_1", "request": "req_1"}
    threads = (side, other) if is_first else (t, side)
    for thread in threads:
        thread.reply(text("First."), text("Last."), **ids)
    (row,) = columns(made(world), "replies", "text, agent_id, session_id")
    assert row == ("First.\n\nLast.", "a1" if is_first else None, t.session)


def test_what_only_the_session_that_went_on_has_of_a_reply_is_part_of_it(made: Made) -> None:
    world = World()
    first = world.session()
    ids = {"message": "msg_1", "request": "req_1"}
    first.reply(text("First."), **ids)
    second = fork(first, says_so=True, renew=True)
    second.reply(text("Last."), output=50, **ids)
    (row,) = columns(made(world), "replies", "text, output_tokens, session_id")
    assert row == ("First.\n\nLast.", 50, first.session)


def test_a_reply_without_tokens_is_one_row_whatever_lines_it_was_written_as(made: Made) -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    call = tool_use(world, "Bash", {"command": "ls"})
    said(t, "msg_1", "req_1", thinking("hm"), text("One."), call, text("Two."))
    said(t, "msg_2", None, text("Three."), text("Four."), stop_reason="end_turn")
    said(t, None, None, text("Five."), text("Six."))
    said(world.session(), "msg_2", None, text("Elsewhere."))
    names = "text, thinking, calls, tool_calls, stop_reason, output_tokens, request_id"
    none = (None, None, 0, None, None, None)
    assert columns(made(world), "replies", names, "ORDER BY timestamp") == [
        ("One.\n\nTwo.", "hm", "Bash", 1, None, None, "req_1"),
        ("Three.\n\nFour.", None, None, 0, "end_turn", None, None),
        ("Five.", *none),
        ("Six.", *none),
        ("Elsewhere.", *none),
    ]


def test_a_reply_of_an_unnamed_model_is_there(made: Made) -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    t.reply(text("Who am I?"), model=None)
    names = "text, model, output_tokens"
    assert columns(made(world), "replies", names) == [("Who am I?", None, None)]


def test_the_clients_own_lines_are_no_replies(db: Path) -> None:
    assert columns(db, "replies", "count(*), count(DISTINCT api_message_id)") == [(17, 17)]
    assert columns(db, "replies", "count(*)", "WHERE text LIKE 'API Error%'") == [(0,)]


def test_a_conversation_reads_in_order_with_its_calls(db: Path) -> None:
    rest = f"WHERE session_id = '{MAIN}' AND agent_id IS NULL"
    assert columns(db, "conversation", "kind, coalesce(text, tool), status", rest) == [
        ("prompt", "make it green", None),
        ("thinking", "first the tests", None),
        ("call", "Bash", "error"),
        ("reply", "I will read it.", None),
        ("call", "Read", "ok"),
        ("call", "Edit", "ok"),
        ("call", "Bash", "ok"),
        ("call", "Bash", "ok"),
        ("reply", "It is green.", None),
        ("reply", "And committed.", None),
        ("queued", "also the docs", None),
        ("call", "Write", "ok"),
        ("call", "Agent", "ok"),
        ("call", "AskUserQuestion", "ok"),
        ("call", "Bash", "rejected"),
        ("interruption", "[Request interrupted by user for tool use]", None),
        ("prompt", "then rename it", None),
        ("reply", "I could rename", None),
        ("interruption", "[Request interrupted by user]", None),
        ("compact_summary", "What was said so far", None),
        ("prompt", "/usr/bin is no command", None),
        ("reply", "Right.", None),
    ]


def test_a_reply_of_blanks_is_no_part_of_a_conversation(made: Made) -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    t.reply(text("\n\n"))
    t.reply(text("Done."))
    assert columns(made(world), "conversation", "kind, text") == [
        ("prompt", "go"),
        ("reply", "Done."),
    ]


def test_a_conversation_has_the_agents_words_under_their_name(db: Path) -> None:
    rest = "WHERE agent_id = 'a1'"
    assert columns(db, "conversation", "kind, text, tool, target", rest) == [
        ("agent_prompt", "look", None, None),
        ("call", None, "Read", A_PY),
        ("reply", "Nothing new.", None, None),
    ]


def test_the_conversation_of_a_fork_begins_with_what_it_shares(db: Path) -> None:
    rest = f"WHERE session_id = '{SECOND}'"
    assert columns(db, "conversation", "kind, coalesce(text, tool), is_copy", rest) == [
        ("prompt", "make it green", 1),
        ("thinking", "first the tests", 1),
        ("call", "Bash", 1),
        ("prompt", "another way", 0),
        ("reply", "Like this.", 0),
        ("synthetic", "API Error: overloaded", 0),
        ("call", "mcp__tracker__find", 0),
    ]


@pytest.mark.parametrize("how", ["gone", "there", "unnamed", "gone and unnamed"])
def test_an_old_resume_reads_whole_also_without_the_transcript_it_came_from(
    made: Made, how: str
) -> None:
    world = World()
    old = world.session(version="1.0.96")
    exchange(old, "first question", "first answer")
    new = resume(old)
    exchange(new, "second question", "second answer")
    if "gone" in how:
        world.files.remove(old)
    if "unnamed" in how:  # the first line that names a session is the old one's
        new.path = new.path.replace(new.session, "notes")
    db = made(world)
    rest = f"WHERE session_id = '{new.session}'"  # in reading order as they are
    said = ["first question", "first answer", "second question", "second answer"]
    assert columns(db, "conversation", "text", rest) == [(words,) for words in said]
    assert columns(db, "session_messages", "text", rest) == [(words,) for words in said]
    assert columns(db, "session_messages", "is_copy, owner_session_id", rest)[0] == (1, old.session)
    shared = f"WHERE session_id = '{new.session}'"
    assert columns(db, "session_lineage", "shared_messages", shared) == [
        (1 if "gone" in how else 2,)
    ]
    begun = f"WHERE session_id = '{old.session}'"
    assert ("first question",) in columns(db, "conversation", "text", begun)


def test_the_full_text_example_shows_what_was_found_in_a_thought(made: Made) -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    (example,) = (part for part in readme.split("```") if "snippet(messages_fts" in part)
    world = World()
    t = world.session()
    t.prompt("go")
    t.reply(thinking("a longer backoff"), text("Done."))
    found = ask(made(world), example.removeprefix("sql"))
    assert [row["found"] for row in found] == ["a longer [backoff]"]


def test_a_line_with_text_and_two_calls_says_the_text_once(made: Made) -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    calls = [tool_use(world, "Bash", {"command": name}) for name in ("ls", "pwd")]
    body = {"id": "msg_1", "role": "assistant", "model": "m", "content": [text("Both:"), *calls]}
    t.thread("assistant", {"message": body})
    rows = columns(made(world), "conversation", "kind, text, target", "WHERE kind = 'call'")
    assert rows == [("call", "Both:", "ls"), ("call", None, "pwd")]


def test_interruptions_say_what_was_going_on(db: Path) -> None:
    assert columns(db, "interruptions", "during, tool, target, status, doing, seconds") == [
        ("reply", None, None, None, "I could rename", 2.0),
        ("tool use", "Bash", "rm -rf build", "rejected", None, 13.0),
    ]
    assert columns(db, "interruptions", "prompt, next_prompt") == [
        ("then rename it", "/usr/bin is no command"),
        ("also the docs", "then rename it"),
    ]


def test_compactions_have_the_sizes_and_the_summary(db: Path) -> None:
    names = "kind, trigger, tokens_before, tokens_after, tokens_saved, summary, session_id"
    assert columns(db, "compactions", names) == [
        ("compact", "manual", 1000, 100, 900, "What was said so far", MAIN)
    ]


def test_a_microcompaction_is_a_compaction_of_its_own_kind(made: Made) -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    meta = {"trigger": "auto", "preTokens": 500, "tokensSaved": 200}
    t.system("microcompact_boundary", microcompactMetadata=meta)
    names = "kind, trigger, tokens_before, tokens_after, tokens_saved, summary"
    rows = columns(made(world), "compactions", names)
    assert rows == [("microcompact", "auto", 500, 300, 200, None)]


def test_api_errors_are_counted_by_day_and_kind(db: Path) -> None:
    names = "day, kind, status, errors, retried, failed, sessions, message"
    assert columns(db, "api_errors", names) == [
        ("2026-03-02", "overloaded", 529, 2, 1, 1, 1, "API Error: overloaded")
    ]


def test_an_api_error_without_an_answer_is_named_by_its_cause(made: Made) -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    t.system("api_error", cause={"code": "ConnectionRefused"}, error={"cause": {"code": "x"}})
    t.system("api_error", error="no idea")
    t.system("api_error", error={"status": 429})
    t.system("turn_duration", durationMs=7)
    rows = columns(made(world), "api_errors", "kind, status, errors", "ORDER BY kind")
    assert rows == [("ConnectionRefused", None, 1), ("no idea", None, 1), ("rate_limit", 429, 1)]


def test_an_api_error_that_says_nothing_has_failed_as_well(made: Made) -> None:
    world = World()
    t = world.session()
    t.prompt("go")
    t.reply(text(""), model="<synthetic>", isApiErrorMessage=True, apiErrorStatus=429)
    t.entries[-1]["message"]["content"] = []
    db = made(world)
    assert columns(db, "messages", "subtype", "WHERE kind = 'synthetic'") == [(None,)]
    assert columns(db, "api_errors", "kind, errors, retried, failed") == [("rate_limit", 1, 0, 1)]


def test_a_fork_hangs_below_the_session_it_came_from(db: Path) -> None:
    names = "root_session_id, depth, session_id, relation, shared_messages, parent_known"
    assert columns(db, "session_lineage", names) == [
        (MAIN, 0, MAIN, None, 0, None),
        (MAIN, 1, SECOND, "fork", 3, 1),
    ]


def test_a_chain_of_sessions_is_as_deep_as_it_is_long(made: Made) -> None:
    world = World()
    first = world.session(version="1.0.98")
    exchange(first, "one", "1")
    second = resume(first)
    exchange(second, "two", "2")
    third = fork(second, says_so=True, renew=True)
    third.prompt("three")
    world.session().prompt("not of this chain")
    rows = columns(made(world), "session_lineage", "depth, session_id, relation")
    assert rows == [
        (0, first.session, None),
        (1, second.session, "resume"),
        (2, third.session, "fork"),
    ]
