"""Nothing unknown is dropped silently: what is on no list goes to messages.extra, and is shown."""

from __future__ import annotations

import json
import tarfile
from typing import Any

import pytest

from builder import Transcript, World, text, tool_use
from ctxdb.claude import read_entry
from ctxdb.claude.extra import MAX_BYTES
from ctxdb.claude.rebuilt_entry import rebuilt_entry
from ctxdb.rows import Message
from lab import told_by
from real_corpus import CORPUS, HAS_CORPUS


def begun() -> tuple[World, Transcript]:
    world = World()
    main = world.session(version="2.1.300")
    main.prompt("go on")
    return world, main


def extras(world: World) -> list[Any]:
    rows = told_by(world.contents(), "SELECT extra FROM messages WHERE extra IS NOT NULL")
    return [json.loads(extra) for (extra,) in rows]


def read(entry: dict[str, Any]) -> Message:
    record = read_entry(entry, 0, 1, b"{}", False)
    assert isinstance(record, Message)
    return record


def extra(entry: dict[str, Any]) -> Any:
    found = read(entry).extra
    return None if found is None else json.loads(found)


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "user", "uuid": "u", "message": {"role": "user", "content": content}, **more}


RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"}


def test_a_known_entry_has_no_extra() -> None:
    world, main = begun()
    main.tool("Bash", {"command": "ls"}, "a", {"stdout": "a", "stderr": "", "interrupted": False})
    main.system("turn_duration", durationMs=5)
    main.attach("date_change", newDate="2026-11-01")
    assert extras(world) == []


def test_unknown_keys_are_kept_by_their_path() -> None:
    world, main = begun()
    main.prompt("x", mood={"is": "good"})
    assert extras(world) == [{"mood": {"is": "good"}}]


def test_unknown_keys_of_message_usage_and_results_are_kept() -> None:
    said = {"role": "assistant", "content": [], "mood": 1, "usage": {"input_tokens": 1, "tone": 2}}
    entry = {"type": "assistant", "uuid": "u", "message": said}
    assert extra(entry) == {"message.mood": 1, "message.usage.tone": 2}
    assert extra(user([RESULT], toolUseResult={"stdout": "", "tone": [3]})) == {
        "toolUseResult.tone": [3]
    }


def test_unknown_blocks_and_keys_of_known_blocks_are_kept() -> None:
    blocks = [text("a"), {"type": "smell", "of": "rose"}, {"type": "text", "text": "b", "tone": 1}]
    assert extra(user(blocks)) == {
        "content.smell": [{"type": "smell", "of": "rose"}],
        "content.text.tone": [1],
    }
    assert extra(user([text("a"), 5, {"no": "type"}])) == {"content": [5, {"no": "type"}]}


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        ("a text", {"message": "a text"}),
        ({"content": {"a": 1}}, {"message.content": {"a": 1}}),
        ({"content": "x", "usage": 5}, {"message.usage": 5}),
        ({"content": "x", "usage": None}, None),
        (None, None),
    ],
)
def test_values_of_an_unexpected_type_are_kept(message: Any, kept: Any) -> None:
    assert extra({"type": "user", "uuid": "u", "message": message}) == kept


def test_a_tool_result_without_a_block_is_kept_whole_and_is_no_turn() -> None:
    world, main = begun()
    main.prompt("it printed this", toolUseResult={"stdout": "this", "code": 3})
    found = told_by(
        world.contents(),
        "SELECT kind, text, json_extract(extra, '$.toolUseResult.code') FROM messages"
        " WHERE extra IS NOT NULL",
    )
    assert found == [("tool_result", "it printed this", 3)]
    assert told_by(world.contents(), "SELECT prompt FROM turns") == [("go on",)]
    assert extra(user("x", toolUseResult="Error: no")) == {"toolUseResult": "Error: no"}


