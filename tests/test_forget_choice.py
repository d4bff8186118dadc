"""What `ctxdb forget` says beforehand: nothing goes that was not shown."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from private_lab import FOLDER, OTHER, PRIVATE, WORD, Home, dump, entries, make_home, write

if TYPE_CHECKING:
    from pathlib import Path

THIRD = "7d1d0000-0000-4000-8000-000000000003"


@pytest.fixture
def private(home: Path, tmp_path: Path) -> Home:
    made = make_home(home / ".claude", tmp_path / "data" / "ctxdb.db")
    made.must("sync")
    return made


def chosen(private: Home, session: str) -> dict[str, dict[str, Any]]:
    done = private.must("forget", "--session", session, "--dry-run", "--json")
    return {one["id"]: one for one in json.loads(done.stdout)["sessions"]}


@pytest.mark.parametrize(
    ("name", "first"),
    [
        pytest.param("renamed", THIRD, id="of a renamed transcript"),
        pytest.param(THIRD, "0a0a0000-0000-4000-8000-00000000000a", id="of a resumed session"),
    ],
)
def test_a_session_that_only_this_transcript_has_is_shown_and_goes_with_it(
    private: Home, name: str, first: str
) -> None:
    other = "0b0b0000-0000-4000-8000-00000000000b"
    sessions = {first, other, THIRD} if name == THIRD else {THIRD, other}
    rows = [row for n, one in enumerate(sorted(sessions)) for row in entries(one, "Odd", 20 + n)]
    rows.sort(key=lambda row: row.get("sessionId") != first)
    path = private.projects / FOLDER / f"{name}.jsonl"
    write(path, dump(rows))
    private.must("sync")
    assert sessions < set(private.sessions())
    found = chosen(private, THIRD)
    assert {one for one in found if found[one]["is_only_there"]} == sessions - {THIRD}
    assert set(found) == sessions
    shown = private.must("forget", "--session", THIRD, "--dry-run").stderr
    assert shown.count("(only in these transcripts)") == len(sessions) - 1
    done = private.must("forget", "--session", THIRD, "--yes", "--sources", "--json")
    assert json.loads(done.stdout)["removed"]["sessions"] == len(sessions)
    assert not path.exists()
    assert private.sessions() == [OTHER, PRIVATE]
    private.must("verify")


def test_a_session_with_a_transcript_of_its_own_stays(private: Home) -> None:
    rows = [*entries(THIRD, "Odd", 20), *entries(PRIVATE, WORD, 7)]
    write(private.projects / FOLDER / f"{THIRD}.jsonl", dump(rows))
    private.must("sync")
    assert set(chosen(private, THIRD)) == {THIRD}
    private.must("forget", "--session", THIRD, "--yes")
    assert private.sessions() == [OTHER, PRIVATE]
    private.must("verify")
