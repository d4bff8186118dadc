"""`ctxdb show`: print one session as a conversation."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from ctxdb.cli.declare import Argument, Context, Option
from ctxdb.cli.open_database import open_fresh
from ctxdb.cli.pager import print_paged
from ctxdb.cli.shared_options import AsJson, NoSync
from ctxdb.errors import UsageError
from ctxdb.output import note, painter_for, say, say_bytes, terminal_columns

if TYPE_CHECKING:
    import sqlite3

    from ctxdb.session.conversation import Conversation

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
        bool, Option("--tools", help="Show inputs and results of tool calls.")
    ] = False,
    thinking: Annotated[bool, Option("--thinking", help="Show the thinking of the model.")] = False,
    agents: Annotated[
        bool, Option("--agents", help="Show the conversations of subagents, nested.")
    ] = False,
    brief: Annotated[
        bool,
        Option("--brief", help="Show what was asked, said and done: tools, files, commands."),
    ] = False,
    day: Annotated[
        str | None,
        Option("--day", metavar="DAY", help="With --brief: all sessions of a day, such as today."),
    ] = None,
    as_json: AsJson = False,
    no_sync: NoSync = False,
) -> None:
    """Show one session as a conversation.

    It shows prompts, replies, tool calls and their outcome, subagents, and the cost of each
    request, on a terminal in a pager. A fork is shown with the history that it was copied from;
    the copied turns are c1, c2 and so on.

    \b
    Examples:
      ctxdb show
      ctxdb show 8e52 --turn 2 --tools
      ctxdb show mellow-baking-lighthouse --agents
      ctxdb show --brief
      ctxdb show --brief --day yesterday
      ctxdb show --raw fa1a93a5-3a8f-4f4c-b867-e3f5646209dc
    """
    with closing(open_fresh(ctx, no_sync=no_sync)) as conn:
        if raw is not None:
            _show_line(conn, raw)
            return
        if brief or day is not None:
            _show_brief(conn, session, turn, day, as_json=as_json)
            return
        from ctxdb.session.find import find_session, telling_candidates
        from ctxdb.session.load import Detail, load_conversation
        from ctxdb.session.terminal_format import TerminalFormat

        detail = Detail(tools, thinking, agents)
        with telling_candidates():
            conversation = load_conversation(conn, find_session(conn, session), detail)
    exchanges = None
    if turn is not None:
        exchanges = [one for one in conversation.exchanges if one.number == turn.lower()]
        if not exchanges:
            known = _turns_of(conversation)
            raise UsageError(f"session {conversation.id} has no turn {turn}: {known}")
    if as_json:
        from dataclasses import asdict

        if exchanges is not None:
            conversation.exchanges = exchanges
        _print_json(asdict(conversation))
        return
    on_terminal = sys.stdout.isatty()
    columns = terminal_columns() if on_terminal else PIPED_COLUMNS
    layout = TerminalFormat(painter_for(sys.stdout), columns, detail, cut=on_terminal)
    print_paged(layout.lines(conversation, exchanges))


def _print_json(value: object) -> None:
    import json

    say(json.dumps(value, indent=2))


def _show_brief(
    conn: sqlite3.Connection, session: str, turn: str | None, day: str | None, *, as_json: bool
) -> None:
    from ctxdb.query import brief
    from ctxdb.session.find import telling_candidates

    with telling_candidates():
        turns = brief.turns_of(conn, None if day is not None else session, day)
    if turn is not None:
        turns = [one for one in turns if str(one["ordinal"]) == turn]
    if as_json:
        _print_json(turns)
        return
    if not turns:
        note("No requests" + (f" on that day: {day}." if day is not None else " in this session."))
        return
    columns = terminal_columns() if sys.stdout.isatty() else PIPED_COLUMNS
    paint = painter_for(sys.stdout)
    print_paged([*brief.lines(turns, paint, columns), "", paint("dim", brief.total(turns))])


def _turns_of(conversation: Conversation) -> str:
    own = sum(bool(one.ordinal) and not one.is_copied for one in conversation.exchanges)
    copied = sum(one.is_copied for one in conversation.exchanges)
    return f"it has {own or 'none'}" + (f", and c1 to c{copied}" if copied else "")


def _show_line(conn: sqlite3.Connection, uuid: str) -> None:
    from ctxdb.session.source_line import source_line

    line = source_line(conn, uuid)
    if line.note:
        note(line.note)
    say_bytes(line.data)
