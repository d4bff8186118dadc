"""`export --parquet` writes a dataset, and DuckDB reads from it what SQLite says."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from builder import World
from ctxdb.cli import main
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


@contextmanager
def opened(folder: Path) -> Iterator[Any]:
    """DuckDB with the views of a dataset: making them takes longer than an answer."""
    with closing(duckdb.connect(config={"threads": 1})) as conn:
        conn.execute("SET TimeZone = 'UTC'")
        conn.execute((folder / "ctxdb.duckdb.sql").read_text())
        yield conn


def asked(folder: Path, sql: str) -> list[tuple[Any, ...]]:
    with opened(folder) as conn:
        return conn.execute(sql).fetchall()


def must_cost_the_same(one: Laptop, folder: Path) -> None:
    with opened(folder) as lake:
        must_cost_the_same_in(one, lake)


def must_cost_the_same_in(one: Laptop, lake: Any) -> None:
    here = one.rows(COSTS.format("_costs"))
    there = lake.execute(COSTS.format("ctxdb.requests")).fetchall()
    numbers = [tuple(int(v) if not isinstance(v, str | None) else v for v in r) for r in there]
    assert sorted(here, key=repr) == sorted(numbers, key=repr)


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return build(every_step()).contents()


@pytest.fixture(scope="module")
def few_files() -> dict[str, bytes]:
    """Some sessions, with agents and with a replay in a sidechain."""
    steps = ("by_the_way", "agent", "edit", "failed", "chunks")
    return build([("new", 0, ["prompt", step, "answer"]) for step in steps]).contents()


@pytest.fixture
def few(few_files: dict[str, bytes]) -> Iterator[Laptop]:
    with laptop(few_files) as made:
        yield made


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
    with opened(tmp_path) as lake:
        for table in team_tables():
            count = lake.execute(f"SELECT count(*) FROM ctxdb.{table.name}").fetchall()
            assert count == one.rows(f"SELECT count(*) FROM {table.name}"), table.name
        must_cost_the_same_in(one, lake)
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
            lake.execute(f"SELECT count(*) FROM (SELECT * FROM ctxdb.{view})").fetchall()
        if level != USAGE:
            here = one.rows("SELECT tool, calls, errors, median_ms FROM tool_stats")
            there = lake.execute("SELECT tool, calls, errors, median_ms FROM ctxdb.tool_stats")
            assert sorted(here) == sorted(there.fetchall())


def test_columns_above_the_level_are_empty_and_described(few: Laptop, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    written(few, tmp_path, USAGE)
    assert asked(tmp_path, "SELECT count(text), count(cwd) FROM ctxdb.messages") == [(0, 0)]
    schema = pq.read_schema(next(tmp_path.glob("table=usage/*/*/data.parquet")))
    assert schema.field("cost").metadata[b"description"]
    assert all(field.metadata for field in schema)
    written(few, tmp_path, FULL)
    assert asked(tmp_path, "SELECT count(text) > 0 FROM ctxdb.messages") == [(True,)]
    written(few, tmp_path, USAGE)
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
    few_files: dict[str, bytes], tmp_path: Path
) -> None:
    with laptop(few_files) as one, laptop(few_files) as other:
        written(one, tmp_path)
        written(other, tmp_path, person="grace")
        with opened(tmp_path) as lake:
            must_cost_the_same_in(one, lake)
            assert lake.execute("SELECT count(*) FROM ctxdb.machines").fetchall() == [(2,)]


def test_a_replay_in_a_sidechain_on_another_machine_costs_nothing(
    few_files: dict[str, bytes], tmp_path: Path
) -> None:
    agents = {name: data for name, data in few_files.items() if "agent" in name}
    others = {name: data for name, data in few_files.items() if name not in agents}
    with laptop(agents) as one, laptop(others) as other, laptop(few_files) as both:
        keys = "SELECT request_key FROM usage"
        assert {*one.rows(keys), *other.rows(keys)} > {*both.rows(keys)}  # one is a replay
        written(one, tmp_path)
        written(other, tmp_path, person="grace")
        there = asked(tmp_path, "SELECT request_key FROM ctxdb.requests")
        assert sorted(there) == sorted(both.rows(keys))


def test_a_forgotten_session_leaves_the_files_of_every_machine(
    few_files: dict[str, bytes], tmp_path: Path
) -> None:
    with laptop(few_files) as one, laptop(few_files) as other:
        written(one, tmp_path, FULL)
        written(other, tmp_path, FULL, person="grace")
        ((gone,),) = one.rows("SELECT session_id FROM usage ORDER BY session_id LIMIT 1")
        one.forget(gone)
        written(one, tmp_path, FULL)
        written(other, tmp_path, FULL, person="grace")
        with opened(tmp_path) as lake:
            for table in team_tables():
                found = f"SELECT count(*) FROM ctxdb._{table.name} WHERE session_id = '{gone}'"
                assert lake.execute(found).fetchall() == [(0,)], table.name
        for path in (tmp_path / "_ctxdb").rglob("*"):
            assert gone not in path.name
            assert path.is_dir() or gone not in path.read_text()


def test_the_command_writes_a_dataset(
    few: Laptop,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "it's here"
    words = ["ctxdb", "--db", str(few.db), "export", "--parquet", str(folder)]
    monkeypatch.setattr(sys, "argv", [*words, "--no-sync", "--json"])
    with pytest.raises(SystemExit) as left:
        main.main()
    told = capsys.readouterr()
    assert not left.value.code, told.err
    assert '"level": "metadata"' in told.out
    must_cost_the_same(few, folder)


def test_a_folder_that_cannot_be_written_is_named(few: Laptop, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    from ctxdb.errors import CtxdbError

    with pytest.raises(CtxdbError, match="file"):
        written(few, tmp_path / "file")


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
