"""Every view that can be narrowed is narrowed rightly: the parts make up the whole."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from ctxdb import canned
from ctxdb.query.build import Ask, build
from demo_db import demo_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

# A night without work, so that no block, session or turn stands on both sides.
BEFORE, AFTER = "2026-09-15", "2026-09-16"
# What can be added up, best first; without any of these each row counts.
ADDED = ("requests", "calls", "lines", "errors", "reads", "turns")


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(f"file:{demo_folder() / 'demo.db'}?mode=ro", uri=True)) as conn:
        yield conn


def size(db: sqlite3.Connection, view: canned.Canned, **how: Any) -> int:
    statement = build(Ask(view.name, **how), db)
    cursor = db.execute(statement.sql, statement.values)
    names = [column[0] for column in cursor.description]
    rows = cursor.fetchall()
    is_summed = any(one.table for one in view.filters["since"])
    for name in ADDED if is_summed else ():
        if name in names:
            return sum(row[names.index(name)] for row in rows)
    return len(rows)


def narrowed_by(option: str) -> list[canned.Canned]:
    return [view for view in canned.all_views() if option in view.filters]


@pytest.mark.parametrize("view", narrowed_by("since"), ids=lambda view: view.name)
def test_before_and_after_a_day_make_up_the_whole(
    db: sqlite3.Connection, view: canned.Canned
) -> None:
    whole = size(db, view, since="all")
    assert whole > 0 or view.name == "unpriced_models"
    before = size(db, view, until=BEFORE)
    after = size(db, view, since=AFTER)
    if view.filters["since"] == view.filters["until"]:
        assert before + after == whole
    else:  # a row is of a stretch of time, and may reach into both
        assert before + after >= whole


@pytest.mark.parametrize("view", narrowed_by("session"), ids=lambda view: view.name)
def test_all_sessions_make_up_the_whole(db: sqlite3.Connection, view: canned.Canned) -> None:
    if "since" not in view.filters:
        pytest.skip("not of a period")
    sessions = [row[0] for row in db.execute("SELECT id FROM sessions")]
    parts = sum(size(db, view, since="all", session=session) for session in sessions)
    assert parts == size(db, view, since="all")


@pytest.mark.parametrize("view", narrowed_by("project"), ids=lambda view: view.name)
def test_all_projects_make_up_the_whole(db: sqlite3.Connection, view: canned.Canned) -> None:
    if "since" not in view.filters:
        pytest.skip("not of a period")
    names = {row[0] for row in db.execute("SELECT name FROM projects")}
    parts = sum(size(db, view, since="all", project=name) for name in names)
    assert parts == size(db, view, since="all")


@pytest.mark.parametrize("view", narrowed_by("model"), ids=lambda view: view.name)
def test_all_models_make_up_the_whole(db: sqlite3.Connection, view: canned.Canned) -> None:
    models = [row[0] for row in db.execute("SELECT DISTINCT model FROM usage")]
    assert not any(a != b and a in b for a in models for b in models)
    parts = sum(size(db, view, since="all", model=model) for model in models)
    whole = size(db, view, since="all")
    # Rows that name several models, or that no request belongs to.
    assert parts == whole if view.filters["model"][0].table else parts >= whole // 2
