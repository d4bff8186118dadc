"""One price, and the rules for valid prices.

`ctxdb prices add` and an import both use these rules. Triggers with the same meaning check an edit
in another tool. Errors say what is wrong; the caller adds where.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from itertools import pairwise
from typing import Any

from ctxdb.errors import CtxdbError

MOST_USD = 10_000  # per million tokens: a typing error must not overflow the sums
MOST_TIMES = 100
PRICES = (
    "input_usd_per_mtok",
    "output_usd_per_mtok",
    "cache_write_5m_usd_per_mtok",
    "cache_write_1h_usd_per_mtok",
    "cache_read_usd_per_mtok",
)
MULTIPLIERS = ("fast_multiplier", "us_geo_multiplier")
DATES = ("effective_from", "effective_to")


class BadPrice(CtxdbError):
    """A price that cannot be right; the message is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """A row of prices, without its id and origin."""

    model: str
    effective_from: str | None = None
    effective_to: str | None = None
    prompt_tokens_gt: int = 0
    input_usd_per_mtok: float
    output_usd_per_mtok: float
    cache_write_5m_usd_per_mtok: float
    cache_write_1h_usd_per_mtok: float
    cache_read_usd_per_mtok: float
    fast_multiplier: float | None = None
    us_geo_multiplier: float | None = None
    source: str | None = None
    confidence: str | None = None
    note: str | None = None

    @property
    def key(self) -> tuple[str, str, int]:
        """What identifies the price, whatever its value: model, first day and tier."""
        return self.model, self.effective_from or "", self.prompt_tokens_gt

    @property
    def values(self) -> dict[str, Any]:
        """Its columns."""
        return asdict(self)

    def label(self) -> str:
        """The name of the price in messages."""
        since = f" from {self.effective_from}" if self.effective_from else ""
        above = f" above {self.prompt_tokens_gt} tokens" if self.prompt_tokens_gt else ""
        return f"{self.model}{since}{above}"


def read_price(cells: Mapping[str, str | None]) -> Price:
    """Make a price from one text per column. Raises BadPrice."""
    found: dict[str, Any] = {}
    for name, cell in cells.items():
        text = (cell or "").strip()
        if name in PRICES:
            found[name] = _number(name, text, MOST_USD)
        elif name in MULTIPLIERS:
            found[name] = _number(name, text, MOST_TIMES) if text else None
        elif name in DATES:
            found[name] = _date(name, text) if text else None
        elif name == "prompt_tokens_gt":
            found[name] = _tokens(text)
        else:
            found[name] = text or None
    if not found.get("model"):
        raise BadPrice("no model")
    price = Price(**found)
    if price.effective_to is not None and price.effective_to <= (price.effective_from or ""):
        raise BadPrice(
            f"effective_to {price.effective_to} is not after effective_from {price.effective_from}"
        )
    return price


def _number(name: str, text: str, most: int) -> float:
    try:
        number = float(text)
    except ValueError:
        raise BadPrice(f"{name} is not a number: {text[:40]!r}") from None
    if not math.isfinite(number) or "_" in text:
        raise BadPrice(f"{name} is not a number: {text[:40]!r}")
    if number < 0:
        raise BadPrice(f"{name} is negative: {text[:40]}")
    if number > most:
        raise BadPrice(f"{name} is more than {most:,}: {text[:40]}")
    return number


def _date(name: str, text: str) -> str:
    try:
        if len(text) == len("2026-10-07"):
            return date.fromisoformat(text).isoformat()
    except ValueError:
        pass
    raise BadPrice(f"{name} is not a date such as 2026-10-07: {text[:40]!r}")


def _tokens(text: str) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal()) or len(text) > 12:
        raise BadPrice(f"prompt_tokens_gt is not a whole number of tokens: {text[:40]!r}")
    return int(text)


def overlapping(prices: Iterable[Price]) -> tuple[Price, Price] | None:
    """Two prices of one model and tier that are valid on the same day, or None."""
    tiers: dict[tuple[str, int], list[Price]] = {}
    for price in prices:
        tiers.setdefault((price.model, price.prompt_tokens_gt), []).append(price)
    for tier in tiers.values():
        tier.sort(key=lambda price: price.effective_from or "")
        for one, other in pairwise(tier):
            if one.effective_to is None or one.effective_to > (other.effective_from or ""):
                return one, other
    return None
