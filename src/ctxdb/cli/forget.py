"""`ctxdb forget`: remove whole sessions for good."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from ctxdb.cli.declare import Context, Option
from ctxdb.cli.shared_options import AsJson, Project
from ctxdb.config import load
from ctxdb.errors import UsageError
from ctxdb.formatting import counted
from ctxdb.output import note, print_result, say
from ctxdb.progress import progress_on

if TYPE_CHECKING:
    import sqlite3

    from ctxdb.config import Config
    from ctxdb.forget.choose import Choice

MOST_SHOWN = 20  # sessions


def forget(
    ctx: Context,
    session: Annotated[
        list[str] | None,
        Option(
            "--session",
            metavar="ID",
            help="This session: the beginning of its id, a slug, or last. Repeatable.",
            complete="ctxdb.query.complete:sessions",
        ),
    ] = None,
    project: Project = None,
    before: Annotated[
        str | None,
        Option("--before", metavar="WHEN", help="Sessions that ended before: 2026-01, 90d, 2025."),
    ] = None,
    match: Annotated[
        str | None,
        Option("--match", metavar="REGEX", help="Sessions in which any text matches."),
    ] = None,
    undo: Annotated[
        str | None,
        Option("--undo", metavar="ID", help="Let a forgotten session in again; see --list."),
    ] = None,
    *,
    with_copies: Annotated[
        bool,
        Option("--with-copies", help="Also forget sessions that hold copies of their messages."),
    ] = False,
    sources: Annotated[
        bool, Option("--sources", help="Also delete the transcripts themselves.")
    ] = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Show what would be forgotten, and change nothing.")
    ] = False,
    yes: Annotated[bool, Option("--yes", help="Do not ask.")] = False,
    list_all: Annotated[bool, Option("--list", help="List what was forgotten, by date.")] = False,
    as_json: AsJson = False,
) -> int:
    """Remove sessions for good, from every file of ctxdb.

    That is rows, full text, archived bytes and logs.

    If you give several options, only sessions that fit all of them are removed. Nothing of them
    can be found in any file of ctxdb afterwards, and they are not read again, later lines
    included. The transcripts stay unless --sources is given. Messages that a fork or a resumed
    session also has stay with that session. If another session has lines in these transcripts
    and nowhere else, it is removed too, and shown beforehand.

    Exits 1 if something could not be erased yet, because another program is reading the database.
    The next sync finishes it.

    \b
    Examples:
      ctxdb forget --session 8e52 --dry-run
      ctxdb forget --project secret-client --before 2026-01 --dry-run
      ctxdb forget --list
    """
    config = load(ctx.db)
    if list_all:
        return _list(config, as_json=as_json)
    if undo is not None:
        return _undo(config, undo, as_json=as_json)
    if not (session or project or before or match):
        why = "name --session, --project, --before or --match"
        raise UsageError(f"what should be forgotten? {why}")
    choice = _choose(config, session, project, before, match, with_copies=with_copies)
    files = _sources_of(config, choice) if sources and (dry_run or not yes) else []
    if not as_json or not (yes or dry_run):
        _show(choice)
        _show_files(files)
    if dry_run or not choice.sessions:
        if as_json:
            _print_choice(choice, files)
        elif choice.sessions:
            note(f"{counted(len(choice.sessions), 'session')} would be forgotten.")
        return 0
    if not yes and not _is_confirmed(choice, files, sources=sources):
        note("Nothing was forgotten.")
        return 1
    return _forget(config, choice, sources=sources, as_json=as_json)


def _choose(
    config: Config,
    sessions: list[str] | None,
    project: str | None,
    before: str | None,
    match: str | None,
    *,
    with_copies: bool,
) -> Choice:
    from ctxdb.forget.choose import Wanted, choose
    from ctxdb.query.period import since
    from ctxdb.query.resolve import project_ids
    from ctxdb.store.connection import open_reader

    with closing(open_reader(config.db_path)) as conn:
        wanted = Wanted(pattern=match, with_copies=with_copies)
        if sessions:
            wanted.sessions = [_found(conn, one) for one in sessions]
        if project is not None:
            wanted.projects = project_ids(conn, project)
        if before is not None:
            wanted.before = since(before)
        return choose(conn, wanted)


def _found(conn: sqlite3.Connection, text: str) -> str:
    """The session that is meant. A whole id need not be in the database: it is kept out, then."""
    from ctxdb.claude.layout import is_uuid
    from ctxdb.session.find import NoSuchSession, find_session, telling_candidates

    with telling_candidates():
        try:
            return find_session(conn, text)
        except NoSuchSession:
            if not is_uuid(text.strip()):
                raise
            return text.strip().lower()


def _show(choice: Choice) -> None:
    from ctxdb.escape import clip, one_line

    if not choice.sessions:
        note("No session fits.")
    for one in choice.sessions[:MOST_SHOWN]:
        title = clip(one_line(one.title or "(untitled)"), 50)
        ended = (one.ended_at or "")[:10]
        why = " (holds copies)" if one.is_copy else ""
        if one.is_only_there:
            why = " (only in these transcripts)"
        name = one_line(one.project or "")[:20]
        messages = counted(one.messages, "message")
        note(f"{one.id}  {ended:<10}  {messages:>15}  {name:<20} {title}{why}")
    if len(choice.sessions) > MOST_SHOWN:
        note(f"and {len(choice.sessions) - MOST_SHOWN:,} more")
    for holder in choice.holders[:MOST_SHOWN]:
        shared = counted(holder.entries, "message")
        note(
            f"Session {holder.session_id} ({holder.relation}) shares {shared} with"
            f" {holder.of_session}; they stay there. --with-copies forgets it too."
        )


def _sources_of(config: Config, choice: Choice) -> list[str]:
    from ctxdb.forget.run import sources_of
    from ctxdb.store.connection import open_reader

    with closing(open_reader(config.db_path)) as conn:
        return sources_of(conn, choice.ids)


def _show_files(files: list[str]) -> None:
    """What --sources deletes."""
    for path in files[:MOST_SHOWN]:
        note(f"to delete: {path}")
    if len(files) > MOST_SHOWN:
        note(f"and {counted(len(files) - MOST_SHOWN, 'more file')}")


def _print_choice(choice: Choice, files: list[str]) -> None:
    import json

    found = {
        "sessions": [one._asdict() for one in choice.sessions],
        "copies": [one._asdict() for one in choice.holders],
        "sources": files,
    }
    say(json.dumps(found, indent=2))


def _is_confirmed(choice: Choice, files: list[str], *, sources: bool) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("this cannot be undone; give --yes if there is no terminal to ask on")
    more = f", and delete {counted(len(files), 'file')} of Claude Code" if sources else ""
    answer = ""
    try:
        question = f"Forget {counted(len(choice.sessions), 'session')} for good{more}? [y/N] "
        sys.stderr.write(question)
        sys.stderr.flush()
        answer = sys.stdin.readline()
    finally:
        if not answer.endswith("\n"):  # Ctrl-C or Ctrl-D: the cursor is still behind the question
            sys.stderr.write("\n")
    return answer.strip().lower() in ("y", "yes")


def _forget(config: Config, choice: Choice, *, sources: bool, as_json: bool) -> int:
    from ctxdb.daemon_health import refuse_frozen
    from ctxdb.forget.run import forget as forget_sessions
    from ctxdb.ingest.plan import utc_now
    from ctxdb.lock import lock_of_daemon
    from ctxdb.store.connection import naming_damage

    progress = progress_on(sys.stderr)
    try:
        with lock_of_daemon(config.db_path, refuse_frozen), naming_damage(config.db_path):
            done = forget_sessions(config.db_path, choice.ids, utc_now(), progress, sources=sources)
    finally:
        progress.finish()
    print_result(done, as_json=as_json)
    return 0 if done.is_done else 1


def _list(config: Config, *, as_json: bool) -> int:
    from ctxdb.forget.run import list_forgotten
    from ctxdb.store.connection import open_reader

    with closing(open_reader(config.db_path)) as conn:
        found = list_forgotten(conn)
    if as_json:
        import json

        say(json.dumps([asdict(one) for one in found], indent=2))
        return 0
    for one in found:
        state = "" if one.erased_at else "  not yet erased"
        counts = (
            counted(one.messages, "message"),
            counted(one.tool_uses, "tool call"),
            counted(one.files, "file"),
        )
        say(f"{one.id}  {one.forgotten_at[:10]}  {', '.join(counts)}{state}")
    if not found:
        note("Nothing was forgotten.")
    return 0


def _undo(config: Config, short_id: str, *, as_json: bool) -> int:
    from ctxdb.daemon_health import refuse_frozen
    from ctxdb.forget.run import undo
    from ctxdb.lock import lock_of_daemon
    from ctxdb.store.connection import open_writer
    from ctxdb.store.schema import prepare

    with (
        lock_of_daemon(config.db_path, refuse_frozen),
        closing(open_writer(config.db_path)) as conn,
    ):
        prepare(conn, config.db_path)
        undo(conn, short_id)
    if as_json:
        import json

        say(json.dumps({"undone": short_id}))
    else:
        note("The next sync reads the session again, if its transcript is still there.")
    return 0