def test_unknown_system_lines_and_attachments_are_shown_with_what_they_say() -> None:
    world, main = begun()
    main.system("rewind_stand_in", content="x", steps=[1, 2])
    main.attach("skill_mention", skill="a b " * 999)
    main.flat("continued-in", sessionId=main.session, target="s2")
    found = told_by(
        world.contents(), "SELECT key, version, entries, sessions FROM unknown_keys ORDER BY key"
    )
    assert found == [
        ("attachment.skill_mention", "2.1.300", 1, 1),
        ("entry.continued-in", "2.1.300", 1, 1),
        ("steps", "2.1.300", 1, 1),
        ("system.rewind_stand_in", "2.1.300", 1, 1),
    ]
    kept = {key: value for one in extras(world) for key, value in one.items()}
    assert kept["steps"] == [1, 2]
    assert kept["attachment.skill_mention"]["skill"] == "a b " * 999


def test_the_view_counts_each_key_by_version() -> None:
    world = World()
    for version, times in (("2.1.300", 2), ("2.1.301", 1)):
        main = world.session(version=version)
        for number in range(times):
            main.prompt("x", mood=number)
    found = told_by(
        world.contents(), "SELECT key, version, entries, example FROM unknown_keys ORDER BY version"
    )
    assert found == [("mood", "2.1.300", 2, "1"), ("mood", "2.1.301", 1, "0")]


def test_base64_is_removed_from_extra() -> None:
    picture = "iVBORw0KGgo" + "A" * 4000
    kept = extra(user("x", thumbnail={"data": picture, "url": f"data:image/png;base64,{picture}"}))
    assert picture not in json.dumps(kept)
    assert kept["thumbnail"]["data"] == f"ctxdb-cut-base64:{len(picture)}"
    words = "some words " * 500
    assert extra(user("x", note=words)) == {"note": words}


def test_extra_is_cut_at_64_kb_and_says_so() -> None:
    found = read(user("x", small=1, large="two words " * 10_000, last=2)).extra
    assert found is not None
    assert len(found.encode()) <= MAX_BYTES
    assert json.loads(found) == {
        "truncated": True,
        "small": 1,
        "large": {"bytes": 100_002},
        "last": 2,
    }
    many = read(user("x", **{f"key {n}": "ä" * 40 for n in range(5000)})).extra
    assert many is not None
    assert MAX_BYTES - 1000 < len(many.encode()) <= MAX_BYTES
    assert json.loads(many)["truncated"] is True


def test_account_ids_are_in_no_extra() -> None:
    found = read(user("x", ownerAccountUuid="secret", bridge={"ownerOrganizationUuid": "secret"}))
    assert found.extra == '{"bridge":{}}'
    assert "secret" not in (found.data or "")


# -- what a result says besides its text -----------------------------------------------------------


def result_data(detail: Any, content: str = "done") -> Any:
    block = {**RESULT, "content": content}
    (found,) = read(user([block], toolUseResult=detail)).results or ()
    return None if found.result_data is None else json.loads(found.result_data)


def test_code_and_bytes_of_a_page_are_kept() -> None:
    said = {"bytes": 0, "code": 404, "codeText": "Not Found", "result": "x", "url": "https://a"}
    assert result_data(said) == {"bytes": 0, "code": 404, "codeText": "Not Found"}


def test_stderr_is_kept_where_the_result_does_not_have_it() -> None:
    assert result_data({"stdout": "a", "stderr": "warning: b\n"}, "a") == {"stderr": "warning: b\n"}
    assert result_data({"stdout": "a", "stderr": "warning: b\n"}, "a\nwarning: b") is None
    assert result_data({"stdout": "a", "stderr": ""}, "a") is None
    assert result_data({"stderr": "b" * 20_000}, "a") == {"stderr": {"bytes": 20_000}}


def test_a_change_by_the_person_is_kept() -> None:
    assert result_data({"filePath": "a", "userModified": True}) == {"userModified": True}
    assert result_data({"filePath": "a", "userModified": False}) is None
    assert result_data("Error: no") is None


def test_result_data_is_in_the_row_of_the_call() -> None:
    world, main = begun()
    main.tool("WebFetch", {"url": "https://a"}, "x", {"code": 200, "bytes": 7})
    found = told_by(world.contents(), "SELECT name, result_data FROM tool_uses")
    assert found == [("WebFetch", '{"code":200,"bytes":7}')]


# -- calls that run on the server ------------------------------------------------------------------


