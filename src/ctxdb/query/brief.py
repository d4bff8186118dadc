"""The brief of a session or a day: what was asked, said and done, as a person reads it.

The rows are those of the canned query `brief`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ctxdb.escape import one_line, safe
from ctxdb.formatting import clock, counted, day_and_time, duration, money
from ctxdb.query.statement import Ask, statement_for
from ctxdb.session.captions import short_line

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator

    from ctxdb.output import Painter

    Turn = dict[str, Any]

PROMPT_LINES = 12  # shown of a prompt: pasted logs are long
COMMANDS = 12  # shown of a turn
FILES = 20
ANSWER_CHARACTERS = 300  # shown of what an agent answered


def turns_of(conn: sqlite3.Connection, session: str | None, day: str | None) -> list[Turn]:
    """Return the turns of a session, or of a day, in the order in which they were asked."""
    ask = Ask("brief", since=day, until=day, session=session)
    statement = statement_for(ask, conn)
    cursor = conn.execute(statement.sql, statement.values)
    names = [name for name, *_ in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def lines(turns: Iterable[Turn], paint: Painter, columns: int) -> Iterator[str]:
    """Return the brief, line by line; a line names the session wherever another one begins."""
    session = None
    day = ""
    for turn in turns:
        if turn["session_id"] != session:
            if session is not None:
                yield ""
            session = turn["session_id"]
            day = day_and_time(turn["started_at"])[:10]
            about = " · ".join(filter(None, (one_line(turn["project"] or ""), day, session[:8])))
            title = short_line(turn["title"], max(columns - len(about) - 2, 30))
            yield f"{paint('bold', title)}  {paint('dim', about)}"
        yield ""
        today = day_and_time(turn["started_at"])[:10]
        yield from _turn(turn, today if today != day else "", paint, columns)
        day = today or day


def total(turns: list[Turn]) -> str:
    """Return the last line: how much was asked, how long the agent worked, what it cost."""
    parts = [counted(len(turns), "turn")]
    seconds = sum(turn["active_seconds"] or 0 for turn in turns)
    guessed = sum(turn["active_seconds"] or 0 for turn in turns if turn["agent_ms"] is None)
    if seconds:
        estimate = f" ({duration(guessed)} of it estimated)" if guessed else ""
        parts.append(f"the agent worked {duration(seconds)}{estimate}")
    if costs := [turn["cost_usd"] for turn in turns if turn["cost_usd"] is not None]:
        lacks = any(turn["requests_unpriced"] or turn["requests_not_final"] for turn in turns)
        parts.append(("at least " if lacks else "") + money(sum(costs)))
    return " · ".join(parts)


def _turn(turn: Turn, day: str, paint: Painter, columns: int) -> Iterator[str]:
    yield paint("dim", " · ".join(filter(None, (*_facts(turn, day),))))
    sign = "❯ "
    prompt = safe(turn["prompt"].strip()).split("\n")
    for line in prompt[:PROMPT_LINES]:
        yield paint("prompt", sign + line).rstrip()
        sign = "  "
    if len(prompt) > PROMPT_LINES:
        yield paint("dim", f"  ({len(prompt) - PROMPT_LINES:,} more lines)")
    if turn["reply"]:
        yield from (line.rstrip() for line in safe(turn["reply"]).split("\n"))
    yield from _done(turn, paint, columns)


def _facts(turn: Turn, day: str) -> Iterator[str]:
    yield f"{turn['ordinal']}"
    yield " ".join(filter(None, (day, clock(turn["started_at"]))))
    if turn["kind"] != "prompt":
        yield turn["kind"]
    if turn["active_seconds"]:
        yield ("about " if turn["agent_ms"] is None else "") + duration(turn["active_seconds"])
    if turn["cost_usd"]:
        yield money(turn["cost_usd"])


def _done(turn: Turn, paint: Painter, columns: int) -> Iterator[str]:
    """What was done in a turn, each sort under its name."""
    if turn["tools_used"]:
        yield f"  {paint('dim', 'Tools:')} {one_line(turn['tools_used'])}"
    files = _list(turn["files"])
    if files:
        yield f"  {paint('dim', 'Files:')}"
        for file in files[:FILES]:
            counts = f"+{file['lines_added']} -{file['lines_removed']}"
            yield f"    {one_line(str(file['path']))}  {paint('dim', counts)}"
        yield from _rest(len(files) - FILES, paint)
    commands = _list(turn["commands"])
    if commands:
        yield f"  {paint('dim', 'Commands:')}"
        for command in commands[:COMMANDS]:
            yield f"    $ {short_line(str(command), max(columns - 6, 30))}"
        yield from _rest(len(commands) - COMMANDS, paint)
    agents = _list(turn["agents"])
    if agents:
        yield f"  {paint('dim', 'Agents:')}"
        for agent in agents:
            task = one_line(f"{agent['agent_type']}: {agent['task'] or '(no description)'}")
            ended = "" if agent["status"] == "completed" else f" ({agent['status']})"
            yield f"    {task}{ended}"
            if agent["answer"]:
                yield f"      {paint('dim', '→')} {short_line(agent['answer'], ANSWER_CHARACTERS)}"
    if turn["commits"]:
        yield f"  {paint('dim', 'Commits:')} {one_line(turn['commits'])}"


def _rest(count: int, paint: Painter) -> Iterator[str]:
    if count > 0:
        yield paint("dim", f"    and {count:,} more")


def _list(text: str | None) -> list[Any]:
    found = json.loads(text or "[]")
    return found if isinstance(found, list) else []
