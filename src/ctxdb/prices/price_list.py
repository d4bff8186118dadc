"""Read and change the table `prices`, each change in its own transaction.

A change needs no writer lock, because nothing that a sync or the daemon writes depends on prices,
and SQLite's own lock separates two transactions. So a price can be changed while the daemon runs.
Only a database of an older version has to be upgraded first, and that does need the writer lock.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ctxdb.errors import CtxdbError, LockHeld, NoDatabase, UsageError
from ctxdb.lock import WriterLock
from ctxdb.prices.price import MOST_USD, MULTIPLIERS, BadPrice, Price, overlapping
from ctxdb.store.connection import naming_damage, open_reader, open_writer, write_transaction
from ctxdb.store.model_ladder import candidates
from ctxdb.store.schema import prepare, refuse_newer
from ctxdb.store.shipped_prices import COLUMNS, refresh
from ctxdb.store.version import is_current

LISTED_COLUMNS = (*COLUMNS, "origin")
_NAMES = ", ".join(COLUMNS)
LAST_DAY = "9999-12-31"
DIGITS = 6  # micro-USD per million tokens; costs are computed from no more digits


class Overlap(BadPrice):
    """A price that is valid on the same days as another."""

    def __init__(self, price: Price, why: str) -> None:
        super().__init__(why)
        self.price = price


class Added(NamedTuple):
    """What `add` did."""

    message: str
    price: Price  # with the values that were left out
    is_known: bool  # the model had a price already, and its ratios of cache to input were kept


class Changed(NamedTuple):
    """How many prices an import added, replaced and left unchanged."""

    added: int
    replaced: int
    unchanged: int


@contextmanager
def editing(path: Path) -> Iterator[sqlite3.Connection]:
    """A transaction on a database that exists already."""
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
        if not e.is_daemon:
            raise
        why = "a daemon of another version is writing to it; first `ctxdb daemon restart`"
        raise CtxdbError(f"{path}: {why}") from e


def listed(path: Path, model: str | None) -> list[dict[str, Any]]:
    """The prices by LISTED_COLUMNS.

    Only those of `model`, if it is not None: a part of the name, or the name in a transcript.
    """
    with _reading(path) as conn:
        found = conn.execute(
            f"SELECT {_NAMES}, origin FROM prices"  # noqa: S608
            " ORDER BY model, prompt_tokens_gt, coalesce(effective_from, ''), origin DESC, id"
        )
        rows = [dict(zip(LISTED_COLUMNS, values, strict=True)) for values in found]
    if model is None:
        return rows
    names = candidates(model)
    return [row for row in rows if model in row["model"] or row["model"] in names]


def missing(path: Path) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Models in the transcripts that have no price, most used first: column names and rows."""
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
    """Add a price of the user, or replace one. Raises BadPrice.

    A price that begins on a later day ends the one before it. Values that are left out are those of
    the model's present price: the multipliers, and the ratio of cache prices (the columns in
    `left_out`) to input.
    """
    before = _before(conn, price)
    price = _with_multipliers(price, before)
    # A model that is free, or has no price yet, has no ratio.
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
            ended = f"; {other.label()} ends then"
        else:
            rest.append(other)
    _refuse_overlap(price, rest)
    _insert(conn, [price])
    return Added(f"{done} {price.label()}{ended}", price, paid is not None)


def next_tier(conn: sqlite3.Connection, price: Price) -> int | None:
    """The size of prompt above which another price of the model applies, or None."""
    (found,) = conn.execute(
        "SELECT min(prompt_tokens_gt) FROM prices WHERE model = ? AND prompt_tokens_gt > ?",
        (price.model, price.prompt_tokens_gt),
    ).fetchone()
    return found if found is None else int(found)


def _before(conn: sqlite3.Connection, price: Price) -> list[Price]:
    """The model's present prices for prompts of this size, the one for this day first."""
    for name in candidates(price.model):
        rows = conn.execute(
            f"SELECT origin = 'user', {_NAMES} FROM prices WHERE model = ?",  # noqa: S608
            (name,),
        ).fetchall()
        if rows:
            break
    else:
        return []
    all_tiers = [(bool(is_user), _price(values)) for is_user, *values in rows]
    sizes = {other.prompt_tokens_gt for _, other in all_tiers}
    size = max((size for size in sizes if size <= price.prompt_tokens_gt), default=min(sizes))
    known = [(is_user, other) for is_user, other in all_tiers if other.prompt_tokens_gt == size]
    # The first price of a tier also applies to all time before it.
    first = min(other.effective_from or "" for _, other in known)
    day = max(price.effective_from or LAST_DAY, first)

    def rank(one: tuple[bool, Price]) -> tuple[bool, bool, str]:
        is_user, other = one
        since, until = other.effective_from or "", other.effective_to or "~"  # after every day
        return since <= day < until, is_user, since

    return [other for _, other in sorted(known, key=rank, reverse=True)]


