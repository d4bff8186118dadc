"""Changes to the table `prices`, each in a transaction of its own.

They need no writer lock: nothing that a sync or the daemon writes depends on prices, and SQLite's
own lock keeps two transactions apart. So a price can be changed while the daemon runs. Only a
database of another version is brought up to date first, and that is for who holds the writer lock.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ctxdb.errors import CtxdbError, LockHeld, NoDatabase, UsageError
from ctxdb.lock import WriterLock
from ctxdb.prices.rows import MOST_USD, MULTIPLIERS, BadPrice, Price, overlapping
from ctxdb.store.connection import naming_damage, open_reader, open_writer, write_transaction
from ctxdb.store.model_ladder import candidates
from ctxdb.store.schema import prepare, refuse_newer
from ctxdb.store.shipped_prices import COLUMNS, refresh
from ctxdb.store.version import is_current

_NAMES = ", ".join(COLUMNS)
LAST_DAY = "9999-12-31"
DIGITS = 6  # micro-USD per million tokens: finer ones do not count


class Overlap(BadPrice):
    """A price that holds on days on which another does."""

    def __init__(self, price: Price, why: str) -> None:
        super().__init__(why)
        self.price = price


class Added(NamedTuple):
    """What became of a price that was added."""

    says: str
    price: Price  # with what it did not name
    is_known: bool  # the model has a price already, whose ratio of cache to input is kept


class Changed(NamedTuple):
    """What an import did."""

    added: int
    replaced: int
    unchanged: int


@contextmanager
def editing(path: Path) -> Iterator[sqlite3.Connection]:
    """A transaction on a database that is there already."""
    if not path.exists():
        raise NoDatabase(path)
    with naming_damage(path), closing(open_writer(path)) as conn:
        if not is_current(conn):
            _bring_up_to_date(conn, path)
        with write_transaction(conn):
            yield conn


def _bring_up_to_date(conn: sqlite3.Connection, path: Path) -> None:
    refuse_newer(conn, path)
    try:
        with WriterLock(path):
            prepare(conn, path)
    except LockHeld as e:
        if not e.version.endswith(" daemon"):
            raise
        why = "another version's daemon keeps it; first `ctxdb daemon restart`"
        raise CtxdbError(f"{path}: {why}") from e


def listed(path: Path, model: str | None) -> list[tuple[Any, ...]]:
    """Rows of the list: COLUMNS and origin. A model is named in part, or as a transcript does."""
    with _reading(path) as conn:
        rows = conn.execute(
            f"SELECT {_NAMES}, origin FROM prices"  # noqa: S608
            " ORDER BY model, prompt_tokens_gt, coalesce(effective_from, ''), origin DESC, id"
        ).fetchall()
    if model is None:
        return rows
    names = candidates(model)
    return [row for row in rows if model in row[0] or row[0] in names]


def missing(path: Path) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Models in use that have no price, most used first."""
    with _reading(path) as conn:
        cursor = conn.execute(
            "SELECT model, requests, total_tokens, output_tokens, last_used_at, looked_for"
            " FROM unpriced_models"
        )
        return [column for column, *_ in cursor.description], cursor.fetchall()


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    with naming_damage(path), closing(open_reader(path)) as conn:
        try:
            yield conn
        except sqlite3.OperationalError as e:
            if "no such" not in str(e):
                raise
            why = "made by an older version of ctxdb; `ctxdb sync` brings it up to date"
            raise CtxdbError(f"{path}: {why}") from e


