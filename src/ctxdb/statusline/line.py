"""The line itself, from what the client says and what the database knows. Pure.

The format is a text with names in braces. A part between two | that has nothing to say is left out.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ctxdb.escape import one_line
from ctxdb.formatting import money

if TYPE_CHECKING:
    from ctxdb.statusline.client_input import ClientInput
    from ctxdb.statusline.numbers import Numbers

FORMAT = "{session} session | {today} today | {window} | {context} context"
NOTHING = "ctxdb"  # a status line is never empty
_NAME = re.compile(r"\{([a-z_]+)\}")


def status_line(template: str, client: ClientInput, known: Numbers | None, now: datetime) -> str:
    """The line to print."""
    values = _values(client, known, now)
    parts = []
    for part in template.split("|"):
        names = _NAME.findall(part)
        if names and not any(values.get(name) for name in names):
            continue
        filled = _NAME.sub(lambda match: values.get(match[1]) or "", part)
        parts.append(" ".join(filled.split()))
    return one_line(" | ".join(filter(None, parts))) or NOTHING


def _values(client: ClientInput, known: Numbers | None, now: datetime) -> dict[str, str]:
    values: dict[str, str] = {}
    # The database's sum counts each request once; until it knows the session, the client's counts.
    session = known.session_cost if known and known.session_cost is not None else client.cost_usd
    if session is not None:
        values["session"] = money(session)
    if known and known.today_cost is not None:
        values["today"] = money(known.today_cost)
    window = known.window if known else None
    if window is not None:
        values["burn"] = f"{money(window.per_hour)}/h"
    if client.window_percent is not None:
        left = _left(client.window_resets_at, now)
        values["window"] = f"5h {client.window_percent:.0f}%{left}"
    elif window is not None:
        left = _left(window.ends_at.timestamp(), now)
        values["window"] = f"5h {money(window.cost)} ({values['burn']}){left}"
    if client.week_percent is not None:
        values["week"] = f"7d {client.week_percent:.0f}%{_left(client.week_resets_at, now)}"
    if client.context_percent is not None:
        values["context"] = f"{client.context_percent:.0f}%"
    return values


def _left(until: float | None, now: datetime) -> str:
    """`, 2h05 left`, or nothing if that is not known or over."""
    if until is None:
        return ""
    minutes = int((until - now.astimezone(UTC).timestamp()) // 60)
    if minutes < 0 or minutes > 60 * 24 * 14:
        return ""
    days, rest = divmod(minutes, 60 * 24)
    hours, minutes = divmod(rest, 60)
    time = f"{days}d{hours:02d}h" if days else f"{hours}h{minutes:02d}"
    return f", {time} left"
