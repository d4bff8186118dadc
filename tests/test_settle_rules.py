"""The rules that need stored rows, each in a small world: who owns, who comes first, which turn.

Every answer is asked of two databases, one that met all files at once and one that met them line by
line, the last file first. Inverted comparisons often give the same answer in any order: so each
test says what the answer is.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from builder import OTHER_PROJECT, Json, Transcript, World, copied, copy_to, fork, replay, text
from builder import tool_use as call_block
from ctxdb.settle.turns import file_order, last_turn_by_time
from lab import lab, told_by
from pricelab import answer, used

EARLY, LATE = "2026-02-01T00:00:00.000Z", "2026-05-01T00:00:00.000Z"
A, B, C = (f"{letter * 8}-0000-4000-8000-000000000000" for letter in "abc")


def told(world: World, sql: str) -> list[tuple[Any, ...]]:
    return told_by(world.contents(), sql)


# -- requests --------------------------------------------------------------------------------------


def test_r3_an_agents_own_request_counts_however_its_lines_arrive() -> None:
    world = World()
    t = world.session()
    t.prompt("begin")
    agent = t.agent_file("a1")
    agent.reply(text("one"), text("two"), message="msg_a", request="req_a")
    agent.reply(text("three"), message="msg_a", request="req_b")
    rows = told(world, "SELECT request_id, lines FROM usage ORDER BY 1")
    assert rows == [("req_a", 2), ("req_b", 1)]


def test_r3_a_replay_does_not_count_whichever_line_comes_first() -> None:
    world = World()
    t = world.session(session=B)
    t.prompt("begin")
    t.reply(text("one"), message="msg_a", request="req_a")
    side = t.agent_file("btw")
    side.reply(text("one"), message="msg_a", request="req_b", output=99)
    for files in (world.files, world.files[::-1]):
        world.files = files
        assert told(world, "SELECT request_id, lines FROM usage") == [("req_a", 1)]


def test_r2_requests_that_two_chunks_give_one_key_are_one() -> None:
    """Ids can be made up: an API message with a bar in it, and one without."""
    world = World()
    one, other = world.session(), world.session()
    answer(one, "m", tokens=used(1, 5), message="a|b", request="c")
    answer(other, "m", tokens=used(1, 9), message="a", request="b|c")
    assert told(world, "SELECT request_key, output_tokens, lines FROM usage") == [("a|b|c", 9, 2)]


def test_r18_a_request_that_is_there_without_its_lines_is_summed_up_when_they_come() -> None:
    """So it is after a merge of rows whose transcripts are nowhere."""
    world = World()
    answer(world.session(), "m", tokens=used(1, 9), message="a", request="b")
    with lab() as one:
        one.sync()
        with closing(sqlite3.connect(one.db)) as conn, conn:
            conn.execute(
                "INSERT INTO usage (request_key, model, output_tokens, input_tokens,"
                " cache_write_5m_tokens, cache_write_1h_tokens, cache_read_tokens, prompt_tokens,"
                " output_is_final, is_sidechain, lines)"
                " VALUES ('a|b', 'm', 5, 1, 0, 0, 0, 1, 1, 0, 1)"
            )
        world.write(one.root)
        one.sync()
        assert one.rows("SELECT request_key, output_tokens FROM usage") == [("a|b", 9)]


def test_r8_the_nearest_name_that_has_a_price_is_taken() -> None:
    world = World()
    answer(world.session(), "us.anthropic.claude-x-1-20260101", tokens=used(1, 0))
    with lab() as one:
        world.write(one.root)
        one.sync()
        with closing(sqlite3.connect(one.db)) as conn, conn:
            columns = [row[1] for row in conn.execute("PRAGMA table_info(prices)")]
            prices = [name for name in columns if name.endswith("_usd_per_mtok")]
            for price, name in ((7, "claude-x-1"), (3, "claude-x-1-20260101")):
                values = {"model": name, "prompt_tokens_gt": 0, "origin": "user"}
                values |= dict.fromkeys(prices, price)
                conn.execute(
                    f"INSERT INTO prices ({', '.join(values)})"
                    f" VALUES ({', '.join('?' * len(values))})",
                    [*values.values()],
                )
        assert one.rows("SELECT priced_model, cost FROM _costs") == [
            ("claude-x-1-20260101", 3_000_000)
        ]


# -- copies and owners -----------------------------------------------------------------------------

OWNERS = "SELECT session_id, count(*) FROM messages GROUP BY 1 ORDER BY 1"


def twin(old: Transcript, session: str, **more: Any) -> Transcript:
    """The same entries in a file of another session, under its id."""
    new = old.world.session(session=session)

    def change(entry: Json) -> None:
        entry.update(sessionId=session, **more)

    new.lines += copied(old.entries, change)
    return new


def test_lines_with_one_uuid_are_one_entry() -> None:
    world = World()
    t = world.session(session=A)
    t.prompt("one")
    t.system("two")
    twin(t, B)
    assert told(world, OWNERS) == [(A, 2)]
    assert told(world, "SELECT session_id, count(*) FROM message_copies GROUP BY 1") == [(B, 2)]


def test_a_fork_with_other_uuids_is_a_copy_of_what_it_names() -> None:
    world = World()
    t = world.session(session=B)
    t.prompt("one")
    t.prompt("two")
    new = fork(t, says_so=True, renew=True)
    new.prompt("three")
    assert told(world, OWNERS) == sorted([(B, 2), (new.session, 1)])


def test_replayed_lines_are_copies_and_answers_of_other_api_messages_are_not() -> None:
    world = World()
    t = world.session()
    t.prompt("begin")
    t.reply(text("Done."))
    replay(t)
    t.reply(text("Done."), timestamp=t.entries[1]["timestamp"])
    t.prompt("begin")  # at another time
    found = told(world, "SELECT type, count(*) FROM messages GROUP BY 1 ORDER BY 1")
    assert found == [("assistant", 2), ("user", 2)]
    assert told(world, "SELECT count(*) FROM message_copies") == [(2,)]


def test_turns_that_come_later_are_counted_on() -> None:
    world = World()
    t = world.session()
    for words in ("one", "two", "three"):
        t.prompt(words)
    found = told(world, "SELECT ordinal, prompt FROM turns ORDER BY 1")
    assert found == [(1, "one"), (2, "two"), (3, "three")]


def test_the_owner_is_the_line_without_forked_from() -> None:
    world = World()
    t = world.session(session=B)
    t.prompt("one", timestamp=LATE)
    twin(t, A, forkedFrom={"sessionId": B, "messageUuid": t.entries[0]["uuid"]}, timestamp=EARLY)
    assert told(world, OWNERS) == [(B, 1)]


def test_the_owner_is_the_line_in_its_own_sessions_file() -> None:
    world = World()
    t = world.session(session=B)
    t.prompt("one", timestamp=LATE)
    guest = world.session(session=C, name=A)
    guest.lines += copied(t.entries, lambda entry: entry.update(sessionId=C, timestamp=EARLY))
    assert told(world, OWNERS) == [(B, 1)]


def test_the_owner_is_the_earliest_line() -> None:
    world = World()
    t = world.session(session=B)
    t.prompt("one", timestamp=EARLY)
    t.prompt("later", timestamp=LATE)
    twin(t, A, timestamp=LATE)
    assert told(world, "SELECT session_id FROM messages ORDER BY timestamp") == [(B,), (A,)]


def test_the_owner_is_not_of_a_background_session() -> None:
    world = World()
    t = world.session(session=B)
    t.prompt("one")
    t.prompt("two")
    t.prompt("unshared")
    new = world.session(session=A)
    new.lines += copied(t.entries[:2], lambda e: e.update(sessionId=A, sessionKind="bg"))
    assert told(world, OWNERS) == [(B, 3)]


def test_of_two_sessions_the_one_whose_own_entries_begin_earlier_owns() -> None:
    world = World()
    t = world.session(session=B)
    t.prompt("one")
    new = twin(t, A)
    t.prompt("own, earlier")
    new.prompt("own, later")
    t.prompt("own, the last")
    assert told(world, OWNERS) == [(A, 1), (B, 3)]


def test_the_owner_changes_when_its_session_goes_on_later_than_another() -> None:
    world = World()
    t = world.session(session=B)
    t.prompt("one")
    new = twin(t, A)
    new.prompt("own, earlier")
    t.prompt("own, later")
    assert told(world, OWNERS) == [(A, 2), (B, 1)]


def test_a_session_without_own_entries_owns_before_one_that_has_some() -> None:
    world = World()
    t = world.session(session=B)
    t.prompt("one")
    t.prompt("two")
    new = twin(t, A)
    new.prompt("own")
    assert told(world, OWNERS) == [(A, 1), (B, 2)]


def test_an_earlier_own_entry_that_comes_late_changes_the_owner() -> None:
    world = World()
    t = world.session(session=B)
    t.prompt("one")
    new = twin(t, A)
    new.prompt("own")
    t.prompt("own, later")
    t.prompt("own, earlier than all", timestamp=EARLY)
    assert told(world, OWNERS) == [(A, 1), (B, 3)]


def test_of_equal_sessions_the_smallest_id_owns() -> None:
    world = World()
    t = world.session(session=B)
    t.prompt("one")
    twin(t, A)
    twin(t, C)
    assert told(world, OWNERS) == [(A, 1)]


def test_of_equal_files_the_first_path_owns() -> None:
    world = World()
    t = world.session(OTHER_PROJECT, session=A)
    t.prompt("one")
    t.flat("mode", mode="plan")
    copy_to(t, "-home-ada-before")
    for table in ("messages", "events"):
        sql = f"SELECT f.path FROM {table} JOIN source_files f ON f.id = source_file_id"
        ((path,),) = told(world, sql)
        assert "-home-ada-before" in path


def test_a_main_file_owns_before_an_agents_file() -> None:
    world = World()
    t = world.session("-z", session=A)
    agent = t.agent_file("a1")
    for file in (t, agent):
        file.flat("mode", mode="plan", sessionId=A)
    side = agent.prompt("one")
    t.lines.append(dict(side))
    for table in ("messages", "events"):
        sql = f"SELECT f.agent_id FROM {table} JOIN source_files f ON f.id = source_file_id"
        assert told(world, sql) == [(None,)]


def test_a_line_that_is_gone_keeps_only_what_no_other_line_has() -> None:
    world = World()
    t = world.session(session=B)
    t.prompt("kept")
    t.prompt("gone")
    copy = twin(t, A, forkedFrom={"sessionId": B})
    with lab() as one:
        one.put(t.path, t.data)
        one.sync()
        one.put(t.path, t.data.splitlines(keepends=True)[0])
        one.sync()
        assert one.rows(OWNERS) == [(B, 2)]
        one.put(copy.path, copy.data)
        one.sync()
        assert one.rows("SELECT text, session_id FROM messages ORDER BY 1") == [
            ("gone", A),
            ("kept", B),
        ]
        one.must_verify()


@pytest.mark.parametrize("kind", ["message", "event"])
def test_equal_lines_without_uuid_are_as_many_as_the_file_has(kind: str) -> None:
    world = World()
    t = world.session(session=A)
    for _ in range(3):
        if kind == "message":
            entry = t.prompt("again", timestamp=EARLY, parentUuid=None)
            del entry["uuid"]
            entry["message"]["content"] = ""  # no blocks: known by its bytes alone
        else:
            t.flat("mode", mode="plan")
    copy_to(t, OTHER_PROJECT)
    copy_to(t, "-home-ada-before", 2)
    assert told(world, f"SELECT count(*) FROM {kind}s") == [(3,)]


# -- pairs -----------------------------------------------------------------------------------------


def two_tellers(one: Json, other: Json) -> World:
    """Two entries that are no copies make the same call; the second one's file is read first."""
    world = World()
    block = call_block(world, "Bash", {"command": "x"}, "toolu_1")
    for session, fields in ((B, one), (A, other)):
        t = world.session(session=session)
        body = {"message": {"id": f"msg_{session}", "role": "assistant", "content": [block]}}
        t.thread("assistant", {**body, "agent": None}, **fields)
        t.lines = [{**entry, **fields} for entry in t.entries]
    return world