def server_result(kind: str, content: Any) -> tuple[str | None, int | None]:
    block = {"type": kind, "tool_use_id": "srvtoolu_1", "content": content}
    entry = {"type": "assistant", "uuid": "u", "message": {"content": [block]}}
    record = read(entry)
    (found,) = record.results or ()
    assert record.extra is None
    return found.result_text, found.result_bytes


def test_an_encrypted_result_is_only_its_size_and_kind() -> None:
    blob = {"type": "advisor_redacted_result", "encrypted_content": "x" * 300}
    said, size = server_result("advisor_tool_result", blob)
    assert said == "[advisor_redacted_result, 300 bytes encrypted]"
    assert size == len(json.dumps(blob, separators=(",", ":")))


def test_a_search_on_the_server_shows_the_pages_it_found() -> None:
    page = {"type": "web_search_result", "title": "A", "url": "https://a", "page_age": None}
    said, _ = server_result("web_search_tool_result", [{**page, "encrypted_content": "xyz"}])
    assert said == "A\nhttps://a\n[web_search_result, 3 bytes encrypted]"
    failed = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    assert server_result("web_search_tool_result", failed)[0] == json.dumps(
        failed, separators=(",", ":")
    )
    advice = {"type": "advisor_result", "text": "Try a smaller step."}
    assert server_result("advisor_tool_result", advice)[0] == "Try a smaller step."


# -- images, compactions, agents -------------------------------------------------------------------


def test_images_beside_the_message_are_kept_as_kinds_and_sizes() -> None:
    data = read(user("x", images=[{"media_type": "image/png", "data": "AAAA"}, "AAAAAAAA", 5])).data
    assert json.loads(data or "")["images"] == [
        {"kind": "image", "media_type": "image/png", "bytes": 3},
        {"kind": "image", "media_type": None, "bytes": 6},
        {"kind": "image", "media_type": None, "bytes": None},
    ]


def test_a_compaction_names_the_last_entry_before_it() -> None:
    world, main = begun()
    (last,) = main.reply(text("done"))
    main.system("compact_boundary", parentUuid=None, logicalParentUuid=last["uuid"])
    found = told_by(
        world.contents(),
        "SELECT b.parent_uuid, m.text, b.data FROM messages b"
        " JOIN messages m ON m.uuid = b.logical_parent_uuid",
    )
    assert [(parent, said) for parent, said, _ in found] == [(None, "done")]
    assert "logicalParentUuid" not in (found[0][2] or "")


def test_a_compaction_that_is_exported_again_still_names_it() -> None:
    entry = {"type": "system", "uuid": "b", "subtype": "compact_boundary", "parentUuid": None}
    record = read({**entry, "logicalParentUuid": "a"})
    assert rebuilt_entry(record)["logicalParentUuid"] == "a"
    assert "logicalParentUuid" not in rebuilt_entry(read(entry))


def test_progress_of_an_agent_without_an_id_is_known_by_its_call() -> None:
    world, main = begun()
    call = tool_use(world, "Task", {"prompt": "look", "description": "Look"})
    main.reply(call)
    inner = {
        "type": "assistant",
        "uuid": world.uuid(),
        "timestamp": world.now(),
        "message": {"role": "assistant", "id": "msg_1", "model": "m", "content": [text("found")]},
    }
    line = main.agent_progress("a1", call["id"], inner)
    del line["data"]["agentId"]
    found = told_by(
        world.contents(), "SELECT agent_id, is_sidechain, text FROM messages WHERE is_sidechain"
    )
    assert found == [(f"side-{call['id']}", 1, "found")]
    assert told_by(world.contents(), "SELECT agent_id, tool_use_id FROM agents") == [
        (f"side-{call['id']}", call["id"])
    ]


# -- real lines ------------------------------------------------------------------------------------


@pytest.mark.corpus
@HAS_CORPUS
def test_less_than_half_a_percent_of_real_bytes_is_unknown() -> None:
    total = unknown = 0
    with tarfile.open(CORPUS) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.name.endswith(".jsonl") else None
            for line in file.read().splitlines() if file else ():
                total += len(line)
                try:
                    entry = json.loads(line)
                except ValueError:
                    continue
                record = read_entry(entry, 0, len(line), line, False)
                if isinstance(record, Message) and record.extra is not None:
                    unknown += len(record.extra)
    assert total > 0
    assert unknown < total * 0.005
