"""`ctxdb search`: full-text search over what was asked, said and done."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Literal

from ctxdb.cli.declare import Argument, Context, Option
from ctxdb.cli.open_database import open_fresh
from ctxdb.cli.shared_options import AsJson, Model, NoSync, Project, Session, Since, Until
from ctxdb.errors import UsageError
from ctxdb.output import note, say, terminal_columns

if TYPE_CHECKING:
    import sqlite3

    from ctxdb.query.hits import ShownSession
    from ctxdb.query.search import Found

Format = Literal["text", "json", "jsonl", "csv", "md"]
Kind = Literal[
    "human",
    "title",
    "plan",
    "todo",
    "assistant",
    "tool",
    "thinking",
    "command",
    "shell",
    "command_output",
    "meta",
    "compact_summary",
    "interruption",
    "notification",
    "agent_prompt",
    "synthetic",
    "system",
    "attachment",
]
PIPED_COLUMNS = 100
MOST_NAMED = 60  # words that a message names, and characters of each
SNIPPET_CHARACTERS = 160  # of a snippet in formats for programs


def search(
    ctx: Context,
    text: Annotated[list[str], Argument("TEXT", help="What to look for.")],
    *,
    since: Since = None,
    until: Until = None,
    project: Project = None,
    session: Session = None,
    model: Model = None,
    tool: Annotated[
        str | None,
        Option("--tool", metavar="NAME", help="Only calls of this tool, or of this MCP server."),
    ] = None,
    kind: Annotated[
        Kind | None,
        Option(
            "--kind",
            metavar="KIND",
            help="Only this kind: human, title, plan, todo, assistant, thinking, tool, or another"
            " kind of message.",
        ),
    ] = None,
    limit: Annotated[
        int,
        Option(
            "--limit",
            "-n",
            metavar="N",
            at_least=1,
            help="At most N sessions; with --session, N hits.",
        ),
    ] = 20,
    format: Annotated[  # noqa: A002
        Format, Option("--format", "-f", metavar="FORMAT", help="text, json, jsonl, csv or md.")
    ] = "text",
    errors: Annotated[
        bool, Option("--errors", help="Only failed tool calls and API errors.")
    ] = False,
    as_json: AsJson = False,
    no_sync: NoSync = False,
) -> None:
    """Search everything that was said and done, in all sessions.

    That is prompts, names of sessions, messages, tool calls, plans and to-dos.

    A hit has all of the words. "Quoted words" must be side by side, wor* matches any word that
    begins with wor, and OR and NOT (in capitals) combine words. Code (snake_case, src/app.py,
    foo.bar()) is found as it is written. Text of people and of the model is ranked before output of
    tools. If there are few hits, other forms of the words are searched too: conflicts for conflict.
    If a word is nearly everywhere, only the newest few thousand places are ranked.

    \b
    Examples:
      ctxdb search connection refused
      ctxdb search '"tide table" OR backoff' --since 30d
      ctxdb search src/sync.ts --tool Edit
      ctxdb search timeout --errors --project ferry
      ctxdb search --kind human --format json -- --dry-run
    """
    from ctxdb.config import load
    from ctxdb.query.candidates import Wanted
    from ctxdb.query.guard import naming_damaged_index
    from ctxdb.query.hits import gather
    from ctxdb.query.search import search as look
    from ctxdb.session.find import find_session, telling_candidates

    if as_json:
        format = "json"  # noqa: A001
    if tool is not None and kind not in (None, "tool"):
        raise UsageError(f"--tool searches tool calls, but --kind {kind} does not: choose one")
    words = " ".join(text)
    if not words.strip():
        raise UsageError("give one or more words to look for")
    times = _times(since, until)
    columns = terminal_columns() if sys.stdout.isatty() else PIPED_COLUMNS
    size = max(columns * 2 - 12, 60) if format == "text" else SNIPPET_CHARACTERS
    with closing(open_fresh(ctx, no_sync=no_sync)) as conn, telling_candidates():
        from ctxdb.query.resolve import check_model, project_ids

        projects = None if project is None else tuple(project_ids(conn, project))
        session_id = None if session is None else find_session(conn, session)
        wanted = Wanted(*times, projects, session_id, model, tool, kind, errors, limit)
        with naming_damaged_index(load(ctx.db).db_path, by_index=True):
            found = look(conn, words, wanted)
            sessions = gather(conn, found, size)
        if tool is not None and not sessions:
            _check_tool(conn, tool)
        if model is not None and not sessions:
            check_model(conn, model)
    _print(words, found, sessions, format, columns)
    if not sessions:
        note(_nothing(words, found))
    elif caveat := _caveat(found):
        note(caveat)
    if found.is_cut:
        note("The search was stopped before its end: narrow it with --project or --since.")


def _check_tool(conn: sqlite3.Connection, tool: str) -> None:
    """Raise if no call of this tool is in the database, which explains an empty answer."""
    from ctxdb.query.resolve import unknown

    rows = conn.execute("SELECT DISTINCT name, raw_name, mcp_server FROM tool_uses")
    known = {name for row in rows for name in row if name}
    if tool.lower() not in {name.lower() for name in known}:
        raise unknown("tool", tool, sorted(known), "`ctxdb query tool_stats` lists them")


def _times(since: str | None, until: str | None) -> tuple[str | None, str | None]:
    if since is None and until is None:
        return None, None
    from ctxdb.query import period

    return period.bounds(since, until)


def _print(
    words: str, found: Found, sessions: list[ShownSession], format_: Format, columns: int
) -> None:
    from ctxdb.query.hits import COLUMNS, as_data, as_rows, text_lines

    if format_ == "text":
        from ctxdb.output import painter_for

        is_terminal = sys.stdout.isatty()
        for line in text_lines(sessions, painter_for(sys.stdout), columns, fits=is_terminal):
            say(line)
        return
    if format_ == "json":
        import json

        answer = {
            "query": words,
            "sessions": [as_data(one) for one in sessions],
            "suggestion": found.suggestion,
        }
        say(json.dumps(answer, indent=2).replace("\x7f", "\\u007f"))
        return
    from ctxdb.query import formats

    write = {
        "jsonl": formats.write_jsonl,
        "csv": formats.write_csv,
        "md": formats.write_markdown,
    }[format_]
    write(COLUMNS, as_rows(sessions), sys.stdout.write)


def _caveat(found: Found) -> str:
    """How the hits differ from what was asked for, or ""."""
    if found.forms:
        return f"Few hits: also searched for {', '.join(found.forms)}."
    if found.depth == "fields":
        return "Found only in the names of fields in tool inputs."
    if not found.lossy:
        return ""
    from ctxdb.escape import clip

    texts = ", ".join(clip(word.text, MOST_NAMED) for word in found.lossy)
    if found.depth == "letters":
        return f"Nothing has {texts} exactly as written, so its punctuation was ignored."
    return f"With OR and NOT, the punctuation in {texts} is ignored."


def _nothing(words: str, found: Found) -> str:
    if found.suggestion:
        from ctxdb.session.captions import shell_word

        return f"No hits. Did you mean: ctxdb search {shell_word(found.suggestion)}"
    if found.missing:
        from ctxdb.escape import clip

        what = ", ".join(clip(word, MOST_NAMED) for word in found.missing[:MOST_NAMED])
        return f"No hits: {what} {'does' if len(found.missing) == 1 else 'do'} not occur."
    if len(found.words) > 1 and "OR" not in words.split():
        return "No hits with all of these words; put OR between them to find each."
    return "No hits."