FIRST = {
    "earlier": ({"timestamp": EARLY}, {"timestamp": LATE}, B),
    "has a time": ({"timestamp": LATE}, {"timestamp": None}, B),
    "smaller session": ({"timestamp": EARLY}, {"timestamp": EARLY}, A),
}


@pytest.mark.parametrize("why", FIRST)
def test_a_call_that_two_messages_make_is_of_the_first(why: str) -> None:
    one, other, expected = FIRST[why]
    found = told(two_tellers(one, other), "SELECT session_id FROM tool_uses")
    assert found == [(expected,)]


def test_of_two_messages_of_one_moment_the_smaller_uuid_has_the_call() -> None:
    world = World()
    t = world.session(session=A)
    block = call_block(world, "Bash", {"command": "x"}, "toolu_1")
    for uuid in (B, A, C):
        t.reply(block, timestamp=EARLY, uuid=uuid)
    sql = "SELECT m.uuid FROM tool_uses t JOIN messages m ON m.id = t.message_id"
    assert told(world, sql) == [(A,)]


def test_results_of_repeating_ids_never_go_to_calls_of_another_session() -> None:
    world = World()
    for session, other in ((B, A), (A, B)):
        t = world.session(session=session)
        t.reply(call_block(world, "Bash", {"command": session}, "call_0"))
        guest = world.session(session=other, name=f"guest-{other}")
        guest.result("call_0", other)
    found = told(world, "SELECT target, result_text, session_id FROM tool_uses ORDER BY 1")
    assert found == [(A, A, A), (B, B, B)]


