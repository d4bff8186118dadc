"""What a sync costs depends on what is new, not on how much is stored.

SQLite counts the steps of every statement, so that no clock is needed: the same new transcripts
must take as many in a large database as in a small one. A statement that takes more goes over
something that grows; with a hundred times as many sessions it is all that a sync does.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import orjson
import pytest

from ctxdb.demo import write_demo
from ctxdb.ingest import first_sync, sync
from ctxdb.ingest import run as ingest
from lab import Lab, lab
from thinning import thinned

IDS = re.compile(
    rb"\b([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-)[0-9a-f]{4}([0-9a-f]{8})\b"
    rb"|\b((?:toolu|srvtoolu|msg|req)_[A-Za-z0-9]{6,}|agent-[0-9a-z]+|(?<=\"agentId\":\")[0-9a-z]+)"
)
DAYS = re.compile(rb"\b20(\d\d-[01]\d-[0-3]\d)(?=[T\"])")
SLACK = 40  # steps: another page of an index, one more turn of a loop
# Full text merges its segments now and then. Where entries have changed hands, all summaries are
# looked at; Claude Code has not written any since version 2.0. What stat said is read of all known
# files, each by its key: leaving out those that are gone by an index takes longer for all others.
GROWING = (
    "_fts_",
    "FROM _summaries s WHERE now IS NOT s.leaf_session",
    "FROM _file_marks b CROSS JOIN source_files f ON f.id = b.source_file_id",
)


def has_counts() -> bool:
    with closing(sqlite3.connect(":memory:")) as conn:
        return ("sqlite_stmt",) in conn.execute("SELECT name FROM pragma_module_list").fetchall()


pytestmark = pytest.mark.skipif(not has_counts(), reason="this SQLite does not count steps")


def renamed(data: bytes, n: int) -> bytes:
    """The same under other ids, in another century."""
    four = b"%04x" % n
    data = IDS.sub(lambda m: m[1] + four + m[2] if m[1] else m[3] + four, data)
    return DAYS.sub(rb"%d\1" % (20 + n), data)


def add_world(one: Lab, demo: dict[str, bytes], n: int) -> None:
    """One more set of transcripts that have nothing to do with the others but their projects."""
    for name, data in demo.items():
        project, _, rest = name.partition("/")
        one.put(f"{project}-{n}/{renamed(rest.encode(), n).decode()}", renamed(data, n))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    root = tmp_path_factory.mktemp("demo")
    write_demo(root)
    files = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How many steps each statement of the last sync took."""
    found: Counter[str] = Counter()
    real = sync.read_found_files

    def read(conn: sqlite3.Connection, *args: Any) -> Any:
        report = real(conn, *args)
        found.clear()
        for sql, count in conn.execute("SELECT sql, nstep FROM sqlite_stmt"):
            found[" ".join(sql.split())] += count
        return report

    monkeypatch.setattr(sync, "read_found_files", read)
    return found


