"""`ctxdb restore`: put the transcript of a session back where it was."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ctxdb.cli.declare import Argument, Context, Option
from ctxdb.cli.shared_options import AsJson
from ctxdb.config import load
from ctxdb.errors import ArchiveError, UsageError
from ctxdb.output import note, say

if TYPE_CHECKING:
    import sqlite3

    from ctxdb.archive.restore import Restored
    from ctxdb.config import Config


def restore(
    ctx: Context,
    session: Annotated[
        str,
        Argument(
            "SESSION",
            help="The beginning of its id, a slug, or last.",
            complete="ctxdb.query.complete:sessions",
        ),
    ] = "",
    to: Annotated[
        Path | None, Option("--to", metavar="DIR", help="Put the files below this folder.")
    ] = None,
    generation: Annotated[
        int | None,
        Option(
            "--generation",
            metavar="N",
            at_least=1,
            help="Of files that were rewritten, the N-th version.",
        ),
    ] = None,
    *,
    list_all: Annotated[
        bool, Option("--list", help="List the sessions that only the archive has.")
    ] = False,
    restore_all: Annotated[
        bool, Option("--all", help="Restore every archived file that is gone, of all sessions.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Put a deleted session back where Claude Code looks for it.

    All files of the session come back, byte for byte.

    A file that is there already and has the archived bytes, or begins with them, stays as it is. If
    any file has other content, nothing is written.

    \b
    Examples:
      ctxdb restore --list
      ctxdb restore 8e52
      ctxdb restore 8e52 --to /tmp/old
      ctxdb restore --all --to /tmp/old
    """
    from ctxdb.archive.archive_file import archive_path, open_archive_to_read
    from ctxdb.store.connection import open_reader

    config = load(ctx.db)
    archive = open_archive_to_read(config.db_path)
    if archive is None:
        path = archive_path(config.db_path)
        raise ArchiveError(f"{path}: there is no archive; `ctxdb archive add` makes it")
    with closing(archive), closing(open_reader(config.db_path)) as conn:
        if list_all:
            _list(archive, conn, as_json=as_json)
            return
        if restore_all:
            if session or generation is not None:
                raise UsageError("--all is for all sessions; leave out SESSION and --generation")
            _restore_all(archive, to, as_json=as_json)
            return
        if not session:
            raise UsageError("which session? `ctxdb restore --list` lists those to restore")
        _restore(config, archive, conn, session, to, generation, as_json=as_json)


def _list(archive: sqlite3.Connection, conn: sqlite3.Connection, *, as_json: bool) -> None:
    from ctxdb.archive.read import generations
    from ctxdb.elsewhere import split_name

    gone: dict[str, int] = {}
    for file in generations(archive, "WHERE session_id IS NOT NULL"):
        _, path = split_name(file.open_path)
        if not Path(path).exists():
            gone[file.session_id or ""] = gone.get(file.session_id or "", 0) + file.size
    rows = [
        {"session_id": session_id, "bytes": size, "title": title, "ended_at": ended_at}
        for session_id, size in gone.items()
        for title, ended_at in conn.execute(
            "SELECT title, ended_at FROM sessions WHERE id = ?", (session_id,)
        ).fetchall()
        or [(None, None)]
    ]
    rows.sort(key=lambda row: str(row["ended_at"] or ""), reverse=True)
    if as_json:
        import json

        say(json.dumps(rows))
        return
    from ctxdb.escape import clip, one_line

    for row in rows:
        title = clip(one_line(str(row["title"] or "(untitled)")), 70)
        say(f"{row['session_id']}  {str(row['ended_at'] or '')[:10]:<10}  {title}")
    if not rows:
        note("Every archived session still has its transcript.")


def _restore_all(archive: sqlite3.Connection, to: Path | None, *, as_json: bool) -> None:
    from ctxdb.archive.read import generations
    from ctxdb.archive.restore import place_below
    from ctxdb.archive.restore import restore as put_back

    newest = {file.path: file for file in generations(archive)}
    files = [one for one in newest.values() if to is not None or not Path(one.open_path).exists()]
    done = put_back(archive, place_below(files, None if to is None else str(Path(to).absolute())))
    if as_json:
        import json

        say(json.dumps({"session_id": None, **_answer(done), "resume": None}))
        return
    _say_done(done)
    if not done.written:
        note("Every archived file is there.")


def _answer(done: Restored) -> dict[str, object]:
    return {"written": done.written, "present": done.present, "overwritten": done.overwritten}


def _say_done(done: Restored) -> None:
    for path in done.written:
        say(f"wrote {path}")
    for path in done.present:
        say(f"is there {path}")
    for path, secrets in done.overwritten.items():
        many = f"{secrets:,} secret{' is' if secrets == 1 else 's are'}"
        note(f"Not exact: {many} overwritten with * in {path}, because redact.archive is on.")


def _restore(
    config: Config,
    archive: sqlite3.Connection,
    conn: sqlite3.Connection,
    session: str,
    to: Path | None,
    generation: int | None,
    *,
    as_json: bool,
) -> None:
    from ctxdb.archive.restore import files_of_session, place_below
    from ctxdb.archive.restore import restore as put_back
    from ctxdb.session.captions import resume_command
    from ctxdb.session.find import find_session, telling_candidates

    with telling_candidates():
        session_id = find_session(conn, session)
    files = files_of_session(archive, session_id, generation)
    if not files:
        raise ArchiveError(f"session {session_id} is not in the archive of {config.db_path}")
    folder = None if to is None else str(Path(to).absolute())
    done = put_back(archive, place_below(files, folder))
    row = conn.execute("SELECT cwd FROM sessions WHERE id = ?", (session_id,)).fetchone()
    (cwd,) = row or (None,)
    resume = resume_command(session_id, cwd) if to is None else None
    if as_json:
        import json

        say(json.dumps({"session_id": session_id, **_answer(done), "resume": resume}))
        return
    _say_done(done)
    if resume is not None:
        say(resume)
