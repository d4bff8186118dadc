"""`<session>.jsonl.superseded-<ms>` is an older copy of a session's transcript."""

from __future__ import annotations

import pytest

from builder import World, copy_to, text
from ctxdb.claude.layout import is_transcript, role_of, session_in_path
from lab import at_once, lab, must_equal, told_by

SESSION = "0a1b2c3d-1111-4222-8333-444455556666"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"{SESSION}.jsonl", True),
        (f"{SESSION}.jsonl.superseded-1762400000000", True),
        (f"{SESSION}.jsonl.superseded-", False),
        (f"{SESSION}.jsonl.superseded-12x", False),
        (f"{SESSION}.superseded-12", False),
        (f"{SESSION}.jsonl.compact.tmp.4711", False),
        (f"{SESSION}.ccr-tip.json", False),
        (f"{SESSION}.precompact.json", False),
        (".dir-sync.json", False),
        ("bridge-pointer.json", False),
        ("journal.jsonl", False),
    ],
)
def test_which_names_are_transcripts(name: str, expected: bool) -> None:
    assert is_transcript(name) is expected


def test_an_older_copy_belongs_to_its_session_and_agent() -> None:
    older = ".jsonl.superseded-1762400000000"
    assert role_of(f"/r/-p/{SESSION}{older}", "/r").session_id == SESSION
    role = role_of(f"/r/-p/{SESSION}/subagents/agent-a1{older}", "/r")
    assert (role.session_id, role.agent_id) == (SESSION, "a1")
    assert session_in_path(f"/r/-p/{SESSION}{older}") == SESSION


def superseded() -> World:
    """A transcript that was replaced: the older copy has a reply that the new one lacks."""
    world = World()
    main = world.session(version="2.1.310")
    main.prompt("go on")
    main.reply(text("both have this"))
    older = copy_to(main, "-p")
    older.reply(text("only the older copy has this"))
    older.custom_title("Old")
    main.reply(text("only the new one has this"))
    older.path = f"{main.path}.superseded-1762400000000"
    return world


def test_lines_that_only_the_older_copy_has_are_kept_and_others_are_copies() -> None:
    contents = superseded().contents()
    assert sorted(told_by(contents, "SELECT text FROM messages WHERE type = 'assistant'")) == [
        ("both have this",),
        ("only the new one has this",),
        ("only the older copy has this",),
    ]
    assert told_by(contents, "SELECT count(*), count(DISTINCT session_id) FROM message_copies") == [
        (2, 1)
    ]
    assert told_by(contents, "SELECT count(*) FROM sessions") == [(1,)]
    assert told_by(
        contents,
        "SELECT DISTINCT f.path LIKE '%superseded%' FROM messages m JOIN source_files f"
        " ON f.id = m.source_file_id WHERE m.text = 'both have this'",
    ) == [(0,)]


def test_it_makes_no_difference_which_of_the_two_is_read_first() -> None:
    contents = superseded().contents()
    expected = at_once(contents)
    for names in (sorted(contents), sorted(contents, reverse=True)):
        with lab() as place:
            for name in names:
                place.put(name, contents[name])
                place.sync()
            must_equal(expected, place.content())


def test_a_transcript_that_is_renamed_and_replaced_loses_nothing() -> None:
    world = superseded()
    new, old = sorted(world.contents())
    with lab() as place:
        place.put(new, world.contents()[old])
        place.sync()
        (place.root / new).rename(place.root / old)
        place.put(new, world.contents()[new])
        place.sync()
        found = place.rows("SELECT count(*), count(DISTINCT session_id) FROM messages")
        assert found == [(4, 1)]
        place.must_verify()


def test_a_line_about_lost_writes_is_counted_for_its_file() -> None:
    world = World()
    main = world.session(version="2.1.310")
    main.prompt("go on")
    main.system("session_writes_lost", lines=3)
    world.session(version="2.1.310").prompt("hello")
    found = told_by(world.contents(), "SELECT writes_lost FROM ingest_health ORDER BY 1")
    assert found == [(0,), (1,)]
    kept = told_by(world.contents(), "SELECT extra FROM messages WHERE subtype LIKE '%lost'")
    assert kept == [('{"lines":3}',)]
