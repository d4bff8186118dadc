"""A summary names a session by an entry, which may be read before it or long after it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import permutations
from pathlib import Path

import pytest

from builder import World
from ctxdb.ingest import storing
from lab import Lab

TEXT = "Mended the parser"


def _named(lab: Lab) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(lab.db)) as conn:
        return conn.execute(
            "SELECT id, title FROM sessions WHERE title_source = 'summary'"
        ).fetchall()


def _files(*, through_progress: bool) -> tuple[str, dict[str, bytes]]:
    """The session that a summary is of, and three files that say so together."""
    world = World()
    asked, waits, sums = world.session(), world.session(), world.session()
    prompt = asked.prompt("mend the parser")
    progress = waits.progress()
    progress["parentUuid"] = prompt["uuid"]
    leaf = progress if through_progress else prompt
    sums.summary(TEXT, leaf["uuid"])
    return asked.session, world.contents()


@pytest.mark.parametrize(
    ("few", "through_progress"),
    [
        pytest.param(0, True, id="all summaries, skipped line"),
        pytest.param(storing.FEW_UUIDS, False, id="by their uuids, entry"),
        pytest.param(0, False, id="all summaries, entry", marks=pytest.mark.slow),
        pytest.param(
            storing.FEW_UUIDS, True, id="by their uuids, skipped line", marks=pytest.mark.slow
        ),
    ],
)
def test_a_summary_finds_its_session_in_whatever_order_lines_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int, through_progress: bool
) -> None:
    monkeypatch.setattr(storing, "FEW_UUIDS", few)
    session_id, files = _files(through_progress=through_progress)
    assert len(files) == 3
    for number, order in enumerate(permutations(files)):
        lab = Lab(tmp_path / str(number))
        for name in order:
            lab.put(name, files[name])
            lab.sync()
        assert _named(lab) == [(session_id, TEXT)], order