def _with_multipliers(price: Price, before: list[Price]) -> Price:
    """Take the multipliers of the model's present price if this one does not name them.

    Otherwise fast mode could become cheaper by mistake.
    """
    if not before:
        return price
    present, *_ = before
    values = price.values
    for name in MULTIPLIERS:
        if values[name] is None:
            values[name] = present.values[name]
    return Price(**values)


def _with_ratios(price: Price, other: Price, names: Collection[str]) -> Price:
    ratio = price.input_usd_per_mtok / other.input_usd_per_mtok
    kept = {name: round(other.values[name] * ratio, DIGITS) for name in names}
    for name, usd in kept.items():
        if usd > MOST_USD:
            raise BadPrice(f"{name} is more than {MOST_USD:,}: {usd:.10g}, at the present ratio")
    return Price(**{**price.values, **kept})


def _refuse_overlap(price: Price, others: Iterable[Price]) -> None:
    """Raise Overlap if this price is valid on the same days as another price of the user.

    Each other price is compared with this one only: two that overlap already, because somebody
    edited the table, must not prevent this change.
    """
    for other in others:
        if overlapping((other, price)):
            raise Overlap(price, f"dates overlap with your price {other.label()}")


def _is_followed(other: Price, price: Price) -> bool:
    return (
        other.prompt_tokens_gt == price.prompt_tokens_gt
        and other.effective_to is None
        and (other.effective_from or "") < (price.effective_from or "")
    )


def take_in(conn: sqlite3.Connection, prices: list[Price]) -> Changed:
    """Add the prices of a file. Prices that are in the table already do not change."""
    known = {
        tuple(row)
        for row in conn.execute(f"SELECT {_NAMES} FROM prices")  # noqa: S608
    }
    new = [price for price in prices if tuple(price.values.values()) not in known]
    # Prices that came with another version of ctxdb become the user's, and may overlap with others.
    if found := overlapping(new):
        first, second = found
        raise Overlap(second, f"dates overlap with {first.label()} in the same file")
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
    """Remove the user's prices of a model, and with `shipped` those that came with ctxdb too.

    Returns how many were removed.
    """
    where = "model = :model"
    if since is not None:
        where += " AND coalesce(effective_from, '') = :since"
    if above is not None:
        where += " AND prompt_tokens_gt = :above"
    # 2**63 - 1 is the largest number that SQLite can store.
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
    # A price that a removed price had ended is valid again, as if that had never been added.
    for price in sorted(gone, key=lambda one: one.key, reverse=True):
        if price.key not in keys:
            conn.execute(
                "UPDATE prices SET effective_to = ? WHERE model = ? AND prompt_tokens_gt = ?"
                " AND effective_to = ? AND origin = 'user'",
                (price.effective_to, model, price.prompt_tokens_gt, price.effective_from),
            )
    return number


def reset(conn: sqlite3.Connection, model: str) -> int:
    """Go back to the prices that came with ctxdb, and return how many the model has then."""
    found = conn.execute("DELETE FROM prices WHERE model = ?", (model,)).rowcount
    forgotten = conn.execute("DELETE FROM _deleted_prices WHERE model = ?", (model,)).rowcount
    refresh(conn)
    (now,) = conn.execute("SELECT count(*) FROM prices WHERE model = ?", (model,)).fetchone()
    if not found and not forgotten:
        raise UsageError(f"{model}: no such price; `ctxdb prices` lists them")
    return int(now)


def _mine(conn: sqlite3.Connection, models: set[str]) -> dict[int, Price]:
    """The user's prices of these models, by id."""
    rows = conn.execute(f"SELECT id, model, {_NAMES} FROM prices WHERE origin = 'user'")  # noqa: S608
    return {id_: _price(values) for id_, model, *values in rows if model in models}


def _price(values: Iterable[Any]) -> Price:
    # Other tools store an emptied cell as an empty text.
    cells: list[Any] = [None if value == "" else value for value in values]
    return Price(**dict(zip(COLUMNS, cells, strict=True)))


def _insert(conn: sqlite3.Connection, prices: Iterable[Price]) -> None:
    values = ", ".join(f":{name}" for name in COLUMNS)
    conn.executemany(
        f"INSERT INTO prices ({_NAMES}, origin) VALUES ({values}, 'user')",  # noqa: S608
        [price.values for price in prices],
    )
