"""Snapshots of files belong to the turn of the message they were taken for."""

from __future__ import annotations

import sqlite3
import tarfile
from contextlib import closing
from pathlib import PurePosixPath
from typing import Any

import pytest

from builder import Transcript, World, resume, text
from ctxdb.query.statement import Ask, statement_for
from lab import lab, told_by
from real_corpus import CORPUS, HAS_CORPUS

SNAPSHOTS = (
    "SELECT f.relative_path, f.snapshot_version, f.backup_name, t.prompt FROM files_touched f"
    " LEFT JOIN turns t ON t.id = f.turn_id WHERE f.operation = 'snapshot' ORDER BY 1, 2"
)


def snapshot(
    main: Transcript, message: str | None, begun: str, **versions: tuple[int, str | None]
) -> None:
    backups = {
        f"{name}.py": {"backupFileName": backup, "version": version, "backupTime": begun}
        for name, (version, backup) in versions.items()
    }
    main.flat(
        "file-history-snapshot",
        messageId=message,
        isSnapshotUpdate=True,
        snapshot={
            "messageId": main.world.uuid(),
            "trackedFileBackups": backups,
            "timestamp": begun,
        },
    )


def told(world: World) -> list[tuple[Any, ...]]:
    return told_by(world.contents(), SNAPSHOTS)


def test_a_backup_has_its_name_and_the_turn_that_made_it() -> None:
    world = World()
    main = world.session(version="2.1.250")
    first = main.prompt("one")
    snapshot(main, first["uuid"], world.now(), a=(1, "aa@v1"))
    main.reply(text("done"))
    second = main.prompt("two")
    snapshot(main, second["uuid"], world.now(), a=(1, "aa@v1"), b=(1, None))
    assert told(world) == [("a.py", 1, "aa@v1", "one"), ("b.py", 1, None, "two")]


def test_a_snapshot_before_its_message_gets_the_turn_when_the_message_comes() -> None:
    world = World()
    main = world.session(version="2.1.250")
    main.prompt("one")
    at = main.parent
    later = world.session(session=main.session, name="later")
    later.parent = at
    line = later.prompt("two")
    snapshot(main, line["uuid"], world.now(), a=(1, "aa@v1"))
    assert told(world) == [("a.py", 1, "aa@v1", "two")]


def test_a_resumed_session_names_messages_of_the_session_before_it() -> None:
    world = World()
    old = world.session(version="2.1.250")
    line = old.prompt("one")
    new = resume(old)
    snapshot(new, line["uuid"], world.now(), a=(1, "aa@v1"))
    assert told(world) == [("a.py", 1, "aa@v1", "one")]


def test_a_snapshot_for_a_message_that_never_comes_has_no_turn() -> None:
    world = World()
    main = world.session(version="2.1.250")
    main.prompt("one")
    snapshot(main, world.uuid(), world.now(), a=(1, "aa@v1"))
    snapshot(main, None, world.now(), b=(2, "bb@v2"))
    assert told(world) == [("a.py", 1, "aa@v1", None), ("b.py", 2, "bb@v2", None)]


def test_of_the_lines_of_a_snapshot_the_first_names_the_message() -> None:
    world = World()
    main = world.session(version="2.1.250")
    first, begun = main.prompt("one"), world.now()
    snapshot(main, first["uuid"], begun, a=(1, "aa@v1"))
    second = main.prompt("two")
    snapshot(main, second["uuid"], begun, a=(1, "aa@v1"), b=(1, "bb@v1"))
    assert told(world) == [("a.py", 1, "aa@v1", "one"), ("b.py", 1, "bb@v1", "two")]


def test_a_delta_names_the_message_of_the_change() -> None:
    world = World()
    main = world.session(version="2.1.250")
    line = main.prompt("one")
    at = world.now()
    main.flat(
        "file-history-delta",
        messageId=line["uuid"],
        snapshotMessageId=world.uuid(),
        trackingPath="a.py",
        backup={"backupFileName": "aa@v1", "version": 1, "backupTime": at},
        timestamp=at,
    )
    assert told(world) == [("a.py", 1, "aa@v1", "one")]


@pytest.mark.corpus
@HAS_CORPUS
def test_real_backups_belong_to_the_request_they_were_made_for() -> None:
    with tarfile.open(CORPUS) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.name.endswith(".jsonl") else None
            data = file.read() if file else b""
            if b'"trackedFileBackups":{"' in data and len(data) < 1 << 20:
                break
    with lab() as place:
        place.put(f"-p/{PurePosixPath(member.name).name}", data)
        place.sync()
        found = place.rows(SNAPSHOTS)
        place.must_verify()
    assert found
    assert all(backup is None or "@v" in backup for _, _, backup, _ in found)
    assert any(prompt for _, _, _, prompt in found)


def test_file_history_leaves_snapshots_out_unless_asked() -> None:
    world = World()
    main = world.session(version="2.1.250")
    line = main.prompt("one")
    snapshot(main, line["uuid"], world.now(), a=(1, "aa@v1"))
    main.tool("Read", {"file_path": "/home/ada/engine/a.py"}, "x")
    with lab() as place:
        for name, data in world.contents().items():
            place.put(name, data)
        place.sync()
        assert place.rows("SELECT operation FROM file_history") == [("read",)]
        with closing(sqlite3.connect(place.db)) as conn:
            conn.row_factory = sqlite3.Row
            for given, expected in (("0", ["read"]), ("1", ["read", "snapshot"])):
                ask = Ask("file_history", params={"snapshots": given}, since="all")
                made = statement_for(ask, conn)
                found = [row["operation"] for row in conn.execute(made.sql, made.values)]
                assert sorted(found) == expected
