"""The plugin: what Datasette knows of our database, and that others are left alone."""

from __future__ import annotations

import json
import re
import sqlite3
from typing import TYPE_CHECKING

import pytest
from datasette.app import Datasette

from ctxdb.store import sql_files
from ctxdb.web import adapter_065, adapter_1, facts
from demo_db import demo_folder
from weblab import Client, served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GIVEN = {"path": "src", "text": "queue", "sha": "0", "pr": "1"}  # for fields without a default


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with served(demo_folder() / "demo.db") as one:
        yield one


def test_the_page_of_the_database_hides_internal_tables(client: Client) -> None:
    page = client.get("/demo").text
    shown = page.partition("hidden table")[0]
    assert "/demo/sessions" in shown
    assert "/demo/_file_marks" not in shown
    assert "Claude Code transcripts" in page


def test_tables_describe_themselves_and_their_columns(client: Client) -> None:
    page = client.get("/demo/sessions").text
    assert "the session&#39;s uuid" in page or "the session's uuid" in page


def test_tables_show_the_newest_first(client: Client) -> None:
    rows = client.get("/demo/sessions.json?_shape=objects&_size=5").json["rows"]
    began = [row["started_at"] for row in rows]
    assert began == sorted(began, reverse=True)


@pytest.mark.parametrize("name", sql_files.names("query"))
def test_every_canned_query_answers_in_datasette(client: Client, name: str) -> None:
    page = client.get(f"/demo/{name}")
    assert page.status == 200
    file = sql_files.find(name)
    assert file
    for param in file.params:
        assert f'name="{param.name}"' in page.text
    given = {
        param.name: GIVEN.get(param.name, "") if param.default is None else ""
        for param in file.params
    }
    query = "&".join(f"{key}={value}" for key, value in given.items())
    found = client.get(f"/demo/{name}.json?_shape=objects&{query}").json
    assert found["ok"], found.get("error")


def test_a_form_takes_times_as_people_write_them(client: Client) -> None:
    file = sql_files.find("expensive_turns")
    assert file
    (param,) = [one for one in file.params if one.kind == "since"]

    def rows(text: str) -> list[object]:
        url = f"/demo/expensive_turns.json?_shape=objects&{param.name}={text}"
        found: list[object] = client.get(url).json["rows"]
        return found

    assert len(rows("2020-01-01")) >= len(rows("90d")) >= len(rows("1d"))
    assert rows("2020-01-01")
    assert rows("2199-01-01") == []


def test_another_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    conn = sqlite3.connect(path)
    conn.execute("CREATE TABLE things (id INTEGER PRIMARY KEY)")
    conn.close()
    datasette = Datasette([str(path)])
    client = Client(datasette.app())
    try:
        assert client.get("/-/ctxdb").status == 404
        page = client.get("/other", host="any.example")
        assert page.status == 200
        assert "content-security-policy" not in page.headers
        assert "ctxdb" not in page.text
    finally:
        client.close()
        datasette.executor.shutdown()


def test_beside_another_database_only_ours_is_described(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    conn = sqlite3.connect(other)
    conn.execute("CREATE TABLE sessions (id INTEGER PRIMARY KEY)")
    conn.close()
    datasette = Datasette([str(demo_folder() / "demo.db"), str(other)])
    client = Client(datasette.app())
    try:
        assert client.get("/other/sessions").status == 200
        assert client.get("/other/standup").status == 404
        assert client.get("/demo/standup").status == 200
        assert client.get("/-/ctxdb").status == 200
    finally:
        from ctxdb.web import plugin

        client.close()
        plugin.close(datasette)
        datasette.executor.shutdown()


def test_both_adapters_say_the_same(client: Client) -> None:
    found = facts.read_facts(demo_folder() / "demo.db")
    old, new = adapter_065.printed(found, "x"), adapter_1.printed(found, "x")
    json.dumps([old, new])
    old_tables, new_tables = (one["databases"]["x"]["tables"] for one in (old, new))
    for name, table in new_tables.items():
        for key, value in table.items():
            assert old_tables[name][key] == value
    assert set(old["databases"]["x"]["queries"]) == set(new["databases"]["x"]["queries"])


def test_a_database_that_cannot_be_read_has_no_facts(tmp_path: Path) -> None:
    assert facts.read_facts(tmp_path / "none.db") == facts.Facts({}, ())


def test_no_sql_of_a_form_has_a_bare_default_left() -> None:
    for file in sql_files.all_queries():
        sql = facts.typed_sql(file)
        names = set(re.findall(r"(?<![:\w]):(\w+)", re.sub(r"'[^']*'", "", sql)))
        assert names == {param.name for param in file.params}
