"""`ctxdb prices`: what a million tokens cost."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from ctxdb.cli.common import AsJson
from ctxdb.cli.declare import Argument, Context, Option
from ctxdb.config import load
from ctxdb.errors import CtxdbError, UsageError
from ctxdb.output import note, say

Model = Annotated[str, Argument("MODEL", help="As the price list names it: claude-opus-5.")]
Since = Annotated[
    str | None, Option("--from", metavar="DATE", help="First day on which it holds, in UTC.")
]
Above = Annotated[
    int | None,
    Option("--above", metavar="TOKENS", at_least=0, help="For prompts larger than this."),
]
SHORT = {  # headings of the table; --json and export have the names of the columns
    "effective_from": "from",
    "effective_to": "until",
    "prompt_tokens_gt": "above",
    "input_usd_per_mtok": "in",
    "output_usd_per_mtok": "out",
    "cache_write_5m_usd_per_mtok": "write_5m",
    "cache_write_1h_usd_per_mtok": "write_1h",
    "cache_read_usd_per_mtok": "read",
    "fast_multiplier": "fast",
    "us_geo_multiplier": "us",
}


def list_(
    ctx: Context,
    *,
    model: Annotated[
        str | None,
        Option("--model", metavar="NAME", help="Only this model, or models with this in the name."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List prices, in USD per million tokens. `ctxdb prices` alone does the same.

    Of the prices that fit a request those for the largest prompts count, and of these yours before
    one that came with ctxdb.

    \b
    Examples:
      ctxdb prices
      ctxdb prices list --model opus
    """
    from ctxdb.prices.edit import listed
    from ctxdb.store.shipped_prices import COLUMNS

    rows = listed(load(ctx.db).db_path, model)
    if as_json:
        _print([*COLUMNS, "origin"], rows, as_json=True)
        return
    # Where a price is from and what is to be said of it are long: export has them.
    shown = [*COLUMNS[:11], "origin"]
    _print([SHORT.get(name, name) for name in shown], [(*row[:11], row[-1]) for row in rows])


def missing(ctx: Context, *, as_json: AsJson = False) -> None:
    """List models in your transcripts that have no price, most used first.

    Their requests are in no cost.

    \b
    Example:
      ctxdb prices missing
    """
    from ctxdb.prices.edit import missing as without_price

    columns, rows = without_price(load(ctx.db).db_path)
    if rows or as_json:
        _print(columns, rows, as_json=as_json)
    else:
        note("Every model has a price.")


def _print(columns: list[str], rows: list[tuple[object, ...]], *, as_json: bool = False) -> None:
    if as_json:
        from ctxdb.query.formats import write_json

        write_json(columns, rows, sys.stdout.write)
        return
    if not rows:
        note("No prices.")
        return
    from ctxdb.query.present import page
    from ctxdb.query.table import lay_out

    made = lay_out(columns, rows, page())
    for line in made.lines:
        say(line)
    if made.left_out:
        note(f"No room for {', '.join(made.left_out)}: --json has all.")


def add(
    ctx: Context,
    model: Model,
    *,
    input_: Annotated[str, Option("--input", metavar="USD", help="A million tokens of input.")],
    output: Annotated[str, Option("--output", metavar="USD", help="A million tokens of output.")],
    cache_write_5m: Annotated[
        str | None,
        Option("--cache-write-5m", metavar="USD", help="Written to the 5-minute cache."),
    ] = None,
    cache_write_1h: Annotated[
        str | None, Option("--cache-write-1h", metavar="USD", help="Written to the 1-hour cache.")
    ] = None,
    cache_read: Annotated[
        str | None, Option("--cache-read", metavar="USD", help="Read from the cache.")
    ] = None,
    since: Since = None,
    until: Annotated[
        str | None,
        Option("--until", metavar="DATE", help="First day on which it no longer holds."),
    ] = None,
    above: Above = None,
    fast: Annotated[
        str | None, Option("--fast", metavar="TIMES", help="Multiplier in fast mode.")
    ] = None,
    us: Annotated[
        str | None, Option("--us", metavar="TIMES", help="Multiplier where it ran in the US only.")
    ] = None,
    remark: Annotated[str | None, Option("--note", metavar="TEXT", help="A remark.")] = None,
) -> None:
    """Add a price, or give one of yours another value. Costs change at once.

    Cache prices that are left out keep the ratio to input that the model has; of a model without a
    price they are those of input. Multipliers that are left out are those the model has (--fast 1
    ends one). A price that holds from a later day ends the one before it.

    \b
    Examples:
      ctxdb prices add kimi-k3 --input 0.6 --output 2.5 --cache-read 0.15
      ctxdb prices add claude-opus-5 --input 4 --output 20 --cache-write-5m 5 \\
        --cache-write-1h 8 --cache-read 0.4 --from 2026-12-01
    """
    from ctxdb.prices.edit import add as add_price
    from ctxdb.prices.edit import editing, next_tier
    from ctxdb.prices.rows import BadPrice, read_price

    caches = {
        "cache_write_5m_usd_per_mtok": cache_write_5m,
        "cache_write_1h_usd_per_mtok": cache_write_1h,
        "cache_read_usd_per_mtok": cache_read,
    }
    left_out = [name for name, given in caches.items() if not given]
    try:
        price = read_price(
            {
                "model": model,
                "effective_from": since,
                "effective_to": until,
                "prompt_tokens_gt": str(above or 0),
                "input_usd_per_mtok": input_,
                "output_usd_per_mtok": output,
                **{name: given or input_ for name, given in caches.items()},
                "fast_multiplier": fast,
                "us_geo_multiplier": us,
                "note": remark,
            }
        )
    except BadPrice as e:
        raise UsageError(str(e)) from e
    try:
        with editing(load(ctx.db).db_path) as conn:
            done = add_price(conn, price, left_out)
            larger = next_tier(conn, price)
    except BadPrice as e:
        raise UsageError(f"{price.says()}: {e}") from e
    note(done.says)
    if larger is not None:
        how = f"--above {larger} changes it"
        note(f"Prompts above {larger} tokens keep a price of their own; {how}.")
    if left_out and done.is_known:
        found = ", ".join(f"{SHORT[name]} {done.price.values[name]:.10g}" for name in left_out)
        note(f"Cache prices not given keep the ratio to input that the model has: {found}.")
    elif left_out:
        note("Cache prices that were not given are the price of input.")