def add(conn: sqlite3.Connection, price: Price, left_out: Collection[str] = ()) -> Added:
    """Add a price of the user's, or give one of his another value.

    A price that holds from a later day ends the one before it. What it does not name is as the
    model has it so far: multipliers, so that fast mode does not become cheap by an oversight, and
    the ratio of cache prices (columns in `left_out`) to input. Raises BadPrice.
    """
    before = _before(conn, price)
    price = _with_multipliers(price, before)
    # Of a model that is free, or not known, no ratio is known either.
    paid = next((other for other in before if other.input_usd_per_mtok > 0), None)
    if paid is not None:
        price = _with_ratios(price, paid, left_out)
    mine = _mine(conn, {price.model})
    done = "Added"
    ended = ""
    rest = []
    for id_, other in mine.items():
        if other.key == price.key:
            conn.execute("DELETE FROM prices WHERE id = ?", (id_,))
            done = "Replaced"
        elif _is_followed(other, price):
            conn.execute(
                "UPDATE prices SET effective_to = ? WHERE id = ?", (price.effective_from, id_)
            )
            ended = f"; {other.says()} ends then"
        else:
            rest.append(other)
    _refuse_overlap(price, rest)
    _insert(conn, [price])
    return Added(f"{done} {price.says()}{ended}", price, paid is not None)


def next_tier(conn: sqlite3.Connection, price: Price) -> int | None:
    """The size of prompt above which another price of the model counts instead, if there is one."""
    (found,) = conn.execute(
        "SELECT min(prompt_tokens_gt) FROM prices WHERE model = ? AND prompt_tokens_gt > ?",
        (price.model, price.prompt_tokens_gt),
    ).fetchone()
    return found if found is None else int(found)


def _before(conn: sqlite3.Connection, price: Price) -> list[Price]:
    """What the model's prices are so far for such prompts, the one that holds on that day first."""
    for name in candidates(price.model):
        rows = conn.execute(
            f"SELECT origin = 'user', {_NAMES} FROM prices WHERE model = ?",  # noqa: S608
            (name,),
        ).fetchall()
        if rows:
            break
    else:
        return []
    known = [(bool(is_user), _price(values)) for is_user, *values in rows]
    tiers = {other.prompt_tokens_gt for _, other in known}
    tier = max((size for size in tiers if size <= price.prompt_tokens_gt), default=min(tiers))
    known = [one for one in known if one[1].prompt_tokens_gt == tier]
    # The first price of a tier also holds for all time before it.
    first = min(other.effective_from or "" for _, other in known)
    day = max(price.effective_from or LAST_DAY, first)

    def rank(one: tuple[bool, Price]) -> tuple[bool, bool, str]:
        is_user, other = one
        since, until = other.effective_from or "", other.effective_to or "~"  # after every day
        return since <= day < until, is_user, since

    return [other for _, other in sorted(known, key=rank, reverse=True)]


def _with_multipliers(price: Price, before: list[Price]) -> Price:
    given = price.values
    kept = {
        name: given[name] if given[name] is not None else other.values[name]
        for other in before[:1]
        for name in MULTIPLIERS
    }
    return Price(**{**given, **kept})


def _with_ratios(price: Price, other: Price, names: Collection[str]) -> Price:
    ratio = price.input_usd_per_mtok / other.input_usd_per_mtok
    kept = {name: round(other.values[name] * ratio, DIGITS) for name in names}
    for name, usd in kept.items():
        if usd > MOST_USD:
            raise BadPrice(f"{name} is more than {MOST_USD:,}: {usd:.10g}, in the ratio it had")
    return Price(**{**price.values, **kept})


def _refuse_overlap(price: Price, others: Iterable[Price]) -> None:
    """Raise Overlap if a price of the user's holds on the same days as this new one.

    Each is asked by itself: what overlaps in the table already, by hand, is not this price's fault.
    """
    for other in others:
        if overlapping((other, price)):
            raise Overlap(price, f"dates overlap with your price {other.says()}")


def _is_followed(other: Price, price: Price) -> bool:
    return (
        other.prompt_tokens_gt == price.prompt_tokens_gt
        and other.effective_to is None
        and (other.effective_from or "") < (price.effective_from or "")
    )


