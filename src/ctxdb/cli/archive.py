"""`ctxdb archive`: the exact bytes of every transcript, beside the database."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from ctxdb.cli.declare import Context, Option
from ctxdb.cli.shared_options import AsJson
from ctxdb.config import load
from ctxdb.errors import ArchiveError, NoDatabase
from ctxdb.output import note, print_result, say
from ctxdb.progress import human_bytes, progress_on

if TYPE_CHECKING:
    import sqlite3

    from ctxdb.config import Config

NEVER = "9999"  # sorts after every time: everything counts as quiet


def status(ctx: Context, *, as_json: AsJson = False) -> None:
    """Show what is archived, how small it is, and what is missing.

    \b
    Example:
      ctxdb archive status
    """
    from ctxdb.archive.summary import summarize

    config = load(ctx.db)
    database = _database(config)
    try:
        print_result(summarize(config.db_path, database), as_json=as_json)
    finally:
        if database is not None:
            database.close()
    if not config.archive and not as_json:
        note("The archive is switched off (archive = false in config.toml).")


def _database(config: Config) -> sqlite3.Connection | None:
    from ctxdb.store.connection import open_reader

    try:
        return open_reader(config.db_path)
    except NoDatabase:
        return None


def verify(ctx: Context, *, as_json: AsJson = False) -> int:
    """Check the archive, and compare it with the transcripts.

    Every checksum is checked, and every transcript that still exists is compared byte by byte.

    Exits 1 if archived bytes are damaged. A transcript that was rewritten since is named, and is
    archived by the next sync.

    \b
    Example:
      ctxdb archive verify
    """
    from ctxdb.archive.archive_file import archive_path, as_archive_error, open_archive_to_read
    from ctxdb.archive.check import check_archive

    config = load(ctx.db)
    path = archive_path(config.db_path)
    archive = open_archive_to_read(config.db_path)
    if archive is None:
        raise ArchiveError(f"{path}: there is no archive; `ctxdb archive add` makes it")
    import sqlite3

    progress = progress_on(sys.stderr)
    try:
        (size,) = archive.execute("SELECT sum(size) FROM files").fetchone()
        progress.start(size or 0, "Checking the archive")
        checked = check_archive(archive, progress.advance)
    except sqlite3.Error as e:
        raise as_archive_error(path, e) from e
    finally:
        progress.finish()
        archive.close()
    if as_json:
        import json

        say(json.dumps({"ok": checked.ok, **asdict(checked)}))
        return 0 if checked.ok else 1
    say(
        f"{checked.files:,} files with {human_bytes(checked.bytes)} checked,"
        f" {checked.compared:,} compared with their source"
    )
    for line in (*checked.damaged, *checked.different):
        say(line)
    if checked.overwritten:
        secrets = f"{checked.overwritten:,} secret{'' if checked.overwritten == 1 else 's'}"
        say(f"{secrets} overwritten with *: these bytes are not in the archive")
    if checked.behind:
        say(f"{human_bytes(checked.behind)} of the sources are not archived yet")
    say("All archived bytes are intact." if checked.ok else "Some archived bytes are damaged.")
    return 0 if checked.ok else 1


def add(
    ctx: Context,
    *,
    seal: Annotated[
        bool, Option("--seal/--no-seal", help="Also compress the archive as far as possible.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Archive what the database has read and the archive lacks.

    \b
    Example:
      ctxdb archive add
    """
    from ctxdb.archive.summary import summarize
    from ctxdb.ingest import archiving
    from ctxdb.ingest.plan import utc_now
    from ctxdb.lock import WriterLock
    from ctxdb.privacy.rule_settings import archive_masker_of
    from ctxdb.store.connection import open_reader

    config = load(ctx.db)
    with WriterLock(config.db_path), closing(open_reader(config.db_path)) as conn:
        masker = archive_masker_of(config.settings)
        added = archiving.archive_all(
            config.db_path, conn, utc_now(), masker, ignore=config.settings["ignore"]
        )
        for problem in added.problems:
            note(f"Could not archive {problem}")
        if seal:
            archiving.seal(config.db_path, utc_now(), quiet_since=NEVER, smallest=0)
        print_result(summarize(config.db_path, conn), as_json=as_json)
