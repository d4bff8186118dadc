"""Secrets are masked before anything is stored, wherever they are."""

from __future__ import annotations

import json
import random
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxdb.privacy.digests import Digest
from ctxdb.privacy.json_bytes import cover, decoded, mask_json, places_in, uncovered
from ctxdb.privacy.masking import Masker
from ctxdb.privacy.secret_rules import RULES
from real_corpus import CORPUS, HAS_CORPUS
from secret_lab import SecretLab, entry, plant, session_of
from snapshot import content, differences

MASKER = Masker()
TOKEN = next(rule.example for rule in RULES if rule.name == "github-token")
OTHER = TOKEN[:-4] + "WXYZ"
KEY = next(rule.example for rule in RULES if rule.name == "stripe-key")


@pytest.fixture
def lab(tmp_path: Path) -> SecretLab:
    made = SecretLab(tmp_path / "claude")
    made.root.mkdir(parents=True)
    return made


def put(lab: SecretLab, *lines: bytes, number: int = 1) -> Path:
    return lab.put(f"projects/-work-tides/{session_of(number)}.jsonl", b"".join(lines))


def line(n: int, text: str, number: int = 1, **more: object) -> bytes:
    return json.dumps(entry(session_of(number), n, "user", text, **more)).encode() + b"\n"


def test_planted_secrets_of_every_rule_are_nowhere_in_the_database(lab: SecretLab) -> None:
    secrets = plant(lab)
    lab.sync()
    assert lab.holds(secrets) == set()
    lab.sound()
    for table, column in (
        ("messages", "text"), ("messages", "thinking"), ("messages", "cwd"),
        ("messages", "extra"), ("tool_uses", "input"), ("tool_uses", "result_text"),
        ("turns", "prompt"), ("events", "data"), ("sessions", "title"), ("plans", "text"),
        ("todos", "subject"), ("history", "prompt"), ("agents", "description"),
        ("files_touched", "path"), ("ingest_errors", "excerpt"),
    ):  # fmt: skip
        found = "\n".join(str(text) for (text,) in lab.ask(f"SELECT {column} FROM {table}"))
        missing = [rule.name for rule in RULES if f"[redacted:{rule.name}]" not in found]
        assert missing == [], (table, column)
    report = lab.verify()
    assert report.shown == []
    assert report.ok


