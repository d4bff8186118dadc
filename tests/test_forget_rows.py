"""A database after `forget` is as if the sessions had never been read, but for their tombstones."""

from __future__ import annotations

import shutil
import tarfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builder import World
from ctxdb.forget.linked import linked_with
from ctxdb.store.connection import open_reader
from demo_db import demo_folder
from forget_lab import forget, must_be_as_never_read, sessions_of
from lab import Lab, lab
from real_corpus import CORPUS, HAS_CORPUS
from stories import Recipe, build, recipes
from test_snapshots import snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable


def must_forget(one: Lab, sessions: Iterable[str]) -> None:
    gone = set(sessions)
    removed = forget(one, gone)
    assert removed.sessions == len(gone)
    assert gone.isdisjoint(sessions_of(one))
    one.must_verify()
    must_be_as_never_read(one)
    again = one.sync()
    assert (again.lines_read, again.new_files) == (0, 0)


def check_recipe(recipe: Recipe, choice: int) -> None:
    with lab() as one:
        build(recipe).write(one.root)
        one.sync()
        known = sessions_of(one)
        if known:
            must_forget(one, [known[choice % len(known)]])


@given(recipes(), st.integers(0, 7))
@settings(max_examples=6, derandomize=True)
def test_forgetting_a_session_equals_never_having_read_it(recipe: Recipe, choice: int) -> None:
    check_recipe(recipe, choice)


def test_a_project_loses_the_name_that_a_forgotten_session_gave_it() -> None:
    check_recipe([("copy", 0, ["glued"]), ("fork", 0, ["worktree"])], 1)


def test_a_snapshot_has_no_turn_when_the_session_of_its_message_is_forgotten() -> None:
    world = World()
    old = world.session(version="2.1.250")
    line = old.prompt("one")
    other = world.session(version="2.1.250")
    snapshot(other, line["uuid"], world.now(), a=(1, "aa@v1"))
    with lab() as one:
        world.write(one.root)
        one.sync()
        turns = "SELECT session_id, turn_id IS NULL FROM files_touched"
        assert one.rows(turns) == [(other.session, 0)]
        must_forget(one, [old.session])
        assert one.rows(turns) == [(other.session, 1)]


def test_lines_without_a_row_go_with_a_session_of_copies_under_other_uuids() -> None:
    check_recipe([("copy", 0, ["agent"]), ("fork_renewed", 0, [])], 0)


@pytest.mark.crash
@given(recipes(), st.integers(0, 7))
@settings(max_examples=300)
def test_forgetting_a_session_equals_never_having_read_it_at_length(
    recipe: Recipe, choice: int
) -> None:
    check_recipe(recipe, choice)


@given(recipes(), st.integers(0, 7), st.integers(0, 7))
@settings(max_examples=5, derandomize=True)
def test_what_a_lost_file_shares_with_a_forgotten_session_stays_with_it(
    recipe: Recipe, choice: int, lost: int
) -> None:
    """A file that cannot be read again keeps its rows: no message of it is lost."""
    with lab() as one:
        build(recipe).write(one.root)
        one.sync()
        known = sessions_of(one)
        if not known:
            return
        session = known[choice % len(known)]
        others = [
            path
            for (path,) in one.rows(
                f"SELECT path FROM source_files WHERE session_id IS NOT '{session}' ORDER BY path"
            )
        ]
        if not others:
            return
        gone = Path(others[lost % len(others)])
        gone.unlink()
        one.sync()
        places = (
            "SELECT {0}.byte_start FROM {0} JOIN source_files f ON f.id = {0}.source_file_id"
            f" WHERE f.path = '{gone}'"
        )
        both = f"{places.format('messages')} UNION {places.format('message_copies')} ORDER BY 1"
        before = one.rows(both)
        forget(one, [session])
        assert one.rows(both) == before
        assert session not in sessions_of(one)
        one.must_verify()
        assert one.sync().lines_read == 0


@pytest.fixture
def demo(tmp_path: Path) -> Lab:
    one = Lab(tmp_path / "lab")
    shutil.copytree(demo_folder() / "projects", one.root, dirs_exist_ok=True)
    one.sync()
    return one


@pytest.mark.slow
def test_every_linked_session_of_the_demo_can_be_forgotten(demo: Lab) -> None:
    linked, alone = [], []
    with closing(open_reader(demo.db)) as conn:
        for session in sessions_of(demo):
            is_linked = len(linked_with(conn, {session}).sessions) > 1
            (linked if is_linked else alone).append(session)
    assert len(linked) > 2
    saved = demo.db.read_bytes()
    for session in [*linked, *alone[:2]]:
        demo.db.write_bytes(saved)
        must_forget(demo, [session])


def test_many_sessions_can_be_forgotten_at_once(demo: Lab) -> None:
    must_forget(demo, sessions_of(demo)[::2])


def test_all_sessions_can_be_forgotten(demo: Lab) -> None:
    must_forget(demo, sessions_of(demo))
    assert demo.rows("SELECT count(*) FROM projects") == [(0,)]


def test_later_lines_of_a_forgotten_session_stay_out(demo: Lab) -> None:
    session = sessions_of(demo)[0]
    [path] = next(
        iter(
            zip(
                *demo.rows(
                    f"SELECT path FROM source_files WHERE session_id = '{session}'"
                    " AND agent_id IS NULL"
                ),
                strict=True,
            )
        )
    )
    forget(demo, [session])
    with Path(path).open("ab") as file:
        file.write(Path(path).read_bytes().splitlines(keepends=True)[0])
    assert demo.sync().lines_read == 0
    assert session not in sessions_of(demo)


@HAS_CORPUS
@pytest.mark.corpus
@pytest.mark.slow
def test_linked_sessions_of_real_transcripts_can_be_forgotten(tmp_path: Path) -> None:
    whole = Lab(tmp_path / "whole")
    with tarfile.open(CORPUS) as archive:
        archive.extractall(whole.root, filter="data")
    whole.sync()
    with closing(open_reader(whole.db)) as conn:
        done: set[str] = set()
        for session in sessions_of(whole):
            linked = linked_with(conn, {session})
            if len(linked.sessions) < 2 or session in done:
                continue
            done |= linked.sessions
            one = Lab(tmp_path / session)
            for file_id in linked.files:
                sql = "SELECT path FROM source_files WHERE id = ?"
                (path,) = conn.execute(sql, (file_id,)).fetchone()
                one.put(str(Path(path).relative_to(whole.root)), Path(path).read_bytes())
            one.sync()
            must_forget(one, [session])
    assert len(done) > 5
