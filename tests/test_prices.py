"""Prices: whose they are, what an edit does, and what `ctxdb prices` takes and refuses."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from builder import World as Story
from ctxdb.assets import asset_dir
from ctxdb.lock import WriterLock
from ctxdb.store import shipped_prices as store
from ctxdb.store import version
from in_process import Here
from lab import put_empty_database
from pricelab import answer, shipped, used
from world import World

HEADER = ",".join(store.COLUMNS)
ROW = "kimi-k3,2026-01-01,,0,1,2,3,4,5,,,,,"


@pytest.fixture
def world(world: World) -> World:
    return Here(world.root, world.db)


def stored(folder: Path, story: Story) -> World:
    """A world with these transcripts, to be copied."""
    made = World(folder / "projects", folder / "data/ctxdb.db")
    put_empty_database(made.db)
    story.write(made.root)
    made.sync()
    return made


def copied(made: World, world: World) -> World:
    """The transcripts of the one, and a copy of its database in the folder of the other."""
    shutil.copy(made.db, world.db)
    return Here(made.root, world.db)


@pytest.fixture(scope="module")
def made_priced(tmp_path_factory: pytest.TempPathFactory) -> World:
    story = Story()
    t = story.session()
    answer(t, "claude-opus-5", tokens=used(0, 1000))
    answer(t, "vendor/kimi-k3", tokens=used(0, 1000))
    return stored(tmp_path_factory.mktemp("priced"), story)


@pytest.fixture
def priced(world: World, made_priced: World) -> World:
    """One request of claude-opus-5 with 1000 tokens of output, and one of kimi-k3."""
    return copied(made_priced, world)


def costs(world: World) -> dict[str, float | None]:
    return dict(world.ask("SELECT model, cost_usd FROM daily_usage"))


def rows(world: World, model: str) -> list[tuple[Any, ...]]:
    return world.ask(
        "SELECT effective_from, input_usd_per_mtok, origin FROM prices WHERE model = ?"
        " ORDER BY effective_from, origin",
        model,
    )


def upgrade(world: World) -> None:
    """What happens when ctxdb comes with another list: the next sync refreshes it."""
    world.change("DELETE FROM _meta WHERE key = 'schema'")
    world.sync()


# -- the table -------------------------------------------------------------------------------------


def test_the_list_that_ships_is_in_the_table(world: World) -> None:
    names = ", ".join(store.COLUMNS)
    found = world.ask(f"SELECT {names} FROM prices WHERE origin = 'shipped' ORDER BY id")
    expected = [tuple(store._value(name, row[name]) for name in store.COLUMNS) for row in shipped()]
    assert found == expected
    assert len(found) > 25


@pytest.mark.parametrize(
    ("edit", "cost"),
    [
        ("UPDATE prices SET output_usd_per_mtok = 50 WHERE model = 'claude-opus-5'", 0.05),
        ("UPDATE prices SET output_usd_per_mtok = '50' WHERE model = 'claude-opus-5'", 0.05),
        ("DELETE FROM prices WHERE model = 'claude-opus-5'", None),
        ("UPDATE prices SET model = 'gone' WHERE model = 'claude-opus-5'", None),
    ],
    ids=["changed", "as text", "deleted", "renamed"],
)
def test_an_edit_in_another_tool_counts_at_once(
    priced: World, edit: str, cost: float | None
) -> None:
    assert costs(priced)["claude-opus-5"] == 0.025
    priced.change(edit)
    assert costs(priced)["claude-opus-5"] == cost
    upgrade(priced)
    assert costs(priced)["claude-opus-5"] == cost


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("input_usd_per_mtok = 'five'", "a price is a number"),
        ("output_usd_per_mtok = -1", "a price is a number"),
        ("cache_read_usd_per_mtok = 1e300", "a price is a number"),
        ("effective_from = 'soon'", "YYYY-MM-DD"),
        ("effective_to = '2026-1-1'", "YYYY-MM-DD"),
        ("prompt_tokens_gt = -5", "whole number of tokens"),
        ("prompt_tokens_gt = 'many'", "whole number of tokens"),
        ("fast_multiplier = 'twice'", "a multiplier is a number"),
        ("us_geo_multiplier = 101", "a multiplier is a number"),
        ("model = ' '", "needs a model"),
    ],
)
def test_an_edit_that_cannot_be_right_is_refused(world: World, change: str, says: str) -> None:
    with world.connect(write=True) as conn:
        before = conn.execute("SELECT * FROM prices").fetchall()
        with pytest.raises(sqlite3.IntegrityError, match=says):
            conn.execute(f"UPDATE prices SET {change} WHERE model = 'claude-opus-5'")
        assert conn.execute("SELECT * FROM prices").fetchall() == before


def test_an_emptied_cell_is_the_same_as_none(priced: World) -> None:
    priced.change(
        "UPDATE prices SET effective_from = '', effective_to = '', fast_multiplier = '',"
        " us_geo_multiplier = '' WHERE model = 'claude-opus-5'"
    )
    assert costs(priced)["claude-opus-5"] == 0.025


# -- an upgrade ------------------------------------------------------------------------------------


def test_an_upgrade_refreshes_shipped_rows_and_keeps_the_users(
    priced: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done = priced.cli("prices", "add", "mine", "--input", "1", "--output", "2")
    assert done.returncode == 0
    newer = tmp_path / "prices.csv"
    text = (
        store.shipped_file().read_text().replace(",0,5,25,6.25,10,0.5,2,", ",0,6,30,7.5,12,0.6,2,")
    )
    newer.write_text(text + "brand-new,,,0,1,2,3,4,5,,,,,\n")
    monkeypatch.setattr(store, "shipped_file", lambda: newer)
    upgrade(priced)
    assert rows(priced, "claude-opus-5") == [("2026-07-24", 6.0, "shipped")]
    assert rows(priced, "brand-new") == [(None, 1.0, "shipped")]
    assert rows(priced, "mine") == [(None, 1.0, "user")]
    assert costs(priced)["claude-opus-5"] == 0.03


def test_a_row_that_the_list_no_longer_has_is_gone(
    priced: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    newer = tmp_path / "prices.csv"
    lines = store.shipped_file().read_text().splitlines(keepends=True)
    newer.write_text("".join(line for line in lines if not line.startswith("claude-opus-5,")))
    monkeypatch.setattr(store, "shipped_file", lambda: newer)
    upgrade(priced)
    assert rows(priced, "claude-opus-5") == []
    assert costs(priced)["claude-opus-5"] is None


def test_whoever_edits_a_shipped_row_keeps_it_through_upgrades(priced: World) -> None:
    priced.change("UPDATE prices SET cache_read_usd_per_mtok = 9 WHERE model = 'claude-sonnet-5-5'"
                  " AND effective_from = '2026-10-07'")  # fmt: skip
    before = rows(priced, "claude-sonnet-5-5")
    assert [origin for *_, origin in before] == ["user", "user"]
    upgrade(priced)
    assert rows(priced, "claude-sonnet-5-5") == before


def test_a_shipped_row_that_was_deleted_stays_away_and_reset_brings_it_back(priced: World) -> None:
    assert priced.cli("prices", "remove", "claude-opus-5", "--shipped").returncode == 0
    upgrade(priced)
    assert rows(priced, "claude-opus-5") == []
    assert priced.cli("prices", "reset", "claude-opus-5").returncode == 0
    assert rows(priced, "claude-opus-5") == [("2026-07-24", 5.0, "shipped")]


def test_models_that_were_read_before_the_ladder_changed_are_named_anew(priced: World) -> None:
    priced.change("DELETE FROM _model_names")
    assert costs(priced)["claude-opus-5"] is None
    upgrade(priced)
    assert costs(priced)["claude-opus-5"] == 0.025


def test_the_next_sync_after_an_upgrade_brings_the_new_list(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("sql", "migrations"):
        shutil.copytree(asset_dir(name), tmp_path / name)
    with (tmp_path / "sql/prices.csv").open("a") as file:
        file.write("brand-new,,,0,1,2,3,4,5,,,,,\n")
    monkeypatch.setattr(version, "asset_dir", lambda name: tmp_path / name)
    monkeypatch.setattr(store, "asset_dir", lambda name: tmp_path / name)
    world.sync()
    assert rows(world, "brand-new") == [(None, 1.0, "shipped")]


# -- the command line ------------------------------------------------------------------------------


def fails(world: World, *args: str | Path, says: str, code: int = 2) -> None:
    with world.connect() as conn:
        before = conn.execute("SELECT * FROM prices").fetchall()
        done = world.cli("prices", *args)
        after = conn.execute("SELECT * FROM prices").fetchall()
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    assert says in done.stderr
    assert after == before


def test_a_model_without_a_price_is_missing_until_one_is_added(priced: World) -> None:
    done = priced.cli("prices", "missing", "--json")
    (row,) = json.loads(done.stdout)
    assert (row["model"], row["requests"]) == ("vendor/kimi-k3", 1)
    assert row["looked_for"] == "vendor/kimi-k3, kimi-k3"
    done = priced.cli("prices", "add", "kimi-k3", "--input", "0.6", "--output", "2.5")
    assert done.returncode == 0
    assert "the price of input" in done.stderr
    assert costs(priced)["vendor/kimi-k3"] == 0.0025
    done = priced.cli("prices", "missing")
    assert (done.stdout, done.stderr) == ("", "Every model has a price.\n")


def test_a_price_of_yours_wins_where_it_holds(priced: World) -> None:
    add = ("prices", "add", "claude-opus-5", "--input", "1", "--output", "100")
    assert priced.cli(*add, "--from", "2026-08-01").returncode == 0
    assert costs(priced)["claude-opus-5"] == 0.025  # the request is older
    assert priced.cli(*add, "--from", "2026-03-01", "--until", "2026-03-02").returncode == 0
    assert costs(priced)["claude-opus-5"] == 0.1
    done = priced.cli("prices", "remove", "claude-opus-5")
    assert done.stderr == "Removed 2 prices of claude-opus-5\n"
    assert costs(priced)["claude-opus-5"] == 0.025


HAIKU = ("prices", "add", "claude-haiku-5-5", "--from", "2026-10-07")
LOW = ("--input", "0.1", "--output", "0.5", "--cache-write-5m", "0.125", "--cache-write-1h", "0.2",
       "--cache-read", "0.01")  # fmt: skip


@pytest.fixture(scope="module")
def made_long(tmp_path_factory: pytest.TempPathFactory) -> World:
    story = Story()
    answer(story.session(), "claude-haiku-5-5", tokens=used(200_000, 1000))
    return stored(tmp_path_factory.mktemp("long"), story)


@pytest.fixture
def long(world: World, made_long: World) -> World:
    """One request of claude-haiku-5-5 with a prompt of 200,000 tokens."""
    return copied(made_long, world)


def test_a_price_of_yours_for_small_prompts_leaves_that_of_large_ones(long: World) -> None:
    assert costs(long) == {"claude-haiku-5-5": 0.1025}
    done = long.cli(*HAIKU, *LOW)
    assert done.returncode == 0
    assert "Prompts above 100000 tokens keep their separate price; --above 100000" in done.stderr
    assert costs(long) == {"claude-haiku-5-5": 0.1025}


def test_an_import_that_changes_small_prompts_leaves_the_price_of_large_ones(
    long: World, tmp_path: Path
) -> None:
    file = tmp_path / "list.csv"
    assert long.cli("prices", "export", file).returncode == 0
    before = file.read_text()
    after = before.replace("2026-10-07,,0,0.1,0.5,", "2026-10-07,,0,0.1,0.7,")
    assert after != before
    file.write_text(after)
    assert long.cli("prices", "import", file).stderr.startswith("1 added, 0 replaced, ")
    assert costs(long) == {"claude-haiku-5-5": 0.1025}


@pytest.mark.parametrize("how", ["add", "remove", "edit"])
def test_who_wants_one_price_for_all_sizes_can_have_it(long: World, how: str) -> None:
    if how == "add":
        done = long.cli(*HAIKU, *LOW, "--above", "100000")
        assert done.returncode == 0
        assert "keep a price" not in done.stderr
    elif how == "remove":
        remove = ("prices", "remove", "claude-haiku-5-5", "--above", "100000", "--shipped")
        assert long.cli(*remove).returncode == 0
    else:
        long.change("DELETE FROM prices WHERE model = 'claude-haiku-5-5' AND prompt_tokens_gt > 0")
    assert costs(long) == {"claude-haiku-5-5": 0.0205}
    upgrade(long)
    assert costs(long) == {"claude-haiku-5-5": 0.0205}


def test_a_later_price_ends_the_one_before_and_the_same_day_replaces_it(world: World) -> None:
    add = ("prices", "add", "kimi-k3", "--output", "1", "--input")
    assert "ends then" not in world.cli(*add, "1").stderr
    assert "ends then" in world.cli(*add, "2", "--from", "2026-05-01").stderr
    assert "Replaced" in world.cli(*add, "3", "--from", "2026-05-01").stderr
    found = world.ask("SELECT effective_from, effective_to, input_usd_per_mtok FROM prices"
                      " WHERE model = 'kimi-k3' ORDER BY id")  # fmt: skip
    assert found == [(None, "2026-05-01", 1.0), ("2026-05-01", None, 3.0)]
    args = ("add", "kimi-k3", "--output", "1", "--input", "1", "--from", "2026-01-01")
    fails(world, *args, says="dates overlap")


def test_a_price_that_is_removed_leaves_the_one_before_to_hold_on(world: World) -> None:
    add = ("prices", "add", "kimi-k3", "--output", "1", "--input")
    for value, since in (("1", "2026-01-01"), ("2", "2026-05-01"), ("3", "2026-07-01")):
        assert world.cli(*add, value, "--from", since).returncode == 0
    assert world.cli("prices", "remove", "kimi-k3", "--from", "2026-05-01").returncode == 0
    dates = "SELECT effective_from, effective_to FROM prices WHERE model = 'kimi-k3' ORDER BY 1"
    assert world.ask(dates) == [("2026-01-01", "2026-07-01"), ("2026-07-01", None)]
    assert world.cli("prices", "remove", "kimi-k3", "--from", "2026-07-01").returncode == 0
    assert world.ask(dates) == [("2026-01-01", None)]


def test_a_new_price_of_a_model_keeps_its_multipliers_unless_it_names_others(world: World) -> None:
    shipped = world.ask(
        "SELECT model, fast_multiplier, us_geo_multiplier FROM prices WHERE fast_multiplier > 1"
        " AND us_geo_multiplier > 1 AND prompt_tokens_gt = 0 LIMIT 1"
    )
    model, fast, us = shipped[0]
    mine = "SELECT fast_multiplier, us_geo_multiplier FROM prices WHERE origin = 'user'"
    add = ("prices", "add", model, "--input", "1", "--output", "2")
    assert world.cli(*add).returncode == 0
    assert world.ask(mine) == [(fast, us)]
    assert world.cli(*add, "--fast", "1").returncode == 0
    assert world.ask(mine) == [(1.0, us)]
    above = ("--above", "50000", "--from", "2027-01-01")
    assert world.cli(*add, *above).returncode == 0
    assert (1.0, us) == world.ask(f"{mine} AND prompt_tokens_gt > 0")[0]


def caches(world: World, words: str) -> tuple[list[float], str]:
    """What the three cache prices are that the command line makes, and what it says of them."""
    done = world.cli("prices", "add", *words.split())
    assert done.returncode == 0
    # A second time is no other price.
    assert world.cli("prices", "add", *words.split()).returncode == 0
    names = ", ".join(name for name in store.COLUMNS if name.startswith("cache_"))
    (row,) = world.ask(f"SELECT {names} FROM prices WHERE origin = 'user' ORDER BY id DESC LIMIT 1")
    return list(row), done.stderr


@pytest.mark.parametrize(
    ("args", "found"),
    [
        ("claude-opus-5 --input 5 --output 20", [6.25, 10, 0.5]),
        ("claude-opus-5 --input 4 --output 20", [5, 8, 0.4]),
        ("claude-opus-5 --input 4 --output 20 --cache-read 0.1", [5, 8, 0.1]),
        ("claude-opus-5 --input 0 --output 0", [0, 0, 0]),
        ("claude-opus-5-5 --input 4 --output 20", [5, 8, 0.2]),
        ("claude-3-haiku --input 0.5 --output 2", [0.6, 1, 0.06]),
        ("claude-haiku-5-5 --input 1 --output 5 --above 100000", [1.25, 2, 0.1]),
        ("claude-haiku-5-5 --input 1 --output 5 --above 150000", [1.25, 2, 0.1]),
        # The cache became cheaper on 2026-10-07.
        ("claude-sonnet-5-5 --input 4 --output 20", [5, 8, 0.2]),
        ("claude-sonnet-5-5 --input 4 --output 20 --from 2026-10-01", [5, 8, 0.4]),
        ("claude-sonnet-5-5 --input 4 --output 20 --from 2026-01-01", [5, 8, 0.4]),
        ("us.anthropic.claude-opus-5-20260724-v1:0 --input 4 --output 20", [5, 8, 0.4]),
    ],
)  # fmt: skip
def test_cache_prices_that_are_left_out_keep_the_models_ratio_to_input(
    world: World, args: str, found: list[float]
) -> None:
    prices, says = caches(world, args)
    assert prices == found
    assert "keep the ratio to input that the model has" in says


def test_cache_prices_of_an_unknown_model_are_those_of_input_until_it_has_others(
    world: World,
) -> None:
    prices, says = caches(world, "kimi-k3 --input 0.6 --output 2.5")
    assert prices == [0.6, 0.6, 0.6]
    assert "Cache prices that were not given" in says
    prices, _ = caches(world, "kimi-k3 --input 0.6 --output 2.5 --cache-read 0.15")
    assert prices == [0.6, 0.6, 0.15]
    prices, _ = caches(world, "kimi-k3 --input 1.2 --output 2.5 --from 2026-12-01")
    assert prices == [1.2, 1.2, 0.3]


def test_of_a_model_that_was_free_there_is_no_ratio_to_keep(world: World) -> None:
    prices, _ = caches(world, "kimi-k3 --input 0 --output 0 --cache-read 0")
    assert prices == [0, 0, 0]
    prices, _ = caches(world, "kimi-k3 --input 2 --output 2 --from 2026-12-01")
    assert prices == [2, 2, 2]
    caches(world, "claude-opus-5 --input 0 --output 0")
    prices, _ = caches(world, "claude-opus-5 --input 4 --output 0")
    assert prices == [5, 8, 0.4]  # that of the list


def test_an_input_price_that_makes_a_cache_price_too_large_is_refused(world: World) -> None:
    args = ("add", "claude-opus-5", "--input", "9000", "--output", "1")
    fails(world, *args, says="cache_write_5m_usd_per_mtok is more than 10,000: 11250")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("add", "m", "--input", "-1", "--output", "1"), "input_usd_per_mtok is negative"),
        (("add", "m", "--input", "x", "--output", "1"), "input_usd_per_mtok is not a number"),
        (("add", "m", "--input", "nan", "--output", "1"), "input_usd_per_mtok is not a number"),
        (("add", "m", "--input", "1", "--output", "1e9"), "output_usd_per_mtok is more than"),
        (("add", "m", "--input", "1", "--output", "1", "--from", "soon"), "effective_from"),
        (("add", "m", "--input", "1", "--output", "1", "--from", "2026-02-30"), "is not a date"),
        (("add", "m", "--input", "1", "--output", "1", "--from", "2026-02-03", "--until",
          "2026-02-03"), "is not after"),
        (("add", "m", "--input", "1", "--output", "1", "--fast", "x"), "fast_multiplier"),
        (("add", " ", "--input", "1", "--output", "1"), "no model"),
        (("remove", "claude-opus-5"), "came with ctxdb"),
        (("remove", "nobody"), "no such price"),
        (("remove", "claude-opus-5", "--above", "99999999999999999999"), "no such price"),
        (("remove", "claude-opus-5", "--from", "2020-01-01"), "no such price"),
        (("reset", "nobody"), "no such price"),
    ],
)  # fmt: skip
def test_what_cannot_be_right_is_one_line_and_changes_nothing(
    world: World, args: tuple[str, ...], says: str
) -> None:
    fails(world, *args, says=says)


def test_a_price_can_be_changed_while_another_process_holds_the_writer_lock(priced: World) -> None:
    with WriterLock(priced.db):
        done = World(priced.root, priced.db).cli(
            "prices", "add", "kimi-k3", "--input", "1", "--output", "7"
        )
    assert done.returncode == 0, done.stderr
    assert costs(priced)["vendor/kimi-k3"] == 0.007


def test_without_a_database_there_are_no_prices(world: World) -> None:
    world.db.unlink()
    for args in (("list",), ("missing",), ("add", "m", "--input", "1", "--output", "1")):
        done = world.cli("prices", *args)
        assert done.returncode == 1
        assert "no database yet" in done.stderr
    assert not world.db.exists()


@pytest.mark.parametrize("words", [("prices",), ("prices", "list")])
def test_prices_alone_lists_them(world: World, words: tuple[str, ...]) -> None:
    done = world.cli(*words, "--model", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "--json")
    found = json.loads(done.stdout)
    assert [row["prompt_tokens_gt"] for row in found] == [0, 200_000]
    assert {row["model"] for row in found} == {"claude-sonnet-4-5"}
    done = world.cli(*words)
    assert done.returncode == 0
    listed = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("claude-")]
    assert sorted(listed) == sorted(row["model"] for row in shipped())


def test_the_list_says_which_prices_are_not_from_the_vendor(world: World) -> None:
    done = world.cli("prices", "--model", "fable")
    assert "Not from the vendor's price list: claude-fable-5-2 (secondary)." in done.stderr
    done = world.cli("prices", "--model", "opus-5")
    assert "vendor" not in done.stderr
    found = json.loads(world.cli("prices", "--model", "claude-fable-5-2", "--json").stdout)
    (price,) = (row for row in found if row["model"] == "claude-fable-5-2")
    assert (price["input_usd_per_mtok"], price["confidence"]) == (8, "secondary")


def test_a_price_of_your_own_needs_no_word_about_the_vendor(world: World) -> None:
    world.cli("prices", "add", "kimi-k3", "--input", "1", "--output", "7")
    assert "vendor" not in world.cli("prices", "--model", "kimi").stderr


def test_a_part_of_a_name_lists_every_model_that_has_it(world: World) -> None:
    found = json.loads(world.cli("prices", "--model", "haiku", "--json").stdout)
    assert {row["model"] for row in found} == {
        "claude-3-haiku", "claude-3-5-haiku", "claude-haiku-4-5", "claude-haiku-5-5"
    }  # fmt: skip


# -- files -----------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    return tmp_path / "list.csv"


def test_what_is_exported_can_be_imported_and_changes_nothing(priced: World, file: Path) -> None:
    add = ("prices", "add", "=mine", "--input", "0.1", "--output", "1e-3", "--note", '@x, "y"\n')
    assert priced.cli(*add).returncode == 0
    before = priced.ask("SELECT * FROM prices")
    assert priced.cli("prices", "export", file).returncode == 0
    assert file.read_text().splitlines()[0] == f"{HEADER},origin"
    assert not any(line.startswith(("=", "@")) for line in file.read_text().splitlines())
    done = priced.cli("prices", "import", file)
    assert done.stderr == f"0 added, 0 replaced, {len(before)} there already\n"
    assert priced.ask("SELECT * FROM prices") == before
    done = priced.cli("prices", "export", "--mine")
    assert len(done.stdout.splitlines()) == 2


@pytest.mark.parametrize("since", [(), ("--from", "2026-07-24"), ("--from", "2026-12-01")])
def test_an_export_with_a_price_of_yours_beside_ours_can_be_imported(
    priced: World, file: Path, since: tuple[str, ...]
) -> None:
    add = ("prices", "add", "claude-opus-5", "--input", "1", "--output", "2", *since)
    assert priced.cli(*add).returncode == 0
    before, cost = priced.ask("SELECT * FROM prices"), costs(priced)
    assert priced.cli("prices", "export", file).returncode == 0
    done = priced.cli("prices", "import", file)
    assert done.stderr == f"0 added, 0 replaced, {len(before)} there already\n"
    assert priced.ask("SELECT * FROM prices") == before
    assert priced.cli("prices", "reset", "claude-opus-5").returncode == 0
    assert priced.cli("prices", "import", file).stderr.startswith("1 added, 0 replaced")
    assert costs(priced) == cost


def test_ours_of_another_version_do_not_become_yours_beside_your_own(
    priced: World, file: Path
) -> None:
    ours = "claude-opus-5,2026-07-01,,0,1,2,3,4,5,,,,,,shipped"
    yours = "claude-opus-5,2026-12-01,,0,1,2,3,4,5,,,,,,user"
    file.write_text(f"{HEADER},origin\n{ours}\n{yours}\n")
    says = f"{file}: row 3: dates overlap with claude-opus-5 from 2026-07-01 in the same file"
    fails(priced, "import", file, says=says, code=1)


def test_an_export_replaces_a_file_only_by_force(world: World, file: Path) -> None:
    world.sync()
    file.write_text("mine")
    done = world.cli("prices", "export", file)
    assert done.returncode == 2
    assert done.stderr == f"Error: {file} is there already; --force replaces it\n"
    assert file.read_text() == "mine"
    assert world.cli("prices", "export", file, "--force").returncode == 0
    assert file.read_text() == world.cli("prices", "export", "-").stdout


def test_an_import_adds_and_replaces(priced: World, file: Path) -> None:
    file.write_text(f"{HEADER}\n{ROW}\n\nclaude-opus-5,,,0,1,200,1,1,1,,,,,\n")
    done = priced.cli("prices", "import", file)
    assert done.stderr == "2 added, 0 replaced, 0 there already\n"
    assert costs(priced) == {"claude-opus-5": 0.2, "vendor/kimi-k3": 0.002}
    file.write_text(f"\ufeff{HEADER}\r\n{ROW.replace(',2,', ',4,')}\r\n")
    done = priced.cli("prices", "import", file)
    assert done.stderr == "0 added, 1 replaced, 0 there already\n"
    assert costs(priced)["vendor/kimi-k3"] == 0.004


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "row 1: the file is empty"),
        (f"{HEADER.replace('output_usd_per_mtok,', '')}\n", "row 1: no column output_usd_per_mtok"),
        (f"{HEADER},colour\n{ROW},red\n", "row 1: unknown column 'colour'"),
        (f"{HEADER},note\n", "row 1: column note is there twice"),
        (f"{HEADER}\n{ROW}\n{ROW.replace('k3', 'k4').replace(',1,', ',-1,')}\n",
         "row 3: input_usd_per_mtok is negative"),
        (f"{HEADER}\n{ROW.replace(',2,', ',x,')}\n", "row 2: output_usd_per_mtok is not a number"),
        (f"{HEADER}\n{ROW.replace(',2,', ',,')}\n", "row 2: output_usd_per_mtok is not a number"),
        (f"{HEADER}\n{ROW.replace(',2,', ',inf,')}\n", "row 2: output_usd_per_mtok is not a"),
        (f"{HEADER}\n{ROW.replace(',0,', ',1.5,')}\n", "row 2: prompt_tokens_gt"),
        (f"{HEADER}\n{ROW.replace('2026-01-01', '1.1.2026')}\n", "row 2: effective_from"),
        (f"{HEADER}\n{ROW}\n{ROW.replace('-01-01', '-06-01')}\n",
         "row 3: dates overlap with row 2"),
        (f"{HEADER}\n{ROW}\n{ROW}\n", "row 3: dates overlap with row 2"),
        (f"{HEADER}\n{ROW},\n", "row 2: 15 cells under 14 columns"),
        (f"{HEADER}\nkimi\n", "row 2: 1 cells under 14 columns"),
        (f"{HEADER}\n{ROW[7:]}\n", "row 2: no model"),
        (f'{HEADER}\n"{ROW}\n', "row 2: "),
    ],
)  # fmt: skip
def test_a_bad_file_is_one_line_that_names_the_row_and_changes_nothing(
    world: World, file: Path, text: str, says: str
) -> None:
    file.write_text(text)
    fails(world, "import", file, says=f"{file}: {says}", code=1)


def test_a_file_that_is_no_text_or_not_there_is_one_line(world: World, file: Path) -> None:
    fails(world, "import", file, says="No such file", code=1)
    file.write_bytes(HEADER.encode() + b"\n\xff\xfe\n")
    fails(world, "import", file, says="row 2: not UTF-8", code=1)


def test_dates_that_overlap_with_a_price_of_yours_are_refused(world: World, file: Path) -> None:
    assert world.cli("prices", "add", "kimi-k3", "--input", "1", "--output", "1").returncode == 0
    file.write_text(f"{HEADER}\n{ROW.replace('kimi-k3', 'other')}\n{ROW}\n")
    says = f"{file}: row 3: dates overlap with your price kimi-k3"
    fails(world, "import", file, says=says, code=1)


def test_dates_that_run_into_a_later_price_of_yours_are_refused(world: World, file: Path) -> None:
    add = ("prices", "add", "kimi-k3", "--input", "1", "--output", "1", "--from", "2026-06-01")
    assert world.cli(*add).returncode == 0
    file.write_text(f"{HEADER}\n{ROW}\n")
    says = f"{file}: row 2: dates overlap with your price kimi-k3 from 2026-06-01"
    fails(world, "import", file, says=says, code=1)


def test_prices_that_overlap_by_hand_are_no_bar_to_others(world: World, file: Path) -> None:
    for day in ("2026-01-01", "2026-02-01"):
        add = ("prices", "add", "kimi-k3", "--input", "1", "--output", "1", "--from", day)
        assert world.cli(*add).returncode == 0
    with closing(sqlite3.connect(world.db)) as conn, conn:
        conn.execute("UPDATE prices SET effective_to = '2026-03-01' WHERE model = 'kimi-k3'")
    file.write_text(f"{HEADER}\n{ROW.replace('2026-01-01', '2026-03-01')}\n")
    done = world.cli("prices", "import", file)
    assert done.stderr == "1 added, 0 replaced, 0 there already\n"


def test_a_later_price_ends_one_whose_last_day_was_emptied_by_hand(world: World) -> None:
    add = ("prices", "add", "kimi-k3", "--input", "1", "--output", "1", "--from")
    assert world.cli(*add, "2026-01-01").returncode == 0
    with closing(sqlite3.connect(world.db)) as conn, conn:
        conn.execute("UPDATE prices SET effective_to = '' WHERE model = 'kimi-k3'")
    assert world.cli(*add, "2026-06-01").returncode == 0
    ends = world.ask("SELECT effective_to FROM prices WHERE model = 'kimi-k3' ORDER BY 1 DESC")
    assert [row[0] for row in ends] == ["2026-06-01", None]


def test_tiers_may_hold_on_the_same_days(world: World, file: Path) -> None:
    file.write_text(f"{HEADER}\n{ROW}\n{ROW.replace(',0,', ',1000,')}\n")
    assert world.cli("prices", "import", file).returncode == 0
    with closing(sqlite3.connect(world.db)) as conn:
        (number,) = conn.execute("SELECT count(*) FROM prices WHERE model = 'kimi-k3'").fetchone()
    assert number == 2
