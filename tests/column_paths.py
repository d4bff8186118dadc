"""Every path that a value takes from a line to its column; run by test_new_column.py.

It runs in a process of its own, with a copy of ctxdb whose tool_uses has one more column:
is_background, 1 where a result has a backgroundTaskId.
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from typing import TYPE_CHECKING

from builder import Transcript, World, copied, fork, tool_use
from conftest import _copy_tables
from ctxdb.ingest import first_sync
from ctxdb.ingest import run as ingest
from ctxdb.progress import NullProgress
from ctxdb.verify import again, verify
from lab import Lab, at_once, lab, must_equal, told_by
from test_experiments import world_of_two_calls

if TYPE_CHECKING:
    from collections.abc import Callable

TOLD = "SELECT target, is_background FROM tool_uses ORDER BY target"
GOES_ON = {"backgroundTaskId": "b1"}


def call_and_result(t: Transcript) -> None:
    """A command that goes on in the background, and one that does not."""
    t.prompt("begin")
    t.tool("Bash", {"command": "long"}, "going on", GOES_ON)
    t.tool("Bash", {"command": "short"}, "done", {"stdout": "done"})


def must_tell(one: Lab, *expected: tuple[str | None, int | None]) -> None:
    found = one.rows(TOLD)
    assert found == [*expected], found
    one.must_verify(again=True)


def plain_insert() -> None:
    world = World()
    t = world.session()
    call_and_result(t)
    t.reply(tool_use(world, "Bash", {"command": "waiting"}))
    with lab() as one:
        world.write(one.root)
        one.sync()
        must_tell(one, ("long", 1), ("short", 0), ("waiting", None))


def workers() -> None:
    world = World()
    for _ in range(3):
        call_and_result(world.session())
    expected = at_once(world.contents())
    ingest.READ_AHEAD_BYTES = 1
    for is_first in (False, True):
        with lab() as one:
            if is_first:  # a first sync makes its database aside
                first_sync.MIN_BYTES = 1
                one.db.unlink()
            world.write(one.root)
            one.sync()
            must_equal(expected, one.content(), f"first sync: {is_first}")
            must_tell(one, *[("long", 1)] * 3, *[("short", 0)] * 3)


def late(*, result_first: bool) -> None:
    """A call and its result in two files, the second a sync later."""
    world = World()
    calls = world.session()
    call_and_result(calls)
    answers = world.session(session=calls.session, name="answers")
    answers.lines = [e for e in calls.entries if "toolUseResult" in e]
    calls.lines = [e for e in calls.entries if "toolUseResult" not in e]
    order = [answers, calls] if result_first else [calls, answers]
    with lab() as one:
        for file in order:
            one.put(file.path, file.data)
            one.sync()
        must_tell(one, ("long", 1), ("short", 0))


def late_result() -> None:
    late(result_first=False)


def late_call() -> None:
    late(result_first=True)


def rehoming() -> None:
    """A fork's line is read first, then the original, which says something else and owns."""
    world = World()
    old = world.session()
    call_and_result(old)
    new = fork(old, says_so=True, renew=False)
    for entry in new.entries:
        if "toolUseResult" in entry:
            entry["toolUseResult"] = {}
    with lab() as one:
        one.put(new.path, new.data)
        one.sync()
        must_tell(one, ("long", 0), ("short", 0))
        one.put(old.path, old.data)
        one.sync()
        must_tell(one, ("long", 1), ("short", 0))
    must_equal(at_once(world.contents()), line_by_line([new, old]), "line by line")


def repeated_call() -> None:
    """Two entries that are no copies have one result: the earlier one counts, though read last."""
    world = World()
    old = world.session()
    call_and_result(old)
    new = world.session()

    def change(entry: dict[str, object]) -> None:
        entry.update(uuid=world.uuid(), sessionId=new.session, timestamp=world.now())
        if "toolUseResult" in entry:
            entry["toolUseResult"] = {}

    new.lines += copied(old.entries, change)
    with lab() as one:
        for file, is_background in ((new, 0), (old, 1)):
            one.put(file.path, file.data)
            one.sync()
            must_tell(one, ("long", is_background), ("short", 0))


def line_by_line(files: list[Transcript]) -> dict[str, list[str]]:
    with lab() as one:
        for file in files:
            for line in file.data.splitlines(keepends=True):
                one.append(file.path, line)
                one.sync()
        return one.content()


def paired_again() -> None:
    """The first experiment: two calls with one id, two results in another file."""
    after = world_of_two_calls("6e551000-0000-4000-8000-000000000000")
    assert told_by(after.contents(), TOLD) == [("first", 0), ("second", 1)]
    before = world_of_two_calls("4e551000-0000-4000-8000-000000000000")
    assert told_by(before.contents(), TOLD) == [("first", 1), ("second", 0)]


def verified() -> None:
    """`verify` notices when the value is changed by hand."""
    world = World()
    call_and_result(world.session())
    with lab() as one:
        world.write(one.root)
        one.sync()
        must_tell(one, ("long", 1), ("short", 0))
        with closing(sqlite3.connect(one.db)) as conn, conn:
            conn.execute("UPDATE tool_uses SET is_background = 0")
        report = verify(one.config, NullProgress())
        assert not report.ok
        assert any("is_background" in line for line in report.shown), report.shown


PATHS: dict[str, Callable[[], None]] = {
    path.__name__: path
    for path in (
        plain_insert,
        late_result,
        late_call,
        rehoming,
        repeated_call,
        paired_again,
        verified,
        workers,  # the last: after it, others read in every sync
    )
}

if __name__ == "__main__":
    again.make_tables = _copy_tables  # as in all tests: making them takes longer than the rest
    for name in sys.argv[1:]:
        print(name, flush=True)
        PATHS[name]()