@pytest.mark.parametrize("way", thinned(["one process", "workers"], 2))
def test_new_transcripts_take_as_many_steps_in_a_large_database_as_in_a_small_one(
    demo: dict[str, bytes], steps: Counter[str], monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "workers":
        monkeypatch.setattr(ingest, "READ_AHEAD_BYTES", 1)
        monkeypatch.setattr(first_sync, "MIN_BYTES", 1 << 40)
    taken = []
    for worlds in (1, 8):
        with lab() as one:
            for n in range(1, worlds + 1):
                add_world(one, demo, n)
            one.sync()
            for folder in one.root.glob("*-[2-8]"):  # gone, but their inodes are not used again
                folder.rename(one.folder / folder.name)
            one.sync()
            add_world(one, demo, 9)
            one.sync()
            taken.append(Counter(steps))
    small, large = taken
    grown = [
        f"{small[sql]} -> {count} {sql}"
        for sql, count in large.items()
        if count > 1.3 * small[sql] + SLACK and not any(what in sql for what in GROWING)
    ]
    assert not grown, "\n".join(grown)


def gateway_session(n: int) -> bytes:
    """A session of another provider, whose calls are counted from 0."""
    session = f"5e55a000-0000-4000-8000-{n:012}"
    said = [
        ("assistant", {"type": "tool_use", "id": "call_0", "name": "Bash", "input": {}}),
        ("user", {"type": "tool_result", "tool_use_id": "call_0", "content": f"done {n}"}),
    ]
    return b"".join(
        orjson.dumps(
            {
                "type": kind,
                "uuid": f"0d0d{k:04}-0000-4000-8000-{n:012}",
                "sessionId": session,
                "timestamp": f"2026-01-01T{n // 60:02}:{n % 60:02}:0{k}.000Z",
                "message": {"role": kind, "content": [block]},
            },
            option=orjson.OPT_APPEND_NEWLINE,
        )
        for k, (kind, block) in enumerate(said)
    )


def test_ids_that_repeat_in_every_session_take_no_more_steps_in_a_large_database(
    steps: Counter[str],
) -> None:
    taken = []
    for sessions in (5, 100):
        with lab() as one:
            for n in range(sessions):
                one.put(f"p/5e55a000-0000-4000-8000-{n:012}.jsonl", gateway_session(n))
            one.sync()
            one.put("p/5e55a000-0000-4000-8000-000000000999.jsonl", gateway_session(999))
            one.sync()
            taken.append(sum(n for sql, n in steps.items() if "tool_uses" in sql))
            assert one.rows("SELECT count(*), sum(status = 'ok') FROM tool_uses") == [
                (sessions + 1, sessions + 1)
            ]
    small, large = taken
    assert large < small + SLACK


def one_turn(n: int) -> bytes:
    """A request, a list of to-dos, its result, and how long that took."""
    call = f"toolu_{n:024}"
    todos = {"todos": [{"content": f"step {n}", "status": "pending"}]}
    said = [
        ("user", f"request {n}"),
        ("assistant", [{"type": "tool_use", "id": call, "name": "TodoWrite", "input": todos}]),
        ("user", [{"type": "tool_result", "tool_use_id": call, "content": "done"}]),
        ("system", None),
    ]
    lines = []
    for k, (kind, content) in enumerate(said):
        entry = {
            "type": kind,
            "uuid": f"0d0d{k:04}-0000-4000-8000-{n:012}",
            "sessionId": "5e55a000-0000-4000-8000-000000000001",
            "timestamp": f"2026-01-{1 + n // 1440:02}T{n // 60 % 24:02}:{n % 60:02}:0{k}.000Z",
        }
        if content is None:
            entry |= {"subtype": "turn_duration", "durationMs": 2500}
        else:
            entry |= {"message": {"role": kind, "content": content}}
        lines.append(orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE))
    return b"".join(lines)


def test_a_line_takes_as_many_steps_in_a_long_session_as_in_a_short_one(
    steps: Counter[str],
) -> None:
    taken = []
    for turns in (20, 400):
        with lab() as one:
            name = "p/5e55a000-0000-4000-8000-000000000001.jsonl"
            one.put(name, b"".join(map(one_turn, range(turns))))
            one.sync()
            for line in one_turn(turns).splitlines(keepends=True):
                if b"TodoWrite" not in line and b"tool_result" not in line:
                    one.append(name, line)
                    one.sync()
                    taken.append((turns, Counter(steps)))
    small = [counts for turns, counts in taken if turns == 20]
    large = [counts for turns, counts in taken if turns == 400]
    grown = [
        f"{before[sql]} -> {count} {sql}"
        for before, after in zip(small, large, strict=True)
        for sql, count in after.items()
        if count > 1.3 * before[sql] + SLACK and not any(what in sql for what in GROWING)
    ]
    assert not grown, "\n".join(grown)
