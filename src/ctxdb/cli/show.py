"""`ctxdb show`: one session as a person would read it."""

from __future__ import annotations

import shutil
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from ctxdb.cli.declare import Argument, Context, Option
from ctxdb.cli.reading_session import NoSync, open_fresh, page
from ctxdb.errors import UsageError
from ctxdb.output import note, say_bytes

if TYPE_CHECKING:
    import sqlite3

    from ctxdb.session.parts import Reading

PIPED_COLUMNS = 110


def show(
    ctx: Context,
    session: Annotated[
        str,
        Argument(
            "SESSION",
            help="The beginning of its id, its slug, or last.",
            complete="ctxdb.query.complete:sessions",
            default_text="last",
        ),
    ] = "last",
    turn: Annotated[
        str | None,
        Option("--turn", metavar="N", help="Only the N-th request; cN is the N-th copied one."),
    ] = None,
    raw: Annotated[
        str | None,
        Option("--raw", metavar="UUID", help="Print the exact line of the transcript instead."),
    ] = None,
    *,
    tools: Annotated[
        bool, Option("--tools", help="With inputs and results of tool calls.")
    ] = False,
    thinking: Annotated[bool, Option("--thinking", help="With what the model thought.")] = False,
    agents: Annotated[
        bool, Option("--agents", help="With the conversations of subagents, nested.")
    ] = False,
    no_sync: NoSync = False,
) -> None:
    """Show one session as a person would read it.

    Prompts, replies, tool calls with how they ended, subagents, and what each request cost; in a
    pager on a terminal. A fork is shown with the history that it came from, its turns as c1, c2.

    \b
    Examples:
      ctxdb show
      ctxdb show 8e52 --turn 2 --tools
      ctxdb show mellow-baking-lighthouse --agents
      ctxdb show --raw fa1a93a5-3a8f-4f4c-b867-e3f5646209dc
    """
    with closing(open_fresh(ctx, no_sync=no_sync)) as conn:
        if raw is not None:
            _show_line(conn, raw)
            return
        from ctxdb.session.colours import ink_for
        from ctxdb.session.find import find_session, telling_candidates
        from ctxdb.session.load import Wish, load
        from ctxdb.session.terminal import TerminalPage

        wish = Wish(tools, thinking, agents)
        with telling_candidates():
            reading = load(conn, find_session(conn, session), wish)
    turns = None
    if turn is not None:
        turns = [one for one in reading.turns if one.number == turn.lower()]
        if not turns:
            raise UsageError(f"session {reading.id} has no turn {turn}: {_turns_of(reading)}")
    on_terminal = sys.stdout.isatty()
    columns = shutil.get_terminal_size().columns if on_terminal else PIPED_COLUMNS
    laid_out = TerminalPage(ink_for(sys.stdout), columns, wish, cut=on_terminal)
    page(laid_out.lines(reading, turns))


def _turns_of(reading: Reading) -> str:
    own = sum(bool(one.ordinal) and not one.is_copied for one in reading.turns)
    copied = sum(one.is_copied for one in reading.turns)
    return f"it has {own or 'none'}" + (f", and c1 to c{copied}" if copied else "")


def _show_line(conn: sqlite3.Connection, uuid: str) -> None:
    from ctxdb.session.source import source_line

    line = source_line(conn, uuid)
    if line.note:
        note(line.note)
    say_bytes(line.data)