# -- turns -----------------------------------------------------------------------------------------

TURNS = "SELECT ordinal, prompt FROM turns WHERE session_id = '{}' ORDER BY 1"


def test_a_message_belongs_to_the_last_turn_begun_at_or_before_it() -> None:
    world = World()
    t = world.session()
    t.system("before")
    for n in (1, 2, 3):
        t.prompt(f"prompt {n}")
        t.reply(text(f"answer {n}"))
    sql = (
        "SELECT m.text, t.prompt FROM messages m LEFT JOIN turns t ON t.id = m.turn_id"
        " ORDER BY m.byte_start"
    )
    expected = [("before", None)]
    for n in (1, 2, 3):
        expected += [(f"prompt {n}", f"prompt {n}"), (f"answer {n}", f"prompt {n}")]
    assert told(world, sql) == expected
    fork(t, says_so=True, renew=False)  # entries that change hands get their turns again
    assert told(world, sql) == expected


def test_a_turn_ends_with_the_last_of_its_messages() -> None:
    world = World()
    t = world.session()
    t.prompt("begin")
    t.reply(text("last"), timestamp=LATE)
    t.reply(text("but one"))
    assert told(world, "SELECT ended_at FROM turns") == [(LATE,)]


def test_a_sessions_own_file_is_read_first_then_the_others_by_time_and_path() -> None:
    world = World()
    t = world.session(session=A)
    t.prompt("own", timestamp=LATE)
    times = {"f": EARLY, "e": "2026-03-01T00:00:00.000Z", "d": LATE, "c": LATE}
    for letter, at in times.items():  # named after other sessions
        guest = world.session(session=A, name=letter * 8 + A[8:])
        guest.prompt(letter, timestamp=at)
    found = [prompt for _, prompt in told(world, TURNS.format(A))]
    assert found == ["own", "f", "e", "c", "d"]