def test_what_is_stored_is_masked_in_reader_processes_too(
    lab: SecretLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctxdb.ingest.run.READ_AHEAD_BYTES", 1)
    monkeypatch.setattr("ctxdb.ingest.first_sync.MIN_BYTES", 1)
    secrets = plant(lab, RULES[:4])
    lab.sync()
    assert lab.holds(secrets) == set()
    assert lab.verify().ok


def test_masking_can_be_switched_off(lab: SecretLab) -> None:
    put(lab, line(1, f"token {TOKEN}"))
    lab.sync(enabled=False)
    assert lab.ask("SELECT text FROM messages") == [(f"token {TOKEN}",)]
    assert lab.verify(enabled=False).ok


def test_two_different_secrets_at_the_same_place_are_two_entries(lab: SecretLab) -> None:
    at = {"timestamp": "2026-08-24T10:00:00.000Z"}
    put(lab, line(1, TOKEN, **at), line(2, OTHER, **at))
    lab.sync()
    assert lab.ask("SELECT text FROM messages") == [("[redacted:github-token]",)] * 2
    assert lab.verify().ok


@pytest.mark.parametrize("first", [True, False])
def test_a_copy_is_recognized_whatever_rules_were_on(lab: SecretLab, first: bool) -> None:
    at = {"timestamp": "2026-08-24T10:00:00.000Z"}
    path = put(lab, line(1, f"a {TOKEN}", **at))
    lab.sync(enabled=first)
    with path.open("ab") as file:
        file.write(line(2, f"a {TOKEN}", **at))  # a replay: another uuid, the same words
    lab.sync(enabled=not first)
    assert lab.ask("SELECT count(*) FROM messages") == [(1,)]
    assert lab.ask("SELECT count(*) FROM message_copies") == [(1,)]


def test_a_line_without_uuid_is_known_by_its_clear_bytes(lab: SecretLab) -> None:
    flat = json.dumps({"type": "never-seen", "sessionId": session_of(1), "value": TOKEN}).encode()
    path = put(lab, flat + b"\n")
    lab.sync()
    path.write_bytes(line(3, "first") + flat + b"\n")  # rewritten: the event is at another place
    lab.sync(enabled=False)
    assert lab.ask("SELECT count(*) FROM events") == [(1,)]


def test_verify_accepts_what_a_rule_masked_that_is_off_now(lab: SecretLab) -> None:
    put(lab, line(1, f"token {TOKEN}"), line(2, f"key {KEY}"))
    own = {"name": "acme", "keyword": "acme-", "pattern": "acme-[0-9]{6}"}
    lab.put("plans/a.md", f"{TOKEN} and acme-123456\n")
    lab.sync(rules=[own])
    assert lab.verify(off=["github-token"]).shown == []
    assert lab.verify(enabled=False).shown == []


def test_verify_still_finds_a_text_that_no_rule_made(lab: SecretLab) -> None:
    put(lab, line(1, "nothing secret here"))
    lab.sync()
    with closing(sqlite3.connect(lab.db)) as conn:
        conn.execute("UPDATE messages SET text = '[redacted:github-token] secret here'")
        conn.commit()
    assert not lab.verify().ok


def test_a_history_line_is_matched_with_its_masked_turn(lab: SecretLab) -> None:
    put(lab, line(1, f"use {TOKEN}"))
    typed = {"display": f"use {TOKEN}", "timestamp": 1787565601000, "project": "/work/tides"}
    lab.put("history.jsonl", json.dumps({**typed, "sessionId": session_of(1)}) + "\n")
    lab.sync()
    [(prompt, turn)] = lab.ask("SELECT prompt, turn_id FROM history")
    assert prompt == "use [redacted:github-token]"
    assert turn is not None


def test_the_same_lines_in_any_order_give_the_same_database(tmp_path: Path) -> None:
    found = []
    for order in range(2):
        lab = SecretLab(tmp_path / str(order))
        plant(lab, RULES[:3])
        files = sorted(lab.root.rglob("*.jsonl"))
        kept = {path: path.read_bytes() for path in files}
        for path in files:
            path.unlink()
        random.Random(order).shuffle(files)
        for path in files:
            path.write_bytes(kept[path])
            lab.sync()
        found.append(content(lab.db, lab.folder))
    one, other = found
    assert differences(one, other) == ""


def test_an_excerpt_never_holds_the_first_part_of_a_secret(lab: SecretLab) -> None:
    put(lab, b"x" * 190 + b" " + TOKEN.encode() + b"\n")
    lab.sync()
    [(excerpt,)] = lab.ask("SELECT excerpt FROM ingest_errors")
    assert "ghp_" not in excerpt


# -- the bytes of a line -------------------------------------------------------------------------

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from([TOKEN, KEY, "a\\b"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just(TOKEN), inner),
    max_leaves=20,
)


@given(values, st.booleans())
def test_a_masked_line_is_json_and_masking_it_again_changes_nothing(
    value: object, as_ascii: bool
) -> None:
    data = json.dumps(value, ensure_ascii=as_ascii).encode("utf-8", "surrogatepass")
    masked = cover(data, places_in(data, MASKER))
    json.loads(masked.decode("utf-8", "surrogatepass"))
    assert TOKEN.encode() not in masked
    assert places_in(masked, MASKER) == []


@given(st.lists(st.text() | st.sampled_from([rule.example for rule in RULES])))
def test_masking_texts_is_idempotent(parts: list[str]) -> None:
    once = MASKER.mask(" ".join(parts))
    assert MASKER.mask(once) == once


@given(st.text(), st.text())
def test_a_secret_written_with_escapes_is_found_at_its_bytes(before: str, after: str) -> None:
    spelt = "".join(f"\\u{ord(letter):04x}" for letter in TOKEN)
    inner = json.dumps(f"{before} ")[1:-1] + spelt + json.dumps(f" {after}")[1:-1]
    line = f'{{"a": "{inner}"}}'.encode()
    [place] = [one for one in places_in(line, MASKER) if one.rule == "github-token"]
    assert line[place.start : place.end].decode() == spelt


@given(st.text())
def test_decoding_a_string_is_as_json_reads_it(text: str) -> None:
    inner = json.dumps(text).encode()[1:-1]
    joined = decoded(inner).text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert joined == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def test_a_byte_of_a_masked_line_is_found_in_the_line() -> None:
    line = json.dumps([TOKEN, "between", KEY, "end"]).encode()
    places = places_in(line, MASKER)
    masked = cover(line, places)
    for word in (b"between", b"end"):
        assert uncovered(masked.index(word), places) == line.index(word)


def test_json_columns_stay_json() -> None:
    text = orjson.dumps({"command": f'echo "{TOKEN}" \\ é'}).decode()
    assert orjson.loads(mask_json(text, MASKER)) == {
        "command": 'echo "[redacted:github-token]" \\ é'
    }


def test_a_url_whose_user_is_masked_is_not_masked_again() -> None:
    once = MASKER.mask(f"https://{TOKEN}@example.com/x")
    assert once == "https://[redacted:github-token]@example.com/x"
    assert MASKER.mask(once) == once


def test_digests_depend_on_the_key() -> None:
    assert Digest(b"a" * 32)(b"x") != Digest(b"b" * 32)(b"x")


@HAS_CORPUS
def test_no_rule_is_wrong_on_real_transcripts() -> None:
    # These files were published: what looks like a secret in them is an invented one.
    assert sorted(_hits(_real_lines())) == []


def _real_lines() -> Iterator[bytes]:
    with tarfile.open(CORPUS) as archive:
        for member in archive:
            if member.isfile() and (file := archive.extractfile(member)) is not None:
                yield from file.read().splitlines()


def _hits(lines: Iterator[bytes]) -> Iterator[tuple[str, str]]:
    for data in lines:
        some = MASKER.suspects(data)
        if some is not None:
            for place in places_in(data, some):
                yield place.rule, data[place.start : place.end].decode()
