"""`export --parquet` writes a dataset, and DuckDB reads from it what SQLite says."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from builder import World
from ctxdb.columns import FULL, METADATA, USAGE
from ctxdb.progress import NullProgress
from ctxdb.store.connection import open_reader
from ctxdb.team.machine import this_machine
from ctxdb.team.tables import team_tables
from stories import build, every_step
from teamlab import Laptop, laptop

pytest.importorskip("pyarrow", reason="pyarrow is not installed")
duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")

from ctxdb.lake.dataset import Exporter, LakeReport, export  # noqa: E402

COSTS = (
    "SELECT model, count(*), sum(input_tokens), sum(output_tokens), sum(cost) FROM {} GROUP BY 1"
)


def written(one: Laptop, folder: Path, level: str = METADATA, person: str = "ada") -> LakeReport:
    exporter = Exporter(this_machine(one.db), person, "core", level)
    with closing(open_reader(one.db)) as conn:
        return export(conn, folder, exporter, NullProgress())


def asked(folder: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(duckdb.connect()) as conn:
        conn.execute("SET TimeZone = 'UTC'")
        conn.execute((folder / "ctxdb.duckdb.sql").read_text())
        return conn.execute(sql).fetchall()


def must_cost_the_same(one: Laptop, folder: Path) -> None:
    here = one.rows(COSTS.format("_costs"))
    there = asked(folder, COSTS.format("ctxdb.requests"))
    numbers = [tuple(int(v) if not isinstance(v, str | None) else v for v in r) for r in there]
    assert sorted(here, key=repr) == sorted(numbers, key=repr)


@pytest.fixture
def files() -> dict[str, bytes]:
    return build(every_step()).contents()


@pytest.fixture
def one(files: dict[str, bytes]) -> Iterator[Laptop]:
    with laptop(files) as made:
        yield made


@pytest.mark.parametrize(
    "level",
    [METADATA, *(pytest.param(one, marks=pytest.mark.slow) for one in (USAGE, FULL))],
)
def test_duckdb_reads_the_same_counts_and_money(one: Laptop, tmp_path: Path, level: str) -> None:
    written(one, tmp_path, level)
    for table in team_tables():
        assert asked(tmp_path, f"SELECT count(*) FROM ctxdb.{table.name}") == one.rows(
            f"SELECT count(*) FROM {table.name}"
        ), table.name
    must_cost_the_same(one, tmp_path)
    for view in (
        "daily_costs",
        "sessions_overview",
        "tool_stats",
        "file_activity",
        "adoption",
        "cache_efficiency",
        "limits",
        "tool_errors",
        "costs_by_person",
        "costs_by_team",
    ):
        asked(tmp_path, f"SELECT count(*) FROM (SELECT * FROM ctxdb.{view})")
    if level != USAGE:
        here = one.rows("SELECT tool, calls, errors, median_ms FROM tool_stats")
        there = asked(tmp_path, "SELECT tool, calls, errors, median_ms FROM ctxdb.tool_stats")
        assert sorted(here) == sorted(there)


def test_columns_above_the_level_are_empty_and_described(one: Laptop, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    written(one, tmp_path, USAGE)
    assert asked(tmp_path, "SELECT count(text), count(cwd) FROM ctxdb.messages") == [(0, 0)]
    schema = pq.read_schema(next(tmp_path.glob("table=usage/*/*/data.parquet")))
    assert schema.field("cost").metadata[b"description"]
    assert all(field.metadata for field in schema)
    written(one, tmp_path, FULL)
    assert asked(tmp_path, "SELECT count(text) > 0 FROM ctxdb.messages") == [(True,)]
    written(one, tmp_path, USAGE)
    assert asked(tmp_path, "SELECT count(text) FROM ctxdb.messages") == [(0,)]


def test_only_what_has_changed_is_written_again(tmp_path: Path) -> None:
    world = World()
    a, b = world.session(), world.session()
    for t in (a, b):
        t.prompt("hello")
        t.reply({"type": "text", "text": "hi"})
    with laptop(world.contents(), writes=True) as one:
        one.write("UPDATE sessions SET started_at = '2025-01-01T00:00:00.000Z' WHERE rowid = 1")
        assert written(one, tmp_path).files > 0
        before = {path: path.stat().st_ino for path in tmp_path.glob("table=*/*/*/data.parquet")}
        again = written(one, tmp_path)
        assert (again.files, again.sessions) == (0, 0)
        with closing(sqlite3.connect(one.db)) as conn, conn:
            from ctxdb.store.changes import stamp

            (session_id,) = conn.execute("SELECT min(id) FROM sessions").fetchone()
            stamp(conn, [session_id])
        third = written(one, tmp_path)
        assert third.sessions == 1
        kept = [
            p for p, ino in before.items() if "machines" not in str(p) and p.stat().st_ino == ino
        ]
        assert kept
        must_cost_the_same(one, tmp_path)


def test_two_machines_share_a_dataset_and_a_request_counts_once(
    files: dict[str, bytes], tmp_path: Path
) -> None:
    with laptop(files) as one, laptop(files) as other:
        written(one, tmp_path)
        written(other, tmp_path, person="grace")
        must_cost_the_same(one, tmp_path)
        assert asked(tmp_path, "SELECT count(*) FROM ctxdb.machines") == [(2,)]


def test_a_replay_in_a_sidechain_on_another_machine_costs_nothing(
    files: dict[str, bytes], tmp_path: Path
) -> None:
    agents = {name: data for name, data in files.items() if "agent" in name}
    others = {name: data for name, data in files.items() if name not in agents}
    with laptop(agents) as one, laptop(others) as other, laptop(files) as both:
        written(one, tmp_path)
        written(other, tmp_path, person="grace")
        there = asked(tmp_path, "SELECT request_key FROM ctxdb.requests")
        assert sorted(there) == sorted(both.rows("SELECT request_key FROM usage"))


def test_a_forgotten_session_leaves_the_files_of_every_machine(
    files: dict[str, bytes], tmp_path: Path
) -> None:
    with laptop(files) as one, laptop(files) as other:
        written(one, tmp_path, FULL)
        written(other, tmp_path, FULL, person="grace")
        ((gone,),) = one.rows("SELECT session_id FROM usage ORDER BY session_id LIMIT 1")
        one.forget(gone)
        written(one, tmp_path, FULL)
        written(other, tmp_path, FULL, person="grace")
        for table in team_tables():
            found = f"SELECT count(*) FROM ctxdb._{table.name} WHERE session_id = '{gone}'"
            assert asked(tmp_path, found) == [(0,)], table.name
        for path in (tmp_path / "_ctxdb").rglob("*"):
            assert gone not in path.name
            assert path.is_dir() or gone not in path.read_text()


def test_the_command_writes_a_dataset(one: Laptop, tmp_path: Path) -> None:
    folder = tmp_path / "it's here"
    words = [sys.executable, "-m", "ctxdb", "--db", str(one.db), "export", "--parquet", str(folder)]
    done = subprocess.run(
        [*words, "--no-sync", "--json"], capture_output=True, text=True, check=True
    )
    assert '"level": "metadata"' in done.stdout
    must_cost_the_same(one, folder)


def test_a_folder_that_cannot_be_written_is_named(one: Laptop, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    from ctxdb.errors import CtxdbError

    with pytest.raises(CtxdbError, match="file"):
        written(one, tmp_path / "file")


@pytest.mark.spark
def test_spark_reads_the_same_counts_and_money(one: Laptop, tmp_path: Path) -> None:
    pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")
    written(one, tmp_path)
    session = (
        pyspark.sql.SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    try:
        for table in team_tables():
            ((here,),) = one.rows(f"SELECT count(*) FROM {table.name}")
            assert session.read.parquet(str(tmp_path / f"table={table.name}")).count() == here
        session.read.parquet(str(tmp_path / "table=usage")).createOrReplaceTempView("usage")
        there = [tuple(row) for row in session.sql(COSTS.format("usage")).collect()]
        here = one.rows(COSTS.format("_costs"))
        numbers = [tuple(int(v) if not isinstance(v, str | None) else v for v in r) for r in there]
        assert sorted(here, key=repr) == sorted(numbers, key=repr)
    finally:
        session.stop()