def remove(
    ctx: Context,
    model: Model,
    *,
    since: Since = None,
    above: Above = None,
    shipped: Annotated[
        bool, Option("--shipped", help="Also prices that came with ctxdb; they do not come back.")
    ] = False,
) -> None:
    """Remove your prices of a model; those that came with ctxdb count again.

    Where you name a day, your price before it holds on.

    \b
    Examples:
      ctxdb prices remove kimi-k3
      ctxdb prices remove claude-opus-5 --from 2026-12-01
    """
    from ctxdb.prices.edit import editing
    from ctxdb.prices.edit import remove as remove_prices

    with editing(load(ctx.db).db_path) as conn:
        number = remove_prices(conn, model, since=since, above=above, shipped=shipped)
    note(f"Removed {number} price{'' if number == 1 else 's'} of {model}")


def reset(ctx: Context, model: Model) -> None:
    """Go back to the prices of a model that came with ctxdb.

    What you added, edited or removed for it is undone.

    \b
    Example:
      ctxdb prices reset claude-opus-5
    """
    from ctxdb.prices.edit import editing
    from ctxdb.prices.edit import reset as reset_prices

    with editing(load(ctx.db).db_path) as conn:
        number = reset_prices(conn, model)
    note(f"{model} has {number} price{'' if number == 1 else 's'} that came with ctxdb")


def import_(
    ctx: Context,
    file: Annotated[Path, Argument("FILE", help="CSV with the columns that export writes.")],
) -> None:
    """Take in prices from a CSV file; they are yours, and win over those that came with ctxdb.

    All or nothing: one bad row, and nothing changes. A price of the same model, day and size of
    prompt is replaced; rows that are in the list already are left as they are.

    \b
    Example:
      ctxdb prices import prices.csv
    """
    from ctxdb.prices.edit import Overlap, editing, take_in
    from ctxdb.prices.files import read_csv

    rows = read_csv(file)
    try:
        with editing(load(ctx.db).db_path) as conn:
            done = take_in(conn, [row.price for row in rows])
    except Overlap as e:
        line = next(row.line for row in rows if row.price is e.price)
        raise CtxdbError(f"{file}: row {line}: {e}") from e
    note(f"{done.added} added, {done.replaced} replaced, {done.unchanged} there already")


def export(
    ctx: Context,
    file: Annotated[
        Path | None,
        Argument("FILE", help="Where to write it.", default_text="standard output"),
    ] = None,
    *,
    mine: Annotated[bool, Option("--mine", help="Only your own prices.")] = False,
    force: Annotated[bool, Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write the price list as CSV.

    \b
    Examples:
      ctxdb prices export prices.csv
      ctxdb prices export --mine
    """
    from ctxdb.prices.edit import listed
    from ctxdb.query.formats import write_csv
    from ctxdb.store.shipped_prices import COLUMNS

    db_path = load(ctx.db).db_path
    rows = [
        [_plain(value) for value in row]
        for row in listed(db_path, None)
        if not mine or row[-1] == "user"
    ]
    if file is None or str(file) == "-":
        write_csv([*COLUMNS, "origin"], rows, sys.stdout.write)
        return
    from ctxdb.session.new_file import writing

    with writing(file, force=force, db_path=db_path) as out:
        write_csv([*COLUMNS, "origin"], rows, lambda text: out.write(text.encode()))
    note(f"{len(rows)} prices in {file}")


def _plain(value: object) -> object:
    """A whole number of dollars as people write it."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
