"""U+0000 in any text of a line is stored as U+2400, the symbol for it."""

from __future__ import annotations

import json

import pytest

from world import SESSION, World, entry, uuid_of

NUL, SYMBOL = "a\0b", "a\u2400b"


def transcript() -> list[dict[str, object]]:
    """Every kind of line, with a NUL in each text that is stored."""
    call = {
        "type": "tool_use",
        "id": "toolu_01",
        "name": "Bash",
        "input": {"command": NUL, NUL: "key"},
    }
    result = {"type": "tool_result", "tool_use_id": "toolu_01", "content": NUL}
    reply = [{"type": "thinking", "thinking": NUL}, {"type": "text", "text": NUL}, call]
    return [
        entry(0, NUL),
        entry(
            1,
            type="assistant",
            message={"id": "msg_1", "role": "assistant", "model": "m", "content": reply},
        ),
        entry(
            2,
            message={"role": "user", "content": [result]},
            toolUseResult={"stdout": NUL, "stderr": "", "interrupted": False},
        ),
        entry(3, type="system", subtype="informational", content=NUL, message=None),
        {"type": "custom-title", "customTitle": NUL, "sessionId": SESSION},
        {"type": "summary", "summary": NUL, "leafUuid": uuid_of(3)},
        {"type": "of-the-future", "said": [NUL, {NUL: NUL}], "sessionId": SESSION},
        entry(4, slug=NUL, gitBranch=NUL, cwd=f"/work/{NUL}"),
    ]


def encode(line: dict[str, object], how: str) -> bytes:
    text = json.dumps(line)
    if how == "raw":  # not JSON, but it can be read
        text = text.replace("\\u0000", "\0")
    elif how == "mended":
        text += " "  # so that it is not the usual line
    return text.encode() + b"\n"


@pytest.mark.parametrize("how", ["escaped", "mended", "raw"])
def test_a_nul_in_any_text_is_stored_as_its_symbol(world: World, how: str) -> None:
    world.write(b"".join(encode(line, how) for line in transcript()))
    world.sync()
    assert world.ask(
        "SELECT text, kind FROM messages WHERE type = 'user' AND text = ?", SYMBOL
    ) == [(SYMBOL, "human")]
    assert world.ask("SELECT text, thinking FROM messages WHERE type = 'assistant'") == [
        (SYMBOL, SYMBOL)
    ]
    assert world.one("SELECT text FROM messages WHERE type = 'system'") == SYMBOL
    [(given, target, result)] = world.ask("SELECT input, target, result_text FROM tool_uses")
    assert json.loads(given) == {"command": SYMBOL, SYMBOL: "key"}
    assert (target, result) == (SYMBOL, SYMBOL)
    said = json.loads(world.one("SELECT data FROM events WHERE type = 'of-the-future'"))
    assert said["said"] == [SYMBOL, {SYMBOL: SYMBOL}]
    assert world.ask(
        "SELECT title, title_source, first_prompt, slug, git_branch FROM sessions"
    ) == [(SYMBOL, "custom", SYMBOL, SYMBOL, SYMBOL)]
    assert world.one("SELECT prompt FROM turns WHERE ordinal = 1") == SYMBOL
    world.sound()


@pytest.mark.parametrize("how", ["escaped", "mended", "raw"])
def test_no_column_of_any_table_holds_a_nul(world: World, how: str) -> None:
    world.write(b"".join(encode(line, how) for line in transcript()))
    world.sync()
    with world.connect() as conn:
        tables = conn.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '%\\_fts%'"
            " ESCAPE '\\'"
        ).fetchall()
        found = []
        for (table,) in tables:
            for _, column, *_ in conn.execute(f'PRAGMA table_xinfo("{table}")').fetchall():
                sql = (
                    f'SELECT count(*) FROM "{table}" WHERE typeof("{column}") = \'text\''
                    f" AND instr(CAST(\"{column}\" AS BLOB), x'00')"
                )
                if conn.execute(sql).fetchone() != (0,):
                    found.append(f"{table}.{column}")
    assert found == []


def test_sqlite_sees_what_a_person_sees(world: World) -> None:
    world.write(b"".join(encode(line, "escaped") for line in transcript()))
    world.sync()
    assert world.ask(
        "SELECT length(text), instr(text, 'b'), text LIKE '%b' FROM messages"
        " WHERE type = 'assistant'"
    ) == [(3, 3, 1)]
