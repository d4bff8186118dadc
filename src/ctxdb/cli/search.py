"""`ctxdb search`: full text over what was said and done."""

from __future__ import annotations

import shutil
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Literal

from ctxdb.cli.common import Model, Project, Session, Since, Until
from ctxdb.cli.declare import Argument, Context, Option
from ctxdb.cli.reading_session import NoSync, open_fresh
from ctxdb.errors import UsageError
from ctxdb.output import note, say

if TYPE_CHECKING:
    import sqlite3

    from ctxdb.query.hits import ShownSession
    from ctxdb.query.search import Found

Format = Literal["text", "json", "jsonl", "csv", "md"]
Kind = Literal[
    "human",
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
NAMED = 60  # characters of a word, and words, that are said to be nowhere
PROGRAM_CHARACTERS = 160  # of a snippet for a program


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
            help="Only this kind: human, assistant, thinking, tool, or another kind of message.",
        ),
    ] = None,
    limit: Annotated[
        int, Option("--limit", "-n", metavar="N", at_least=1, help="At most N hits.")
    ] = 20,
    format: Annotated[  # noqa: A002
        Format, Option("--format", "-f", metavar="FORMAT", help="text, json, jsonl, csv or md.")
    ] = "text",
    errors: Annotated[
        bool, Option("--errors", help="Only failed tool calls and errors of the API.")
    ] = False,
    no_sync: NoSync = False,
) -> None:
    """Find what was said and done, in all sessions.

    All words must be there. "Quoted words" stand side by side, wor* is how a word begins, OR and
    NOT in capitals mean what they say. Words of code (snake_case, src/app.py, foo.bar()) are found
    as they are. What people and the model said comes before what tools printed. Of a word that is
    nearly everywhere only the newest few thousand places are ranked.

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

    if tool is not None and kind not in (None, "tool"):
        raise UsageError("--tool looks in tool calls; --kind would look elsewhere")
    words = " ".join(text)
    if not words.strip():
        raise UsageError("what to look for? Give a word or more")
    times = _times(since, until)
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPED_COLUMNS
    size = max(columns * 2 - 12, 60) if format == "text" else PROGRAM_CHARACTERS
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
    elif said := _loosely(found):
        note(said)
    if found.is_cut:
        note("Not everything was looked at in time: narrow it with --project or --since.")


def _check_tool(conn: sqlite3.Connection, tool: str) -> None:
    """Nothing was found: a tool that nobody ever called is the reason worth telling."""
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
        from ctxdb.session.colours import ink_for

        for line in text_lines(sessions, ink_for(sys.stdout), columns):
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


def _loosely(found: Found) -> str:
    """What to say of hits that are not quite what was looked for."""
    if found.depth == "fields":
        return "Only names of fields in the inputs of tools have it."
    if not found.lossy:
        return ""
    from ctxdb.escape import clip

    texts = ", ".join(clip(word.text, NAMED) for word in found.lossy)
    if found.depth == "letters":
        return f"Nothing has {texts} as it is written: its signs were left out."
    return f"With OR and NOT the signs in {texts} do not count."


def _nothing(words: str, found: Found) -> str:
    if found.suggestion:
        from ctxdb.session.find import shell_word

        return f"No hits. Did you mean: ctxdb search {shell_word(found.suggestion)}"
    if found.missing:
        from ctxdb.escape import clip

        what = ", ".join(clip(word, NAMED) for word in found.missing[:NAMED])
        return f"No hits: {what} {'is' if len(found.missing) == 1 else 'are'} nowhere."
    if len(found.words) > 1 and "OR" not in words.split():
        return "No hits with all of these words together; OR between them finds each."
    return "No hits."