def take_in(conn: sqlite3.Connection, prices: list[Price]) -> Changed:
    """Add prices of a file; those that are there already, shipped ones too, stay as they are."""
    known = {
        tuple(row)
        for row in conn.execute(f"SELECT {_NAMES} FROM prices")  # noqa: S608
    }
    new = [price for price in prices if tuple(price.values.values()) not in known]
    # Ours of another version would be the user's here, and may then overlap with his own.
    if found := overlapping(new):
        raise Overlap(found[1], f"dates overlap with {found[0].says()} in the same file")
    keys = {price.key for price in new}
    mine = _mine(conn, {price.model for price in new})
    replaced = [id_ for id_, price in mine.items() if price.key in keys]
    conn.executemany("DELETE FROM prices WHERE id = ?", [(id_,) for id_ in replaced])
    rest = [price for id_, price in mine.items() if id_ not in replaced]
    for price in new:
        _refuse_overlap(price, rest)
    _insert(conn, new)
    return Changed(len(new) - len(replaced), len(replaced), len(prices) - len(new))


def remove(
    conn: sqlite3.Connection,
    model: str,
    *,
    since: str | None,
    above: int | None,
    shipped: bool,
) -> int:
    """Remove the user's prices of a model, or with `shipped` those of ctxdb too; how many."""
    where = "model = :model"
    if since is not None:
        where += " AND coalesce(effective_from, '') = :since"
    if above is not None:
        where += " AND prompt_tokens_gt = :above"
    # No price is for prompts that are larger than SQLite can count.
    given = {"model": model, "since": since, "above": min(above or 0, 2**63 - 1)}
    counts = dict(
        conn.execute(f"SELECT origin, count(*) FROM prices WHERE {where} GROUP BY origin", given)  # noqa: S608
    )
    if not counts:
        raise UsageError(f"{model}: no such price; `ctxdb prices` lists them")
    if not shipped and "user" not in counts:
        raise UsageError(
            f"{model}: this price came with ctxdb; add your own, which wins, or use --shipped"
        )
    if not shipped:
        where += " AND origin = 'user'"
    gone = [price for price in _mine(conn, {model}).values() if price.effective_from is not None]
    number = conn.execute(f"DELETE FROM prices WHERE {where}", given).rowcount  # noqa: S608
    left = _mine(conn, {model})
    keys = {price.key for price in left.values()}
    # What a removed price had ended holds again, as if it had never been there.
    for price in sorted(gone, key=lambda one: one.key, reverse=True):
        if price.key not in keys:
            conn.execute(
                "UPDATE prices SET effective_to = ? WHERE model = ? AND prompt_tokens_gt = ?"
                " AND effective_to = ? AND origin = 'user'",
                (price.effective_to, model, price.prompt_tokens_gt, price.effective_from),
            )
    return number


def reset(conn: sqlite3.Connection, model: str) -> int:
    """Back to the prices that ship with ctxdb; how many the model has then."""
    found = conn.execute("DELETE FROM prices WHERE model = ?", (model,)).rowcount
    forgotten = conn.execute("DELETE FROM _deleted_prices WHERE model = ?", (model,)).rowcount
    refresh(conn)
    (now,) = conn.execute("SELECT count(*) FROM prices WHERE model = ?", (model,)).fetchone()
    if not found and not forgotten:
        raise UsageError(f"{model}: no such price; `ctxdb prices` lists them")
    return int(now)


def _mine(conn: sqlite3.Connection, models: set[str]) -> dict[int, Price]:
    rows = conn.execute(f"SELECT id, {_NAMES} FROM prices WHERE origin = 'user'")  # noqa: S608
    found: dict[int, Price] = {}
    for id_, *values in rows:
        if values[0] in models:
            found[id_] = _price(values)
    return found


def _price(values: Iterable[Any]) -> Price:
    # Other tools leave an emptied cell as an empty text.
    cells: list[Any] = [None if value == "" else value for value in values]
    return Price(**dict(zip(COLUMNS, cells, strict=True)))


def _insert(conn: sqlite3.Connection, prices: Iterable[Price]) -> None:
    values = ", ".join(f":{name}" for name in COLUMNS)
    conn.executemany(
        f"INSERT INTO prices ({_NAMES}, origin) VALUES ({values}, 'user')",  # noqa: S608
        [price.values for price in prices],
    )