def test_agents_files_are_read_after_main_files() -> None:
    world = World()
    t = world.session(session=A)
    t.prompt("main", timestamp=LATE)
    t.agent_file("a1").prompt("agent", timestamp=EARLY)
    part = world.session(session=A, name="part")
    part.prompt("part", timestamp=LATE)
    with lab() as one:
        world.write(one.root)
        one.sync()
        paths = dict(one.rows("SELECT id, path FROM source_files"))
        with closing(sqlite3.connect(one.db)) as conn:
            found = [paths[file_id] for file_id in file_order(conn, A)]
    assert [path.rpartition("/")[2] for path in found] == [
        f"{A}.jsonl",
        "part.jsonl",
        "agent-a1.jsonl",
    ]


def test_turns_of_one_file_are_counted_by_byte() -> None:
    world = World()
    t = world.session(session=A)
    for n in (1, 2):
        t.prompt(f"prompt {n}")
    t.queue("enqueue", "queued")
    t.queue("remove", "queued")
    t.prompt("prompt 3")
    part = world.session(session=A, name="part")
    part.prompt("part")
    expected = [(n, p) for n, p in enumerate(("prompt 1", "prompt 2", "queued", "prompt 3"), 1)]
    assert told(world, TURNS.format(A)) == [*expected, (5, "part")]


def test_what_follows_a_copied_prompt_in_a_second_file_belongs_to_its_turn() -> None:
    world = World()
    t = world.session(session=A)
    t.prompt("one")
    t.prompt("two")
    more = copy_to(t, OTHER_PROJECT)
    more.parent = t.parent
    more.reply(text("answer"))
    sql = "SELECT t.prompt FROM messages m JOIN turns t ON t.id = m.turn_id WHERE m.text = 'answer'"
    assert told(world, sql) == [("two",)]
    with lab() as one:
        one.put(t.path, t.data)
        one.sync()
        for line in more.data.splitlines(keepends=True):
            one.append(more.path, line)
            one.sync()
        assert one.rows(sql) == [("two",)]


def test_the_turn_at_a_moment_is_the_last_that_began_by_then() -> None:
    world = World()
    t = world.session(session=A)
    times = [t.prompt(f"prompt {n}")["timestamp"] for n in (1, 2, 3)]
    with lab() as one:
        world.write(one.root)
        one.sync()
        with closing(sqlite3.connect(one.db)) as conn:
            found = [last_turn_by_time(conn, A, at) for at in [EARLY, *times, LATE]]
            assert conn.execute("SELECT id FROM turns ORDER BY ordinal").fetchall() == [
                (turn,) for turn in found[1:4]
            ]
    assert found[0] is None
    assert found[4] == found[3]


def test_prompts_of_agents_begin_no_turns() -> None:
    world = World()
    t = world.session(session=A)
    t.prompt("main")
    t.agent_file("a1").prompt("agent")
    assert told(world, TURNS.format(A)) == [(1, "main")]
