"""Requests with given tokens, and what they must cost: worked out in fractions, beside the SQL."""

from __future__ import annotations

import csv
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ctxdb.assets import asset_dir

if TYPE_CHECKING:
    import sqlite3

    from builder import Json, Transcript

UNIT = 10**12  # a dollar in the whole numbers that views add up
KINDS = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read")


def answer(
    t: Transcript,
    model: str,
    *,
    tokens: Json | None = None,
    message: str | None = None,
    request: str | None = None,
    final: bool = True,
    **fields: Any,
) -> Json:
    """One assistant line with its own usage."""
    n = t.world.number()
    body = {
        "id": message or f"msg_{n:06d}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": f"answer {n}"}],
        "stop_reason": "end_turn" if final else None,
        "usage": tokens if tokens is not None else used(),
    }
    if request is None:
        request = f"req_{n:06d}"
    more = {"requestId": request} if request else {}
    return t.thread("assistant", {"message": body}, **more, **fields)


def used(input_: int = 10, output: int = 5, **more: Any) -> Json:
    return {
        "input_tokens": input_,
        "output_tokens": output,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        **more,
    }


# -- the oracle ------------------------------------------------------------------------------------


def shipped() -> list[dict[str, str]]:
    with (asset_dir("sql") / "prices.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def normal_names(model: str) -> list[str]:
    """R8 once more, in other words."""
    names = [model]
    name = model.rsplit("/", 1)[-1]
    name = re.sub(r"^.*anthropic\.", "", name)
    names.append(name)
    name = name.replace(".", "-")
    names.append(name)
    name = re.sub(r"\s*(\[1[mM]\]|\(.*\))$", "", name)
    names.append(name)
    name = re.sub(r"(-v\d+)?([-@]\d{8})?(-v\d+(:\d+)?)?$", "", name)
    names.append(name)
    names.append(re.sub(r"^claude-4-(opus|sonnet)$", r"claude-\1-4", name))
    return names


def price_of(
    model: str, at: str | None, prompt: int, prices: list[dict[str, Any]]
) -> dict[str, Any] | None:
    """The row that holds: the highest tier first, of it the user's rows, of them the latest."""
    for name in normal_names(model):
        rows = [row for row in prices if row["model"] == name]
        if rows:
            break
    else:
        return None
    tier = {id(row): int(row["prompt_tokens_gt"]) for row in rows}
    lowest = min(tier.values())
    fitting = []
    for row in rows:
        same = [r["effective_from"] or "" for r in rows if tier[id(r)] == tier[id(row)]]
        since = row["effective_from"] or ""
        is_begun = since == min(same) or since <= (at or "")
        is_over = bool(row["effective_to"]) and (at or "") >= row["effective_to"]
        is_large_enough = tier[id(row)] == lowest or prompt > tier[id(row)]
        if is_begun and not is_over and is_large_enough:
            is_earliest = since == min(same)
            rank = (
                -1 if tier[id(row)] == lowest else tier[id(row)],
                row.get("origin") == "user",
                "" if is_earliest else since,
                row.get("id", 0),
            )
            fitting.append((rank, row))
    return max(fitting, key=lambda one: one[0])[1] if fitting else None


def cost_of(use: dict[str, Any], prices: list[dict[str, Any]]) -> int | None:
    """R9 in fractions, cut to a whole number of 10^-12 USD per request."""
    price = price_of(use["model"], use["timestamp"], use["prompt_tokens"], prices)
    if price is None:
        return None
    cost = sum(
        Fraction(use[f"{kind}_tokens"]) * Fraction(str(price[f"{kind}_usd_per_mtok"])) / 1_000_000
        for kind in KINDS
    )
    if use["speed"] == "fast" and price["fast_multiplier"]:
        cost *= Fraction(str(price["fast_multiplier"]))
    if use["inference_geo"] == "us" and price["us_geo_multiplier"]:
        cost *= Fraction(str(price["us_geo_multiplier"]))
    return int(cost * UNIT) + use["web_search_requests"] * UNIT // 100


def requests(conn: sqlite3.Connection) -> list[dict[str, Any]]:
    """Every row of usage with its cost by the view."""
    cursor = conn.execute(
        "SELECT u.*, c.cost, c.priced_model FROM usage u JOIN _costs c ON c.id = u.id"
    )
    names = [name for name, *_ in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def prices_in(conn: sqlite3.Connection) -> list[dict[str, Any]]:
    cursor = conn.execute("SELECT * FROM prices")
    names = [name for name, *_ in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]
