"""`ctxdb prices ...`: list and change the prices of tokens."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from ctxdb.cli.declare import Argument, Context, Option
from ctxdb.cli.shared_options import AsJson
from ctxdb.config import load
from ctxdb.errors import CtxdbError, UsageError
from ctxdb.output import note, say

Model = Annotated[str, Argument("MODEL", help="The name in the price list: claude-opus-5.")]
Since = Annotated[
    str | None, Option("--from", metavar="DATE", help="The first day of the price, in UTC.")
]
Above = Annotated[
    int | None,
    Option("--above", metavar="TOKENS", at_least=0, help="For prompts larger than this."),
]
HEADINGS = {  # of the table; --json and export use the names of the columns
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
# The table has no room for these; export has them.
NOT_SHOWN = {"source", "note"}
FROM_VENDOR = "official"


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

    If several prices fit a request, the one for the largest prompts applies; within that tier, your
    price comes before the one that came with ctxdb. The column confidence says where a price that
    came with ctxdb is from: `official` is the vendor's own list, any other word is not.

    \b
    Examples:
      ctxdb prices
      ctxdb prices list --model opus
    """
    from ctxdb.prices.price_list import LISTED_COLUMNS, listed

    prices = listed(load(ctx.db).db_path, model)
    shown = [name for name in LISTED_COLUMNS if as_json or name not in NOT_SHOWN]
    headings = shown if as_json else [HEADINGS.get(name, name) for name in shown]
    rows = [tuple(price[name] for name in shown) for price in prices]
    _print(headings, rows, as_json=as_json)
    others = sorted(
        {
            f"{price['model']} ({price['confidence']})"
            for price in prices
            if price["origin"] == "shipped" and price["confidence"] != FROM_VENDOR
        }
    )
    if others and not as_json:
        note(f"Not from the vendor's price list: {', '.join(others)}.")


def missing(ctx: Context, *, as_json: AsJson = False) -> None:
    """List the models without a price, most used first.

    These are models in your transcripts. No cost includes their requests.

    \b
    Example:
      ctxdb prices missing
    """
    from ctxdb.prices.price_list import missing as without_price

    columns, rows = without_price(load(ctx.db).db_path)
    if rows or as_json:
        _print(columns, rows, as_json=as_json)
    else:
        note("Every model has a price.")


def _print(columns: list[str], rows: list[tuple[object, ...]], *, as_json: bool) -> None:
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
    input_: Annotated[str, Option("--input", metavar="USD", help="For a million tokens of input.")],
    output: Annotated[
        str, Option("--output", metavar="USD", help="For a million tokens of output.")
    ],
    cache_write_5m: Annotated[
        str | None,
        Option("--cache-write-5m", metavar="USD", help="For writing to the 5-minute cache."),
    ] = None,
    cache_write_1h: Annotated[
        str | None,
        Option("--cache-write-1h", metavar="USD", help="For writing to the 1-hour cache."),
    ] = None,
    cache_read: Annotated[
        str | None, Option("--cache-read", metavar="USD", help="For reading from the cache.")
    ] = None,
    since: Since = None,
    until: Annotated[
        str | None,
        Option("--until", metavar="DATE", help="The first day after the price."),
    ] = None,
    above: Above = None,
    fast: Annotated[
        str | None, Option("--fast", metavar="TIMES", help="Multiplier in fast mode.")
    ] = None,
    us: Annotated[
        str | None, Option("--us", metavar="TIMES", help="Multiplier for inference in the US only.")
    ] = None,
    remark: Annotated[str | None, Option("--note", metavar="TEXT", help="A remark.")] = None,
) -> None:
    """Add a price, or change one of your prices. Costs change at once.

    If you leave out a cache price, it is worked out from --input, with the ratio that the model's
    prices have now; for a model without a price it is the price of input. If you leave out a
    multiplier, it keeps its value (--fast 1 ends it). A price that begins on a later day ends the
    one before it.

    \b
    Examples:
      ctxdb prices add kimi-k3 --input 0.6 --output 2.5 --cache-read 0.15
      ctxdb prices add claude-opus-5 --input 4 --output 20 --cache-write-5m 5 \\
        --cache-write-1h 8 --cache-read 0.4 --from 2026-12-01
    """
    from ctxdb.prices.price import BadPrice, read_price
    from ctxdb.prices.price_list import add as add_price
    from ctxdb.prices.price_list import editing, next_tier

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
        raise UsageError(f"{price.label()}: {e}") from e
    note(done.message)
    if larger is not None:
        how = f"--above {larger} changes it"
        note(f"Prompts above {larger} tokens keep their separate price; {how}.")
    if left_out and done.is_known:
        found = ", ".join(f"{HEADINGS[name]} {done.price.values[name]:.10g}" for name in left_out)
        note(f"Cache prices not given keep the ratio to input that the model has: {found}.")
    elif left_out:
        note("Cache prices that were not given are equal to the price of input.")


