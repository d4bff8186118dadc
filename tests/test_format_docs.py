"""docs/format.md names everything that ctxdb knows, and only tests that exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from ctxdb.claude import known_keys, known_types

CHECKOUT = Path(__file__).resolve().parents[1]
FORMAT = (CHECKOUT / "docs/format.md").read_text()
NOTES = tomllib.loads((CHECKOUT / "docs/format_notes.toml").read_text())
KNOWN = {
    "entry_types": {"user", "assistant", "system", "attachment", "progress"},
    "event_types": known_types.EVENT_TYPES,
    "system_subtypes": known_types.SYSTEM_SUBTYPES,
    "attachment_types": known_types.ATTACHMENT_TYPES,
    "entry": known_keys.ENTRY,
    "system": known_keys.SYSTEM,
    "message": known_keys.MESSAGE,
    "usage": known_keys.USAGE,
    "blocks": known_keys.BLOCKS,
    "tool_results": known_keys.TOOL_RESULTS,
}


@pytest.mark.parametrize("section", KNOWN)
def test_every_known_type_key_and_block_is_described(section: str) -> None:
    assert {*NOTES[section]} == {*KNOWN[section]}, "edit docs/format_notes.toml, then `make docs`"


@pytest.mark.parametrize("section", [name for name in KNOWN if name != "tool_results"])
def test_every_description_has_versions_and_a_meaning(section: str) -> None:
    halves = {key: note.split(" | ") for key, note in NOTES[section].items()}
    assert {key: each for key, each in halves.items() if len(each) != 2 or not all(each)} == {}


@pytest.mark.parametrize("section", KNOWN)
def test_every_known_name_is_in_the_document(section: str) -> None:
    names = {*KNOWN[section]} if section != "tool_results" else set()
    for keys in known_keys.TOOL_RESULTS.values() if section == "tool_results" else ():
        names |= {*keys}
    assert [name for name in sorted(names) if f"| `{name}` |" not in FORMAT] == []


def test_every_test_that_the_document_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+\.py)::(test_\w+)`", FORMAT))
    assert len(named) > 20
    sources = {file: (CHECKOUT / "tests" / file).read_text() for file, _ in named}
    assert [pair for pair in sorted(named) if f"def {pair[1]}(" not in sources[pair[0]]] == []


def test_every_table_and_column_that_the_document_names_exists() -> None:
    schema = "".join(path.read_text() for path in (CHECKOUT / "migrations").glob("*.sql"))
    tables = dict(re.findall(r"CREATE TABLE (\w+) \(\n(.*?)\n\)", schema, flags=re.DOTALL))
    named = {
        (table, column)
        for table, column in re.findall(r"\b([a-z_]+)\.([a-z_]+)\b", FORMAT)
        if table in tables and column != "jsonl"
    }
    assert len(named) > 30
    missing = [
        f"{table}.{column}"
        for table, column in sorted(named)
        if not re.search(rf"^  {column} ", tables[table], flags=re.MULTILINE)
    ]
    assert missing == []


def test_what_has_only_synthetic_tests_is_said() -> None:
    said = FORMAT.split("**Only synthetic tests**")[1].split("\n\n")[0]
    assert "history.jsonl" in said
    assert "toolUseResult" in said
    assert "agent_progress" in said
