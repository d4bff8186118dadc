"""`ctxdb doctor` names what needs doing, each with its fix."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from ctxdb.archive.archive_file import archive_path
from ctxdb.ingest.sync import sync
from ctxdb.progress import NullProgress
from ctxdb.store import version
from test_json_output import check
from world import OTHER_SESSION, World, lines, texts

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def well(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(world.root.parent))
    world.write(lines(0, 1))
    world.write(lines(7, sessionId=OTHER_SESSION), second(world))
    archiving(world)
    return world


def second(world: World) -> Path:
    return world.file(f"-work-tides/{OTHER_SESSION}.jsonl")


def archiving(world: World) -> None:
    sync(world.config._replace(archive=True), progress=NullProgress())


def findings(world: World, code: int) -> dict[str, dict[str, Any]]:
    done = world.cli("doctor", "--json")
    assert done.returncode == code, done
    found = json.loads(done.stdout)
    check("doctor", found)
    assert found["ok"] == (code == 0)
    return {one["check"]: one for one in found["findings"]}


def test_nothing_needs_doing(well: World) -> None:
    found = findings(well, 0)
    assert {one["state"] for one in found.values()} <= {"ok", "note"}
    assert found.keys() >= {"permissions", "integrity", "full_text", "values", "archive", "sqlite"}
    done = well.cli("doctor")
    assert "Nothing needs doing." in done.stdout


def test_without_a_database_it_says_so(world: World) -> None:
    world.db.unlink()
    done = world.cli("doctor")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "no database yet" in done.stderr


def test_case_75_full_text_that_is_out_of_step_is_found_and_rebuild_repairs_it(
    well: World,
) -> None:
    well.change("DELETE FROM messages_fts_data WHERE id > 10")
    found = findings(well, 1)
    assert found["full_text"]["state"] == "todo"
    assert "messages_fts" in found["full_text"]["text"]
    assert "rebuild" in found["full_text"]["fix"]
    assert well.cli("rebuild", "--root", well.root).returncode == 0
    assert findings(well, 0)["full_text"]["state"] == "ok"
    well.settled([0, 1, 7])


def test_values_that_ctxdb_did_not_write_are_named(well: World) -> None:
    well.change("UPDATE usage SET model = x'00'")
    well.change("UPDATE source_files SET lines = 'three'")
    found = findings(well, 1)
    assert found["values"]["text"] == "source_files.lines: not INTEGER in 2 rows"


def test_case_99_a_missing_archive_and_one_that_is_behind_are_named(well: World) -> None:
    archive_path(well.db).unlink()
    found = findings(well, 1)
    assert found["archive"]["state"] == "todo"
    assert "ctxdb archive add" in found["archive"]["fix"]
    archiving(well)
    with closing(sqlite3.connect(archive_path(well.db))) as conn:
        conn.execute("UPDATE frames SET checksum = x'00' WHERE id = 1")
        conn.commit()
    assert "damaged" in findings(well, 1)["archive"]["text"]


def test_sessions_that_are_only_in_the_database_are_counted(well: World) -> None:
    second(well).unlink()
    archiving(well)
    assert findings(well, 0)["only_here"]["state"] == "ok"  # the archive has it
    archive_path(well.db).unlink()
    archiving(well)
    assert "1 session only in the database" in findings(well, 0)["only_here"]["text"]


# -- meanings -------------------------------------------------------------------------------------


def outdate(world: World) -> None:
    world.change("UPDATE messages SET text = 'as it was read before' WHERE text = 'line 00000'")
    world.change("UPDATE _meta SET value = '0' WHERE key = 'meanings'")


def test_after_a_change_of_meanings_a_query_says_so_and_a_sync_derives_all_rows_again(
    well: World,
) -> None:
    assert well.one("SELECT value FROM _meta WHERE key = 'meanings'") == str(version.MEANINGS)
    outdate(well)
    well.append(lines(2))
    config = {"CLAUDE_CONFIG_DIR": str(well.root.parent)}
    from os import environ

    env = {**environ, **config}
    done = well.cli("query", "SELECT count(*) AS n FROM messages", "--json", env=env)
    assert json.loads(done.stdout) == [{"n": 3}]
    assert "derived by an earlier version of ctxdb; `ctxdb sync` derives them again" in done.stderr
    assert done.stderr.count("\n") == 1
    assert findings(well, 1)["meanings"]["state"] == "todo"
    done = well.cli("sync")
    assert done.returncode == 0
    assert "deriving them again, this once" in done.stderr
    assert well.texts() == texts([0, 1, 2, 7])
    assert well.one("SELECT value FROM _meta WHERE key = 'meanings'") == str(version.MEANINGS)
    assert "this once" not in well.cli("sync").stderr
    well.settled([0, 1, 2, 7])