def remove(
    ctx: Context,
    model: Model,
    *,
    since: Since = None,
    above: Above = None,
    shipped: Annotated[
        bool,
        Option("--shipped", help="Also prices that came with ctxdb; upgrades do not restore them."),
    ] = False,
) -> None:
    """Remove your prices of a model. Then those that came with ctxdb apply again.

    If you remove only the price from one day, your price before it applies to that day again.

    \b
    Examples:
      ctxdb prices remove kimi-k3
      ctxdb prices remove claude-opus-5 --from 2026-12-01
    """
    from ctxdb.prices.price_list import editing
    from ctxdb.prices.price_list import remove as remove_prices

    with editing(load(ctx.db).db_path) as conn:
        number = remove_prices(conn, model, since=since, above=above, shipped=shipped)
    note(f"Removed {number} price{'' if number == 1 else 's'} of {model}")


def reset(ctx: Context, model: Model) -> None:
    """Go back to the prices of a model that came with ctxdb.

    This undoes everything that you added, edited or removed for the model.

    \b
    Example:
      ctxdb prices reset claude-opus-5
    """
    from ctxdb.prices.price_list import editing
    from ctxdb.prices.price_list import reset as reset_prices

    with editing(load(ctx.db).db_path) as conn:
        number = reset_prices(conn, model)
    note(f"{model} has {number} price{'' if number == 1 else 's'} that came with ctxdb")


def import_(
    ctx: Context,
    file: Annotated[Path, Argument("FILE", help="CSV with the columns that export writes.")],
) -> None:
    """Import prices from a CSV file. They come before those that came with ctxdb.

    If one row is wrong, nothing is imported. A price of the same model, day and size of prompt is
    replaced. Rows that are in the list already do not change.

    \b
    Example:
      ctxdb prices import prices.csv
    """
    from ctxdb.prices.csv_file import read_csv
    from ctxdb.prices.price_list import Overlap, editing, take_in

    rows = read_csv(file)
    try:
        with editing(load(ctx.db).db_path) as conn:
            done = take_in(conn, [row.price for row in rows])
    except Overlap as e:
        row = next(one.row for one in rows if one.price is e.price)
        raise CtxdbError(f"{file}: row {row}: {e}") from e
    note(f"{done.added} added, {done.replaced} replaced, {done.unchanged} there already")


def export(
    ctx: Context,
    file: Annotated[
        Path | None,
        Argument("FILE", help="Where to write it.", default_text="standard output"),
    ] = None,
    *,
    mine: Annotated[bool, Option("--mine", help="Only your own prices.")] = False,
    force: Annotated[bool, Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write the price list as CSV.

    \b
    Examples:
      ctxdb prices export prices.csv
      ctxdb prices export --mine
    """
    from ctxdb.prices.price_list import LISTED_COLUMNS, listed
    from ctxdb.query.formats import write_csv

    db_path = load(ctx.db).db_path
    rows = [
        [_plain(price[name]) for name in LISTED_COLUMNS]
        for price in listed(db_path, None)
        if not mine or price["origin"] == "user"
    ]
    if file is None or str(file) == "-":
        write_csv(list(LISTED_COLUMNS), rows, sys.stdout.write)
        return
    from ctxdb.cli.output_file import writing

    with writing(file, force=force, db_path=db_path) as out:
        write_csv(list(LISTED_COLUMNS), rows, lambda text: out.write(text.encode()))
    note(f"{len(rows)} prices in {file}")


def _plain(value: object) -> object:
    """Write a whole number of dollars without .0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
